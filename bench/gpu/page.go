package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The report is between these lines of docs/gpu.md.
const (
	beginMark = "<!-- begin: go run ./bench/gpu --report -->"
	endMark   = "<!-- end: go run ./bench/gpu --report -->"
)

//go:embed testdata/vllm.json
var knownVLLM []byte

// render writes the report of results beside known ones, to w and, if there is a folder, to its gpu.md and plots.
func render(w io.Writer, d data, known, docs string) error {
	var others data
	var err error
	switch known {
	case "":
		err = json.Unmarshal(knownVLLM, &others)
	case "-":
	default:
		others, err = readData(known)
	}
	if err != nil {
		return err
	}
	all := d.with(others)
	text := all.markdown()
	if others.Source != "" && len(all.Results) > len(d.Results) {
		text += "\n" + wrap("Figures of "+strings.Join(others.names(), ", ")+", measured before: "+others.Source)
	}
	if _, err := io.WriteString(w, text); err != nil || docs == "" {
		return err
	}
	return all.publish(text, docs)
}

// names are the servers that d has results of.
func (d *data) names() []string {
	names := map[string]bool{}
	for _, r := range d.Results {
		names[r.Server] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// publish writes the plots and the marked part of gpu.md in a folder.
func (d *data) publish(text, docs string) error {
	page := filepath.Join(docs, "gpu.md")
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !ok || !ended {
		return fmt.Errorf("%s: no lines %q and %q", page, beginMark, endMark)
	}
	if err := os.MkdirAll(filepath.Join(docs, "plots"), 0o755); err != nil {
		return err
	}
	for _, p := range d.plots() {
		if err := os.WriteFile(filepath.Join(docs, "plots", p.file), []byte(p.SVG()), 0o644); err != nil {
			return err
		}
		text += fmt.Sprintf("\n![%s](plots/%s)", p.Title, p.file)
	}
	return os.WriteFile(page, []byte(before+beginMark+"\n"+text+"\n\n"+endMark+after), 0o644)
}

// markdown has a table for each group with results of kvasir's. In brackets is how many times as fast kvasir is as
// another server, where both were measured on GPUs of one name.
func (d *data) markdown() string {
	b := new(strings.Builder)
	devices := map[string]bool{}
	for _, r := range d.Results {
		if r.Server == ours {
			devices[r.Device] = true
		}
	}
	fmt.Fprintf(b, "\nMeasured on %s.\n", strings.Join(slices.Sorted(maps.Keys(devices)), "; "))
	for _, g := range groups {
		if rows := d.rowsOf(g.name); len(rows) > 0 {
			fmt.Fprintf(b, "\n### %s\n\n%s\n| model | | | %s | share of the floor |\n| --- | --- | --- |%s ---: |\n",
				g.title, wrap(g.about), strings.Join(g.metrics, " | "), strings.Repeat(" ---: |", len(g.metrics)))
			for _, row := range rows {
				d.tableRows(b, g, row)
			}
		}
	}
	return b.String()
}

// rowsOf returns a group's results of kvasir's.
func (d *data) rowsOf(group string) []result {
	var rows []result
	for _, r := range d.Results {
		if r.Group == group && r.Server == ours {
			rows = append(rows, r)
		}
	}
	return rows
}

// tableRows writes kvasir's result of a row and those of other servers below.
func (d *data) tableRows(b *strings.Builder, g group, own result) {
	for _, server := range d.servers(g.name) {
		r := d.find(g.name, own.Series, own.Row, server)
		if r == nil {
			continue
		}
		cells := []string{"", "", r.who(own)}
		if server == ours {
			cells[0], cells[1] = own.Series, own.Row
		}
		for _, metric := range g.metrics {
			cell := ""
			if v, ok := r.Values[metric]; ok {
				cell = number(v)
				if times := timesAsFast(own, *r, metric); times > 0 && server != ours {
					cell += fmt.Sprintf(" (%.2f×)", times)
				}
			}
			cells = append(cells, cell)
		}
		share := ""
		if s := r.share(g.metrics[0]); s > 0 {
			share = fmt.Sprintf("%.0f%%", 100*s)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(append(cells, share), " | "))
	}
}

// share is the share of the floor that the result reaches in its group's first metric; 0: it is not known.
func (r result) share(metric string) float64 {
	v := r.Values[metric]
	switch {
	case v == 0 || r.Floor == 0:
		return 0
	case isRate(metric):
		return v / r.Floor
	}
	return r.Floor / v
}

// timesAsFast is how many times as fast one is as the other; 0: that cannot be said.
func timesAsFast(one, other result, metric string) float64 {
	a, b := one.Values[metric], other.Values[metric]
	switch {
	case a == 0 || b == 0 || gpuName(one.Device) != gpuName(other.Device):
		return 0
	case isRate(metric):
		return a / b
	}
	return b / a
}

// gpuName finds such names as H200 and RTX 4090 in what a device is.
var gpuForm = regexp.MustCompile(`(RTX )?[A-Z]*[0-9]{2,4}[A-Z]*`)

func gpuName(device string) string { return gpuForm.FindString(device) }

// wrap breaks a paragraph into lines of up to 120 columns.
func wrap(text string) string {
	b, at := new(strings.Builder), 0
	for word := range strings.FieldsSeq(text) {
		switch n := len([]rune(word)); {
		case at == 0:
			at = n
		case at+1+n > 120:
			b.WriteByte('\n')
			at = n
		default:
			b.WriteByte(' ')
			at += 1 + n
		}
		b.WriteString(word)
	}
	return b.String() + "\n"
}

// number writes a value with three digits or more.
func number(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return comma(int(v + 0.5))
}

// digits keeps five digits of a measurement.
func digits(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	return v
}
