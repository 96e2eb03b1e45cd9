// Package chart draws the plots of pages about speed as SVG. It knows nothing of what is measured. Start with Chart.
package chart

import (
	"fmt"
	"html"
	"strings"
)

// Chart is a picture: either bars, with a group for each of Groups and a bar in it for each of Series, or curves.
type Chart struct {
	Title          string
	Groups, Series []string
	Values         []float64 // [series][groups]
	Line           float64   // a value that is marked; 0 is none
	Curves         []Curve
}

// Curve is a named series of points. Their X are equally spaced.
type Curve struct {
	Name   string
	Color  int // the number of one of Series
	Dashes int // 0 is an unbroken line
	X, Y   []float64
}

const (
	width, height            = 760.0, 320.0
	left, right, top, bottom = 52.0, 12.0, 56.0, 30.0
)

// colors distinguish series, also for colour-blind readers (Okabe and Ito, 2008).
var colors = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442"}

func color(i int) string { return colors[i%len(colors)] }

// SVG draws the chart on white, so that it can be read on any page.
func (p Chart) SVG() string {
	b := new(strings.Builder)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12" role="img" aria-label="%s">`+"\n", width, height, html.EscapeString(p.Title))
	fmt.Fprintf(b, `<rect width="%g" height="%g" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text x="%g" y="20" font-size="15">%s</text>`+"\n", left, html.EscapeString(p.Title))
	x := left
	for i, s := range p.Series {
		fmt.Fprintf(b, `<rect x="%.1f" y="32" width="10" height="10" fill="%s"/><text x="%.1f" y="41">%s</text>`+"\n", x, color(i), x+14, html.EscapeString(s))
		x += 34 + 8*float64(len(s))
	}
	high := p.Line
	for _, v := range p.Values {
		high = max(high, v)
	}
	for _, c := range p.Curves {
		for _, v := range c.Y {
			high = max(high, v)
		}
	}
	step := stepFor(high)
	y := func(v float64) float64 { return height - bottom - (height-bottom-top)*v/(high*1.04) }
	for v := 0.0; v <= high; v += step {
		fmt.Fprintf(b, `<path d="M%g %.1fH%g" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n", left, y(v), width-right, left-6, y(v)+4, v)
	}
	if p.Curves != nil {
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

func (p Chart) drawBars(b *strings.Builder, y func(float64) float64) {
	group := (width - left - right) / float64(len(p.Groups))
	bar := group * 0.8 / float64(len(p.Series))
	for g, name := range p.Groups {
		at := left + group*float64(g)
		fmt.Fprintf(b, `<text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", at+group/2, height-10, html.EscapeString(name))
		for s := range p.Series {
			v := p.Values[s*len(p.Groups)+g]
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", at+group*0.1+bar*float64(s), y(v), bar*0.92, y(0)-y(v), color(s))
		}
	}
	if p.Line > 0 {
		fmt.Fprintf(b, `<path d="M%g %.1fH%g" stroke="#333" stroke-dasharray="5 3"/>`+"\n", left, y(p.Line), width-right)
	}
}

func (p Chart) drawCurves(b *strings.Builder, y func(float64) float64) {
	var xs []float64
	for _, c := range p.Curves {
		if len(c.X) > len(xs) {
			xs = c.X
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
	for _, c := range p.Curves {
		dash := ""
		if c.Dashes > 0 {
			dash = fmt.Sprintf(` stroke-dasharray="%d 4"`, 9-3*(c.Dashes%3))
		}
		fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="2"%s d="`, color(c.Color), dash)
		for i := range c.X {
			fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(i, 1)], at(c.X[i]), y(c.Y[i]))
		}
		last := len(c.X) - 1
		fmt.Fprintf(b, `"/><text x="%.1f" y="%.1f" font-size="10" fill="%s">%s</text>`+"\n", at(c.X[last])+6, y(c.Y[last])+3, color(c.Color), html.EscapeString(c.Name))
	}
}

// FileName keeps the characters that are safe in a file name.
func FileName(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' {
			return c
		}
		return '-'
	}, s)
}
