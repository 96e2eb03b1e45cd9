package bench

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// plot is a diagram with lines.
type plot struct {
	Title, X, Y string
	logX        bool
	lines       []line
}

// line is a named series of points, drawn in order.
type line struct {
	name string
	x, y []float64
}

// The plot's size and the margins around its area, in units of its viewBox.
const (
	plotWidth, plotHeight                    = 520.0, 300.0
	plotLeft, plotRight, plotTop, plotBottom = 60.0, 14.0, 36.0, 44.0
)

// axis maps the values from low to high to coordinates from begin to end.
type axis struct {
	low, high, begin, end float64
	log                   bool
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(max(v, a.low)), math.Log(low), math.Log(high)
	}
	return a.begin + (a.end-a.begin)*(v-low)/(high-low)
}

// axes fits two axes to all points. Without points they run from 0 to 1.
func (p *plot) axes() (x, y axis) {
	x = axis{low: math.Inf(1), begin: plotLeft, end: plotWidth - plotRight, log: p.logX}
	y = axis{begin: plotHeight - plotBottom, end: plotTop}
	for _, l := range p.lines {
		for i := range l.x {
			if !p.logX || l.x[i] > 0 {
				x.low, x.high = min(x.low, l.x[i]), max(x.high, l.x[i])
			}
			y.high = max(y.high, l.y[i])
		}
	}
	switch {
	case !p.logX:
		x.low = 0
	case math.IsInf(x.low, 1):
		x.low, x.high = 0.1, 1
	default:
		x.low, x.high = max(x.low/1.1, x.high/1e5), x.high*1.1 // five decades show enough
	}
	if x.high <= x.low {
		x.high = x.low + 1
	}
	if y.high == 0 {
		y.high = 1
	}
	return x, y
}

// ticks returns round values inside the axis, at most about 8.
func (a axis) ticks() []float64 {
	var out []float64
	if a.log {
		for _, steps := range [][]float64{{1, 2, 5}, {1}} {
			out = out[:0]
			for e := math.Floor(math.Log10(a.low)); e <= math.Log10(a.high); e++ {
				for _, s := range steps {
					if v := s * math.Pow(10, e); v >= a.low && v <= a.high {
						out = append(out, v)
					}
				}
			}
			if len(out) <= 8 {
				break
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/4)))
	for _, s := range []float64{1, 2, 5, 10} {
		if (a.high-a.low)/(s*step) <= 6 {
			step *= s
			break
		}
	}
	for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
		out = append(out, i*step)
	}
	return out
}

// SVG draws the plot.
func (p plot) SVG() template.HTML {
	x, y := p.axes()
	b := new(strings.Builder)
	text := func(class string, x, y float64, anchor, s string) {
		fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, class, x, y, anchor, html.EscapeString(s))
	}
	fmt.Fprintf(b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(p.Title))
	text("title", plotLeft, 18, "start", p.Title)
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fH%.1f"/>`, x.begin, at, x.end)
		text("tick", x.begin-6, at+4, "end", fmt.Sprintf("%.4g", v))
	}
	for _, v := range x.ticks() {
		at := x.at(v)
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fV%.1f"/>`, at, y.begin, y.end)
		text("tick", at, y.begin+16, "middle", fmt.Sprintf("%.4g", v))
	}
	text("tick", (x.begin+x.end)/2, plotHeight-8, "middle", p.X)
	fmt.Fprintf(b, `<text class="tick" transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`, (y.begin+y.end)/2, html.EscapeString(p.Y))
	right := x.end
	for i, l := range p.lines {
		fmt.Fprintf(b, `<path class="line l%d" d="`, i)
		for j := range l.x {
			fmt.Fprintf(b, "%c%.1f %.1f", "ML"[min(j, 1)], x.at(l.x[j]), y.at(l.y[j]))
		}
		b.WriteString(`"/>`)
		if len(p.lines) > 1 {
			text(fmt.Sprintf("name n%d", i), right, 18, "end", l.name)
			right -= 7.5*float64(len(l.name)) + 14
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// maxPoints bounds the points of a line.
const maxPoints = 300

// distribution returns the line of a cumulative distribution: the share of values that are at most x.
func distribution(name string, values []float64) line {
	slices.Sort(values)
	l := line{name: name}
	for i := range min(len(values), maxPoints) {
		p := 100.0
		if n := min(len(values), maxPoints); n > 1 {
			p = 100 * float64(i) / float64(n-1)
		}
		l.x, l.y = append(l.x, percentile(values, p)), append(l.y, p)
	}
	return l
}
