// Package prompt turns the prompts of requests into tokens, with a model's own tokenizer and chat template, so that a
// gateway knows an engine's blocks of tokens without asking it. It knows no endpoints and no HTTP. Read Model.Tokens
// first.
package prompt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// Model is what is known of a model here. It may be used by several goroutines.
type Model struct {
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template // nil if it has none: then its prompts are plain texts
}

// Paths are those of the requests that Tokens knows.
var Paths = []string{"/v1/chat/completions", "/v1/completions"}

// Tokens returns the tokens of a request's prompt: of the first one if there are several. What it cannot render, such
// as images, is an error. It ends with ctx.
func (m *Model) Tokens(ctx context.Context, path string, body []byte) ([]int32, error) {
	switch path {
	case "/v1/completions":
		return m.completion(ctx, body)
	case "/v1/chat/completions":
		return m.chat(ctx, body)
	}
	return nil, fmt.Errorf("%s has no prompt in a form that is known", path)
}

// skip passes over members that are not of the prompt.
func skip(c *wire.Cursor, _ string) (known bool, err error) {
	_, err = c.Raw()
	return true, err
}

func (m *Model) completion(ctx context.Context, body []byte) ([]int32, error) {
	r, err := openai.DecodeCompletion(body, skip)
	if err != nil {
		return nil, err
	}
	if r.Suffix != nil {
		return nil, errors.New("what surrounds an answer is not rendered")
	}
	first := r.Prompts[0]
	if first.IDs != nil {
		return slices.Concat(first.IDs, r.ContinueTokenIDs), nil
	}
	ids, err := m.encode(ctx, first.Text, r.AddSpecialTokens == nil || *r.AddSpecialTokens)
	return append(ids, r.ContinueTokenIDs...), err
}

func (m *Model) chat(ctx context.Context, body []byte) ([]int32, error) {
	r, err := openai.DecodeChat(body, skip)
	if err != nil {
		return nil, err
	}
	if m.Template == nil || r.ChatTemplate != "" {
		return nil, errors.New("there is no chat template, or the request brings its own")
	}
	in, err := r.Conversation()
	if err != nil {
		return nil, err
	}
	if id, ok := m.Tokenizer.BOS(); ok {
		in.BOS = m.Tokenizer.Token(id)
	}
	if ids := m.Tokenizer.EOS(); len(ids) > 0 {
		in.EOS = m.Tokenizer.Token(ids[0])
	}
	text, err := m.Template.RenderChat(ctx, *in)
	if err != nil {
		return nil, err
	}
	ids, err := m.encode(ctx, text, r.AddSpecialTokens)
	return append(ids, r.ContinueTokenIDs...), err
}

func (m *Model) encode(ctx context.Context, text string, special bool) ([]int32, error) {
	return m.Tokenizer.EncodeContext(ctx, text, tokenizer.EncodeOptions{AddSpecial: special, ParseSpecial: true})
}
