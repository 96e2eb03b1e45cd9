package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/shelf"
)

// entry is a model in a file of models. What is left out is as the flags of serve say.
type entry struct {
	Model     string            `yaml:"model"` // a built-in name, a hub name, or a path from the file on: ./, ../, ~/ or /
	Pinned    bool              `yaml:"pinned"`
	KeepAlive *keepAlive        `yaml:"keep-alive"`
	Device    string            `yaml:"device"`
	Context   int               `yaml:"context"`
	KVBytes   size              `yaml:"kv-bytes"`
	KVType    string            `yaml:"kv-type"`
	MaxSeqs   int               `yaml:"max-seqs"`
	Template  string            `yaml:"chat-template"` // a file
	Tools     string            `yaml:"tool-format"`
	Reasoning string            `yaml:"reasoning-format"`
	Pooling   string            `yaml:"pooling"`
	Adapters  map[string]string `yaml:"adapters"` // names, and hub names or paths

	dir string // what paths begin at
}

var entryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`)

// readModels reads a file of models.
func readModels(path string) (map[string]entry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--models: %w", err)
	}
	all, err := parseModels(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("--models: %s: %w", path, err)
	}
	return all, nil
}

// parseModels reads models whose paths begin at dir.
func parseModels(data []byte, dir string) (map[string]entry, error) {
	var all map[string]entry
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	d.KnownFields(true)
	if err := d.Decode(&all); errors.Is(err, io.EOF) || err == nil && len(all) == 0 {
		return nil, errors.New("it holds no model; want such as\nsmall:\n  model: owner/name")
	} else if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), " in type main.entry", ""))
	}
	if d.Decode(new(any)) != io.EOF {
		return nil, errors.New("it holds more than one document")
	}
	for name, e := range all {
		if !entryName.MatchString(name) {
			return nil, fmt.Errorf("%q is not a name of a model: want letters, digits, and . _ : / @ - between them", name)
		}
		if e.dir = dir; e.Model == "" {
			return nil, fmt.Errorf("%s: it has no model", name)
		}
		if _, err := e.find(e.Model); err != nil && !errors.As(err, new(notCached)) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = e
	}
	return all, nil
}

// check refuses what options cannot be.
func (e entry) check() error {
	switch _, err := quant.Parse(strings.ToUpper(e.KVType)); {
	case e.KVType != "" && err != nil:
		return fmt.Errorf("kv-type is %q; want such as bf16 or q8_0", e.KVType)
	case e.Context < 0 || e.MaxSeqs < 0:
		return fmt.Errorf("context is %d and max-seqs %d; want at least 0", e.Context, e.MaxSeqs)
	}
	return nil
}

// path returns a path of the file, from its folder on. ok is false if s has not the form of a path.
func (e entry) path(s string) (path string, ok bool) {
	if rest, home := strings.CutPrefix(s, "~/"); home {
		dir, err := os.UserHomeDir()
		return filepath.Join(dir, rest), err == nil
	}
	if filepath.IsAbs(s) {
		return s, true
	}
	return filepath.Join(e.dir, s), strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

// find finds what a name or a path of the file means. The error for what would have to be fetched is notCached.
func (e entry) find(s string) (place, error) {
	if path, ok := e.path(s); ok {
		if _, err := os.Stat(path); err != nil {
			return place{}, err
		}
		return place{path: path}, nil
	}
	if s == builtin.Name {
		return place{}, nil
	}
	n, err := hub.ParseName(s)
	if err != nil {
		return place{}, fmt.Errorf("%w; and a path begins with ./, ../, ~/ or /", err)
	}
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return place{}, err
	}
	path, ok, err := client.Lookup(n)
	if err == nil && !ok {
		err = notCached{s}
	}
	return place{path: path}, err
}

// open opens the checkpoint of an entry.
func (e entry) open(name string) (named, error) {
	p, err := e.find(e.Model)
	if err != nil {
		return named{}, err
	}
	ckpt, err := p.open()
	return named{name, ckpt}, err
}

func (e entry) offer(name string) shelf.Offer {
	return shelf.Offer{Name: name, Pinned: e.Pinned, Keep: (*time.Duration)(e.KeepAlive)}
}

// apply sets the options that an entry names.
func (e entry) apply(o *text.Options) error {
	set(&o.Device, e.Device)
	set(&o.Context, e.Context)
	set(&o.KVBytes, int64(e.KVBytes))
	set(&o.MaxSeqs, e.MaxSeqs)
	set(&o.ToolFormat, e.Tools)
	set(&o.ReasoningFormat, e.Reasoning)
	set(&o.Pooling, engine.Pooling(e.Pooling))
	if e.KVType != "" {
		o.KVType, _ = quant.Parse(strings.ToUpper(e.KVType))
	}
	if e.Template != "" {
		path, _ := e.path(e.Template)
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		o.Template = string(source)
	}
	for name, where := range e.Adapters {
		p, err := e.find(where)
		if err != nil {
			return fmt.Errorf("adapter %s: %w", name, err)
		}
		o.Adapters = append(o.Adapters, text.AdapterFile{Name: name, Path: p.path})
	}
	return nil
}

// set puts a value in place of another, unless it is the zero value.
func set[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}
