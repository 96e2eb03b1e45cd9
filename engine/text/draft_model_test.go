package text

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/weights"
)

// openDrafted opens the built-in model with one that guesses for it.
func openDrafted(t *testing.T, draft *weights.Checkpoint, change func(*Options)) (*Model, error) {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	o := Options{Name: builtin.Name, Context: 512, KVBytes: 64 << 20, MaxSeqs: 8, Draft: draft, DraftAlways: true}
	if change != nil {
		change(&o)
	}
	return Open(ckpt, o)
}

// answers are the tokens of some answers that are made at once, greedy and sampled ones, of the built-in model.
func answers(t *testing.T, m *Model, prompts ...string) (all [][]int32) {
	t.Helper()
	var streams []*Generation
	for n, prompt := range prompts {
		r := Request{Prompt: prompt, Params: engine.Params{Sampling: sampling.Defaults(), MaxTokens: 60, Logprobs: n%2 - 1, PromptLogprobs: -1}}
		r.Sampling.Seed, r.Sampling.Temperature = uint64(n), float32(n%3)/2
		p, err := m.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Generate(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, g)
	}
	for _, g := range streams {
		var ids []int32
		for {
			d, err := g.Next(t.Context())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, d.IDs...)
		}
		all = append(all, ids)
	}
	return all
}

// TestDraftModel lets the built-in model guess for itself, so that every greedy guess is right: answers are the same
// as without, also after the model slept, and with a place for one sequence that is too small for them all.
func TestDraftModel(t *testing.T) {
	// The first and the fourth answer are greedy.
	prompts := []string{"<|im_start|>user\nWhat is a KV cache?<|im_end|>\n<|im_start|>assistant\n", "A prefix cache", "Tokens are", "<|im_start|>user\nWhat is a GPU?<|im_end|>\n<|im_start|>assistant\n", "How", "What does the scheduler of kvasir do when there are too few blocks?" + strings.Repeat(" And then?", 60)}
	plain, err := openDrafted(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	want := answers(t, plain, prompts...)
	if n := plain.Engine.Report().Drafts; n.Proposed > 0 {
		t.Errorf("without drafts: %+v", n)
	}
	own, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	m, err := openDrafted(t, own, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Bytes != 2*plain.Bytes {
		t.Errorf("two equal models take %d bytes; one takes %d", m.Bytes, plain.Bytes)
	}
	check := func(when string) {
		t.Helper()
		before := m.Engine.Report().Drafts
		for n, got := range answers(t, m, prompts...) {
			if !slices.Equal(got, want[n]) {
				t.Errorf("%s, answer %d: %v; want %v", when, n, got, want[n])
			}
		}
		after := m.Engine.Report().Drafts
		if proposed, right := after.Proposed-before.Proposed, after.Accepted-before.Accepted; right < 80 || right == proposed {
			t.Errorf("%s: %d of %d guesses were right", when, right, proposed)
		}
	}
	check("at first")
	before := m.Engine.Report().Drafts.Accepted
	answers(t, m, prompts[0])
	if right := m.Engine.Report().Drafts.Accepted - before; len(want[0]) < 30 || right < uint64(len(want[0])*8/10) {
		t.Errorf("a greedy answer has %d tokens, of which %d were guessed", len(want[0]), right)
	}
	for _, level := range []engine.SleepLevel{engine.SleepOnHost, engine.SleepOnDisk} {
		if err := m.Engine.Sleep(t.Context(), level, engine.SleepWait); err != nil {
			t.Fatal(err)
		}
		if err := m.Engine.Wake(t.Context(), true, true); err != nil {
			t.Fatal(err)
		}
		check("after it slept")
	}
}

// TestDraftsRefused holds that drafts are refused where they make no sense, with the reason.
func TestDraftsRefused(t *testing.T) {
	other, err := weights.Open(reference.Path(t, "weights", "stories260K"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := openDrafted(t, other, nil); err == nil || !strings.Contains(err.Error(), "draft-model: its tokenizer") {
		t.Errorf("a draft model with another tokenizer: %v", err)
	}
	for want, change := range map[string]func(*Options){
		`drafts is "all"; want one of none, lookup`: func(o *Options) { o.Drafts = "all" },
		"draft-tokens is 65; want 1 to 64":          func(o *Options) { o.DraftTokens = 65 },
	} {
		if _, err := openDrafted(t, nil, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	for want, folder := range map[string]string{"recurrent layers": "goldens/qwen3_next_heads", "generates nothing": "encoders/bert"} {
		ckpt, err := weights.Open(filepath.Join("..", "..", "model", "testdata", folder, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer ckpt.Close()
		spec, err := family.Read(ckpt)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []Options{{Drafts: "lookup"}, {Draft: ckpt}} {
			if err := o.drafted(spec); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %s", err, want)
			}
		}
		m := &Model{Spec: spec}
		if err := m.predict(t.Context(), &Request{Prediction: "x"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a prediction: %v; want %s", err, want)
		}
	}
}
