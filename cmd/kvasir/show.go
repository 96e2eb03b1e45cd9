package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/weights"
)

type showCmd struct {
	Model    string `arg:"" optional:"" help:"Built-in name, hub name, file or folder; the built-in model if none is given."`
	Template bool   `help:"Print the chat template and nothing else."`
	JSON     bool   `name:"json" help:"Print JSON."`
}

func (showCmd) Help() string {
	return `Examples:
  kvasir show
  kvasir show ./model.gguf --json
  kvasir show kvasir-mini --template`
}

// shown is what kvasir show tells of a model.
type shown struct {
	Name       string         `json:"name"`
	Format     string         `json:"format"`
	Family     string         `json:"family"`
	Purpose    string         `json:"purpose"`
	Parameters int64          `json:"parameters"`
	Bytes      int64          `json:"bytes"`
	Types      map[string]int `json:"tensor_types"`
	Quantized  string         `json:"quantization"`
	Vocab      int            `json:"vocab_size"`
	Hidden     int            `json:"hidden_size"`
	Layers     int            `json:"layers"`
	Heads      int            `json:"heads"`
	KVHeads    int            `json:"kv_heads"`
	HeadDim    int            `json:"head_dim"`
	FFN        int            `json:"feed_forward_size"`
	Context    int            `json:"context"`
	Window     int            `json:"sliding_window,omitempty"`
	KVToken    int64          `json:"kv_bytes_per_token"`
	Tokenizer  string         `json:"tokenizer"`
	Tied       bool           `json:"tied_embeddings"`
	Template   string         `json:"chat_template"`
}

func (c *showCmd) Run() error {
	found, err := openLocal(c.Model)
	if err != nil {
		return err
	}
	if c.Template {
		source, err := text.TemplateSource(found.ckpt)
		if err == nil && source == "" {
			err = fmt.Errorf("%s has no chat template", found.name)
		}
		if err == nil {
			fmt.Println(source)
		}
		return err
	}
	s, err := describe(found.name, found.ckpt)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s)
	}
	s.print()
	return nil
}

// outline says what a checkpoint holds, but for its tokenizer, which takes a while to read.
func outline(name string, ckpt *weights.Checkpoint) (shown, error) {
	spec, err := family.Read(ckpt)
	if err != nil {
		return shown{}, err
	}
	a := spec.Attention()
	s := shown{
		Name: name, Format: string(ckpt.Format()), Family: spec.Family, Bytes: ckpt.Size(), Types: map[string]int{},
		Quantized: spec.Quantization.String(),
		Vocab:     spec.Vocab, Hidden: spec.Hidden, Layers: len(spec.Layers), Heads: a.Heads, KVHeads: a.KVHeads,
		HeadDim: a.HeadDim, FFN: spec.Layers[0].FFN.Width, Context: spec.Context, Window: a.Window, KVToken: spec.KVTokenBytes(),
		Purpose: text.Purpose(spec), Tied: spec.TiedHead,
	}
	for _, t := range ckpt.Tensors() {
		s.Parameters += int64(spec.Quantization.Parameters(t))
		s.Types[t.Type.String()]++
	}
	return s, nil
}

// describe is outline with what turns text into tokens.
func describe(name string, ckpt *weights.Checkpoint) (shown, error) {
	s, err := outline(name, ckpt)
	if err != nil {
		return s, err
	}
	s.Tokenizer, s.Template = "none", "none"
	if t, err := text.OpenTokenizer(ckpt); err == nil {
		s.Tokenizer = fmt.Sprintf("%s, %d tokens", t.Kind(), t.VocabSize())
	} else {
		s.Tokenizer = "unusable: " + err.Error()
	}
	source, err := text.TemplateSource(ckpt)
	if err == nil && source != "" {
		s.Template = fmt.Sprintf("%d characters", len(source))
		_, err = text.OpenTemplate(ckpt)
	}
	if err != nil {
		s.Template = "unusable: " + err.Error()
	}
	return s, nil
}

func (s shown) print() {
	var types []string
	for t, n := range s.Types {
		types = append(types, fmt.Sprintf("%s (%d)", t, n))
	}
	sort.Strings(types)
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("model", "%s (%s, %s)", s.Name, s.Family, s.Format)
	row("parameters", "%s", count(s.Parameters))
	row("size", "%s", bytes(s.Bytes))
	row("purpose", "it %s", s.Purpose)
	row("tensors", "%s", strings.Join(types, ", "))
	if s.Quantized != "none" {
		row("quantisation", "%s", s.Quantized)
	}
	row("shape", "%d layers, hidden %d, feed-forward %d, vocabulary %d", s.Layers, s.Hidden, s.FFN, s.Vocab)
	row("attention", "%d heads, %d KV heads of %d", s.Heads, s.KVHeads, s.HeadDim)
	if s.Window > 0 {
		row("sliding window", "%d tokens", s.Window)
	}
	row("context", "%d tokens", s.Context)
	row("KV cache", "%s per token", bytes(s.KVToken))
	row("tokenizer", "%s", s.Tokenizer)
	row("chat template", "%s", s.Template)
	w.Flush()
}

// bytes prints a size in binary units.
func bytes(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// count prints a number of parameters.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%d", n)
}
