package text

import (
	"context"

	"github.com/kvasir-llm/kvasir/engine"
)

// Search returns the answers of a beam search, Params.Search, the best first and whole. It ends early when ctx does.
func (m *Model) Search(ctx context.Context, p *Prompt) ([]Delta, error) {
	g, err := m.Generate(ctx, p)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	last, err := g.stream.Next(ctx)
	if err == nil {
		err = last.Err
	}
	if err != nil {
		return nil, err
	}
	var out []Delta
	for _, h := range g.stream.Best() {
		one := *g
		one.decoder, one.stop = m.Tokenizer.Decoder(!g.keep), newStopper(p.Request.Stop, p.Request.IncludeStop)
		var d Delta
		tokens := h.Tokens()
		for i, c := range tokens {
			t := engine.Token{ID: c.Token, Logprob: c.Logprob, Top: c.Top[:min(max(p.Request.Logprobs, 0), len(c.Top))]}
			switch {
			case i < len(tokens)-1:
			case h.Ended:
				t.Finish = engine.FinishStop
			default:
				t.Finish = engine.FinishLength
			}
			one.take(&d, t)
		}
		d.Usage = one.usage
		out = append(out, d)
	}
	return out, nil
}
