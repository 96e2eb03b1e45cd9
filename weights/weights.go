// Package weights opens the files that store a model's parameters, lists their tensors, gives views of the stored
// bytes, and writes such files. It reads safetensors and PyTorch files (one file, or shards with an index) and GGUF
// versions 2 and 3 (one file, or splits). It trusts nothing in them: every claim of a header is checked against the
// file before it is used, so a view never reaches outside its file. Two tensors never share a byte, except in PyTorch
// files, where they may. The package knows nothing of architectures, of a tensor's purpose, or of devices. Start with
// Checkpoint.
package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/kvasir-llm/kvasir/quant"
)

// Format is a file format that holds tensors.
type Format string

// The formats. PyTorch is that of torch.save.
const (
	GGUF        Format = "gguf"
	Safetensors Format = "safetensors"
	PyTorch     Format = "pytorch"
)

// Info describes a stored tensor.
type Info struct {
	Name string
	Type quant.Type
	// Shape is the size of each dimension, outermost first: rows are contiguous and the last dimension is the length of
	// a row. GGUF stores dimensions in the opposite order; here both formats read alike. A scalar has no dimensions.
	Shape []int
	// File is the path of the file that holds the tensor, one of Checkpoint.Files.
	File string
	// Offset and Size are in bytes; Offset counts from the start of the file. For a tensor of a PyTorch file that is
	// not stored row by row, Offset is that of its first value.
	Offset, Size int64
}

// Values is the number of values in the tensor.
func (i Info) Values() int {
	n := 1
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// Tensor is a stored tensor and its bytes.
type Tensor struct {
	Info
	// Data is a view into the mapped file, or a copy if a PyTorch file does not store the tensor row by row. It is
	// valid until the checkpoint is closed (but see Keep) and must not be written to.
	Data []byte
}

// Floats returns the tensor's values, row-major. Those of F64 are rounded to the nearest float32; one beyond its range
// is refused.
func (t Tensor) Floats() ([]float32, error) {
	v := make([]float32, t.Values())
	if err := quant.Decode(v, t.Data, t.Type); err != nil {
		return nil, fmt.Errorf("weights: tensor %q: %w", t.Name, err)
	}
	if t.Type == quant.F64 {
		if i := slices.IndexFunc(v, func(f float32) bool { return math.IsInf(float64(f), 0) }); i >= 0 {
			f := math.Float64frombits(binary.LittleEndian.Uint64(t.Data[i*8:]))
			return nil, fmt.Errorf("weights: tensor %q: value %d is %g; want at most %g, the largest float32",
				t.Name, i, f, math.MaxFloat32)
		}
	}
	return v, nil
}

// Checkpoint is an open model: the tensors of one file, or of all the shards or splits that belong together. Its
// methods may be called from several goroutines, but none during or after Close, except Close itself.
//
// The files are memory-mapped. To replace a model, write a new file and rename it over the old one: truncating a mapped
// file makes later reads of it fault.
type Checkpoint struct {
	format Format
	dir    string
	parts  []part
	infos  []Info
	partOf []int // parts index of each of infos
	byName map[string]int
	meta   map[string]any
	keys   []string
	again  func() (*Checkpoint, error)
	ahead  readAhead
	kept   kept
}

// Reopen opens what c was opened from, which may be closed.
func (c *Checkpoint) Reopen() (*Checkpoint, error) { return c.again() }

// A part is one file of a checkpoint, with the tensors and metadata that its header lists.
type part struct {
	mapping
	format Format
	infos  []Info // in file order
	meta   map[string]any
	keys   []string
	copies map[string][]byte // of tensors that are not stored row by row, or in no file
	held   int64             // bytes of tensors in no file
}

// Tensors lists the tensors in file order: by file, and by offset inside a file.
func (c *Checkpoint) Tensors() []Info { return slices.Clone(c.infos) }

// Tensor returns the tensor with the given name and a view of its bytes.
func (c *Checkpoint) Tensor(name string) (Tensor, bool) {
	i, ok := c.byName[name]
	if !ok {
		return Tensor{}, false
	}
	info := c.infos[i]
	if data, ok := c.parts[c.partOf[i]].copies[name]; ok {
		return Tensor{Info: info, Data: data}, true
	}
	end := info.Offset + info.Size
	return Tensor{Info: info, Data: c.parts[c.partOf[i]].data[info.Offset:end:end]}, true
}

// Metadata returns the file's metadata. For GGUF these are all its keys, with values of the Go types uint8 to float64,
// bool, string, slices of these, and []any for arrays of arrays; for a split file, the keys of the first split. For
// safetensors it is the strings of __metadata__; for shards, those of the first shard that has a key. The values do not
// refer to the mapped file. The caller must not change slices in it.
func (c *Checkpoint) Metadata() map[string]any { return maps.Clone(c.meta) }

// MetadataKeys lists the keys of Metadata in file order.
func (c *Checkpoint) MetadataKeys() []string { return slices.Clone(c.keys) }

// Format returns the format that the checkpoint is stored in.
func (c *Checkpoint) Format() Format { return c.format }

// Dir is the folder that holds the files, "" for a checkpoint in memory.
func (c *Checkpoint) Dir() string { return c.dir }

// Files lists the paths of the files that hold the tensors.
func (c *Checkpoint) Files() []string {
	paths := make([]string, len(c.parts))
	for i, p := range c.parts {
		paths[i] = p.path
	}
	return paths
}

// Size is the number of bytes of all Files together; of a checkpoint of Memory, of its tensors.
func (c *Checkpoint) Size() int64 {
	var n int64
	for _, p := range c.parts {
		n += int64(len(p.data)) + p.held
	}
	return n
}

// maxConfig bounds the files that Config reads, in bytes. The largest in use are tokenizers of some 30 MB.
const maxConfig = 256 << 20

// Config reads a file beside the weights, such as "config.json" or "tokenizer.json". The error is fs.ErrNotExist if
// there is none, and always for GGUF and for a checkpoint in memory, which have no files beside them.
func (c *Checkpoint) Config(name string) ([]byte, error) {
	if c.format == GGUF || c.dir == "" {
		return nil, fmt.Errorf("weights: %s beside a checkpoint that is one %s file: %w", name, c.format, fs.ErrNotExist)
	}
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("weights: %q is not a file inside %s", name, c.dir)
	}
	path := filepath.Join(c.dir, name)
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if st.Size() > maxConfig {
		return nil, fmt.Errorf("weights: %s: %d bytes, more than the %d that a configuration may have",
			path, st.Size(), maxConfig)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	return data, nil
}

// Close unmaps the files. Every Tensor.Data becomes invalid: reading it after Close faults. Where some is kept, the
// files stay mapped until it is released.
func (c *Checkpoint) Close() error {
	c.ahead.end()
	parts := c.parts
	c.parts, c.byName = nil, nil
	return c.kept.close(func() error {
		var errs []error
		for i := range parts {
			errs = append(errs, parts[i].close())
		}
		return errors.Join(errs...)
	})
}

// assemble makes one checkpoint of its parts, and closes them on failure.
func assemble(dir string, parts []part) (*Checkpoint, error) {
	c := &Checkpoint{format: parts[0].format, dir: dir, parts: parts, byName: map[string]int{}, meta: map[string]any{}}
	for p, part := range parts {
		for _, info := range part.infos {
			if other, dup := c.byName[info.Name]; dup {
				c.Close()
				return nil, fmt.Errorf("weights: %s: tensor %q is also in %s", info.File, info.Name, c.infos[other].File)
			}
			c.byName[info.Name] = len(c.infos)
			c.infos = append(c.infos, info)
			c.partOf = append(c.partOf, p)
		}
		if part.format == GGUF && p > 0 {
			continue // only the first split describes the model
		}
		for _, k := range part.keys {
			if _, have := c.meta[k]; !have {
				c.meta[k] = part.meta[k]
				c.keys = append(c.keys, k)
			}
		}
	}
	return c, nil
}
