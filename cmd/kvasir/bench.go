package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/weights"
)

// benchCmd holds the measurements; those of a load are in benchLoadCmd.
type benchCmd struct {
	Model   benchModelCmd   `cmd:"" help:"Measure a model's forward pass against what the device allows."`
	Kernels benchKernelsCmd `cmd:"" help:"Measure every implementation of every kernel against the device's peaks."`
	Load    benchLoadCmd    `cmd:"" aliases:"serve" help:"Put a load on a server, or on a model in this process, and report latencies."`
	Cache   benchCacheCmd   `cmd:"" help:"Replay a trace through the scheduler and the KV cache alone, and say what the cache finds."`
	Step    benchStepCmd    `cmd:"" help:"Measure what the host does for a step, on a simulated device."`
	Null    benchNullCmd    `cmd:"" help:"Serve an engine without a model, to measure the load itself with."`
	Gateway benchGatewayCmd `cmd:"" help:"Measure what a gateway costs: latency it adds, requests and chunks a second."`
	Grammar benchGrammarCmd `cmd:"" help:"Compile JSON Schemas and follow outputs, and say how fast and how right that is."`
	Guided  benchGuidedCmd  `cmd:"" help:"Compare a batch of guided answers with one of free answers."`
	Drafts  benchDraftsCmd  `cmd:"" help:"Compare answers that are predicted, but for some changes, with the same ones without predictions."`
	Write   benchWriteCmd   `cmd:"" help:"Write a model of random weights to a GGUF file, for other engines to be measured on."`
}

// shapeFlags choose a model of random weights instead of a stored one.
type shapeFlags struct {
	Shape string `help:"Measure random weights of this shape instead: ${shapes}, or one spelled out as in layers=22,width=2048,ff=5632,heads=32,kv=4,vocab=32000,head=64 (head may be left out), and experts=128,chosen=8,expert=768 for a mixture." placeholder:"SHAPE"`
	Quant string `help:"The type, or mix of types, of the random weights: ${recipes}; and, but for files, ${packed}." default:"q8_0" placeholder:"NAME"`
}

// open returns the model of that shape, or the one named.
func (f shapeFlags) open(ctx context.Context, model string) (string, *weights.Checkpoint, error) {
	if f.Shape == "" {
		found, err := openModel(ctx, model)
		return found.name, found.ckpt, err
	}
	if model != "" {
		return "", nil, usageError{fmt.Sprintf("both the model %q and --shape %s", model, f.Shape)}
	}
	shape, recipe, err := f.parse()
	if err != nil {
		return "", nil, err
	}
	ckpt, err := bench.Random(shape, recipe)
	return shape.Name, ckpt, err
}

// parse returns the shape and the recipe.
func (f shapeFlags) parse() (bench.Shape, string, error) {
	shape, err := bench.ParseShape(f.Shape)
	if err != nil {
		return shape, "", usageError{err.Error()}
	}
	recipe, err := bench.RecipeName(f.Quant)
	if err != nil {
		return shape, "", usageError{err.Error()}
	}
	return shape, recipe, nil
}

type benchWriteCmd struct {
	File string `arg:"" help:"The file to write."`
	shapeFlags
}

func (benchWriteCmd) Help() string {
	return "Example:\n  kvasir bench write 125m-q8_0.gguf --shape 125m --quant q8_0"
}

func (c *benchWriteCmd) Run() error {
	shape, recipe, err := c.parse()
	if err != nil {
		return err
	}
	f, err := os.Create(c.File)
	if err != nil {
		return err
	}
	return errors.Join(bench.WriteRandom(f, shape, recipe), f.Close())
}

// deviceFlags say what to compute with.
type deviceFlags struct {
	Device  string  `help:"Device to compute on, by a name that kvasir devices lists; auto is the best." default:"auto"`
	Threads threads `help:"Compute threads; 0 is one for each core that the process may use." placeholder:"N"`
	Kernels string  `help:"Instruction set to compute with, such as avx2; the best of this machine if not given." placeholder:"NAME"`
	Pin     bool    `help:"Bind compute threads to processors."`
}

func (f deviceFlags) options() compute.Options {
	return compute.Options{Threads: int(f.Threads), Kernels: f.Kernels, Pin: f.Pin}
}

type benchModelCmd struct {
	Model string `arg:"" optional:"" help:"Built-in name, hub name, file or folder; the built-in model if none is given."`
	shapeFlags
	Tests       string `help:"ppN is a prompt of N tokens, ppNxM are M of them, tgN decodes N tokens, bN decodes N sequences together; @D after it begins with D tokens in the cache." default:"pp512,tg128,b4,b8,b16,b32" placeholder:"LIST"`
	Repetitions int    `short:"r" help:"Runs of each test; the median counts. 0 measures the device's peaks only, and tells the floors." default:"5" placeholder:"N"`
	Choose      bool   `help:"Choose the likeliest token of each row on the device, as in serving."`
	Adapters    int    `help:"Random LoRA adapters of rank 16, of every weight that takes them, which sequences have in turn." placeholder:"N"`
	Chunk       int    `help:"Prompt tokens computed in one step. By default 512 on a CPU, 8192 on a GPU." placeholder:"N"`
	BlockTokens int    `help:"Tokens of a KV block, a multiple of 16." default:"16" placeholder:"N"`
	kvFlags
	JSON bool `name:"json" help:"Print a JSON array of rows."`
	deviceFlags
}

func (benchModelCmd) Help() string {
	return `The floor is the speed that the device's own limits allow, measured in the same run: docs/bench.md says what it counts.

Examples:
  kvasir bench model
  kvasir bench model ./model.gguf --tests pp512,pp4096,tg128,tg128@4096,b8,b32 --threads 2
  kvasir bench model --shape 1.1b --quant q4_0 --json
  kvasir bench model --device cuda --shape 8b --quant bf16 --tests pp8192,tg128,b32,b256`
}

func (c *benchModelCmd) Run(ctx context.Context) error {
	tests, err := bench.ParseTests(c.Tests)
	if err != nil {
		return usageError{err.Error()}
	}
	name, ckpt, err := c.open(ctx, c.Model)
	if err != nil {
		return err
	}
	o := bench.ModelOptions{
		Name: name, Device: c.Device, Compute: c.options(), Chunk: c.Chunk, Repetitions: c.Repetitions,
		BlockTokens: c.BlockTokens, KVType: c.kvType(), Choose: c.Choose, Adapters: c.Adapters,
	}
	if c.JSON {
		rows, err := bench.Model(ctx, ckpt, o, tests, nil)
		if len(rows) == 0 && err != nil {
			return err
		}
		return errors.Join(err, json.NewEncoder(os.Stdout).Encode(rows))
	}
	p := modelPrinter{w: os.Stdout}
	_, err = bench.Model(ctx, ckpt, o, tests, p.print)
	p.end()
	return err
}

// modelPrinter prints rows as tables of Markdown: one of prompts and of single sequences, one of several together.
type modelPrinter struct {
	w           io.Writer
	table       string
	least, most float64 // GB/s of memory
}

func (p *modelPrinter) print(m bench.ModelInfo, row *bench.ModelRow) {
	if row == nil {
		fmt.Fprintf(p.w, "%s, %s, %s, %.2f B weights: loaded in %.2f s, %s\n", m.Name, m.Quant, bytes(m.Size), float64(m.Parameters)/1e9, m.Load.Seconds(), m.Device)
		printPeaks(p.w, m.Peaks)
		p.least, p.most = m.Peaks.Read/1e9, m.Peaks.Read/1e9
		return
	}
	p.least, p.most = min(p.least, row.Read), max(p.most, row.Read)
	speed, spread := fmt.Sprintf("%.1f", row.TokensPerSecond), fmt.Sprintf("%.1f..%.1f", row.Slowest, row.Fastest)
	floor, share := "-", "-"
	if row.Floor > 0 {
		floor, share = fmt.Sprintf("%.1f", row.Floor), percent(row.Share)
	}
	if test, err := bench.ParseTests(row.Test); err == nil && test[0].Seqs > 1 {
		p.begin("| model                | quant  | threads | test         |    B | tokens/s | slowest..fastest | each tokens/s |    floor |  share |")
		fmt.Fprintf(p.w, "| %-20s | %-6s | %7d | %-12s | %4d | %8s | %16s | %13.1f | %8s | %6s |\n", row.Model, row.Quant, row.Threads, row.Test,
			test[0].Seqs, speed, spread, row.TokensPerSecond/float64(test[0].Seqs), floor, share)
		return
	}
	p.begin("| model                | quant  | threads | test         | tokens/s |   slowest..fastest |    floor |  share |")
	fmt.Fprintf(p.w, "| %-20s | %-6s | %7d | %-12s | %8s | %18s | %8s | %6s |\n", row.Model, row.Quant, row.Threads, row.Test, speed, spread, floor, share)
}

// begin begins another table, unless it is the one that goes on.
func (p *modelPrinter) begin(header string) {
	if p.table == header {
		return
	}
	if p.table != "" {
		fmt.Fprintln(p.w)
	}
	p.table = header
	fmt.Fprintln(p.w, header)
	for i, column := range strings.Split(strings.Trim(header, "|"), "|") {
		right := ":"
		if i < 2 || strings.TrimSpace(column) == "test" {
			right = "-"
		}
		fmt.Fprintf(p.w, "|%s%s", strings.Repeat("-", len(column)-1), right)
	}
	fmt.Fprintln(p.w, "|")
}

// end says if the machine was not the same all the time.
func (p *modelPrinter) end() {
	if p.most > 1.1*p.least {
		fmt.Fprintf(p.w, "\nMemory was read at %.1f to %.1f GB/s meanwhile: each floor is by the best right before and right after its test.\n", p.least, p.most)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

func printPeaks(w io.Writer, p compute.Peaks) {
	if p == (compute.Peaks{}) {
		fmt.Fprint(w, "peaks: kvasir cannot measure those of this device, so there are no floors and no shares\n\n")
		return
	}
	fmt.Fprintf(w, "peaks: memory %.1f GB/s, float32 %.1f Gop/s, bfloat16 %.1f Gop/s, bytes %.1f Gop/s\n\n", p.Read/1e9, p.Floats/1e9, p.Pairs/1e9, p.Bytes/1e9)
}

type benchKernelsCmd struct {
	Filter string        `help:"Measure only what this regular expression finds in names such as avx2/matmul/Q8_0/64 or cuda/matmul/BF16/64." placeholder:"REGEXP"`
	Rows   []int         `help:"Rows of products; 1, 8, 32 and 256 if not given, of portable Go 1 and 8." placeholder:"N"`
	Time   time.Duration `help:"Spent on each." default:"100ms"`
	Size   int           `help:"Width of rows and of square matrices, a multiple of 256." default:"4096" placeholder:"N"`
	Memory size          `help:"Weights, keys and values or rows that operations go through in turn; more than caches hold measures memory." default:"192M" placeholder:"SIZE"`
	JSON   bool          `name:"json" help:"Print a JSON array of rows."`
	deviceFlags
}

func (benchKernelsCmd) Help() string {
	return `Data comes from memory. The share is that of the time which the peaks allow, for whichever limits more: reading or computing.

Examples:
  kvasir bench kernels
  kvasir bench kernels --threads 1 --filter 'matmul/Q8_0'
  kvasir bench kernels --kernels avx2 --json`
}

func (c *benchKernelsCmd) Run(ctx context.Context) error {
	o := bench.KernelOptions{
		Device: c.Device, Compute: c.options(), Time: c.Time, Size: c.Size, Memory: int(c.Memory), Rows: c.Rows,
	}
	if c.Filter != "" {
		re, err := regexp.Compile(c.Filter)
		if err != nil {
			return usageError{fmt.Sprintf("--filter: %v", err)}
		}
		o.Filter = re
	}
	rows := []bench.KernelRow{}
	err := bench.Kernels(ctx, o, func(name string, p compute.Peaks, row *bench.KernelRow) {
		switch {
		case row == nil && !c.JSON:
			fmt.Printf("%s\n", name)
			printPeaks(os.Stdout, p)
			fmt.Printf("%-10s %-8s %-28s %5s %9s %9s %6s\n", "kernel", "type", "shape", "rows", "GB/s", "Gop/s", "share")
		case row == nil:
		case c.JSON:
			rows = append(rows, *row)
		case row.Refused != "":
			fmt.Printf("%-10s %-8s %-28s %5d refused: %s\n", row.Kernel, row.Type, row.Shape, row.Rows, row.Refused)
		default:
			share := "-"
			if row.Share > 0 {
				share = percent(row.Share)
			}
			fmt.Printf("%-10s %-8s %-28s %5d %9.1f %9.1f %6s\n", row.Kernel, row.Type, row.Shape, row.Rows, row.Bandwidth, row.Rate, share)
		}
	})
	if err != nil || !c.JSON {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rows)
}
