package bench

import (
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// TestGrammarSample follows the outputs of the sample of JSONSchemaBench: those that fit are taken, the others refused.
func TestGrammarSample(t *testing.T) {
	dir := reference.Path(t, "schemas", "jsonschemabench-sample")
	tok, err := tokenizer.Load(reference.Path(t, "tokenizers", "llama-3", "tokenizer.model"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Grammar(dir, tok)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range r.Wrong {
		t.Error(line)
	}
	// llguidance compiles 631 of these files (llguidance_expected_maskbench.json).
	if r.Compiled < 631 || r.Compiled+r.Refused != r.Schemas {
		t.Errorf("%d of %d schemas compile, and %d are refused; want at least 631, and no others", r.Compiled, r.Schemas, r.Refused)
	}
	t.Logf("%+v", r.MaskUS)
}

// TestForced holds the tokens that are forced to those that the tokenizer writes for the whole output.
func TestForced(t *testing.T) {
	tok, err := tokenizer.Load(reference.Path(t, "tokenizers", "llama-3", "tokenizer.model"))
	if err != nil {
		t.Fatal(err)
	}
	v := Vocab(tok)
	schema := `{"type": "object", "properties": {"first_name": {"enum": ["Ada Lovelace"]}, "height_in_metres": {"type": "number"},
		"kind": {"const": "person of interest"}}, "required": ["first_name", "height_in_metres", "kind"], "additionalProperties": false}`
	g, err := grammar.Compile(grammar.Spec{Schema: []byte(schema), Compact: true, Ordered: true}, v, grammar.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(`{"first_name":"Ada Lovelace","height_in_metres":1.7,"kind":"person of interest"}`, tokenizer.EncodeOptions{})
	m := g.Start()
	forced := 0
	for i := 0; i < len(ids); {
		next := m.Forced()
		if len(next) == 0 {
			next = ids[i : i+1]
		} else {
			forced += len(next)
		}
		if i+len(next) > len(ids) || !slices.Equal(next, ids[i:i+len(next)]) {
			t.Fatalf("after %q: %q is forced; the tokenizer writes %q", tok.Decode(ids[:i], false), tok.Decode(next, false), tok.Decode(ids[i:], false))
		}
		for _, id := range next {
			if err := m.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
		i += len(next)
	}
	if !m.Complete() || forced < len(ids)/2 {
		t.Errorf("%d of %d tokens were forced, complete is %v; want at least half", forced, len(ids), m.Complete())
	}
}
