package main

import (
	"context"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model/loader"
)

type debugCmd struct {
	Logits     logitsCmd     `cmd:"" help:"Print the logits of a sequence of tokens."`
	Tokenize   tokenizeCmd   `cmd:"" help:"Print the tokens of a text."`
	Detokenize detokenizeCmd `cmd:"" help:"Print the text of tokens."`
	Render     renderCmd     `cmd:"" help:"Print what a chat template makes of a conversation."`
	Tensors    tensorsCmd    `cmd:"" help:"List the tensors of a checkpoint."`
}

type logitsCmd struct {
	Model string  `short:"m" required:"" help:"Built-in name, hub name, file or folder." placeholder:"NAME"`
	IDs   []int32 `name:"ids" required:"" help:"The tokens, separated by commas." placeholder:"N"`
	Last  int     `help:"Only the last positions; 0 is all." placeholder:"N"`
	JSON  bool    `name:"json" help:"Print JSON: {\"logits\": [[…], …]}, one list for each position."`
	computeFlags
}

func (logitsCmd) Help() string {
	return `Examples:
  kvasir debug logits --model kvasir-mini --ids 1,305,210 --last 1 --json
  kvasir debug logits -m ./model.gguf --ids 1,2,3`
}

func (c *logitsCmd) Run(ctx context.Context) error {
	if len(c.IDs) == 0 {
		return usageError{"--ids is empty; want at least one token"}
	}
	if c.Last < 0 || c.Last > len(c.IDs) {
		return usageError{fmt.Sprintf("--last is %d; want 0 to %d, the number of --ids", c.Last, len(c.IDs))}
	}
	first := 0
	if c.Last > 0 {
		first = len(c.IDs) - c.Last
	}
	out, err := await(ctx, func() ([][]float32, error) { return c.logits(first) })
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(map[string]any{"logits": out})
	}
	for i, row := range out {
		best := 0
		for j, v := range row {
			if v > row[best] {
				best = j
			}
		}
		fmt.Printf("position %d: best token %d with logit %g\n", first+i, best, row[best])
	}
	return nil
}

// logits computes the logits of positions first and after, some hundred tokens at a time.
func (c *logitsCmd) logits(first int) ([][]float32, error) {
	found, err := openLocal(c.Model)
	if err != nil {
		return nil, err
	}
	dev, err := c.openDevice()
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	m, err := loader.Model(found.ckpt, dev, nil)
	if err != nil {
		return nil, err
	}
	const blockTokens, chunk = 16, 256
	blocks := make([]int32, len(c.IDs)/blockTokens+1)
	for i := range blocks {
		blocks[i] = int32(i)
	}
	spec := compute.CacheSpec{Layers: m.Spec.KVLayers()}
	tables := spec.Spread(blocks)
	r, err := m.NewRunner(min(chunk, len(c.IDs)), max(1, len(tables))*len(blocks), blockTokens, 1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out [][]float32
	var b compute.Batch
	for at := 0; at < len(c.IDs); at += chunk {
		part := c.IDs[at:min(at+chunk, len(c.IDs))]
		b.Reset()
		b.Append(part, at, false, tables...)
		b.Seqs[0].Long = m.Spec.Long(len(c.IDs))
		for i := max(first-at, 0); i < len(part); i++ {
			b.Logits = append(b.Logits, int32(i))
		}
		if err := r.Forward(&b); err != nil {
			return nil, err
		}
		for i := range b.Logits {
			out = append(out, append([]float32(nil), r.Logits(i)...))
		}
	}
	return out, nil
}

type tensorsCmd struct {
	Path string `arg:"" help:"Built-in name, hub name, file or folder."`
	JSON bool   `name:"json" help:"Print JSON, one object in a list for each tensor."`
}

func (tensorsCmd) Help() string {
	return `Offset and size are bytes of the file.

Examples:
  kvasir debug tensors ./model.gguf
  kvasir debug tensors kvasir-mini --json`
}

func (c *tensorsCmd) Run() error {
	found, err := openLocal(c.Path)
	if err != nil {
		return err
	}
	type row struct {
		Name   string `json:"name"`
		Type   string `json:"type"`
		Shape  []int  `json:"shape"`
		File   string `json:"file"`
		Offset int64  `json:"offset"`
		Size   int64  `json:"size"`
	}
	rows := []row{}
	for _, t := range found.ckpt.Tensors() {
		rows = append(rows, row{t.Name, t.Type.String(), append([]int{}, t.Shape...), t.File, t.Offset, t.Size})
	}
	if c.JSON {
		return printJSON(rows)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tTYPE\tSHAPE\tOFFSET\tSIZE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%d\n", r.Name, r.Type, r.Shape, r.Offset, r.Size)
	}
	return w.Flush()
}
