package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/server"
	"github.com/kvasir-llm/kvasir/shelf"
	"github.com/kvasir-llm/kvasir/weights"
)

// entry is a model in a file of models. What is left out is as the flags of serve say.
type entry struct {
	Model      string            `yaml:"model"` // a built-in name, a hub name, or a path from the file on: ./, ../, ~/ or /
	Pinned     bool              `yaml:"pinned,omitempty"`
	KeepAlive  *keepAlive        `yaml:"keep-alive,omitempty"`
	Device     string            `yaml:"device,omitempty"`
	Context    int               `yaml:"context,omitempty"`
	KVBytes    size              `yaml:"kv-bytes,omitempty"`
	KVType     string            `yaml:"kv-type,omitempty"`
	MaxSeqs    int               `yaml:"max-seqs,omitempty"`
	Drafts     string            `yaml:"drafts,omitempty"`
	DraftModel string            `yaml:"draft-model,omitempty"` // likewise
	DraftMost  int               `yaml:"draft-tokens,omitempty"`
	Template   string            `yaml:"chat-template,omitempty"` // a file
	Source     string            `yaml:"template,omitempty"`      // the template itself
	System     string            `yaml:"system,omitempty"`
	Parameters map[string]any    `yaml:"parameters,omitempty"` // Ollama's options
	Tools      string            `yaml:"tool-format,omitempty"`
	Reasoning  string            `yaml:"reasoning-format,omitempty"`
	Pooling    string            `yaml:"pooling,omitempty"`
	Adapters   map[string]string `yaml:"adapters,omitempty"` // names, and hub names or paths
	Adapter    string            `yaml:"adapter,omitempty"`  // one that all requests use: likewise

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
	case e.Drafts != "" && !slices.Contains(text.Drafts(), e.Drafts):
		return fmt.Errorf("drafts is %q; want one of %v", e.Drafts, text.Drafts())
	case e.DraftMost < 0 || e.DraftMost > engine.MaxDraft:
		return fmt.Errorf("draft-tokens is %d; want 1 to %d, or 0 for what --draft-tokens says", e.DraftMost, engine.MaxDraft)
	case e.Template != "" && e.Source != "":
		return errors.New("it has both a chat-template, which is a file, and a template, which is the text")
	}
	if e.Source != "" {
		if _, err := chat.Parse("template", e.Source); err != nil || strings.Contains(e.Source, "{{ .") {
			return fmt.Errorf("its template is not one in Jinja, as models have them (%v)", err)
		}
	}
	if _, err := server.Preset(e.Parameters); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if e.DraftModel != "" {
		if _, err := e.find(e.DraftModel); err != nil && !errors.As(err, new(notCached)) {
			return fmt.Errorf("draft-model: %w", err)
		}
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

// openDraft opens the model that guesses tokens ahead, nil if there is none.
func (e entry) openDraft() (*weights.Checkpoint, error) {
	if e.DraftModel == "" {
		return nil, nil
	}
	p, err := e.find(e.DraftModel)
	if err != nil {
		return nil, fmt.Errorf("draft-model: %w", err)
	}
	return p.open()
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
	set(&o.Drafts, e.Drafts)
	set(&o.DraftTokens, e.DraftMost)
	set(&o.ToolFormat, e.Tools)
	set(&o.ReasoningFormat, e.Reasoning)
	set(&o.Pooling, engine.Pooling(e.Pooling))
	set(&o.System, e.System)
	set(&o.Template, e.Source)
	if len(e.Parameters) > 0 {
		var err error
		if o.Preset, err = server.Preset(e.Parameters); err != nil {
			return err
		}
	}
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
	if e.Adapter != "" {
		p, err := e.find(e.Adapter)
		if err != nil {
			return fmt.Errorf("adapter: %w", err)
		}
		o.Adapter = p.path
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

// saveModel writes a model into a file of models, or takes it out of it if e is nil. What else the file says stays, its
// comments included. The file is replaced whole.
func saveModel(path, name string, e *entry) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("%s is no mapping of names to models any more", path)
	}
	all := doc.Content[0]
	at := len(all.Content)
	for i := 0; i < len(all.Content); i += 2 {
		if all.Content[i].Value == name {
			at = i
		}
	}
	rest := append([]*yaml.Node{}, all.Content[min(at+2, len(all.Content)):]...)
	all.Content = all.Content[:at]
	if e != nil {
		var key, value yaml.Node
		if err := errors.Join(key.Encode(name), value.Encode(e)); err != nil {
			return err
		}
		all.Content = append(all.Content, &key, &value)
	}
	all.Content = append(all.Content, rest...)
	f, err := os.CreateTemp(filepath.Dir(path), ".models-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // not once it has its name
	w := yaml.NewEncoder(f)
	w.SetIndent(2)
	err = errors.Join(w.Encode(&doc), w.Close())
	if info, serr := os.Stat(path); serr == nil {
		err = errors.Join(err, f.Chmod(info.Mode().Perm()))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
