package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// ConvertOptions say how a checkpoint is written.
type ConvertOptions struct {
	Name string // of the model
	// Type is what matrices are stored in: F32, F16 or BF16. 0 keeps each one's type, or takes BF16 for what the format
	// does not have.
	Type quant.Type
	// ShardSize is the most bytes of tensors in a file; 0 is one file. A larger tensor has a file of its own.
	ShardSize int64
	Replace   bool                    // a file that is there, once the new one is whole; a folder never is replaced
	Progress  func(done, total int64) // hears of bytes of tensors written
}

// Convert writes a checkpoint to out: as GGUF if that ends with .gguf, split into several files if it is larger than a
// shard, and otherwise as a new folder of safetensors with the files that belong to them. Tokenizer, chat template and
// recommended sampling go along. It returns the names of tensors that a decoder has no use for, which are left out. The
// result appears whole, or not at all; one that would mean another model is refused.
func Convert(ctx context.Context, ckpt *weights.Checkpoint, out string, o ConvertOptions) (omitted []string, err error) {
	w, err := newWriter(ckpt, out, o)
	if err != nil {
		return nil, err
	}
	for i := range w.tensors {
		t := &w.tensors[i]
		t.to = w.plainType(t.Translated, o.Type)
		t.values = func(ctx context.Context) ([]byte, error) { return recode(t.Translated, t.to) }
	}
	return w.omitted, w.write(ctx)
}

// writer writes one checkpoint.
type writer struct {
	o       ConvertOptions
	from    *weights.Checkpoint
	spec    *model.Spec
	out     string
	format  weights.Format
	meta    []weights.KV      // of a GGUF
	files   map[string][]byte // of a folder, beside the weights
	config  map[string]any    // config.json
	tensors []tensor
	omitted []string

	first    string  // file written
	fileType *uint32 // of a GGUF, if it is not that of most values
	done     int64
	total    int64
}

// tensor is a tensor to be written: what it is, and the type and bytes it becomes.
type tensor struct {
	Translated
	to     quant.Type
	values func(ctx context.Context) ([]byte, error)

	// What a method of quantisation multiplies columns with, and divides rows by; nil is nothing.
	cols, rows []float32
}

func newWriter(ckpt *weights.Checkpoint, out string, o ConvertOptions) (*writer, error) {
	w := &writer{o: o, from: ckpt, out: filepath.Clean(out), format: weights.Safetensors}
	if strings.HasSuffix(out, ".gguf") {
		w.format = weights.GGUF
	}
	switch info, err := os.Stat(w.out); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("forge: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("forge: %s is no file, and cannot be replaced", w.out)
	case !o.Replace:
		return nil, fmt.Errorf("forge: %s exists already", w.out)
	}
	t, err := Translate(ckpt, w.format)
	if err != nil {
		return nil, err
	}
	w.spec, w.omitted = t.Spec, t.Omitted
	for _, one := range t.Tensors {
		w.tensors = append(w.tensors, tensor{Translated: one})
	}
	if w.format == weights.GGUF {
		w.meta, err = metadata(ckpt, t, o.Name)
	} else {
		w.config, w.files, err = folder(ckpt, t)
	}
	return w, err
}

// plainType returns the type that a tensor is stored in when it is not quantised: vectors, learned positions and
// routers of a GGUF are always F32.
func (w *writer) plainType(t Translated, want quant.Type) quant.Type {
	if w.format == weights.GGUF && (len(t.Shape) < 2 || t.Slot == "positions" || t.Slot == "router") {
		return quant.F32
	}
	switch keeps := t.Type; {
	case want != 0:
		return want
	case keeps == quant.F32 || keeps == quant.F16 || keeps == quant.BF16 || w.format == weights.GGUF && keeps.BlockValues() > 1:
		return keeps
	case keeps == quant.F64:
		return quant.F32
	}
	return quant.BF16
}

// recode returns a tensor's bytes in another type.
func recode(t Translated, to quant.Type) ([]byte, error) {
	data, err := t.Read()
	if err != nil || t.Type == to {
		return data, err
	}
	v, err := decode(t)
	if err != nil {
		return nil, err
	}
	return encode(t.Name, v, to, func(dst []byte, src []float32, _ int) error { return quant.Encode(dst, src, to) })
}

// decode returns a tensor's values.
func decode(t Translated) ([]float32, error) {
	data, err := t.Read()
	if err != nil {
		return nil, err
	}
	v := make([]float32, valuesOf(t.Shape))
	errs := make([]error, chunks(len(v)))
	parallel(len(errs), func(i int) {
		part := v[i*chunk : min((i+1)*chunk, len(v))]
		size := t.Type.BlockBytes()
		from := i * chunk / t.Type.BlockValues() * size
		errs[i] = quant.Decode(part, data[from:][:len(part)/t.Type.BlockValues()*size], t.Type)
	})
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("forge: tensor %q: %w", t.Name, err)
	}
	return v, nil
}

// encode stores values in chunks, several at once: f writes one, and is told its first value's index.
func encode(name string, v []float32, to quant.Type, f func(dst []byte, src []float32, at int) error) ([]byte, error) {
	return encodeRows(name, v, 1, chunk, to, f)
}

// encodeRows is encode in chunks of so many rows; f is told the number of its first row.
func encodeRows(name string, v []float32, row, rows int, to quant.Type, f func(dst []byte, src []float32, first int) error) ([]byte, error) {
	size, err := to.RowBytes(len(v))
	if err != nil {
		return nil, fmt.Errorf("forge: tensor %q: %w", name, err)
	}
	out := make([]byte, size)
	values := rows * row
	errs := make([]error, (len(v)+values-1)/values)
	parallel(len(errs), func(i int) {
		src := v[i*values : min((i+1)*values, len(v))]
		from := i * values / to.BlockValues() * to.BlockBytes()
		errs[i] = f(out[from:][:len(src)/to.BlockValues()*to.BlockBytes()], src, i*rows)
	})
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("forge: tensor %q: %w", name, err)
	}
	return out, nil
}

// chunk is how many values one goroutine works on at a time, whole blocks of every type.
const chunk = 1 << 16

func chunks(n int) int { return (n + chunk - 1) / chunk }

func valuesOf(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// write writes all files beside their destination, reads them back, and moves them there.
func (w *writer) write(ctx context.Context) (err error) {
	temp, err := os.MkdirTemp(filepath.Dir(w.out), ".kvasir-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	shards, err := w.shards()
	if err == nil {
		err = w.describe()
	}
	if err != nil {
		return err
	}
	names, err := w.writeShards(ctx, temp, shards)
	if err != nil {
		return err
	}
	for name, data := range w.files {
		if err := writeFile(filepath.Join(temp, name), func(f io.Writer) error { _, err := f.Write(data); return err }); err != nil {
			return err
		}
	}
	if err := w.check(temp, names[0]); err != nil {
		return err
	}
	if w.format == weights.Safetensors {
		w.first = w.out
		if err := os.Chmod(temp, 0o755); err != nil {
			return err
		}
		return os.Rename(temp, w.out)
	}
	w.first = filepath.Join(filepath.Dir(w.out), names[0])
	for _, name := range names {
		if err := os.Rename(filepath.Join(temp, name), filepath.Join(filepath.Dir(w.out), name)); err != nil {
			return err
		}
	}
	return nil
}

// describe says of the whole what its tensors are stored in: the type of most values.
func (w *writer) describe() (err error) {
	names := map[quant.Type]string{quant.F32: "float32", quant.F16: "float16", quant.BF16: "bfloat16"}
	values, most := map[quant.Type]int{}, quant.F32
	for _, t := range w.tensors {
		if w.format == weights.Safetensors && names[t.to] == "" {
			continue // packed
		}
		if values[t.to] += valuesOf(t.Shape); values[t.to] > values[most] {
			most = t.to
		}
	}
	if w.format == weights.Safetensors {
		w.config["torch_dtype"] = names[most]
		w.files["config.json"], err = indented(w.config)
		return err
	}
	w.set("general.file_type", fileTypes[most])
	if w.fileType != nil {
		w.set("general.file_type", *w.fileType)
	}
	if most.BlockValues() > 1 {
		w.set("general.quantization_version", uint32(2))
	}
	return nil
}

// set gives a key of the metadata a value.
func (w *writer) set(key string, v any) {
	i := slices.IndexFunc(w.meta, func(kv weights.KV) bool { return kv.Key == key })
	if i < 0 {
		w.meta = append(w.meta, weights.KV{Key: key, Value: v})
	} else {
		w.meta[i].Value = v
	}
}

// fileTypes are the numbers of general.file_type for files that are mostly of one type (llama.cpp's LLAMA_FTYPE).
var fileTypes = map[quant.Type]uint32{
	quant.F32: 0, quant.F16: 1, quant.Q4_0: 2, quant.Q4_1: 3, quant.Q8_0: 7, quant.Q5_0: 8, quant.Q5_1: 9, quant.Q2_K: 10, quant.Q3_K: 12,
	quant.Q4_K: 15, quant.Q5_K: 17, quant.Q6_K: 18, quant.IQ4_NL: 25, quant.IQ4_XS: 30, quant.BF16: 32, quant.MXFP4: 38,
}

// shards cuts the tensors into files.
func (w *writer) shards() ([][]tensor, error) {
	var out [][]tensor
	var size int64
	for _, t := range w.tensors {
		n, err := t.to.RowBytes(valuesOf(t.Shape))
		if err != nil {
			return nil, fmt.Errorf("forge: tensor %q: %w", t.Name, err)
		}
		if out == nil || w.o.ShardSize > 0 && size+int64(n) > w.o.ShardSize && size > 0 {
			out, size = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], t)
		size, w.total = size+int64(n), w.total+int64(n)
	}
	if len(out) == 0 {
		return nil, errors.New("forge: the checkpoint has no tensors")
	}
	return out, nil
}

// writeShards writes the tensors and returns the files' names; of several shards of safetensors the index comes first.
func (w *writer) writeShards(ctx context.Context, dir string, shards [][]tensor) (names []string, err error) {
	index := map[string]string{}
	for i, shard := range shards {
		name := w.shardName(i, len(shards))
		names = append(names, name)
		var sources []weights.Source
		for _, t := range shard {
			index[t.Name] = name
			sources = append(sources, w.source(ctx, t))
		}
		err := writeFile(filepath.Join(dir, name), func(f io.Writer) error {
			if w.format == weights.Safetensors {
				return weights.WriteSafetensors(f, sources, map[string]string{"format": "pt"})
			}
			meta := w.meta
			if len(shards) > 1 {
				if i > 0 {
					meta = nil
				}
				meta = append(slices.Clone(meta), weights.KV{Key: "split.no", Value: uint16(i)}, weights.KV{Key: "split.count", Value: uint16(len(shards))},
					weights.KV{Key: "split.tensors.count", Value: int32(len(w.tensors))})
			}
			return weights.WriteGGUF(f, meta, sources)
		})
		if err != nil {
			return nil, err
		}
	}
	if w.format == weights.Safetensors && len(shards) > 1 {
		data, err := json.MarshalIndent(map[string]any{"metadata": map[string]any{"total_size": w.total}, "weight_map": index}, "", "  ")
		if err != nil {
			return nil, err
		}
		names = append([]string{"model.safetensors.index.json"}, names...)
		w.files[names[0]] = append(data, '\n')
	}
	return names, nil
}

// source is a tensor as the file formats take it, made when its turn comes.
func (w *writer) source(ctx context.Context, t tensor) weights.Source {
	return weights.Source{Name: t.Name, Type: t.to, Shape: t.Shape, Write: func(f io.Writer) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := t.values(ctx)
		if err != nil {
			return err
		}
		w.done += int64(len(data))
		if w.o.Progress != nil {
			w.o.Progress(w.done, w.total)
		}
		_, err = f.Write(data)
		return err
	}}
}

// shardName is the name of file i of n.
func (w *writer) shardName(i, n int) string {
	switch prefix := strings.TrimSuffix(filepath.Base(w.out), ".gguf"); {
	case w.format == weights.GGUF && n > 1:
		return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, n)
	case w.format == weights.GGUF:
		return filepath.Base(w.out)
	case n > 1:
		return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n)
	}
	return "model.safetensors"
}

// writeFile writes a file and makes sure that it is on the disk.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// check reads the files back and compares the models.
func (w *writer) check(dir, name string) error {
	back, err := weights.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer back.Close()
	spec, err := family.Read(back)
	if err != nil {
		return err
	}
	if d := model.Differ(w.spec, spec); d != "" {
		return fmt.Errorf("forge: %s has no way to say what this model is: %s", w.format, d)
	}
	return nil
}

// sortedKeys lists a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
