package text

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// Generation is an answer being made. It is used by one goroutine.
type Generation struct {
	m       *Model
	ids     []int32
	stream  *engine.Stream
	cancel  context.CancelFunc
	decoder *tokenizer.Decoder
	stop    stopper
	stops   []int32 // tokens that ended the answer are not shown
	keep    bool    // show special tokens
	logs    bool
	min     int // stop strings do not count before that many tokens
	usage   Usage
	ended   bool
}

// Generate begins an answer. It ends early when ctx does, or by Close, and frees what it held at once. A request that
// cannot be served is a *RequestError.
func (m *Model) Generate(ctx context.Context, r Request) (*Generation, error) {
	if m.Spec.Encoder {
		return nil, &RequestError{"model", fmt.Sprintf("%s is an encoder, which generates nothing; it %s", m.Name, m.Purpose())}
	}
	ids, err := m.Encode(r)
	if err != nil {
		return nil, err
	}
	if slices.Contains(r.Stop, "") {
		return nil, &RequestError{"stop", "a stop string is empty"}
	}
	g := &Generation{m: m, ids: ids, keep: r.KeepSpecial, logs: r.Logprobs >= 0, min: r.MinTokens}
	g.stops = r.StopTokens
	if !r.IgnoreEOS {
		g.stops = append(slices.Clone(m.stops), r.StopTokens...)
	}
	g.decoder = m.Tokenizer.Decoder(!r.KeepSpecial)
	g.stop = stopper{stops: r.Stop, include: r.IncludeStop}
	g.usage.Prompt = len(ids)
	ctx, g.cancel = context.WithCancel(ctx)
	var parent *engine.Stream
	if r.Parent != nil {
		parent = r.Parent.stream
	}
	g.stream, err = m.Engine.Submit(ctx, engine.Request{
		Prompt: ids, Params: r.Params, MaxTokens: r.MaxTokens, MinTokens: r.MinTokens, StopTokens: g.stops,
		Logprobs: r.Logprobs, PromptLogprobs: r.PromptLogprobs, Parent: parent, Search: r.Search, Adapter: r.Adapter, Salt: r.Salt, Keep: r.Keep,
		Priority: r.Priority, Tenant: r.Tenant, FirstToken: r.FirstToken, PerToken: r.PerToken, Timeout: r.Timeout,
	})
	if err != nil {
		g.cancel()
		return nil, blame(err)
	}
	return g, nil
}

// blame makes a fault of the request a *RequestError.
func blame(err error) error {
	var p *sampling.ParamError
	if errors.As(err, &p) {
		return &RequestError{p.Field, p.Problem}
	}
	return err
}

// Encode returns the tokens of a request's prompt.
func (m *Model) Encode(r Request) ([]int32, error) {
	switch {
	case r.Chat != nil:
		prompt, err := m.Render(r)
		if err != nil {
			return nil, err
		}
		r.Prompt, r.NoSpecial = prompt, true
	case r.IDs != nil:
		for _, id := range r.IDs {
			if id < 0 || int(id) >= m.Spec.Vocab {
				return nil, &RequestError{"prompt", fmt.Sprintf("token %d is outside the vocabulary of %d", id, m.Spec.Vocab)}
			}
		}
		return r.IDs, nil
	}
	if most := m.Context * m.longest; len(r.Prompt) > most {
		field := "prompt"
		if r.Chat != nil {
			field = "messages"
		}
		return nil, &RequestError{field, fmt.Sprintf("%d bytes are more than %d tokens can hold; the context has %d", len(r.Prompt), m.Context, m.Context)}
	}
	ids := m.Tokenizer.Encode(r.Prompt, tokenizer.EncodeOptions{AddSpecial: !r.NoSpecial, ParseSpecial: true})
	if len(ids) == 0 {
		return nil, &RequestError{"prompt", "it is empty"}
	}
	return ids, nil
}

// Render returns the prompt that the model's chat template makes of a conversation.
func (m *Model) Render(r Request) (string, error) {
	if m.Template == nil {
		return "", &RequestError{"messages", fmt.Sprintf("%s has no chat template; use completions", m.Name)}
	}
	in := *r.Chat
	if id, ok := m.Tokenizer.BOS(); ok {
		in.BOS = m.Tokenizer.Token(id)
	}
	if ids := m.Tokenizer.EOS(); len(ids) > 0 {
		in.EOS = m.Tokenizer.Token(ids[0])
	}
	prompt, err := m.Template.RenderChat(in)
	if err != nil {
		return "", &RequestError{"messages", err.Error()}
	}
	return prompt, nil
}

// Prompt returns the prompt's tokens. Once the first Delta has come they have log probabilities, all but the first, if
// they were asked for.
func (g *Generation) Prompt() []TokenInfo {
	out := make([]TokenInfo, len(g.ids))
	choices := g.stream.Prompt()
	for i, id := range g.ids {
		out[i] = TokenInfo{ID: id, Bytes: g.m.Tokenizer.Bytes(id)}
		if i < len(choices) && i > 0 {
			out[i] = g.info(choices[i])
		}
	}
	return out
}

// Next returns the next piece of the answer, io.EOF after the last. Pieces are as short as they can be.
func (g *Generation) Next(ctx context.Context) (Delta, error) {
	var d Delta
	if g.ended {
		return d, io.EOF
	}
	for d.Text == "" && d.Finish == "" {
		t, err := g.stream.Next(ctx)
		if err != nil {
			g.end()
			return d, err
		}
		if t.Err != nil {
			g.end()
			return d, t.Err
		}
		g.take(&d, t)
	}
	d.Usage = g.usage
	return d, nil
}

// take adds one token of the engine to d.
func (g *Generation) take(d *Delta, t engine.Token) {
	g.usage.Cached = g.stream.Cached()
	g.usage.Generated++
	d.IDs = append(d.IDs, t.ID)
	if g.logs {
		d.Tokens = append(d.Tokens, g.info(t))
	}
	last := t.Finish != ""
	piece := ""
	if ends := last && slices.Contains(g.stops, t.ID); !ends || g.keep {
		piece = g.decoder.Next(t.ID)
	}
	if last {
		piece += g.decoder.Flush()
	}
	show, found := piece, false
	if g.usage.Generated >= g.min {
		show, found = g.stop.push(piece)
	}
	d.Text += show
	switch {
	case found:
		d.Finish = "stop"
		g.stream.Stop()
	case last:
		d.Text += g.stop.flush()
		d.Finish = string(t.Finish)
	}
	if d.Finish != "" {
		g.end()
	}
}

func (g *Generation) info(from engine.Token) TokenInfo {
	t := TokenInfo{ID: from.ID, Bytes: g.m.Tokenizer.Bytes(from.ID), Logprob: from.Logprob}
	for _, top := range from.Top {
		t.Top = append(t.Top, TokenInfo{ID: top.Token, Bytes: g.m.Tokenizer.Bytes(top.Token), Logprob: top.Logprob})
	}
	return t
}

func (g *Generation) end() {
	g.ended = true
	g.cancel()
}

// Close ends the answer, if it has not ended, and frees what it held.
func (g *Generation) Close() { g.end() }
