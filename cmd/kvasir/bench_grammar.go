package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

type benchGrammarCmd struct {
	Dir       string `required:"" help:"Files of JSONSchemaBench: a schema, and outputs that fit it or not." type:"existingdir" placeholder:"DIR"`
	Tokenizer string `required:"" help:"The tokenizer: a file, or the folder of a model." type:"path" placeholder:"PATH"`
	JSON      bool   `name:"json" help:"Print a JSON object."`
	Verbose   bool   `short:"v" help:"Print every schema that is refused, and every output that is taken or refused wrongly."`
}

func (benchGrammarCmd) Help() string {
	return `Compiles a folder of JSON Schemas, follows the outputs beside them token by token, and says how long masks took and whether
the right outputs were taken. It computes on one core.

Examples:
  kvasir bench grammar --dir jsonschemabench/data --tokenizer llama-3/tokenizer.model
  kvasir bench grammar --dir jsonschemabench/data --tokenizer llama-3/tokenizer.model --json`
}

func (c *benchGrammarCmd) Run() error {
	t, err := tokenizer.Load(c.Tokenizer)
	if err != nil {
		return err
	}
	r, err := bench.Grammar(c.Dir, t)
	if err != nil {
		return err
	}
	if c.Verbose {
		for file, why := range r.Reasons {
			fmt.Fprintf(os.Stderr, "%s: %s\n", file, why)
		}
		for _, line := range append(r.Wrong, "slowest: "+r.Slowest) {
			fmt.Fprintln(os.Stderr, line)
		}
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("schemas   %8d, %d compiled, %d refused\n", r.Schemas, r.Compiled, r.Refused)
	fmt.Printf("outputs   %8d invalid ones taken, %d valid ones refused\n", r.InvalidAccepted, r.ValidRefused)
	fmt.Printf("mask      %8.1f µs mean, %.1f µs p99\n", r.MaskUS.Mean, r.MaskUS.P99)
	fmt.Printf("compiling %8.2f ms median, %.2f ms p99\n", r.CompileMS.P50, r.CompileMS.P99)
	return nil
}
