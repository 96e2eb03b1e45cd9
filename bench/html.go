package bench

import (
	"fmt"
	"html/template"
	"io"
	"time"
)

// WriteHTML writes a report as one self-contained page: its numbers and four plots.
func (rep Report) WriteHTML(w io.Writer, title string) error {
	return page.Execute(w, struct {
		Title string
		*Report
		Rows  []pageRow
		Plots []plot
	}{title, &rep, []pageRow{
		{"time to first token", rep.TTFT}, {"time per output token", rep.TPOT}, {"between pieces", rep.ITL}, {"request", rep.E2E},
		{"request, by output token", rep.Normalized}, {"sent late (the client's own)", rep.Late},
	}, rep.plots()})
}

type pageRow struct {
	Name string
	Summary
}

// plots draws the distributions of the latencies, and the course of the load over time.
func (rep Report) plots() []plot {
	var ttft, e2e, tpot, itl []float64
	for i := range rep.Results {
		r := &rep.Results[i]
		if r.Err != nil {
			continue
		}
		ttft, e2e = append(ttft, r.ttft()), append(e2e, r.e2e())
		if v, ok := r.tpot(); ok {
			tpot = append(tpot, v)
		}
		for _, g := range r.Gaps {
			itl = append(itl, ms(g))
		}
	}
	tokens, open := rep.timeline()
	return []plot{
		{"Requests", "milliseconds", "% of requests", true, []line{distribution("first token", ttft), distribution("whole answer", e2e)}},
		{"Tokens", "milliseconds", "% of requests or gaps", true, []line{distribution("per output token", tpot), distribution("between pieces", itl)}},
		{"Output", "seconds", "tokens a second", false, []line{tokens}},
		{"Requests under way", "seconds", "requests", false, []line{open}},
	}
}

// timeBins is the number of intervals of plots over time.
const timeBins = 100

// timeline returns output tokens a second and running requests (due, and not ended) at the beginning of each interval,
// over the seconds of the load.
func (rep Report) timeline() (tokens, open line) {
	bin := max(rep.Elapsed/timeBins, 1)
	var out [timeBins + 1]float64
	var under [timeBins]float64
	for i := range rep.Results {
		r := &rep.Results[i]
		for b := (r.Due + bin - 1) / bin; b < timeBins && b*bin < r.End; b++ {
			under[b]++
		}
		if r.Err != nil {
			continue
		}
		each := float64(r.Generated) / float64(len(r.Gaps)+1)
		at := r.First
		out[min(at/bin, timeBins)] += each
		for _, g := range r.Gaps {
			at += g
			out[min(at/bin, timeBins)] += each
		}
	}
	out[timeBins-1] += out[timeBins] // the last instant is no interval of its own
	for b := range timeBins {
		at := (time.Duration(b) * bin).Seconds()
		tokens.x, tokens.y = append(tokens.x, at), append(tokens.y, out[b]/bin.Seconds())
		open.x, open.y = append(open.x, at), append(open.y, under[b])
	}
	return tokens, open
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"one":     func(v float64) string { return fmt.Sprintf("%.1f", v) },
	"two":     func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"percent": func(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; --fg: light-dark(#1a1a1a, #e8e8e8); --dim: light-dark(#666, #999); --grid: light-dark(#e4e4e4, #383838);
  --a: light-dark(#2159c4, #7aa7ff); --b: light-dark(#c05c00, #ffb066); }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); max-width: 1120px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .2rem .9rem .2rem 0; text-align: right; border-bottom: 1px solid var(--grid); }
th { color: var(--dim); font-weight: normal; }
th:first-child, td:first-child { text-align: left; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 1.2rem; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; }
.title { font-size: 14px; fill: var(--fg); } .tick { fill: var(--dim); } .grid { stroke: var(--grid); fill: none; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .l0 { stroke: var(--a); } .l1 { stroke: var(--b); } .n0 { fill: var(--a); } .n1 { fill: var(--b); }
</style>
<h1>{{.Title}}</h1>
<table>
<tr><th>requests</th><td>{{.Requests}} in {{one .Elapsed.Seconds}} s, {{.Failed}} failed{{if .CutOff}}, {{.CutOff}} cut off{{end}}</td></tr>
<tr><th>tokens</th><td>{{.Prompt}} in, {{.Generated}} out</td></tr>
<tr><th>throughput</th><td>{{one .Output}} tokens/s out, {{one .Total}} in all</td></tr>
<tr><th>goodput</th><td>{{two .Goodput}} requests/s</td></tr>
<tr><th>prompt tokens from a prefix cache</th><td>{{percent .HitRate}}</td></tr>
{{if ge .Unfilled 0.0}}<tr><th>KV memory held but not filled</th><td>{{percent .Unfilled}}</td></tr>
{{end}}{{with .Own}}<tr><th>the client's own processor time</th><td>{{.}} a request</td></tr>
{{end}}</table>
<table>
<tr><th>milliseconds</th><th>mean</th><th>p50</th><th>p90</th><th>p95</th><th>p99</th></tr>
{{range .Rows}}<tr><td>{{.Name}}</td><td>{{two .Mean}}</td><td>{{two .P50}}</td><td>{{two .P90}}</td><td>{{two .P95}}</td><td>{{two .P99}}</td></tr>
{{end}}</table>
<div class="plots">
{{range .Plots}}<div>{{.SVG}}</div>
{{end}}</div>
{{if .Errors}}<h2>Errors</h2><table>{{range $what, $n := .Errors}}<tr><td>{{$what}}</td><td>{{$n}}</td></tr>{{end}}</table>{{end}}
</html>
`))
