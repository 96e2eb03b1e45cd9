package text

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/sampling"
)

// guidedRequests are answers of every kind of form, greedy and drawn, with and without log probabilities, by the model
// and by two adapters.
func guidedRequests() (all []Request) {
	schema := []byte(`{"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items":
		{"enum": ["red", "green"]}}}, "required": ["name", "tags"], "additionalProperties": false}`)
	for n := range 12 {
		r := asking(fmt.Sprintf("Tell me a story about animal number %d.", n))
		switch n % 4 {
		case 0:
			r.Answer.Form = &Form{Spec: grammar.Spec{Schema: schema, Compact: true, Ordered: true}, Field: "form"}
		case 1:
			r.Answer.Form = &Form{Spec: grammar.Spec{Regex: "(once|then) [a-z ]{5,30}\\."}, Field: "form"}
		case 2:
			r = withTools(r, ToolChoice{Required: true}, true)
		}
		r.MaxTokens = 40 + 3*n
		r.Sampling = sampling.Defaults()
		if r.Sampling.Seed = uint64(n); n%3 == 0 {
			r.Sampling.Temperature = 0
		}
		if n%2 == 0 {
			r.Logprobs = 2
		}
		r.Adapter = []string{"", "pirate", "json", "", "pirate"}[n%5]
		all = append(all, r)
	}
	return all
}

// said is an answer with its tokens and what the model thought of them.
type said struct {
	whole string
	ids   []int32
	logs  []float32
}

func (a said) equal(b said) bool {
	return a.whole == b.whole && slices.Equal(a.ids, b.ids) && slices.Equal(a.logs, b.logs)
}

func listen(t *testing.T, g *Generation) (a said) {
	defer g.Close()
	for {
		d, err := g.Next(t.Context())
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			return a
		}
		a.whole += d.Text + d.Reasoning
		for _, e := range d.Calls {
			a.whole += e.Text
		}
		a.ids = append(a.ids, d.IDs...)
		for _, x := range d.Tokens {
			a.logs = append(a.logs, x.Logprob)
		}
	}
}

// TestGuidedCompany makes sure that guided answers are the same, token by token, alone and beside others, two to a
// prompt, with adapters, in chunks, with a warm cache and after preemption.
func TestGuidedCompany(t *testing.T) {
	requests := guidedRequests()
	var want [][]said
	alone := openMini(t, Options{MaxSeqs: 1, Adapters: adapterFiles, MaxLoRAs: 1})
	for _, r := range requests {
		p, err := alone.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var both []said
		for range 2 {
			g, err := alone.Generate(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, listen(t, g))
		}
		want = append(want, both)
	}
	crowd := openMini(t, Options{MaxSeqs: 24, MaxChunk: 7, Context: 208, KVBytes: 832 << 10,
		Adapters: adapterFiles, MaxLoRAs: 2})
	preempted := func() bool { return crowd.Engine.Report().Preemptions > 0 }
	for round := 0; round < 2 || round < 12 && !preempted(); round++ { // the second finds prompts in the cache
		got := make([][2]said, len(requests))
		var all sync.WaitGroup
		for i, r := range requests {
			p, err := crowd.Prepare(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for k := range 2 {
				g, err := crowd.Generate(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() { got[i][k] = listen(t, g) })
			}
		}
		all.Wait()
		for i := range requests {
			for k := range 2 {
				if !got[i][k].equal(want[i][k]) {
					t.Errorf("round %d, request %d, answer %d: %q in company; %q alone", round, i, k, got[i][k].whole, want[i][k].whole)
				}
			}
		}
	}
	if !preempted() {
		t.Error("nothing was preempted")
	}
}
