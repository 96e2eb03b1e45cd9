package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/engine/text"
)

type benchGuidedCmd struct {
	Model  string `arg:"" optional:"" help:"Built-in name, hub name, file or folder; the built-in model if none is given."`
	Dir    string `help:"Take the schemas from files of JSONSchemaBench, evenly spread." type:"existingdir" placeholder:"DIR"`
	Batch  int    `short:"n" help:"Answers at once, each by a schema of its own." default:"16"`
	Each   int    `help:"Answers by each schema in a round." default:"4"`
	Tokens int    `help:"Most tokens of an answer." default:"128"`
	Rounds int    `help:"Rounds to measure." default:"5"`
	JSON   bool   `name:"json" help:"Print a JSON object."`
	shapeFlags
	engineFlags
}

func (benchGuidedCmd) Help() string {
	return `Answers in batches by as many JSON Schemas, and in batches of free answers of the same lengths, in turn, and compares
their speeds.

Examples:
  kvasir bench guided
  kvasir bench guided --shape 125m --quant q8_0
  kvasir bench guided --dir jsonschemabench/data --json`
}

func (c *benchGuidedCmd) Run(ctx context.Context) error {
	name, ckpt, err := c.open(ctx, c.Model)
	if err != nil {
		return err
	}
	m, err := text.Open(ckpt, c.options(name))
	if err != nil {
		return err
	}
	defer m.Close()
	r, err := bench.Guided(ctx, m, bench.GuidedOptions{Dir: c.Dir, Batch: c.Batch, Each: c.Each, Tokens: c.Tokens, Rounds: c.Rounds})
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("%d answers at once, %d tokens a round\nfree    %9.1f tokens/s, %7.1f µs of processors a token\n"+
		"guided  %9.1f tokens/s, %7.1f, %s\n", r.Batch, r.Tokens, r.Free, r.FreeCPU, r.Guided, r.GuidedCPU, percent(r.Share))
	return nil
}
