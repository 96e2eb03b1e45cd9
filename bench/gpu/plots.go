package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/bench/chart"
)

// plot is a chart and its file.
type plot struct {
	file string
	chart.Chart
}

// plots draws, of each group with several rows: shares of the floor, kvasir's speed-up over each other server, and
// rates by numbers of sequences or clients.
func (d *data) plots() []plot {
	var out []plot
	for _, g := range groups {
		rows := d.rowsOf(g.name)
		if len(rows) < 2 {
			continue
		}
		var names, series []string
		for _, r := range rows {
			names, series = appendNew(names, short(r.Row)), appendNew(series, r.Series)
		}
		bars := func(file, title string, line float64, value func(result) float64) {
			c := chart.Chart{Title: g.title + ": " + title, Groups: names, Series: series, Line: line, Values: make([]float64, len(names)*len(series))}
			any := false
			for _, r := range rows {
				v := value(r)
				c.Values[slices.Index(series, r.Series)*len(names)+slices.Index(names, short(r.Row))] = v
				any = any || v > 0
			}
			if any {
				out = append(out, plot{"gpu-" + file + "-" + g.name + ".svg", c})
			}
		}
		bars("share", "share of the floor, %", 100, func(r result) float64 { return 100 * r.share(g.metrics[0]) })
		for _, server := range d.servers(g.name)[1:] {
			bars("times-"+chart.FileName(server), g.metrics[0]+", times as good as "+server, 1, func(r result) float64 {
				if other := d.find(g.name, r.Series, r.Row, server); other != nil {
					return timesAsFast(r, *other, g.metrics[0])
				}
				return 0
			})
		}
		if c := d.curves(g, series); len(c.Curves) > 0 {
			out = append(out, plot{"gpu-rate-" + g.name + ".svg", c})
		}
	}
	return out
}

// curves draws a group's first rate by the number that its rows begin with; those of other servers are dashed.
func (d *data) curves(g group, series []string) chart.Chart {
	rate := slices.IndexFunc(g.metrics, isRate)
	if rate < 0 {
		return chart.Chart{}
	}
	c := chart.Chart{Title: g.title + ": " + g.metrics[rate], Series: series}
	for dashes, server := range d.servers(g.name) {
		for color, name := range series {
			line := chart.Curve{Name: server, Color: color, Dashes: dashes}
			for _, r := range d.Results {
				n, err := strconv.Atoi(strings.ReplaceAll(short(r.Row), ",", ""))
				if err == nil && r.Group == g.name && r.Server == server && r.Series == name {
					line.X, line.Y = append(line.X, float64(n)), append(line.Y, r.Values[g.metrics[rate]])
				}
			}
			if len(line.X) > 1 {
				c.Curves = append(c.Curves, line)
			}
		}
	}
	return c
}

// short is a row's name in a plot.
func short(row string) string {
	return strings.NewReplacer(" sequences", "", " sequence", "", " clients", "", " client", "", " requests", "", " prompts of ", "×", " prompt of ", "×").Replace(row)
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
