package bench

import (
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/internal/reference"
)

func openBuiltin(t testing.TB) *text.Model {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	m, err := text.Open(ckpt, text.Options{Name: builtin.Name, Compute: compute.Options{Threads: 2}, Context: 512, KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestGuided(t *testing.T) {
	m := openBuiltin(t)
	r, err := Guided(t.Context(), m, GuidedOptions{Batch: 9, Each: 1, Tokens: 20, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Batch != 9 || r.Tokens < 9*5 || r.Tokens > 9*20 || r.Free <= 0 || r.Guided <= 0 || r.Share <= 0 || cpuTime() > 0 && (r.FreeCPU <= 0 || r.GuidedCPU <= 0) {
		t.Errorf("%+v", r)
	}
	if _, err := Guided(t.Context(), m, GuidedOptions{Batch: 1, Each: 1, Rounds: 1}); err == nil {
		t.Error("answers of no tokens were measured")
	}
	dir := reference.Path(t, "schemas", "jsonschemabench-sample")
	g := &guided{m: m, o: GuidedOptions{Dir: dir, Batch: 6, Tokens: 20}}
	if g.schemas, err = g.choose(t.Context()); err != nil || len(g.schemas) != 6 {
		t.Errorf("%d schemas, %v", len(g.schemas), err)
	}
}

// BenchmarkGuided reports the share of the speed that a batch of guided answers has.
func BenchmarkGuided(b *testing.B) {
	m := openBuiltin(b)
	for b.Loop() {
		r, err := Guided(b.Context(), m, GuidedOptions{Batch: 16, Each: 2, Tokens: 128, Rounds: 5})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(100*r.Share, "%")
	}
}
