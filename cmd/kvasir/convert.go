package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/quant"
)

type convertCmd struct {
	Model     string `arg:"" help:"Built-in name, hub name, file or folder."`
	Out       string `arg:"" help:"What to write: a file that ends with .gguf, or a folder of safetensors. It must not exist."`
	Force     bool   `help:"Replace a file that exists."`
	Type      string `help:"Type of the matrices: keep, f32, f16 or bf16." enum:"keep,f32,f16,bf16" default:"keep"`
	ShardSize size   `help:"Most bytes of tensors in a file, such as 5G; 0 is one file." placeholder:"SIZE"`
}

func (convertCmd) Help() string {
	return `Tokenizer, chat template and recommended sampling go along. The result is read back before it appears under its name; one
that would mean another model is refused. With keep, block types that safetensors do not have become bf16.

Examples:
  kvasir convert ./model model.gguf
  kvasir convert ./model-q8_0.gguf ./model --type bf16 --shard-size 5G`
}

func (c *convertCmd) Run(ctx context.Context) error {
	found, err := openModel(ctx, c.Model)
	if err != nil {
		return err
	}
	defer found.ckpt.Close()
	o := forge.ConvertOptions{Name: found.name, ShardSize: int64(c.ShardSize), Replace: c.Force}
	if c.Type != "keep" {
		if o.Type, err = quant.Parse(strings.ToUpper(c.Type)); err != nil {
			return usageError{err.Error()}
		}
	}
	bar := newProgress("converting")
	o.Progress = func(done, total int64) { bar.show(done, total, bytes(total)) }
	omitted, err := forge.Convert(ctx, found.ckpt, c.Out, o)
	bar.clear()
	if err != nil {
		return fmt.Errorf("%s: %w", found.name, err)
	}
	sayOmitted(omitted)
	n, err := sizeOf(c.Out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", c.Out, bytes(n))
	return nil
}

// sizeOf returns the bytes of what was written: a file, the parts of one, or a folder.
func sizeOf(path string) (n int64, err error) {
	parts, _ := filepath.Glob(strings.TrimSuffix(path, ".gguf") + "-*-of-*.gguf")
	for _, part := range parts {
		more, err := sizeOf(part)
		if n += more; err != nil {
			return n, err
		}
	}
	if len(parts) > 0 {
		return n, nil
	}
	err = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// sayOmitted tells which tensors were left out.
func sayOmitted(names []string) {
	if len(names) > 0 {
		fmt.Fprintf(os.Stderr, "left out %d tensors that the decoder has no use for, such as %s\n", len(names), names[0])
	}
}
