package forge

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Importance is what a calibration text says of the inputs of a model's weights, by the names of tensors in a GGUF (the
// "importance matrix" of llama.cpp).
type Importance struct {
	Chunks  int                // windows of the text
	Size    int                // tokens of a window
	Tensors map[string]*Inputs // by name
}

// Inputs are the mean squares of a weight's inputs, for each expert of a mixture or else for one.
type Inputs struct {
	Squares []float32 // [experts, In] sums of squares
	Counts  []float32 // [experts] rows
}

// of returns, for a row of a tensor that is quantised, what each of its columns counts; nil if nothing is known of
// it. A column that never had an input counts as one of the least does.
func (m *Importance) of(t Translated) func(row int) []float32 {
	if m == nil || m.Tensors[t.Name] == nil {
		return nil
	}
	in := m.Tensors[t.Name]
	width, experts := t.Shape[len(t.Shape)-1], len(in.Counts)
	perExpert := valuesOf(t.Shape) / width / max(experts, 1)
	if experts == 0 || len(in.Squares) != experts*width || perExpert == 0 {
		return nil
	}
	mean := make([]float32, len(in.Squares))
	for e, n := range in.Counts {
		for i := range width {
			mean[e*width+i] = 1
			if n > 0 {
				mean[e*width+i] = in.Squares[e*width+i]/n + 1e-20
			}
		}
	}
	return func(row int) []float32 { return mean[row/perExpert*width:][:width] }
}

// Calibrate runs a model, loaded on device through Observe, over windows of a text, and returns the importance.
func Calibrate(ctx context.Context, m *model.Model, o *Observer, ids []int32, window int, progress func(done, total int)) (*Importance, error) {
	if len(ids) < window {
		window = len(ids)
	}
	if window < 1 {
		return nil, fmt.Errorf("forge: the calibration text is empty")
	}
	total := len(ids) / window * window
	m.Tap = o.tap
	defer func() { m.Tap = nil }()
	s, err := newSequence(m, min(512, total), window)
	if err != nil {
		return nil, err
	}
	defer s.runner.Close()
	done := 0
	for at := 0; at+window <= len(ids); at += window {
		// The head's input is wanted, of some rows: their logits cost as much as the rest of the model.
		err := s.run(ctx, ids[at:at+window], window-16, func(int, [][]float32) {}, func(n int) {
			if done += n; progress != nil {
				progress(done, total)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	finish(o.Moments)
	return &Importance{Chunks: total / window, Size: window, Tensors: o.inputs}, nil
}

// Observer is a device that sums the squares of what each weight is multiplied with.
type Observer struct {
	compute.Device
	names  map[compute.Matrix]string // of the GGUF that the checkpoint would be
	stored map[compute.Matrix]string // in the checkpoint
	tensor map[string]string         // checkpoint's tensor names to those of the GGUF
	inputs map[string]*Inputs
	// Moments are what methods of quantisation ask of inputs, by the checkpoint's names of weights; nil if they are
	// not wanted.
	Moments map[string]*Moments
}

// Observe returns a device on which to load a checkpoint for Calibrate, which then also fills Observer.Moments if
// they are wanted.
func Observe(dev compute.Device, ckpt *weights.Checkpoint, moments bool) (*Observer, error) {
	t, err := Translate(ckpt, weights.GGUF)
	if err != nil {
		return nil, err
	}
	o := &Observer{Device: dev, names: map[compute.Matrix]string{}, stored: map[compute.Matrix]string{}, tensor: map[string]string{}, inputs: map[string]*Inputs{}}
	if moments {
		o.Moments = map[string]*Moments{}
	}
	for _, t := range t.Tensors {
		for _, from := range t.From {
			o.tensor[from] = t.Name
		}
	}
	return o, nil
}

// Matrix implements compute.Device.
func (o *Observer) Matrix(src compute.Source) (compute.Matrix, error) {
	m, err := o.Device.Matrix(src)
	if name, ok := o.tensor[src.Name]; ok && err == nil {
		o.names[m], o.stored[m] = name, src.Name
	}
	return m, err
}

// tap is a model.Tap. All experts count alike: the inputs of all routes are added up. A head that is the embedding
// table is one of its inputs' weights too.
func (o *Observer) tap(op compute.Op) func(rows int, row func(i int) []float32) {
	var weights []compute.Matrix
	moments := false
	switch op := op.(type) {
	case compute.MatMul:
		for _, p := range op.Products {
			weights = append(weights, p.W)
		}
		moments = o.Moments != nil
	case compute.MatMulExperts:
		for _, p := range op.Products {
			weights = append(weights, p.W[0])
		}
	case compute.Head:
		weights = append(weights, op.Product.W)
	}
	var names []string // parts of one tensor have one input
	for _, w := range weights {
		if name, ok := o.names[w]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return func(rows int, row func(i int) []float32) {
		for _, name := range names {
			o.add(name, rows, row)
		}
		if moments {
			o.moments(weights, rows, row)
		}
	}
}

func (o *Observer) add(name string, rows int, row func(i int) []float32) {
	in := o.inputs[name]
	if in == nil {
		in = &Inputs{Squares: make([]float32, len(row(0))), Counts: make([]float32, 1)}
		o.inputs[name] = in
	}
	for r := range rows {
		for i, v := range row(r) {
			in.Squares[i] += v * v
		}
	}
	in.Counts[0] += float32(rows)
}

const (
	sumsSuffix   = ".in_sum2"
	countsSuffix = ".counts"
)

// WriteImportance writes an importance in llama.cpp's GGUF form: for each weight the sums of squares [experts, In]
// and the number of rows [experts, 1].
func WriteImportance(w io.Writer, m *Importance, dataset string) error {
	meta := []weights.KV{{Key: "general.type", Value: "imatrix"}, {Key: "imatrix.datasets", Value: []string{dataset}},
		{Key: "imatrix.chunk_count", Value: uint32(m.Chunks)}, {Key: "imatrix.chunk_size", Value: uint32(m.Size)}}
	var tensors []weights.Source
	put := func(name string, v []float32, shape ...int) error {
		data := make([]byte, 4*len(v))
		err := quant.Encode(data, v, quant.F32)
		tensors = append(tensors, weights.Source{Name: name, Type: quant.F32, Shape: shape, Write: weights.Bytes(data)})
		return err
	}
	for _, name := range sortedKeys(m.Tensors) {
		in := m.Tensors[name]
		n := len(in.Counts)
		if err := put(name+sumsSuffix, in.Squares, n, len(in.Squares)/n); err != nil {
			return err
		}
		if err := put(name+countsSuffix, in.Counts, n, 1); err != nil {
			return err
		}
	}
	return weights.WriteGGUF(w, meta, tensors)
}

// ReadImportance reads what WriteImportance, or llama.cpp's llama-imatrix, has written.
func ReadImportance(ckpt *weights.Checkpoint) (*Importance, error) {
	meta := ckpt.Metadata()
	if meta["general.type"] != "imatrix" {
		return nil, fmt.Errorf("forge: %s: general.type is %v; want imatrix", ckpt.Files()[0], meta["general.type"])
	}
	m := &Importance{Tensors: map[string]*Inputs{}}
	for _, info := range ckpt.Tensors() {
		name, isSums := strings.CutSuffix(info.Name, sumsSuffix)
		if !isSums {
			continue
		}
		sums, err := floatsOf(ckpt, info.Name)
		if err != nil {
			return nil, err
		}
		counts, err := floatsOf(ckpt, name+countsSuffix)
		if err != nil {
			return nil, err
		}
		if len(counts) == 0 || len(sums)%len(counts) != 0 {
			return nil, fmt.Errorf("forge: tensor %q has %d values for %d counts", info.Name, len(sums), len(counts))
		}
		for i, v := range append(slices.Clone(sums), counts...) {
			if !(v >= 0 && v <= math.MaxFloat32) {
				return nil, fmt.Errorf("forge: tensor %q: value %d is %v; want a sum of squares", info.Name, i, v)
			}
		}
		m.Tensors[name] = &Inputs{sums, counts}
	}
	if len(m.Tensors) == 0 {
		return nil, fmt.Errorf("forge: %s holds no tensors *%s", ckpt.Files()[0], sumsSuffix)
	}
	return m, nil
}

func floatsOf(ckpt *weights.Checkpoint, name string) ([]float32, error) {
	t, ok := ckpt.Tensor(name)
	if !ok || t.Type != quant.F32 {
		return nil, fmt.Errorf("forge: %s: tensor %q of type F32 is missing", ckpt.Files()[0], name)
	}
	v := make([]float32, t.Values())
	return v, quant.Decode(v, t.Data, t.Type)
}
