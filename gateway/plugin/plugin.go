// Package plugin runs hooks on requests and answers that are WebAssembly modules of the WASI: a program that reads a
// Call as JSON from its standard input, and writes a Verdict to its standard output. Each call has an instance of its
// own, without files, network or a clock, and with bounds on time and memory: one that loops or traps harms its call
// only. Read Plugin first.
package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/kvasir-llm/kvasir/guard"
)

// Call is what a hook is told.
type Call struct {
	Hook  string          `json:"hook"` // request or response
	Path  string          `json:"path"`
	Key   string          `json:"key"` // the name of who asks
	Model string          `json:"model"`
	Body  json.RawMessage `json:"body"`
}

// Verdict is what a hook says. No output at all is an empty one, which changes nothing.
type Verdict struct {
	Body   json.RawMessage `json:"body"`   // replaces the call's
	Refuse string          `json:"refuse"` // why the client gets nothing else
}

// Options bound a call.
type Options struct {
	Timeout time.Duration
	Memory  int // MiB
	Output  int // bytes
}

// Plugin is a module that is ready to be called. Its methods may be called from several goroutines.
type Plugin struct {
	file    string
	o       Options
	runtime wazero.Runtime
	module  wazero.CompiledModule
}

// compiled holds the code of all modules, so that one that is opened again is not compiled again.
var compiled = wazero.NewCompilationCache()

const (
	mostFile = 256 << 20        // bytes of a module
	fileTime = 10 * time.Second // for all of them to come
)

// Open compiles a module.
func Open(file string, o Options) (*Plugin, error) {
	code, err := guard.ReadFile(file, mostFile, fileTime)
	if err != nil {
		return nil, fmt.Errorf("plugin: %w", err)
	}
	ctx := context.Background()
	c := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithCompilationCache(compiled).
		WithMemoryLimitPages(uint32(o.Memory) * 16)
	p := &Plugin{file: file, o: o, runtime: wazero.NewRuntimeWithConfig(ctx, c)}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, p.runtime); err != nil {
		return nil, errors.Join(fmt.Errorf("plugin: %w", err), p.Close())
	}
	if p.module, err = p.runtime.CompileModule(ctx, code); err != nil {
		return nil, errors.Join(fmt.Errorf("plugin: %s: %w", file, err), p.Close())
	}
	return p, nil
}

// Close ends a plugin and all calls that are under way.
func (p *Plugin) Close() error { return p.runtime.Close(context.Background()) }

// Run calls the hook. An error says that it did not come to a verdict.
func (p *Plugin) Run(ctx context.Context, c Call) (Verdict, error) {
	in, err := json.Marshal(c)
	if err != nil {
		return Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	out, said := &bounded{most: p.o.Output}, &bounded{most: 4096}
	instance, err := p.runtime.InstantiateModule(ctx, p.module, wazero.NewModuleConfig().WithName("").
		WithStdin(bytes.NewReader(in)).WithStdout(out).WithStderr(said))
	if instance != nil {
		instance.Close(ctx)
	}
	var exit *sys.ExitError
	switch {
	case ctx.Err() != nil:
		return Verdict{}, fmt.Errorf("plugin: %s took more than %v", p.file, p.o.Timeout)
	case err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 0):
		return Verdict{}, fmt.Errorf("plugin: %s failed: %.500s: %.200s", p.file, err.Error(), said.Bytes())
	case out.over:
		return Verdict{}, fmt.Errorf("plugin: %s said more than %d bytes", p.file, p.o.Output)
	case len(bytes.TrimSpace(out.Bytes())) == 0:
		return Verdict{}, nil
	}
	var v Verdict
	d := json.NewDecoder(&out.Buffer)
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return Verdict{}, fmt.Errorf("plugin: %s said no verdict: %w", p.file, err)
	}
	return v, nil
}

// bounded keeps the first bytes of what is written to it.
type bounded struct {
	bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); len(p) > room {
		b.over = true
		b.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
