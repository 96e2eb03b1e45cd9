package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

type quantizeCmd struct {
	Model      string   `arg:"" help:"Built-in name, hub name, file or folder; best not quantised already."`
	Out        string   `arg:"" help:"The file to write, which ends with .gguf, or the folder; it must not exist."`
	Force      bool     `help:"Replace a file that exists."`
	Type       string   `help:"Type, or mix of types, of the weights of a GGUF: ${recipes}." placeholder:"NAME"`
	Method     string   `help:"Quantise by gptq, awq or smoothquant, which need --calibrate, in place of rounding." enum:",gptq,awq,smoothquant" default:"" placeholder:"NAME"`
	Alpha      float64  `help:"Of smoothquant: how much of the inputs' outliers goes to the weights, 0 to 1." default:"0.5"`
	Bits       int      `help:"Of a gptq folder: 4 or 8." default:"4"`
	GroupSize  int      `help:"Of a gptq or awq folder: inputs that share a scale, a multiple of 32." default:"128"`
	ZeroPoints bool     `help:"Of a gptq folder: groups have zero points."`
	ActOrder   bool     `help:"Of a gptq folder: take columns with large inputs first."`
	Pure       bool     `help:"No mix: every weight in the one type."`
	TensorType []string `help:"Another type for tensors whose names match a regular expression, such as 'ffn_down=q6_k'; may be repeated." placeholder:"PATTERN=TYPE" sep:"none"`
	Calibrate  string   `help:"A text by which to weigh the inputs of weights." placeholder:"FILE" xor:"importance"`
	Imatrix    string   `help:"Weigh inputs by this importance matrix, a GGUF, instead." placeholder:"FILE" xor:"importance"`
	SaveMatrix string   `name:"save-imatrix" help:"Also write the importance matrix of --calibrate to a GGUF." placeholder:"FILE"`
	Eval       string   `help:"A text to measure the perplexity on, before and after." placeholder:"FILE"`
	ShardSize  size     `help:"Most bytes of tensors in a file, such as 5G; 0 is one file." placeholder:"SIZE"`
	JSON       bool     `name:"json" help:"Print JSON."`
	windowFlags
	computeFlags
}

func (quantizeCmd) Help() string {
	return `The mixes are those of llama.cpp: q4_k_m has more bits for some layers' value and down projections, and for the head.
docs/quantize.md has a table of what each costs.

Examples:
  kvasir quantize ./model model-q4_k_m.gguf --type q4_k_m
  kvasir quantize ./model model.gguf --type q3_k_m --calibrate text.txt --eval test.txt
  kvasir quantize ./model model.gguf --type q4_0 --method gptq --calibrate text.txt
  kvasir quantize ./model ./model-gptq --method gptq --calibrate text.txt
  kvasir quantize ./model model.gguf --type q4_k_s --tensor-type 'blk\\.0\\.=q8_0' --tensor-type ffn_down=q5_k`
}

// quantized is what kvasir quantize prints.
type quantized struct {
	Bytes         int64          `json:"bytes"`
	BitsPerWeight float64        `json:"bits_per_weight"`
	Tensors       []tensorReport `json:"tensors"`
	Skipped       []string       `json:"skipped,omitempty"`
	Before        *measured      `json:"perplexity_before,omitempty"`
	After         *measured      `json:"perplexity_after,omitempty"`

	file string // the first one written
}

type tensorReport struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Error float64 `json:"relative_error"`
	// What the weight makes of the calibration's inputs: by the method, and by rounding alone.
	Output  float64 `json:"output_error,omitempty"`
	Rounded float64 `json:"output_error_rounded,omitempty"`
	layer   int
	slot    string
}

func (c *quantizeCmd) Run(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	o := forge.QuantizeOptions{Recipe: c.Type, Pure: c.Pure}
	o.MethodOptions = forge.MethodOptions{Method: c.Method, Alpha: c.Alpha, Bits: c.Bits, Group: c.GroupSize, ZeroPoints: c.ZeroPoints, ActOrder: c.ActOrder}
	for _, s := range c.TensorType {
		over, err := forge.ParseOverride(s)
		if err != nil {
			return usageError{err.Error()}
		}
		o.Overrides = append(o.Overrides, over)
	}
	content := ""
	if c.Eval != "" {
		var err error
		if content, err = readText(c.Eval); err != nil {
			return err
		}
	}
	found, err := openModel(ctx, c.Model)
	if err != nil {
		return err
	}
	defer found.ckpt.Close()
	if o.Importance, o.Moments, err = c.importance(ctx, found.ckpt); err != nil {
		return err
	}
	o.Name, o.ShardSize, o.Replace = found.name, int64(c.ShardSize), c.Force
	var out quantized
	o.Report = func(e forge.TensorError) {
		out.Tensors = append(out.Tensors, tensorReport{e.Name, e.Type.String(), e.Error, e.Output, e.Rounded, e.Layer, e.Slot})
	}
	bar := newProgress("quantising")
	o.Progress = func(done, total int64) { bar.show(done, total, bytes(total)) }
	o.Searching = func(done, total int) { bar.show(int64(done), int64(total), "layers' scales") }
	result, err := forge.Quantize(ctx, found.ckpt, c.Out, o)
	bar.clear()
	if err != nil {
		return fmt.Errorf("%s: %w", found.name, err)
	}
	sayOmitted(result.Omitted)
	out.Skipped = result.Skipped
	out.file, out.Bytes, out.BitsPerWeight = result.File, result.Bytes, result.BitsPerWeight
	if c.Eval != "" {
		if err := c.evaluate(ctx, found.ckpt, content, &out); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(out)
	}
	out.print()
	return nil
}

// check refuses flags that say nothing together.
func (c *quantizeCmd) check() error {
	folder := !strings.HasSuffix(c.Out, ".gguf")
	switch {
	case c.SaveMatrix != "" && c.Calibrate == "":
		return usageError{"--save-imatrix without --calibrate: there is nothing to save"}
	case c.Method != "" && c.Calibrate == "":
		return usageError{"--method " + c.Method + " without --calibrate: it needs a text"}
	case folder && c.Method == "":
		return usageError{"the output is no .gguf: a folder is quantised by a --method"}
	case folder && (c.Type != "" || c.Pure || len(c.TensorType) > 0):
		return usageError{"--type, --pure and --tensor-type choose the types of a GGUF; the output does not end with .gguf"}
	case !folder && c.Type == "":
		return usageError{"--type is missing"}
	case (!folder || c.Method != "gptq") && (c.Bits != 4 || c.ZeroPoints || c.ActOrder):
		return usageError{"--bits, --zero-points and --act-order are of --method gptq and a folder"}
	case (!folder || c.Method == "smoothquant") && c.GroupSize != 128:
		return usageError{"--group-size is of --method gptq or awq and a folder"}
	case c.Method != "smoothquant" && c.Alpha != 0.5:
		return usageError{"--alpha is of --method smoothquant"}
	}
	return nil
}

// importance reads or computes the importance of inputs, nil if none is asked for, and what a method asks of them.
func (c *quantizeCmd) importance(ctx context.Context, ckpt *weights.Checkpoint) (*forge.Importance, map[string]*forge.Moments, error) {
	if c.Imatrix != "" {
		matrix, err := weights.Open(c.Imatrix)
		if err != nil {
			return nil, nil, err
		}
		defer matrix.Close()
		read, err := forge.ReadImportance(matrix)
		return read, nil, err
	}
	if c.Calibrate == "" {
		return nil, nil, nil
	}
	content, err := readText(c.Calibrate)
	if err != nil {
		return nil, nil, err
	}
	tok, err := text.OpenTokenizer(ckpt)
	if err != nil {
		return nil, nil, err
	}
	dev, err := c.openDevice()
	if err != nil {
		return nil, nil, err
	}
	defer dev.Close()
	observer, err := forge.Observe(dev, ckpt, c.Method != "")
	if err != nil {
		return nil, nil, err
	}
	m, err := loader.Model(ckpt, observer, nil)
	if err != nil {
		return nil, nil, err
	}
	bar := newProgress("calibrating")
	defer bar.clear()
	ids := tok.Encode(content, tokenizer.EncodeOptions{ParseSpecial: true})
	matrix, err := forge.Calibrate(ctx, m, observer, ids, min(512, m.Spec.Context), func(done, total int) { bar.show(int64(done), int64(total), "") })
	if err != nil || c.SaveMatrix == "" {
		return matrix, observer.Moments, err
	}
	f, err := os.OpenFile(c.SaveMatrix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, nil, err
	}
	err = forge.WriteImportance(f, matrix, c.Calibrate)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return matrix, observer.Moments, err
}

// evaluate measures the perplexity before and after.
func (c *quantizeCmd) evaluate(ctx context.Context, before *weights.Checkpoint, content string, out *quantized) error {
	first, err := c.measure(ctx, before, nil, content, "windows", c.computeFlags)
	if err != nil {
		return err
	}
	after, err := weights.Open(out.file)
	if err != nil {
		return err
	}
	defer after.Close()
	second, err := c.measure(ctx, after, nil, content, "windows", c.computeFlags)
	out.Before, out.After = &first, &second
	return err
}

// print shows the errors by layer and what became of the whole.
func (q quantized) print() {
	layers, last := map[int][]string{}, 0
	for _, t := range q.Tensors {
		line := fmt.Sprintf("%s %s %.4f", t.slot, t.Type, t.Error)
		if t.Rounded > 0 {
			line += fmt.Sprintf(" (outputs %.4f, rounded %.4f)", t.Output, t.Rounded)
		}
		layers[t.layer] = append(layers[t.layer], line)
		last = max(last, t.layer)
	}
	for i := range last + 1 {
		if len(layers[i]) > 0 {
			fmt.Printf("layer %d: %s\n", i, strings.Join(layers[i], ", "))
		}
	}
	for _, line := range q.Skipped {
		fmt.Println(line)
	}
	fmt.Printf("%s, %.2f bits per weight\n", bytes(q.Bytes), q.BitsPerWeight)
	if q.Before != nil {
		fmt.Printf("perplexity %.4f before, %.4f after (%+.2f%%)\n", q.Before.Perplexity, q.After.Perplexity,
			100*(q.After.Perplexity/q.Before.Perplexity-1))
	}
}
