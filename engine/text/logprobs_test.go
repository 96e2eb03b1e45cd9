package text

import (
	"math"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/engine"
)

// told returns the tokens of an answer with their alternatives.
func told(t *testing.T, m *Model, edit func(*Request)) (all []TokenInfo) {
	t.Helper()
	r := request()
	r.Prompt, r.MaxTokens, r.Sampling = "Once upon", 6, m.Defaults
	r.Sampling.Temperature, r.Sampling.LogitBias = 0, map[int32]float32{5: -3} // the model's own distribution is told
	r.IgnoreEOS, r.Logprobs = true, 0
	edit(&r)
	g, err := generate(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for finish := ""; finish == ""; {
		d, err := g.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, finish = append(all, d.Tokens...), d.Finish
	}
	return all
}

// TestAllLogprobs holds that the log probabilities of all tokens, and those of given ones, are what the device reports
// of the likeliest, and are those of a distribution.
func TestAllLogprobs(t *testing.T) {
	m := openMini(t, Options{AllLogprobs: true})
	if !m.Info().AllLogprobs {
		t.Error("the model does not say that there are those of all tokens")
	}
	few := told(t, m, func(r *Request) { r.Logprobs = 20 })
	all := told(t, m, func(r *Request) { r.Logprobs = engine.AllLogprobs })
	wanted := []int32{300, 7, few[0].ID, 7}
	given := told(t, m, func(r *Request) { r.Logprobs, r.LogprobTokens = 3, wanted })
	if len(few) != 6 || len(all) != 6 || len(given) != 6 {
		t.Fatalf("%d, %d and %d tokens; want 6", len(few), len(all), len(given))
	}
	near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-5 }
	for i := range all {
		if len(all[i].Top) != m.Spec.Vocab || all[i].ID != few[i].ID || all[i].Logprob != few[i].Logprob || given[i].ID != few[i].ID {
			t.Fatalf("token %d: %d alternatives of token %d; the vocabulary has %d", i, len(all[i].Top), all[i].ID, m.Spec.Vocab)
		}
		sum, of := 0.0, map[int32]float32{}
		for k, top := range all[i].Top {
			sum += math.Exp(float64(top.Logprob))
			of[top.ID] = top.Logprob
			if k > 0 && top.Logprob > all[i].Top[k-1].Logprob {
				t.Fatalf("token %d: alternative %d is likelier than the one before it", i, k)
			}
		}
		if math.Abs(sum-1) > 1e-4 || !near(of[all[i].ID], all[i].Logprob) {
			t.Errorf("token %d: the probabilities add up to %v", i, sum)
		}
		for _, top := range few[i].Top {
			if !near(of[top.ID], top.Logprob) {
				t.Errorf("token %d: %v of token %d; the device says %v", i, of[top.ID], top.ID, top.Logprob)
			}
		}
		var ids []int32
		for _, top := range given[i].Top {
			ids = append(ids, top.ID)
			if top.Logprob != of[top.ID] {
				t.Errorf("token %d: %v of token %d; among all it is %v", i, top.Logprob, top.ID, of[top.ID])
			}
		}
		if !slices.Equal(ids, wanted) {
			t.Errorf("token %d: alternatives %v; want %v", i, ids, wanted)
		}
	}
}

// TestAllLogprobsInCompany holds that what is told of a token does not depend on who else is computed.
func TestAllLogprobsInCompany(t *testing.T) {
	m := openMini(t, Options{})
	alone := told(t, m, func(r *Request) { r.Logprobs = engine.AllLogprobs })
	for range 5 {
		r := request()
		r.Prompt, r.MaxTokens, r.Sampling, r.IgnoreEOS = "The", 40, m.Defaults, true
		g, err := generate(t.Context(), m, r)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
	}
	beside := told(t, m, func(r *Request) { r.Logprobs = engine.AllLogprobs })
	for i := range alone {
		for k, top := range alone[i].Top {
			if other := beside[i].Top[k]; other.ID != top.ID || other.Logprob != top.Logprob {
				t.Fatalf("token %d, alternative %d: %d %v alone, %d %v in company", i, k, top.ID, top.Logprob, other.ID, other.Logprob)
			}
		}
	}
}
