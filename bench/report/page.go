package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The generated part of the page is between these lines.
const (
	beginMark = "<!-- begin: go run ./bench/report -->"
	endMark   = "<!-- end: go run ./bench/report -->"
)

// write writes data, plots and tables.
func (p page) write(r results) error {
	text, err := os.ReadFile(p.markdown())
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !ok || !ended {
		return fmt.Errorf("%s: no lines %q and %q", p.markdown(), beginMark, endMark)
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.plots(), 0o755); err != nil {
		return err
	}
	files := map[string]string{p.data(): compact(string(data)) + "\n"}
	var images []string
	for _, plot := range r.plots() {
		files[filepath.Join(p.plots(), plot.file)] = plot.SVG()
		images = append(images, fmt.Sprintf("![%s](plots/%s)", plot.Title, plot.file))
	}
	files[p.markdown()] = before + beginMark + "\n\n" + r.markdown() + strings.Join(images, "\n") + "\n\n" + endMark + after
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compact puts lists of numbers on one line.
func compact(data string) string {
	var b strings.Builder
	inList := false
	for line := range strings.Lines(data) {
		t := strings.TrimSpace(line)
		switch {
		case inList:
			if inList = !strings.HasPrefix(t, "]"); inList {
				b.WriteString(strings.TrimSuffix(t, ",") + strings.Repeat(", ", strings.Count(t, ",")))
			} else {
				b.WriteString(t + "\n")
			}
		case strings.HasSuffix(t, ": [") && !strings.HasPrefix(t, `"rows"`):
			inList = true
			b.WriteString(strings.TrimSuffix(line, "\n"))
		default:
			b.WriteString(line)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// markdown describes the machine and has one table: a row for each model, type and engine, a column for each test.
func (r *results) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %d cores, %s.\nkvasir computes with %s, every engine with %d threads.\n",
		m.CPU, m.Cores, strings.Join(m.Features, ", "), r.Kernels, r.Threads)
	fmt.Fprintf(&b, "Limits measured during the run: memory %s GB/s, float32 %s GFLOP/s,\nbfloat16 %s GFLOP/s, bytes %s Gop/s.\n\n",
		span(r.Peaks.Read), span(r.Peaks.Floats), span(r.Peaks.Pairs), span(r.Peaks.Bytes))
	rounds := 0
	for _, w := range r.Rows {
		rounds = max(rounds, len(w.Speeds))
	}
	fmt.Fprintf(&b, "Tokens/s, median of %d rounds. In brackets: kvasir's share of the floor; kvasir's speed-up over the other engine.\n\n", rounds)
	tests := r.tests(r.models()...)
	fmt.Fprintf(&b, "| model | type | engine | %s |\n| --- | --- | --- |%s\n", strings.Join(tests, " | "), strings.Repeat(" ---: |", len(tests)))
	for _, model := range r.models() {
		for _, quant := range r.quants(model) {
			r.tableRows(&b, model, quant, tests)
		}
	}
	b.WriteString("\n")
	return b.String()
}

// tableRows writes the rows of one model and type, kvasir's first. An engine without measurements has none.
func (r *results) tableRows(b *strings.Builder, model, quant string, tests []string) {
	for i, engine := range append([]string{ours}, r.peers()...) {
		cells, any := []string{model, quant, engine}, false
		if i > 0 {
			cells[0], cells[1] = "", ""
		}
		for _, test := range tests {
			cell := ""
			if w := r.find(engine, model, quant, test); w != nil {
				any, cell = true, number(w.Speed())
				if own := r.find(ours, model, quant, test); engine == ours {
					cell += fmt.Sprintf(" (%.0f%%)", 100*w.Share())
				} else if own != nil {
					cell += fmt.Sprintf(" (%.2f×)", own.Speed()/w.Speed())
				}
			}
			cells = append(cells, cell)
		}
		if any {
			fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}

// number writes a speed with three digits or more, and commas.
func number(v float64) string {
	switch s := fmt.Sprintf("%.0f", v); {
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	case len(s) > 3:
		return s[:len(s)-3] + "," + s[len(s)-3:]
	default:
		return s
	}
}

// span writes the range of values.
func span(values []float64) string {
	if len(values) == 0 {
		return "no"
	}
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if number(low) == number(high) {
		return number(low)
	}
	return number(low) + " to " + number(high)
}
