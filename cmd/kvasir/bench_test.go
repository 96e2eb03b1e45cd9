package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
)

// TestBenchUsage holds that what cannot be meant is refused as such, before anything is measured.
func TestBenchUsage(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(trace, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"bench model --tests pp", "bench model --shape 13b", "bench model --shape layers=2", "bench model --shape mini --quant Q9", "bench model x.gguf --shape mini",
		"bench kernels --filter (", "bench load -c 2 --rate 3", "bench load --workload azure", "bench load --workload mooncake --file " + trace,
		"bench load --input -1", "bench null --ttft -1s", "bench null --engines 0", "bench null --fault x", "bench null --events-port 5600", "bench gateway --door x", "bench load --rate 1 --burst 0", "bench load --url http://127.0.0.1:1/v1 --shape mini",
		"bench load --sweep --html page.html", "bench load --workload none",
		"bench load --file " + trace, "bench load --lengths 2", "bench load --time-scale 2", "bench load --workload azure --turns 2 --file " + trace,
		"bench load -c 2 --burst 2", "bench load --attain 0.5", "bench load --completions", "bench load --url http://127.0.0.1:1/v1 --policy vtc",
		"bench load --url http://127.0.0.1:1/v1 --http",
		"bench write x.gguf",
	} {
		if code := run(strings.Fields(args)); code != exitUsage {
			t.Errorf("kvasir %s exits with %d; want %d", args, code, exitUsage)
		}
	}
}

// TestBenchLoadOfServer holds that a server's URL is enough, whatever the defaults of settings of an engine are.
func TestBenchLoadOfServer(t *testing.T) {
	if code := run(strings.Fields("bench load --url http://127.0.0.1:1/v1 -n 1")); code != exitFailure {
		t.Errorf("a load on a server that is not there exits with %d; want %d", code, exitFailure)
	}
}

func TestPrintReport(t *testing.T) {
	var b strings.Builder
	printReport(&b, bench.Report{Requests: 3, CPU: 600 * time.Microsecond, Elapsed: time.Millisecond, Unfilled: 0.031, Failed: 2, CutOff: 1, HitRate: 0.5, TTFT: bench.Summary{P99: 12.5}, Errors: map[string]int{"refused": 2},
		Steps: &bench.StepReport{All: bench.StepTimes{Count: 7, Max: 33.5}, Equal: bench.StepTimes{Count: 5, P99: 21.25}, Seqs: 4, Collections: 9}})
	for _, want := range []string{"3 requests in 0.0 s, 2 failed, 1 cut off", "50.0% of the prompts'", "12.50\n", "3.1% was not", "200 µs of processor time a request, 0.60 processors", "2 times: refused",
		"33.50\n", "decoding 4 sequences                  5       0.00      21.25", "9 collections"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, b.String())
		}
	}
}
