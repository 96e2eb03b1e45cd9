package text

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
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
	all     bool // log probabilities of all tokens
	min     int  // stop strings do not count before that many tokens
	parser  *chat.Parser
	called  bool // the answer has calls of tools
	usage   Usage
	ended   bool
	early   *Delta // the end, if what was generated before it had come to one
}

// Generate begins an answer to a prompt, of which there may be several: each draws with a seed of its own, the
// request's and those that follow it, and shares what it can of the first one's KV cache. It ends early when ctx does,
// or by Close, and frees what it held at once. Errors are those of engine.Engine.Submit, but for faults: Prepare has
// found them.
func (m *Model) Generate(ctx context.Context, p *Prompt) (*Generation, error) {
	r := &p.Request
	g := &Generation{m: m, ids: p.IDs, keep: r.KeepSpecial, logs: r.Logprobs >= 0,
		all: r.Logprobs == engine.AllLogprobs && len(r.LogprobTokens) == 0, min: r.MinTokens, stops: p.stops}
	g.decoder = m.Tokenizer.Decoder(!r.KeepSpecial && p.parser == nil)
	if p.parser != nil {
		g.parser = chat.NewParser(*p.parser)
	}
	g.stop = newStopper(r.Stop, r.IncludeStop)
	g.usage.Prompt = len(p.IDs)
	ctx, g.cancel = context.WithCancel(ctx)
	var err error
	if g.stream, err = p.prepared.Submit(ctx); err != nil {
		g.cancel()
		return nil, err
	}
	for _, id := range r.Begun { // whose text was shown before
		var d Delta
		if g.take(&d, engine.Token{ID: id}); d.Finish != "" {
			g.early = &Delta{Finish: d.Finish, Stop: d.Stop, Usage: g.usage}
			break
		}
	}
	return g, nil
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

// Times returns when the request came to what it came to. They are known with the first Delta.
func (g *Generation) Times() engine.Times { return g.stream.Times() }

// Next returns the next piece of the answer, io.EOF after the last. Pieces are as short as they can be.
func (g *Generation) Next(ctx context.Context) (Delta, error) {
	var d Delta
	if g.early != nil {
		d, g.early = *g.early, nil
		return d, nil
	}
	if g.ended {
		return d, io.EOF
	}
	for d.Text == "" && d.Reasoning == "" && len(d.Calls) == 0 && d.Finish == "" {
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
	if proposed, right := g.stream.Guessed(); proposed > 0 {
		g.usage.Accepted, g.usage.Rejected = right, proposed-right
	}
	d.IDs = append(d.IDs, t.ID)
	if g.logs {
		d.Tokens = append(d.Tokens, g.info(t))
	}
	last := t.Finish != ""
	piece := ""
	if ends := last && slices.Contains(g.stops, t.ID); g.keep || !ends && !g.hidden(t.ID) {
		piece = g.decoder.Next(t.ID)
	}
	if last {
		piece += g.decoder.Flush()
	}
	show, found := piece, false
	if g.usage.Generated >= g.min {
		show, found = g.stop.push(piece)
	}
	switch {
	case found:
		d.Finish, d.Stop = "stop", g.stop.found
		g.stream.Stop()
	case last:
		show += g.stop.flush()
		d.Finish = string(t.Finish)
	}
	g.show(d, show)
	if d.Finish != "" {
		g.end()
	}
}

// hidden reports whether a special token is no part of the text.
func (g *Generation) hidden(id int32) bool {
	return g.parser != nil && g.m.Tokenizer.IsSpecial(id) && !g.m.shown[id]
}

// show adds a piece of the model's text to d, as what it is.
func (g *Generation) show(d *Delta, piece string) {
	if g.parser == nil {
		d.Text += piece
		return
	}
	thinking := g.parser.Thinking()
	g.split(d, g.parser.Push(piece))
	if thinking || g.parser.Thinking() {
		g.usage.Reasoning++
	}
	if d.Finish == "" && g.parser.Done() {
		d.Finish = "stop"
		g.stream.Stop()
	}
	if d.Finish != "" {
		g.split(d, g.parser.Close())
	}
	if d.Finish == "stop" && g.called {
		d.Finish = FinishCalls
	}
}

// FinishCalls is the Finish of an answer that calls tools.
const FinishCalls = "tool_calls"

func (g *Generation) split(d *Delta, events []chat.Event) {
	for _, e := range events {
		switch e.Kind {
		case chat.Content:
			d.Text += e.Text
		case chat.Reasoning:
			d.Reasoning += e.Text
		default:
			g.called = true
			d.Calls = append(d.Calls, e)
		}
	}
}

func (g *Generation) info(from engine.Token) TokenInfo {
	t := TokenInfo{ID: from.ID, Bytes: g.m.Tokenizer.Bytes(from.ID), Logprob: from.Logprob, Rank: int(from.Rank), Origin: from.Origin}
	if g.all {
		slices.SortStableFunc(from.Top, func(a, b compute.Candidate) int { return cmp.Compare(b.Logprob, a.Logprob) })
	}
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
