package bench

import (
	"context"
	"errors"
	"io"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// InProcess is a model in this process, as a Target: the engine without HTTP. Prompts are tokens: messages are
// concatenated without the model's chat template. Answers have exactly the wanted length.
type InProcess struct {
	Model       *text.Model
	Temperature float32
}

// Answer implements Target.
func (t InProcess) Answer(ctx context.Context, conversation []Message, output int, piece func()) (Answer, error) {
	encode := func(s string) []int32 { return t.Model.Tokenizer.Encode(s, tokenizer.EncodeOptions{}) }
	var ids []int32
	for _, m := range conversation {
		for _, p := range m.Parts {
			ids = p.appendIDs(ids, t.Model.Spec.Vocab, encode)
		}
	}
	params := sampling.Defaults()
	params.Temperature = t.Temperature
	stream, err := t.Model.Engine.Submit(ctx, engine.Request{
		Prompt: ids, Params: engine.Params{Sampling: params, MaxTokens: output, Logprobs: -1, PromptLogprobs: -1},
	})
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Prompt: len(ids)}
	for {
		token, err := stream.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			a.Generated, a.Cached = len(a.Said.IDs), stream.Cached()
			return a, nil
		case err != nil:
			return a, err
		case token.Err != nil:
			return a, token.Err
		}
		piece()
		a.Said.IDs = append(a.Said.IDs, token.ID)
	}
}

func (t InProcess) kv(context.Context) (kv, bool) {
	s := t.Model.Engine.Stats()
	return kv{float64(s.Held), float64(s.Unfilled)}, true
}
