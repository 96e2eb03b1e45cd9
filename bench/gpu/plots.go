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
		draw := func(file string, c chart.Chart) {
			if c.Curves != nil || slices.Max(append(c.Values, 0)) > 0 {
				out = append(out, plot{"gpu-" + file + "-" + g.name + ".svg", c})
			}
		}
		share := func(_, r result) float64 { return 100 * r.share(g.metrics[0]) }
		draw("share", d.bars(g, ": share of the floor, %", 100, share, d.servers(g.name)...))
		for _, server := range d.servers(g.name)[1:] {
			times := func(own, r result) float64 { return timesAsFast(own, r, g.metrics[0]) }
			draw("times-"+chart.FileName(server), d.bars(g, ": "+g.metrics[0]+", times as good as "+server, 1, times, server))
		}
		draw("rate", d.curves(g))
	}
	return out
}

// bars draws a value for each row of a group and each model, of some servers: of a row of kvasir's and theirs.
func (d *data) bars(g group, title string, line float64, value func(own, theirs result) float64, servers ...string) chart.Chart {
	c := chart.Chart{Title: g.title + title, Line: line}
	rows := d.rowsOf(g.name)
	values := map[[2]string]float64{}
	for _, server := range servers {
		for _, own := range rows {
			r := d.find(g.name, own.Series, own.Row, server)
			if r == nil || value(own, *r) == 0 {
				continue
			}
			series := own.Series
			if server != ours && len(servers) > 1 {
				series = r.who(own) + ": " + series
			}
			c.Groups, c.Series = appendNew(c.Groups, short(own.Row)), appendNew(c.Series, series)
			values[[2]string{series, short(own.Row)}] = value(own, *r)
		}
	}
	for _, series := range c.Series {
		for _, row := range c.Groups {
			c.Values = append(c.Values, values[[2]string{series, row}])
		}
	}
	return c
}

// who is the result's server, with its GPU if that is another than that of kvasir's result.
func (r result) who(own result) string {
	if gpu := gpuName(r.Device); gpu != gpuName(own.Device) {
		return r.Server + ", " + gpu
	}
	return r.Server
}

// curves draws a group's first rate by the number that its rows begin with; those of other servers are dashed.
func (d *data) curves(g group) chart.Chart {
	rate := slices.IndexFunc(g.metrics, isRate)
	if rate < 0 {
		return chart.Chart{}
	}
	c := chart.Chart{Title: g.title + ": " + g.metrics[rate]}
	rows := d.rowsOf(g.name)
	for _, r := range rows {
		c.Series = appendNew(c.Series, r.Series)
	}
	for dashes, server := range d.servers(g.name) {
		for color, name := range c.Series {
			line := chart.Curve{Color: color, Dashes: dashes}
			for _, r := range d.Results {
				n, err := strconv.Atoi(strings.ReplaceAll(short(r.Row), ",", ""))
				if err == nil && r.Group == g.name && r.Server == server && r.Series == name {
					line.Name = r.who(rows[0])
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
