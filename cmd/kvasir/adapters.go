package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kvasir-llm/kvasir/engine/text"
)

// adapterFlags are LoRA adapters and how many run at once.
type adapterFlags struct {
	Adapter  []string `sep:"none" help:"A LoRA adapter: its name, = and a PEFT folder, a GGUF file or a hub name; with ,pin it stays on the device. May be repeated." placeholder:"NAME=PATH[,pin]"`
	MaxLoRAs int      `name:"max-loras" help:"Adapters on the device at once; others wait in memory for their turn." default:"8" placeholder:"N"`
	MaxRank  int      `name:"max-lora-rank" help:"Largest rank of an adapter; 0 is any." placeholder:"N"`
}

// apply finds the adapters and sets the options. Those on the hub that are not in the local cache are fetched.
func (f adapterFlags) apply(ctx context.Context, o *text.Options) error {
	if f.MaxLoRAs < 1 {
		return usageError{fmt.Sprintf("--max-loras is %d; want at least 1", f.MaxLoRAs)}
	}
	o.MaxLoRAs, o.MaxRank = f.MaxLoRAs, f.MaxRank
	for _, arg := range f.Adapter {
		name, path, ok := strings.Cut(arg, "=")
		path, pinned := strings.CutSuffix(path, ",pin")
		if !ok || name == "" || path == "" {
			return usageError{fmt.Sprintf("--adapter %s: want NAME=PATH, or NAME=PATH,pin", arg)}
		}
		p, err := find(path)
		if errors.As(err, new(notCached)) {
			p.path, err = pull(ctx, path, os.Stderr)
		}
		if err == nil && p.path == "" {
			err = errors.New("that is a model, not an adapter")
		}
		if err != nil {
			return fmt.Errorf("--adapter %s: %w", arg, err)
		}
		o.Adapters = append(o.Adapters, text.AdapterFile{Name: name, Path: p.path, Pinned: pinned})
	}
	return nil
}

// answerer returns the adapter that answers as serve would be told of it, NAME=PATH, and its name, which may be left
// out; both are "" if it is the model itself.
func (c *runCmd) answerer() (arg, name string) {
	if c.Adapter == "" {
		return "", ""
	}
	if name, _, ok := strings.Cut(c.Adapter, "="); ok {
		return c.Adapter, name
	}
	return "adapter=" + c.Adapter, "adapter"
}
