package text

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// AdapterFile is a LoRA adapter to be loaded: a folder that PEFT wrote, or a file.
type AdapterFile struct {
	Name, Path string
	Pinned     bool // it is on the device at all times
}

// AdapterError is an adapter that cannot be loaded as it stands.
type AdapterError struct {
	Path string
	Err  error
}

func (e *AdapterError) Error() string { return fmt.Sprintf("adapter %s: %v", e.Path, e.Err) }
func (e *AdapterError) Unwrap() error { return e.Err }

// LoadAdapter makes an adapter known by a name, or, if replace is set, puts it in the place of the one of that name.
// Errors are engine.ErrAdapterExists, engine.ErrAdapterPinned and *AdapterError.
func (m *Model) LoadAdapter(name, path string, replace bool) error {
	a, err := m.readAdapter(AdapterFile{Name: name, Path: path})
	if err != nil {
		return err
	}
	return m.Engine.Load(a, replace)
}

// readAdapter reads an adapter for the model.
func (m *Model) readAdapter(f AdapterFile) (engine.Adapter, error) {
	fail := func(err error) (engine.Adapter, error) { return engine.Adapter{}, &AdapterError{f.Path, err} }
	if f.Name == "" || f.Name == m.Name && m.ownAdapter == "" {
		return fail(fmt.Errorf("the name %q is empty or that of the model", f.Name))
	}
	ckpt, err := openAdapter(f.Path)
	if err != nil {
		return fail(err)
	}
	defer ckpt.Close()
	loaded := m.loaded.Load()
	if loaded == nil {
		return fail(engine.ErrAsleep)
	}
	data, err := loader.Adapter(loaded, ckpt)
	if err != nil {
		return fail(err)
	}
	if m.maxRank > 0 && data.Rank > m.maxRank {
		return fail(fmt.Errorf("it has the rank %d; at most %d is allowed (--max-lora-rank)", data.Rank, m.maxRank))
	}
	return engine.Adapter{Name: f.Name, Source: f.Path, Data: data, Pinned: f.Pinned}, nil
}

// openAdapter opens a file, or in a folder the one that PEFT writes, or else the only one.
func openAdapter(path string) (*weights.Checkpoint, error) {
	for _, name := range []string{"adapter_model.safetensors", "adapter_model.bin"} {
		file := filepath.Join(path, name)
		if _, err := os.Stat(file); err == nil {
			return weights.Open(file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return weights.Open(path)
}
