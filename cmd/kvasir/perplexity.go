package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

type perplexityCmd struct {
	Model string `arg:"" help:"Built-in name, hub name, file or folder."`
	Text  string `arg:"" help:"The text, a file; - is standard input."`
	windowFlags
	Method string `help:"windows: all tokens count that have others before them in their window. llama.cpp: the second half of each whole window counts, and the text of special tokens is ordinary text." enum:"windows,llama.cpp" default:"windows"`
	JSON   bool   `name:"json" help:"Print JSON."`
	deviceFlags
}

// windowFlags say how a text is cut for a perplexity.
type windowFlags struct {
	Context int `help:"Tokens of a window; 0 is 1024, or what the model was made for if that is less." placeholder:"TOKENS"`
	Stride  int `help:"Tokens from the beginning of one window to that of the next; by default windows do not overlap." placeholder:"TOKENS"`
	kvFlags
}

func (perplexityCmd) Help() string {
	return `Of a model whose prompts begin with a BOS token, every window begins with it.

Examples:
  kvasir perplexity kvasir-mini eval.txt
  kvasir perplexity ./model.gguf wiki.test.raw --context 512 --method llama.cpp
  kvasir perplexity ./model wiki.test.raw --context 2048 --stride 512 --json`
}

// measured is what kvasir perplexity prints.
type measured struct {
	Perplexity float64 `json:"perplexity"`
	Error      float64 `json:"error"`
	NLL        float64 `json:"nll"`
	Tokens     int     `json:"tokens"`
	Predicted  int     `json:"predicted_tokens"`
	Windows    int     `json:"windows"`
	Context    int     `json:"context"`
	Seconds    float64 `json:"seconds"`
	Rate       float64 `json:"tokens_per_second"`
}

func (c *perplexityCmd) Run(ctx context.Context) error {
	content, err := readText(c.Text)
	if err != nil {
		return err
	}
	found, err := openModel(ctx, c.Model)
	if err != nil {
		return err
	}
	defer found.ckpt.Close()
	m, err := c.measure(ctx, found.ckpt, content, c.Method, c.options())
	if err != nil {
		return fmt.Errorf("%s: %w", found.name, err)
	}
	if c.JSON {
		return printJSON(m)
	}
	fmt.Printf("perplexity %.4f ± %.4f over %d of %d tokens, %d windows of up to %d, %.1f tokens/s\n",
		m.Perplexity, m.Error, m.Predicted, m.Tokens, m.Windows, m.Context, m.Rate)
	return nil
}

// measure computes a checkpoint's perplexity on a text and shows on a terminal how far it is.
func (f windowFlags) measure(ctx context.Context, ckpt *weights.Checkpoint, content, method string, o cpu.Options) (measured, error) {
	tok, err := text.OpenTokenizer(ckpt)
	if err != nil {
		return measured{}, err
	}
	dev, err := cpu.New(o)
	if err != nil {
		return measured{}, err
	}
	defer dev.Close()
	m, err := model.Load(ckpt, dev, nil)
	if err != nil {
		return measured{}, err
	}
	m.KVType = f.kvType()
	if f.Context == 0 {
		f.Context = min(1024, m.Spec.Context)
	}
	if f.Context > m.Spec.Context {
		return measured{}, fmt.Errorf("windows of %d tokens; the model was made for %d", f.Context, m.Spec.Context)
	}
	ids := tok.Encode(content, tokenizer.EncodeOptions{ParseSpecial: method == "windows"})
	p := forge.PerplexityOptions{Context: f.Context, Stride: f.Stride, SecondHalf: method == "llama.cpp", BOS: -1}
	if id, ok := tok.BOS(); ok && tok.AddBOS() {
		p.BOS = id
	}
	bar := newProgress("perplexity")
	defer bar.clear()
	p.Progress = func(done, total int, soFar forge.Perplexity) {
		bar.show(int64(done), int64(total), fmt.Sprintf("%.4f so far", soFar.Value))
	}
	begin := time.Now()
	out, err := forge.MeasurePerplexity(ctx, m, ids, p)
	seconds := time.Since(begin).Seconds()
	return measured{out.Value, out.Error, out.NLL, len(ids), out.Predicted, out.Windows, f.Context, seconds, float64(out.Computed) / seconds}, err
}

// readText reads a file, or standard input for "-".
func readText(path string) (string, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(os.Stdin)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", err
	}
	return string(data), checkText(path, string(data))
}

// progress is a bar in one line of a terminal's standard error; elsewhere nothing is shown.
type progress struct {
	what  string
	begin time.Time
	drawn time.Time
	on    bool
}

func newProgress(what string) *progress {
	return &progress{what: what, begin: time.Now(), on: term.IsTerminal(int(os.Stderr.Fd()))}
}

// show draws the bar, at most some times a second.
func (p *progress) show(done, total int64, note string) {
	now := time.Now()
	if !p.on || now.Sub(p.drawn) < 100*time.Millisecond && done < total {
		return
	}
	p.drawn = now
	const width = 30
	share := float64(done) / float64(max(total, 1))
	left := time.Duration(float64(now.Sub(p.begin)) * (1 - share) / max(share, 1e-9)).Round(time.Second)
	fmt.Fprintf(os.Stderr, "%s%s [%-*s] %3.0f%%, %v left  %s", clearLine, p.what, width, bar(int(share*width)), 100*share, left, note)
}

func bar(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = '='
	}
	return string(b)
}

func (p *progress) clear() {
	if p.on {
		fmt.Fprint(os.Stderr, clearLine)
	}
}
