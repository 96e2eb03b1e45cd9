package gateway

import (
	"context"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/gateway/prompt"
)

// promptsOf opens the tokenizers that a configuration names.
func (g *Gateway) promptsOf(c *Config) (map[string]*prompt.Model, error) {
	all := map[string]*prompt.Model{}
	for i, m := range c.Models {
		if m.Tokenizer == "" || all[m.Tokenizer] != nil {
			continue
		}
		path := fmt.Sprintf("models[%d].tokenizer", i)
		if g.openPrompts == nil {
			return nil, wrong(path, "this program opens no tokenizers")
		}
		p, err := g.openPrompts(m.Tokenizer)
		if err != nil {
			return nil, wrong(path, "%v", err)
		}
		all[m.Tokenizer] = p
	}
	return all, nil
}

// tokenize finds the tokens of the request's prompt, if the model's tokenizer is known and can render it. They are kept
// until another model's are asked for. It returns nil if they are not known.
func (x *exchange) tokenize(ctx context.Context, m *model) []int32 {
	if !slices.Contains(prompt.Paths, x.r.URL.Path) {
		return nil
	}
	x.g.mu.Lock()
	name := m.Tokenizer
	x.g.mu.Unlock()
	if name == x.tokenizer {
		return x.ids
	}
	p := x.g.setup.Load().prompts[name]
	if x.tokenizer, x.ids = name, nil; p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Prefix.RenderTimeout)
	defer cancel()
	if !x.body.light(mostText) {
		return nil
	}
	done, err := x.work(ctx, costPerText)
	if err != nil {
		return nil
	}
	defer done()
	ids, err := p.Tokens(ctx, x.r.URL.Path, x.body.raw)
	if err != nil { // an endpoint may be able to
		x.g.log.Debug("a prompt was not tokenized", "model", m.name, "error", err)
		return nil
	}
	x.ids = ids
	return ids
}
