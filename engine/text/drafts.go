package text

import (
	"context"
	"fmt"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/named"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// What guesses tokens ahead.
const (
	draftNone   = "none"
	draftLookup = "lookup"
)

var drafts = named.Plain(
	named.Value[string]{Is: draftNone, Help: "only what a request gives as its prediction"},
	named.Value[string]{Is: draftLookup, Help: "what came before in the prompt and the answer comes again"},
)

// Drafts returns the names that Options.Drafts takes, the default first.
func Drafts() []string { return drafts.Names() }

// checkDrafts refuses settings of drafts that cannot be meant.
func (o *Options) checkDrafts() error {
	if _, err := drafts.Find("text: drafts", o.Drafts); err != nil {
		return err
	}
	if o.DraftTokens < 0 || o.DraftTokens > engine.MaxDraft {
		return fmt.Errorf("text: draft-tokens is %d; want 1 to %d, or 0 for %d", o.DraftTokens, engine.MaxDraft, engine.MostDraft)
	}
	return nil
}

// drafted refuses drafts for a model that has no use for them.
func (o *Options) drafted(s *model.Spec) error {
	switch why := draftless(s); {
	case why == "":
	case o.Draft != nil:
		return fmt.Errorf("text: there is a draft-model, but %s %s", o.Name, why)
	case o.Drafts == draftLookup:
		return fmt.Errorf("text: drafts is %q, but %s %s", o.Drafts, o.Name, why)
	}
	return nil
}

// draftless returns why no tokens can be guessed ahead for a model, "" if they can.
func draftless(s *model.Spec) string {
	switch {
	case !s.Generates():
		return "generates nothing"
	case s.Recurrent():
		return "has recurrent layers, whose state cannot go back to before a wrong guess"
	}
	return ""
}

// drafts says what guesses.
func (m *Model) drafts(o *Options) engine.Drafts {
	d := engine.Drafts{Lookup: o.Drafts == draftLookup, Most: o.DraftTokens, Always: o.DraftAlways}
	if m.draft != nil {
		d.Drafter = m.draft.guess
	}
	return d
}

// predict puts the tokens of a request's prediction into it.
func (m *Model) predict(ctx context.Context, r *Request) error {
	if r.Prediction == "" {
		return nil
	}
	if why := draftless(m.Spec); why != "" {
		return fault.New(engine.FieldPrediction, "is of no use: %s %s", m.Name, why)
	}
	if n := len(r.Prediction); n > m.mostBytes() {
		return m.tooLong(engine.FieldPrediction, n)
	}
	release, err := m.work.Acquire(ctx, costPerByte*int64(len(r.Prediction)))
	if err != nil {
		return err
	}
	defer release()
	r.Params.Prediction, err = m.encode(ctx, engine.FieldPrediction, r.Prediction, tokenizer.EncodeOptions{})
	r.Prediction = ""
	return err
}
