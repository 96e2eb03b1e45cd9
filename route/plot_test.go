package route

import (
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"slices"
	"strings"
)

var plotFile = flag.String("plot", "", "write the plot of TestConversationTrace to this file, such as ../docs/plots/route.svg")

// point is a rule in the plot: its part of one infinite cache's hits, and the 99th percentile of times to first tokens.
type point struct{ hits, p99 float64 }

// drawRules plots rules: those near the lower right corner find most and answer soonest. Presets of ours are filled.
func drawRules(points map[string]point) error {
	const left, bottom, wide, high, most = 50.0, 330.0, 560.0, 300.0, 75.0 // of the area, and seconds at its top
	var b strings.Builder
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 790 380" font-family="sans-serif" font-size="11">` +
		`<rect width="790" height="380" fill="#fff"/>`)
	for p := 0; p <= 100; p += 20 {
		x := left + wide*float64(p)/100
		fmt.Fprintf(&b, `<path d="M%.0f %.0fV%.0f" stroke="#ddd"/><text x="%.0f" y="%.0f" text-anchor="middle">%d%%</text>`, x, bottom, bottom-high, x, bottom+15, p)
	}
	for s := 0; s < int(most); s += 10 {
		y := bottom - high*float64(s)/most
		fmt.Fprintf(&b, `<path d="M%.0f %.0fH%.0f" stroke="#ddd"/><text x="%.0f" y="%.0f" text-anchor="end">%d s</text>`, left, y, left+wide, left-5, y+4, s)
	}
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="middle">hits, of one infinite cache's</text><text x="%.0f" y="20">p99 time to the first token</text>`,
		left+wide/2, bottom+35, left)
	names := slices.SortedFunc(maps.Keys(points), func(a, b string) int { return int(1000 * (points[b].p99 - points[a].p99)) })
	label := map[bool]float64{true: 20, false: 20} // the lowest label so far, on the right half and on the left
	for _, name := range names {
		p := points[name]
		x, y := left+wide*p.hits, bottom-high*p.p99/most
		right := p.hits > 0.5
		at := max(y+4, label[right]+13)
		label[right] = at
		fill := "#fff"
		if slices.Contains(presets.Names(), name) {
			fill = "#1f77b4"
		}
		tx := x + 8
		if right {
			tx = left + wide + 8
		}
		fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#bbb"/><circle cx="%.1f" cy="%.1f" r="4" fill="%s" stroke="#1f77b4"/><text x="%.1f" y="%.1f">%s</text>`,
			x, y, tx-2, at-4, x, y, fill, tx, at, html.EscapeString(name))
	}
	b.WriteString("</svg>\n")
	return os.WriteFile(*plotFile, []byte(b.String()), 0o644)
}
