package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/cpu"

	"github.com/kvasir-llm/kvasir/bench"
)

// results is the content of performance.json.
type results struct {
	Machine machine `json:"machine"`
	Threads int     `json:"threads"`
	Kernels string  `json:"kernels"` // that kvasir computed with
	Peaks   peaks   `json:"peaks"`
	Rows    []row   `json:"rows"`
}

// machine describes the measured machine.
type machine struct {
	CPU      string   `json:"cpu"`
	Cores    int      `json:"cores"` // that the process may use
	Features []string `json:"features"`
	System   string   `json:"system"`
}

// peaks are the machine's limits, measured around the tests.
type peaks struct {
	Read   []float64 `json:"gb_per_second"`
	Floats []float64 `json:"float_gop_per_second"`
	Pairs  []float64 `json:"bfloat16_gop_per_second"`
	Bytes  []float64 `json:"byte_gop_per_second"`
}

// row is one test of one model by one engine, with a value for each round.
type row struct {
	Engine string    `json:"engine"`
	Model  string    `json:"model"`
	Quant  string    `json:"quant"`
	Test   string    `json:"test"`
	Speeds []float64 `json:"tokens_per_second"`
	Floors []float64 `json:"floor_tokens_per_second,omitempty"` // of kvasir
}

// Speed is the median speed, Share the median share of the floor.
func (r row) Speed() float64 { return middle(r.Speeds) }

func (r row) Share() float64 {
	var shares []float64
	for i, f := range r.Floors {
		shares = append(shares, r.Speeds[i]/f)
	}
	return middle(shares)
}

// middle returns the median, 0 of nothing.
func middle(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

func upper(recipe string) string { return strings.ToUpper(recipe) }

// add adds a measurement.
func (r *results) add(engine, model, quant, test string, speed, floor float64) {
	to := r.find(engine, model, quant, test)
	if to == nil {
		r.Rows = append(r.Rows, row{Engine: engine, Model: model, Quant: quant, Test: test})
		to = &r.Rows[len(r.Rows)-1]
	}
	if to.Speeds = append(to.Speeds, digits(speed)); floor > 0 {
		to.Floors = append(to.Floors, digits(floor))
	}
}

func (r *results) find(engine, model, quant, test string) *row {
	for i := range r.Rows {
		if w := &r.Rows[i]; w.Engine == engine && w.Model == model && w.Quant == quant && w.Test == test {
			return w
		}
	}
	return nil
}

func (r *results) peaks(m bench.ModelRow) {
	p := &r.Peaks
	p.Read, p.Floats = append(p.Read, digits(m.Read)), append(p.Floats, digits(m.Floats))
	p.Pairs, p.Bytes = append(p.Pairs, digits(m.Pairs)), append(p.Bytes, digits(m.Bytes))
}

// digits keeps five digits of a measurement.
func digits(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	return v
}

// distinct returns the distinct results of pick on the rows, in order.
func (r *results) distinct(pick func(row) string) []string {
	var out []string
	for _, w := range r.Rows {
		if v := pick(w); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func (r *results) models() []string { return r.distinct(func(w row) string { return w.Model }) }

// peers are the other engines.
func (r *results) peers() []string {
	return r.distinct(func(w row) string {
		if w.Engine == ours {
			return ""
		}
		return w.Engine
	})
}

func (r *results) quants(model string) []string {
	return r.distinct(func(w row) string {
		if w.Model == model {
			return w.Quant
		}
		return ""
	})
}

// tests are the tests of kvasir on these models.
func (r *results) tests(models ...string) []string {
	return r.distinct(func(w row) string {
		if w.Engine == ours && slices.Contains(models, w.Model) {
			return w.Test
		}
		return ""
	})
}

func readResults(file string) (results, error) {
	var r results
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// describeMachine describes this machine as far as it can find out.
func describeMachine() machine {
	m := machine{CPU: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = processor(string(data))
	}
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"AVX2", cpu.X86.HasAVX2}, {"AVX-VNNI", cpu.X86.HasAVXVNNI}, {"AVX-512", cpu.X86.HasAVX512BW}, {"AVX-512 VNNI", cpu.X86.HasAVX512VNNI},
		{"AVX-512 BF16", cpu.X86.HasAVX512BF16}, {"AMX int8", cpu.X86.HasAMXInt8}, {"AMX bf16", cpu.X86.HasAMXBF16}, {"ASIMD", cpu.ARM64.HasASIMD}, {"ASIMD dotprod", cpu.ARM64.HasASIMDDP},
	} {
		if f.has {
			m.Features = append(m.Features, f.name)
		}
	}
	return m
}

// processor returns the name of the first processor of /proc/cpuinfo, with family and model.
func processor(info string) string {
	field := map[string]string{}
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(line, ":"); ok && field[strings.TrimSpace(key)] == "" {
			field[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	name := field["model name"]
	if family := field["cpu family"]; family != "" && field["model"] != "" {
		name += fmt.Sprintf(" (family %s, model %s)", family, field["model"])
	}
	return name
}
