package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/engine/text"
)

type benchDraftsCmd struct {
	Model   string    `arg:"" optional:"" help:"Built-in name, hub name, file or folder; the built-in model if none is given."`
	Batch   []natural `short:"n" help:"Answers at once." default:"1,4,16"`
	Changed []float64 `help:"Shares of an answer's tokens at which its prediction differs." default:"0,0.05,0.2,1"`
	Prompt  int       `help:"Tokens of each prompt." default:"128"`
	Tokens  int       `help:"Tokens of each answer." default:"200"`
	Rounds  int       `help:"Rounds with predictions, and as many without." default:"5"`
	Always  bool      `help:"Verify all that is predicted, also what costs more time than it brings."`
	JSON    bool      `name:"json" help:"Print a JSON array of rows."`
	shapeFlags
	draftFlags
	engineFlags
}

func (benchDraftsCmd) Help() string {
	return `Makes the same answers with predictions that are right but for some changes, as for an edited text, and without, in turn,
and compares the speeds. It fails if an answer is not the same.

Examples:
  kvasir bench drafts
  kvasir bench drafts --shape 1.1b --batch 1 --changed 0.05
  kvasir bench drafts --shape 1.1b --draft-tokens 8 --json`
}

func (c *benchDraftsCmd) Run(ctx context.Context) error {
	name, ckpt, err := c.open(ctx, c.Model)
	if err != nil {
		return err
	}
	o := c.options(name)
	if err := c.draftFlags.openDraft(ctx, &o); err != nil {
		return err
	}
	o.DraftAlways = c.Always
	m, err := text.Open(ckpt, o)
	if err != nil {
		return err
	}
	defer m.Close()
	var rows []*bench.DraftReport
	if !c.JSON {
		fmt.Printf("%s on %s\n\n| answers at once | changed | tokens/s without | with | times | slowest..fastest | processors, µs/token without | with | accepted of proposed |\n|-:|-:|-:|-:|-:|-:|-:|-:|-:|\n", m.Name, m.Device)
	}
	for _, n := range c.Batch {
		for _, changed := range c.Changed {
			r, err := bench.MeasureDrafts(ctx, m.Engine, m.Spec.Vocab, bench.DraftOptions{
				Batch: int(n), Prompt: c.Prompt, Tokens: c.Tokens, Changed: changed, Rounds: c.Rounds,
			})
			if err != nil {
				return err
			}
			if rows = append(rows, r); !c.JSON {
				fmt.Printf("| %d | %s | %.1f | %.1f | %.2f | %.2f..%.2f | %.0f | %.0f | %d of %d |\n", r.Batch, percent(r.Changed), r.Without, r.With, r.Times, r.Slowest, r.Fastest, r.WithoutCPU, r.WithCPU, r.Accepted, r.Proposed)
			}
		}
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(rows)
	}
	return nil
}
