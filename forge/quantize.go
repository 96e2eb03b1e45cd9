package forge

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// QuantizeOptions say how weights are quantised.
type QuantizeOptions struct {
	ConvertOptions
	MethodOptions
	Recipe    string     // of a GGUF: one of Recipes
	Pure      bool       // every weight in the recipe's base type
	Overrides []Override // the first that matches counts
	// Importance says by how much inputs count, from Calibrate or ReadImportance; nil is all alike.
	Importance *Importance
	// Report, if not nil, hears of each tensor that was quantised.
	Report func(TensorError)
	// Searching, if not nil, hears of layers whose scales a method has chosen.
	Searching func(done, total int)
}

// TensorError is what quantising did to a tensor.
type TensorError struct {
	Name  string
	Layer int
	Slot  string
	Type  fmt.Stringer // a quant.Type, or of a folder a model.Scheme
	// Error is |quantised - original| / |original|, in the Euclidean norm of its values.
	Error float64
	// Output is that of what the weight makes of the calibration's inputs, and Rounded what it would be by rounding
	// alone, both on some of the rows. They are 0 of weights that the method does not change.
	Output, Rounded float64
}

// Quantized is what became of a checkpoint.
type Quantized struct {
	File          string  // the first one
	Bytes         int64   // of tensors
	BitsPerWeight float64 // over all tensors
	Omitted       []string
	Skipped       []string // what a method has left out, and why
}

// Quantize writes a checkpoint as GGUF with its weights in the types of a recipe. Vectors, routers and learned
// positions stay in F32. Weights whose rows are no whole blocks get the next better type that fits. With a method,
// the output may also be a folder of safetensors, in which the linear weights of layers are quantised and nothing
// else.
func Quantize(ctx context.Context, ckpt *weights.Checkpoint, out string, o QuantizeOptions) (Quantized, error) {
	w, err := newWriter(ckpt, out, o.ConvertOptions)
	if err != nil {
		return Quantized{}, err
	}
	if err := o.check(w.format); err != nil {
		return Quantized{}, err
	}
	q := &quantiser{QuantizeOptions: &o, w: w, pack: o.packing()}
	values, err := q.chooseTypes()
	if err != nil {
		return Quantized{}, err
	}
	if o.Method == AWQ || o.Method == SmoothQuant {
		if err := q.foldAll(ctx); err != nil {
			return Quantized{}, err
		}
	}
	if w.format == weights.Safetensors {
		if err := q.packAll(); err != nil {
			return Quantized{}, err
		}
	}
	if err := w.write(ctx); err != nil {
		return Quantized{}, err
	}
	return Quantized{File: w.first, Bytes: w.total, BitsPerWeight: float64(w.total) * 8 / float64(values), Omitted: w.omitted, Skipped: q.skipped}, nil
}

// chooseTypes gives the weights of a GGUF the types of the recipe, and returns how many values there are.
func (q *quantiser) chooseTypes() (values int, err error) {
	w := q.w
	for i := range w.tensors {
		t := &w.tensors[i]
		t.to = w.plainType(t.Translated, 0)
		values += valuesOf(t.Shape)
		t.values = func(context.Context) ([]byte, error) { return recode(t.Translated, t.to) }
	}
	if w.format != weights.GGUF {
		return values, nil
	}
	r, err := recipeNamed(q.Recipe)
	if err != nil {
		return 0, err
	}
	s := shapeOf(w.spec, q.Importance != nil)
	for i := range w.tensors {
		t := &w.tensors[i]
		if !quantisable(t.Translated) {
			continue
		}
		row := t.Shape[len(t.Shape)-1]
		if t.to = r.typeOf(t.Translated, s, w.spec.TiedHead, len(w.spec.Layers)); q.Pure {
			t.to = fitting(r.base, row)
		}
		for _, over := range q.Overrides {
			if over.Pattern.MatchString(t.Name) {
				t.to = fitting(over.Type, row)
				break
			}
		}
		t.values = func(context.Context) ([]byte, error) { return q.quantized(t) }
	}
	w.fileType = &r.fileType
	return values, nil
}

// quantized returns a tensor's bytes in its new type and reports the error.
func (q *quantiser) quantized(t *tensor) ([]byte, error) {
	v, err := t.decoded()
	if err != nil {
		return nil, err
	}
	var out []byte
	if q.Method == GPTQ && q.roundable(t) {
		out, err = q.compensated(t, v)
	} else {
		out, err = q.rounded(t, v)
	}
	if err != nil || q.Report == nil {
		return out, err
	}
	stored := t.Translated
	stored.Type, stored.Read = t.to, func() ([]byte, error) { return out, nil }
	after, err := decode(stored)
	if err != nil {
		return nil, err
	}
	return out, q.report(t, after, v)
}

// compensated returns a tensor's bytes by GPTQ.
func (q *quantiser) compensated(t *tensor, v []float32) ([]byte, error) {
	m := q.moments(t)
	u, err := q.factor(m, m.Gram)
	if err != nil {
		return nil, fmt.Errorf("%w: tensor %q", err, t.Name)
	}
	size := m.In() / t.to.BlockValues() * t.to.BlockBytes()
	out := make([]byte, size*t.Shape[0])
	err = compensate(slices.Clone(v), m.In(), u, m.squares(), func(r int) rounder { return blockRounder(out[r*size:][:size], t.to) })
	if err != nil {
		return nil, fmt.Errorf("forge: tensor %q: %w", t.Name, err)
	}
	return out, nil
}

// rounded returns a tensor's bytes by rounding, columns as important as is known.
func (q *quantiser) rounded(t *tensor, v []float32) ([]byte, error) {
	columns := q.Importance.of(t.Translated)
	if m := q.moments(t); m != nil {
		important := m.importances(t.cols)
		columns = func(int) []float32 { return important }
	}
	row := t.Shape[len(t.Shape)-1]
	rows := max(chunk/row, 1)
	return encodeRows(t.Name, v, row, rows, t.to, func(dst []byte, src []float32, first int) error {
		if columns == nil || t.to.BlockValues() == 1 {
			return quant.Encode(dst, src, t.to)
		}
		size := len(dst) / (len(src) / row)
		for i := range len(src) / row {
			if err := quant.EncodeWeighted(dst[i*size:][:size], src[i*row:][:row], columns(first+i), t.to); err != nil {
				return err
			}
		}
		return nil
	})
}

// report tells what became of a weight: v is the values that were quantised, as they were scaled.
func (q *quantiser) report(t *tensor, after, v []float32) error {
	if q.Report == nil {
		return nil
	}
	e := TensorError{Name: t.Name, Layer: t.Layer, Slot: t.Slot, Type: q.kind(t), Error: relative(after, v)}
	if m := q.moments(t); q.Method != "" && q.roundable(t) {
		a := sample(after, m.In(), sampled)
		b := sample(v, m.In(), sampled)
		e.Output = outputError(m.lost(a, b, t.cols))
		var err error
		if e.Rounded, err = q.plainError(t, m); err != nil {
			return err
		}
	}
	q.Report(e)
	return nil
}

// outputError is the relative error of squares.
func outputError(lost, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return math.Sqrt(max(lost, 0) / all)
}

// relative returns |a - b| / |b|.
func relative(a, b []float32) float64 {
	var diff, all float64
	for i, v := range b {
		d := float64(a[i] - v)
		diff, all = diff+d*d, all+float64(v)*float64(v)
	}
	if all == 0 {
		return 0
	}
	return math.Sqrt(diff / all)
}
