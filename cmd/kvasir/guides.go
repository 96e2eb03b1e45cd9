package main

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/engine/text"
)

// guideFlags are the settings of tools, reasoning and guided answers; docs/tools.md and docs/grammar.md say what they
// mean.
type guideFlags struct {
	ToolFormat      string `name:"tool-format" help:"How the models write calls of tools: a name of docs/tools.md, none, or auto, which tells it from the chat template." default:"auto" placeholder:"NAME"`
	ReasoningFormat string `name:"reasoning-format" help:"How the models mark their reasoning, likewise." default:"auto" placeholder:"NAME"`
	MaxTools        int    `name:"max-tools" help:"Most tools of a request, up to 1024." default:"128" placeholder:"N"`
	MaxSchema       size   `name:"max-schema" help:"Largest schema, regular expression or grammar, up to 1M." default:"256K"`
	MaxDepth        int    `name:"max-schema-depth" help:"How deep it may be nested." default:"256" placeholder:"N"`
	MaxStates       int    `name:"max-grammar-states" help:"Expressions and states of one guided answer." default:"262144" placeholder:"N"`
	GrammarBytes    size   `name:"grammar-bytes" help:"Memory of what all guided answers find of their grammars, at least 1M. By default 128M, and no more than a sixteenth of the memory." placeholder:"SIZE"`
	MaxWork         int    `name:"max-grammar-work" help:"Work of one token's mask, in steps of about 30 ns, and of compiling." default:"2097152" placeholder:"N"`
}

// apply sets the options.
func (f guideFlags) apply(o *text.Options) error {
	for _, n := range []struct {
		flag        string
		value, most int
	}{
		{"max-tools", f.MaxTools, 1024}, {"max-schema", int(f.MaxSchema), 1 << 20}, {"max-schema-depth", f.MaxDepth, 10000},
		{"max-grammar-states", f.MaxStates, 1 << 26}, {"max-grammar-work", f.MaxWork, 1 << 28},
	} {
		if n.value < 1 || n.value > n.most {
			return usageError{fmt.Sprintf("--%s is %d; want 1 to %d", n.flag, n.value, n.most)}
		}
	}
	if n := f.GrammarBytes; n > 0 && (n < 1<<20 || n > 1<<40) {
		return usageError{fmt.Sprintf("--grammar-bytes is %d; want 1M to 1T", n)}
	}
	o.ToolFormat, o.ReasoningFormat = f.ToolFormat, f.ReasoningFormat
	o.Guide = text.GuideLimits{Tools: f.MaxTools, Found: int64(f.GrammarBytes)}
	g := &o.Guide.Grammar
	g.Bytes, g.Depth, g.States, g.Work, g.Compile = int(f.MaxSchema), f.MaxDepth, f.MaxStates, f.MaxWork, f.MaxWork
	return nil
}
