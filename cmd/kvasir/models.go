package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/weights"
)

// engineFlags are the settings that every command with an engine takes.
type engineFlags struct {
	Threads     int    `help:"Compute threads; 0 is one for each processor." placeholder:"N"`
	Context     int    `help:"${context}" placeholder:"TOKENS"`
	KVBytes     size   `name:"kv-bytes" help:"Memory for the KV cache, such as 512M or 8G; 0 is half of what is free." placeholder:"SIZE"`
	BlockTokens int    `help:"Tokens of a KV block, a multiple of 16." default:"16" placeholder:"N"`
	MaxSeqs     int    `help:"Sequences computed at once." default:"64" placeholder:"N"`
	TokenBudget int    `help:"Tokens computed in one step: larger favours throughput, smaller the time between tokens." default:"512" placeholder:"N"`
	MaxChunk    int    `help:"Most prompt tokens of one request in a step; 0 is the whole budget." placeholder:"N"`
	Kernels     string `help:"Instruction set to compute with, such as avx2; the best of this machine if not given." placeholder:"NAME"`
	Pin         bool   `help:"Bind compute threads to processors."`
	NoPrefix    bool   `name:"no-prefix-cache" help:"Do not reuse the KV blocks of prompts that begin alike."`
}

func (f engineFlags) options(name string) text.Options {
	return text.Options{
		Name: name, Threads: f.Threads, Context: f.Context, KVBytes: int64(f.KVBytes), BlockTokens: f.BlockTokens,
		MaxSeqs: f.MaxSeqs, TokenBudget: f.TokenBudget, MaxChunk: f.MaxChunk, Kernels: f.Kernels, Pin: f.Pin, NoPrefix: f.NoPrefix,
	}
}

// size is a number of bytes, written with an optional K, M, G or T.
type size int64

func (s *size) UnmarshalText(b []byte) error {
	t := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(string(b)), "IB"), "B")
	shift := 0
	if i := strings.IndexAny("KMGT", t[max(len(t)-1, 0):]); i >= 0 && t != "" {
		shift, t = 10*(i+1), t[:len(t)-1]
	}
	var n int64
	if _, err := fmt.Sscanf(t+"\n", "%d\n", &n); err != nil || n < 0 || n > (1<<62)>>shift {
		return fmt.Errorf("%q is not a size; want a number of bytes, or one with K, M, G or T", b)
	}
	*s = size(n << shift)
	return nil
}

// named is a model that was found by its name.
type named struct {
	name string // how it is called when served
	ckpt *weights.Checkpoint
}

// openModel opens a model by built-in name, file, folder or hub name. A hub model that is not in the local cache is
// fetched.
func openModel(ctx context.Context, name string) (named, error) {
	if name == "" || name == builtin.Name {
		ckpt, err := builtin.Open()
		return named{builtin.Name, ckpt}, err
	}
	path, err := locate(name)
	if err != nil {
		return named{}, err
	}
	if path == "" {
		if path, err = pull(ctx, name, os.Stderr); err != nil {
			return named{}, err
		}
	}
	ckpt, err := weights.Open(path)
	if err != nil {
		return named{}, err
	}
	if _, err := os.Stat(name); err == nil {
		name = strings.TrimSuffix(filepath.Base(filepath.Clean(name)), filepath.Ext(name))
	}
	return named{name, ckpt}, nil
}

// locate returns where a model named by file, folder or hub name lies, "" if it is a hub name that is not in the cache.
func locate(name string) (string, error) {
	target, err := hub.Resolve(name)
	if err != nil {
		return "", fmt.Errorf("no model %q (built in is %s): %w", name, builtin.Name, err)
	}
	if target.Path != "" {
		return target.Path, nil
	}
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return "", err
	}
	path, _, err := client.Lookup(target.Name)
	return path, err
}

// isModel reports whether an argument names a model rather than being a prompt: it is the built-in name, exists, or has
// the form of a path or a hub name.
func isModel(arg string) bool {
	if arg == builtin.Name {
		return true
	}
	_, err := hub.Resolve(arg)
	return err == nil || errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, " \n\t")
}
