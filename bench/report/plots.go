package main

import (
	"fmt"
	"strconv"
	"strings"
)

// plots draws, for each model: the shares of the floor, kvasir's speed-up over each other engine, and speed by the
// number of sequences of a batch.
func (r *results) plots() []plot {
	var out []plot
	for _, model := range r.models() {
		tests, quants := r.tests(model), r.quants(model)
		share := plot{file: "share-" + model + ".svg", title: model + ": share of the floor, %", groups: tests, series: quants, line: 100}
		for _, quant := range quants {
			for _, test := range tests {
				v := 0.0
				if w := r.find(ours, model, quant, test); w != nil {
					v = 100 * w.Share()
				}
				share.values = append(share.values, v)
			}
		}
		out = append(out, share)
		for _, peer := range r.peers() {
			times := plot{file: "times-" + fileName(peer) + "-" + model + ".svg", title: model + ": times as fast as " + peer, groups: tests, series: quants, line: 1}
			any := false
			for _, quant := range quants {
				for _, test := range tests {
					v := 0.0
					own, other := r.find(ours, model, quant, test), r.find(peer, model, quant, test)
					if own != nil && other != nil {
						v, any = own.Speed()/other.Speed(), true
					}
					times.values = append(times.values, v)
				}
			}
			if any {
				out = append(out, times)
			}
		}
		if p := r.batched(model, tests, quants); len(p.curves) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// batched returns curves of tokens/s over the number of sequences; those of other engines are dashed.
func (r *results) batched(model string, tests, quants []string) plot {
	p := plot{file: "batched-" + model + ".svg", title: model + ": tokens/s by sequences decoded together", series: quants}
	for i, engine := range append([]string{ours}, r.peers()...) {
		for color, quant := range quants {
			c := curve{color: color, dashes: i, name: engine}
			for _, test := range tests {
				n, err := strconv.Atoi(strings.TrimPrefix(test, "b"))
				if w := r.find(engine, model, quant, test); w != nil && err == nil {
					c.x, c.y = append(c.x, float64(n)), append(c.y, w.Speed())
				}
			}
			if len(c.x) > 1 {
				p.curves = append(p.curves, c)
			}
		}
	}
	return p
}

// fileName keeps the characters that are safe in a file name.
func fileName(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '-'
	}, s)
}

// plot is a picture: either bars, with a group for each of groups and a bar in it for each of series, or curves.
type plot struct {
	file, title    string
	groups, series []string
	values         []float64 // [series][groups]
	line           float64   // a value that is marked; 0 is none
	curves         []curve
}

type curve struct {
	name          string
	color, dashes int
	x, y          []float64
}

const (
	width, height            = 760.0, 320.0
	left, right, top, bottom = 52.0, 12.0, 56.0, 30.0
)

// colors distinguish series, also for colour-blind readers (Okabe and Ito, 2008).
var colors = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442"}

func color(i int) string { return colors[i%len(colors)] }

// svg draws the plot on white, so that it can be read on any page.
func (p plot) svg() string {
	b := new(strings.Builder)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12" role="img" aria-label="%s">`+"\n", width, height, p.title)
	fmt.Fprintf(b, `<rect width="%g" height="%g" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text x="%g" y="20" font-size="15">%s</text>`+"\n", left, p.title)
	x := left
	for i, s := range p.series {
		fmt.Fprintf(b, `<rect x="%.1f" y="32" width="10" height="10" fill="%s"/><text x="%.1f" y="41">%s</text>`+"\n", x, color(i), x+14, s)
		x += 34 + 8*float64(len(s))
	}
	high := p.line
	for _, v := range p.values {
		high = max(high, v)
	}
	for _, c := range p.curves {
		for _, v := range c.y {
			high = max(high, v)
		}
	}
	step := stepFor(high)
	y := func(v float64) float64 { return height - bottom - (height-bottom-top)*v/(high*1.04) }
	for v := 0.0; v <= high; v += step {
		fmt.Fprintf(b, `<path d="M%g %.1fH%g" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n", left, y(v), width-right, left-6, y(v)+4, v)
	}
	if p.curves != nil {
		p.drawCurves(b, y)
	} else {
		p.drawBars(b, y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// stepFor returns a round distance of about five lines below a value.
func stepFor(high float64) float64 {
	step := 0.1
	for _, s := range []float64{0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000} {
		if high/step > 6 {
			step = s
		}
	}
	return step
}

func (p plot) drawBars(b *strings.Builder, y func(float64) float64) {
	group := (width - left - right) / float64(len(p.groups))
	bar := group * 0.8 / float64(len(p.series))
	for g, name := range p.groups {
		at := left + group*float64(g)
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", at+group/2, height-10, name)
		for s := range p.series {
			v := p.values[s*len(p.groups)+g]
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", at+group*0.1+bar*float64(s), y(v), bar*0.92, y(0)-y(v), color(s))
		}
	}
	if p.line > 0 {
		fmt.Fprintf(b, `<path d="M%g %.1fH%g" stroke="#333" stroke-dasharray="5 3"/>`+"\n", left, y(p.line), width-right)
	}
}

func (p plot) drawCurves(b *strings.Builder, y func(float64) float64) {
	var xs []float64
	for _, c := range p.curves {
		if len(c.x) > len(xs) {
			xs = c.x
		}
	}
	at := func(v float64) float64 { // numbers of sequences are equally spaced
		for i, x := range xs {
			if x == v {
				return left + 16 + (width-left-right-110)*float64(i)/float64(max(len(xs)-1, 1))
			}
		}
		return left
	}
	for _, x := range xs {
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%g</text>`+"\n", at(x), height-10, x)
	}
	for _, c := range p.curves {
		dash := ""
		if c.dashes > 0 {
			dash = fmt.Sprintf(` stroke-dasharray="%d 4"`, 9-3*(c.dashes%3))
		}
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2"%s d="`, color(c.color), dash)
		for i := range c.x {
			fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i, 1)], at(c.x[i]), y(c.y[i]))
		}
		last := len(c.x) - 1
		fmt.Fprintf(b, `"/><text x="%.1f" y="%.1f" font-size="10" fill="%s">%s</text>`+"\n", at(c.x[last])+6, y(c.y[last])+3, color(c.color), c.name)
	}
}
