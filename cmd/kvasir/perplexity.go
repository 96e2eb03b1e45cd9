package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

type perplexityCmd struct {
	Model string `arg:"" help:"Built-in name, hub name, file or folder."`
	Text  string `arg:"" help:"The text, a file; - is standard input."`
	windowFlags
	Method string `help:"windows: all tokens count that have others before them in their window. llama.cpp: the second half of each whole window counts, and the text of special tokens is ordinary text." enum:"windows,llama.cpp" default:"windows"`
	Base   string `help:"Another model with the same tokenizer: say how the predictions of the first differ from its." placeholder:"MODEL"`
	JSON   bool   `name:"json" help:"Print JSON."`
	computeFlags
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
  kvasir perplexity ./model wiki.test.raw --context 2048 --stride 512 --json
  kvasir perplexity ./model-q4_k_m.gguf wiki.test.raw --base ./model`
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

	Base *compared `json:"base,omitempty"`
}

// compared is what --base adds.
type compared struct {
	Perplexity float64 `json:"perplexity"`
	Error      float64 `json:"error"`
	Ratio      float64 `json:"ratio"`
	RatioError float64 `json:"ratio_error"`
	KL         float64 `json:"kl_mean"`
	KLError    float64 `json:"kl_error"`
	KLMedian   float64 `json:"kl_median"`
	KLP99      float64 `json:"kl_p99"`
	KLMax      float64 `json:"kl_max"`
	SameTop    float64 `json:"same_top"`
	Logits     float64 `json:"logits_error"`
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
	var base *weights.Checkpoint
	if c.Base != "" {
		other, err := openModel(ctx, c.Base)
		if err != nil {
			return err
		}
		defer other.ckpt.Close()
		base = other.ckpt
	}
	m, err := c.measure(ctx, found.ckpt, base, content, c.Method, c.computeFlags)
	if err != nil {
		return fmt.Errorf("%s: %w", found.name, err)
	}
	if c.JSON {
		return printJSON(m)
	}
	fmt.Printf("perplexity %.4f ± %.4f over %d of %d tokens, %d windows of up to %d, %.1f tokens/s\n",
		m.Perplexity, m.Error, m.Predicted, m.Tokens, m.Windows, m.Context, m.Rate)
	if b := m.Base; b != nil {
		fmt.Printf("base       %.4f ± %.4f, ratio %.5f ± %.5f\n", b.Perplexity, b.Error, b.Ratio, b.RatioError)
		fmt.Printf("KL divergence %.3g ± %.2g, median %.3g, p99 %.3g, max %.3g\n", b.KL, b.KLError, b.KLMedian, b.KLP99, b.KLMax)
		fmt.Printf("same likeliest token %.3f%%, error of the logits %.3g\n", 100*b.SameTop, b.Logits)
	}
	return nil
}

// measure computes a checkpoint's perplexity on a text, compares it with base if that is not nil, and shows on a
// terminal how far it is.
func (f windowFlags) measure(ctx context.Context, ckpt, base *weights.Checkpoint, content, method string, devices computeFlags) (measured, error) {
	tok, err := text.OpenTokenizer(ckpt)
	if err != nil {
		return measured{}, err
	}
	dev, err := devices.openDevice()
	if err != nil {
		return measured{}, err
	}
	defer dev.Close()
	m, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		return measured{}, err
	}
	m.KVType = cmp.Or(f.kvType(), compute.ServedKV(dev.KVTypes()))
	if f.Context == 0 {
		f.Context = min(1024, m.Spec.Context)
	}
	if f.Context > m.Spec.Context {
		return measured{}, fmt.Errorf("windows of %d tokens; the model was made for %d", f.Context, m.Spec.Context)
	}
	ids := tok.Encode(content, tokenizer.EncodeOptions{ParseSpecial: method == "windows"})
	p := forge.PerplexityOptions{Context: f.Context, Stride: f.Stride, SecondHalf: method == "llama.cpp", BOS: bosOf(tok)}
	bar := newProgress("perplexity")
	defer bar.clear()
	p.Progress = func(done, total int, soFar forge.Perplexity) {
		bar.show(int64(done), int64(total), fmt.Sprintf("%.4f so far", soFar.Value))
	}
	begin := time.Now()
	var both forge.Comparison
	if base == nil {
		both.Model, err = forge.MeasurePerplexity(ctx, m, ids, p)
	} else {
		both, err = f.compare(ctx, m, base, dev, content, ids, p)
	}
	if err != nil {
		return measured{}, err
	}
	seconds, out := time.Since(begin).Seconds(), both.Model
	result := measured{out.Value, out.Error, out.NLL, len(ids), out.Predicted, out.Windows, f.Context, seconds, float64(out.Computed) / seconds, nil}
	if base != nil {
		result.Base = &compared{both.Base.Value, both.Base.Error, both.Ratio, both.RatioError, both.KL.Mean, both.KL.Error,
			both.KL.Median, both.KL.P99, both.KL.Max, both.SameTop, both.Logits}
	}
	return result, nil
}

// compare loads the base beside m and compares the two on a text whose tokens ids are.
func (f windowFlags) compare(ctx context.Context, m *model.Model, ckpt *weights.Checkpoint, dev compute.Device, content string, ids []int32, p forge.PerplexityOptions) (forge.Comparison, error) {
	var none forge.Comparison
	tok, err := text.OpenTokenizer(ckpt)
	if err != nil {
		return none, fmt.Errorf("--base: %w", err)
	}
	others := tok.Encode(content, tokenizer.EncodeOptions{ParseSpecial: !p.SecondHalf})
	if bos := bosOf(tok); !slices.Equal(ids, others) || bos != p.BOS {
		return none, fmt.Errorf("--base: its tokenizer makes other tokens of the text, %d (BOS %d) against %d (BOS %d); want the same", len(others), bos, len(ids), p.BOS)
	}
	base, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		return none, fmt.Errorf("--base: %w", err)
	}
	if f.Context > base.Spec.Context {
		return none, fmt.Errorf("--base: windows of %d tokens; the model was made for %d", f.Context, base.Spec.Context)
	}
	base.KVType = m.KVType
	return forge.Compare(ctx, m, base, ids, p)
}

// bosOf returns the token that windows begin with, -1 for none.
func bosOf(tok *tokenizer.Tokenizer) int32 {
	if id, ok := tok.BOS(); ok && tok.AddBOS() {
		return id
	}
	return -1
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
