package bench

import (
	"testing"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

func TestMeasureDrafts(t *testing.T) {
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	m, err := text.Open(ckpt, text.Options{Name: builtin.Name, Context: 512, KVBytes: 64 << 20, DraftAlways: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	measure := func(batch int, changed float64) *DraftReport {
		t.Helper()
		r, err := MeasureDrafts(t.Context(), m.Engine, m.Spec.Vocab, DraftOptions{Batch: batch, Prompt: 20, Tokens: 100, Changed: changed, Rounds: 1})
		if err != nil {
			t.Fatal(err)
		}
		if r.Batch != batch || r.Without <= 0 || r.With <= 0 || r.Times <= 0 || r.Accepted > r.Proposed {
			t.Errorf("%+v", r)
		}
		return r
	}
	if r := measure(1, 0); r.Accepted < 90 {
		t.Errorf("an answer of 100 tokens was predicted: %+v", r)
	}
	if r := measure(2, 0.1); r.Accepted < 60 || r.Accepted == r.Proposed {
		t.Errorf("two answers of 100 tokens were predicted, but for 20 changes: %+v", r)
	}
	if _, err := MeasureDrafts(t.Context(), m.Engine, m.Spec.Vocab, DraftOptions{Batch: 1, Prompt: 20, Tokens: 100, Changed: 2, Rounds: 1}); err == nil {
		t.Error("more than all was changed")
	}
}
