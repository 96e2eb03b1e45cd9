package choose

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// recorded is what transformers' processors leave of a row of logits (testdata/make_samplers.py).
type recorded struct {
	Row            int
	Temperature    float32
	TopK           int         `json:"top_k"`
	TopP           float32     `json:"top_p"`
	MinP           float32     `json:"min_p"`
	TypicalP       float32     `json:"typical_p"`
	Repetition     float32     `json:"repetition_penalty"`
	Bias           [][]float32 // pairs of a token and what is added
	BadWords       [][]int32   `json:"bad_words"`
	Banned         []int32
	Prompt, Output []int32
	Left           []int32 // tokens
	Probs          []float64
}

// choosing returns a case's parameters; what it does not have is off.
func (r *recorded) choosing() compute.Choosing {
	p := plain()
	for to, from := range map[*float32]float32{&p.Temperature: r.Temperature, &p.TopP: r.TopP, &p.Repetition: r.Repetition} {
		if from > 0 {
			*to = from
		}
	}
	p.TopK, p.MinP, p.BadWords, p.Banned, p.Prompt, p.Output = r.TopK, r.MinP, r.BadWords, r.Banned, r.Prompt, r.Output
	for _, b := range r.Bias {
		p.Bias = append(p.Bias, bias(b...)...)
	}
	p.Chain = &compute.Chain{TypicalP: 1}
	if r.TypicalP > 0 {
		p.Chain.TypicalP = r.TypicalP
	}
	return p
}

// TestLikeTransformers compares the tokens that are left, and how likely each is, with what transformers leaves of
// logits of the built-in model, by stages in transformers' order and, where that is the usual one, without stages.
func TestLikeTransformers(t *testing.T) {
	data, err := os.ReadFile("testdata/samplers.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Logits [][]float32
		Cases  []recorded
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 60 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	order := []compute.Stage{compute.StageTemperature, compute.StageTopK, compute.StageTopP, compute.StageMinP, compute.StageTypical}
	for n, r := range file.Cases {
		p := r.choosing()
		logits := slices.Clone(file.Logits[r.Row])
		stateOf(p).adjust(logits, len(r.Banned) > 0, nil)
		want := make([]float64, len(logits))
		for i, id := range r.Left {
			want[id] = r.Probs[i]
		}
		check := func(way string, got []float64) {
			for id := range want {
				if d := math.Abs(got[id] - want[id]); d > 1e-5*max(want[id], 1e-3) || (got[id] == 0) != (want[id] == 0) {
					t.Errorf("case %d, %s: token %d has probability %v; want %v", n, way, id, got[id], want[id])
					return
				}
			}
		}
		check("by stages", left(t, logits, p, order...))
		if r.TypicalP > 0 || r.MinP > 0 && r.TopK > 0 {
			continue
		}
		var s Sampler
		_, most, err := s.greatest(logits)
		if err != nil {
			t.Fatal(err)
		}
		ids, kept := s.left(logits, most, &p)
		total, got := s.weigh(kept, most, 1/float64(p.Temperature)), make([]float64, len(logits))
		for i, w := range s.weights {
			id := int32(i)
			if ids != nil {
				id = ids[i]
			}
			got[id] = float64(w) / total
		}
		check("without stages", got)
	}
}
