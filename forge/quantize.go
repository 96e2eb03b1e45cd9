package forge

import (
	"context"
	"fmt"
	"math"

	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// QuantizeOptions say how weights are quantised.
type QuantizeOptions struct {
	ConvertOptions
	Recipe    string     // one of Recipes
	Pure      bool       // every weight in the recipe's base type
	Overrides []Override // the first that matches counts
	// Importance says by how much inputs count, from Calibrate or ReadImportance; nil is all alike.
	Importance *Importance
	// Report, if not nil, hears of each tensor that was quantised.
	Report func(TensorError)
}

// TensorError is what quantising did to a tensor.
type TensorError struct {
	Name  string
	Layer int
	Slot  string
	Type  quant.Type
	// Error is |quantised - original| / |original|, in the Euclidean norm of its values.
	Error float64
}

// Quantized is what became of a checkpoint.
type Quantized struct {
	File          string  // the first one
	Bytes         int64   // of tensors
	BitsPerWeight float64 // over all tensors
	Omitted       []string
}

// Quantize writes a checkpoint as GGUF with its weights in the types of a recipe. Vectors, routers and learned positions stay
// in F32. Weights whose rows are no whole blocks get the next better type that fits.
func Quantize(ctx context.Context, ckpt *weights.Checkpoint, out string, o QuantizeOptions) (Quantized, error) {
	r, err := recipeNamed(o.Recipe)
	if err != nil {
		return Quantized{}, err
	}
	w, err := newWriter(ckpt, out, o.ConvertOptions)
	if err != nil {
		return Quantized{}, err
	}
	if w.format != weights.GGUF {
		return Quantized{}, fmt.Errorf("forge: %s: block types are written to GGUF; the name must end with .gguf", out)
	}
	a := w.spec.Layers[len(w.spec.Layers)-1]
	s := shape{sharing: a.Attn.Heads / max(a.Attn.KVHeads, 1), experts: a.FFN.Experts.Count, weighed: o.Importance != nil}
	values := 0
	for i := range w.tensors {
		t := &w.tensors[i]
		t.to = w.plainType(t.Translated, 0)
		values += valuesOf(t.Shape)
		t.values = func(context.Context) ([]byte, error) { return recode(t.Translated, t.to) }
		if !quantisable(t.Translated) {
			continue
		}
		row := t.Shape[len(t.Shape)-1]
		if t.to = r.typeOf(t.Translated, s, w.spec.TiedHead, len(w.spec.Layers)); o.Pure {
			t.to = fitting(r.base, row)
		}
		for _, over := range o.Overrides {
			if over.Pattern.MatchString(t.Name) {
				t.to = fitting(over.Type, row)
				break
			}
		}
		t.values = func(context.Context) ([]byte, error) { return o.quantized(t) }
	}
	w.fileType = &r.fileType
	if err := w.write(ctx); err != nil {
		return Quantized{}, err
	}
	return Quantized{File: w.first, Bytes: w.total, BitsPerWeight: float64(w.total) * 8 / float64(values), Omitted: w.omitted}, nil
}

// quantized returns a tensor's bytes in its new type and reports the error.
func (o *QuantizeOptions) quantized(t *tensor) ([]byte, error) {
	v, err := decode(t.Translated)
	if err != nil {
		return nil, err
	}
	columns := o.Importance.of(t.Translated)
	row := t.Shape[len(t.Shape)-1]
	rows := max(chunk/row, 1)
	out, err := encodeRows(t.Name, v, row, rows, t.to, func(dst []byte, src []float32, first int) error {
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
	if err != nil || o.Report == nil {
		return out, err
	}
	t.Translated.Type, t.Read = t.to, func() ([]byte, error) { return out, nil }
	after, err := decode(t.Translated)
	if err != nil {
		return nil, err
	}
	o.Report(TensorError{Name: t.Name, Layer: t.Layer, Slot: t.Slot, Type: t.to, Error: relative(after, v)})
	return out, nil
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
