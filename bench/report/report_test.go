package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/compute"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParsesWhatToolsPrint(t *testing.T) {
	speeds := map[string]float64{}
	if err := parseBench([]byte(read(t, "testdata/llama-bench.json")), speeds); err != nil {
		t.Error(err)
	}
	if err := parseBatched([]byte(read(t, "testdata/llama-batched-bench.jsonl")), speeds); err != nil {
		t.Error(err)
	}
	want := map[string]float64{"pp512": 1376.189535, "tg128": 281.252765, "b1": 277.570559, "b4": 544.053453}
	if diff := cmp.Diff(want, speeds); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "[]", "[{", "ggml: error"} {
		if parseBench([]byte(bad), speeds) == nil || parseBatched([]byte(bad), speeds) == nil {
			t.Errorf("%q is taken for measurements", bad)
		}
	}
}

// fakePeer makes tools that print the recorded samples, and fail if their arguments are not as expected.
func fakePeer(t *testing.T, want string) string {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for tool, sample := range map[string]string{"llama-bench": "llama-bench.json", "llama-batched-bench": "llama-batched-bench.jsonl"} {
		script := "#!/bin/sh\ncase \"$*\" in *'" + want + "') cat '" + filepath.Join(dir, sample) + "';; *) echo \"unexpected: $*\" >&2; exit 1;; esac\n"
		if err := os.WriteFile(filepath.Join(bin, tool), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(bin, "llama-bench")
}

const tiny = "layers=1,width=64,ff=64,heads=2,kv=1,vocab=300"

// newCampaign measures a tiny model with kvasir and a peer that prints samples.
func newCampaign(t *testing.T, want string) *campaign {
	t.Helper()
	p, err := parsePeer("other=" + fakePeer(t, want) + " -fa on")
	if err != nil {
		t.Fatal(err)
	}
	s, err := bench.ParseShape(tiny)
	if err != nil {
		t.Fatal(err)
	}
	s.Name = "tiny"
	tests, err := bench.ParseTests("pp512,tg128,b4,tg2@9")
	if err != nil {
		t.Fatal(err)
	}
	return &campaign{
		plan:  plan{shapes: []bench.Shape{s}, quants: []string{"q8_0"}, tests: tests, peers: []peer{p}, rounds: 2, budget: time.Hour, device: "cpu", compute: compute.Options{Threads: 1}},
		began: time.Now(), took: map[string]time.Duration{}, say: t.Logf,
	}
}

func TestCampaign(t *testing.T) {
	c := newCampaign(t, "-t 1 -fa on")
	c.models = t.TempDir()
	r, err := c.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 4+3 || len(r.Peaks.Read) != 2*4 {
		t.Errorf("%d rows and %d peaks; want 4 tests of one engine and 3 of the other, and the peaks of two rounds", len(r.Rows), len(r.Peaks.Read))
	}
	for _, w := range r.Rows {
		if w.Model != "tiny" || w.Quant != "Q8_0" || len(w.Speeds) != 2 || w.Speed() <= 0 || (w.Engine == ours) != (w.Share() > 0) {
			t.Errorf("row %+v", w)
		}
	}
	if w := r.find("other", "tiny", "Q8_0", "b4"); w == nil || w.Speed() != 544.05 {
		t.Errorf("other's b4 is %+v", w)
	}
	if files, _ := os.ReadDir(c.models); len(files) != 1 || files[0].Name() != "tiny-q8_0.gguf" {
		t.Errorf("the folder of models has %v", files)
	}
	c.budget, c.results = 0, results{}
	if r, err = c.measure(t.Context()); err != nil || len(r.Rows[0].Speeds) != 1 {
		t.Errorf("with no time, %d rounds (%v); want the first one", len(r.Rows[0].Speeds), err)
	}
}

// TestWhatWasMeasuredIsKept holds that an engine that fails, or an interruption, loses nothing that was measured
// before.
func TestWhatWasMeasuredIsKept(t *testing.T) {
	c := newCampaign(t, "what is not asked")
	r, err := c.measure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "other: llama-bench: exit status 1: unexpected: -p 512") || len(r.Rows) != 4 {
		t.Errorf("%d rows, %v", len(r.Rows), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.results, c.peers = results{}, nil
	c.say = func(string, ...any) { cancel() } // after the first round
	if r, err = c.measure(ctx); !errors.Is(err, context.Canceled) || len(r.Rows) != 4 || len(r.Rows[0].Speeds) != 1 {
		t.Errorf("%d rows, %v", len(r.Rows), err)
	}
}

func sample() results {
	r := results{Machine: machine{CPU: "a CPU", Cores: 2, Features: []string{"AVX2"}}, Threads: 2, Kernels: "avx2", Peaks: peaks{Read: []float64{30, 40}}}
	for i, test := range []string{"pp512", "tg128", "b1", "b16"} {
		v := float64(i+1) * 100
		r.add(ours, "1.1b", "Q8_0", test, v, 2*v)
		r.add(ours, "1.1b", "Q8_0", test, 3*v, 4*v)
		r.add("llama.cpp", "1.1b", "Q8_0", test, v/2, 0)
	}
	r.add(ours, "1.1b", "BF16", "pp512", 12345, 20000)
	return r
}

func TestPage(t *testing.T) {
	to := page{t.TempDir()}
	if err := to.write(sample()); err == nil {
		t.Error("a page that is not there was written")
	}
	if err := os.WriteFile(to.markdown(), []byte("# Before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := to.write(sample()); err == nil {
		t.Error("a page without marks was written")
	}
	if err := os.WriteFile(to.markdown(), []byte("# Before\n"+beginMark+"\nold\n"+endMark+"\n# After\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := to.write(sample()); err != nil {
		t.Fatal(err)
	}
	text := read(t, to.markdown())
	for _, want := range []string{
		"# Before\n" + beginMark + "\n\na CPU, 2 cores, AVX2.\n", "with avx2, every engine with 2 threads", "memory 30.0 to 40.0 GB/s", endMark + "\n# After\n",
		"| model | type | engine | pp512 | tg128 | b1 | b16 |\n", "| 1.1b | Q8_0 | kvasir | 200 (62%) | 400 (62%) | 600 (62%) | 800 (62%) |\n",
		"|  |  | llama.cpp | 50.0 (4.00×) | 100 (4.00×) | 150 (4.00×) | 200 (4.00×) |\n| 1.1b | BF16 | kvasir | 12,345 (62%) |  |  |  |\n",
		"![1.1b: times as fast as llama.cpp](plots/times-llama.cpp-1.1b.svg)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	back, err := readResults(to.data())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), back); diff != "" {
		t.Error(diff)
	}
	files, err := filepath.Glob(filepath.Join(to.plots(), "*.svg"))
	if err != nil || len(files) != 3 {
		t.Errorf("plots %v, %v", files, err)
	}
	for _, f := range files {
		d := xml.NewDecoder(strings.NewReader(read(t, f)))
		for err = error(nil); err == nil; {
			_, err = d.Token()
		}
		if err != io.EOF {
			t.Errorf("%s: %v", f, err)
		}
	}
	if err := to.write(back); err != nil || read(t, to.markdown()) != text {
		t.Errorf("written again, the page differs (%v)", err)
	}
}

func TestCompactIsTheSameJSON(t *testing.T) {
	data, err := json.MarshalIndent(sample(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(json.Unmarshal([]byte(compact(string(data))), &got), json.Unmarshal(data, &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"x", "--rounds 0", "--shapes 13b", "--quants q9", "--tests xx", "--peer llama.cpp", "--peer kvasir=/bin/true", "--peer a=/none/llama-bench", "--draw --docs /none"} {
		if err := run(t.Context(), strings.Fields(args)); err == nil {
			t.Errorf("report %s is taken", args)
		}
	}
}

func TestProcessor(t *testing.T) {
	const info = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: A Processor @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: Another\n"
	if got := processor(info); got != "A Processor @ 2 GHz (family 6, model 143)" {
		t.Errorf("%q", got)
	}
}
