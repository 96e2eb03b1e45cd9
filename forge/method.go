package forge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Methods of quantisation beside rounding. They need the Moments of inputs.
const (
	GPTQ        = "gptq"        // later columns make up for the errors of those before (arXiv:2210.17323)
	AWQ         = "awq"         // columns with large inputs are scaled up first, and their inputs down (arXiv:2306.00978)
	SmoothQuant = "smoothquant" // columns are scaled so that inputs have fewer outliers (arXiv:2211.10438)
)

// MethodOptions choose a method of quantisation and, where a folder of safetensors is written, its format: GPTQ, AWQ
// in gemm packing, or for SmoothQuant compressed-tensors of int8 weights and activations.
type MethodOptions struct {
	Method     string // one of the above; "" rounds
	Moments    map[string]*Moments
	Alpha      float64 // how much of the inputs' outliers SmoothQuant moves to weights, 0 to 1
	Bits       int     // of GPTQ, 4 or 8, or AWQ, 4
	Group      int     // inputs that share a scale, a multiple of 32
	ZeroPoints bool    // GPTQ's groups have zero points; AWQ's always do
	ActOrder   bool    // GPTQ takes columns with large inputs first
}

// check reports an option that the method or the format does not have.
func (o *MethodOptions) check(format weights.Format) error {
	switch {
	case o.Method == "" && format == weights.Safetensors:
		return fmt.Errorf("forge: safetensors are quantised by a method: %s, %s or %s; to round to block types, the name must end with .gguf", GPTQ, AWQ, SmoothQuant)
	case o.Method == "":
		return nil
	case !slices.Contains([]string{GPTQ, AWQ, SmoothQuant}, o.Method):
		return fmt.Errorf("forge: method %q is not known; known are %s, %s and %s", o.Method, GPTQ, AWQ, SmoothQuant)
	case len(o.Moments) == 0:
		return fmt.Errorf("forge: %s needs a calibration text", o.Method)
	case o.Method == SmoothQuant && !(o.Alpha >= 0 && o.Alpha <= 1):
		return fmt.Errorf("forge: an alpha of %v; want 0 to 1", o.Alpha)
	case format == weights.GGUF || o.Method == SmoothQuant:
		return nil
	case o.Bits != 4 && (o.Bits != 8 || o.Method == AWQ):
		return fmt.Errorf("forge: %d bits; %s has 4, and gptq 8 too", o.Bits, o.Method)
	case o.Group < 32 || o.Group%32 != 0:
		return fmt.Errorf("forge: groups of %d inputs; want a multiple of 32", o.Group)
	}
	return nil
}

// moments returns what is known of a weight's inputs, nil if it is nothing.
func (o *MethodOptions) moments(t *tensor) *Moments {
	if len(t.From) != 1 || t.Transposed || len(t.Shape) != 2 || !slices.Contains(linears, t.Slot) || !strings.HasSuffix(t.Name, ".weight") {
		return nil
	}
	if m := o.Moments[t.From[0]]; m != nil && m.In() == t.Shape[1] {
		return m
	}
	return nil
}

// linears are the slots of weights that methods change.
var linears = []string{"q", "k", "v", "qkv", "o", "gate", "up", "gate_up", "down"}

// decoded returns a tensor's values, scaled as a method has decided.
func (t *tensor) decoded() ([]float32, error) {
	v, err := decode(t.Translated)
	if err != nil {
		return nil, err
	}
	scale(v, t.cols, t.rows)
	return v, nil
}

// scale multiplies columns and divides rows.
func scale(v, cols, rows []float32) {
	if cols != nil {
		for i := range v {
			v[i] *= cols[i%len(cols)]
		}
	}
	if rows != nil {
		for i := range v {
			v[i] /= rows[i/(len(v)/len(rows))]
		}
	}
}

// sampled is how many rows of a weight errors of outputs are measured on.
const sampled = 128

// sample returns rows of a weight of n columns, evenly spaced.
func sample(v []float32, n, most int) []float32 {
	var rows []float32
	all := len(v) / n
	for i := range min(all, most) {
		rows = append(rows, v[i*all/min(all, most)*n:][:n]...)
	}
	return rows
}

// lost returns |x(quantised - original)ᵀ|² and |x·originalᵀ|² over inputs x, of a weight whose columns were
// multiplied with cols.
func (m *Moments) lost(quantised, original, cols []float32) (lost, all float64) {
	n := m.In()
	d, w := make([]float32, len(original)), slices.Clone(original)
	for i, v := range quantised {
		d[i] = v - original[i]
		if cols != nil {
			d[i], w[i] = d[i]/cols[i%n], w[i]/cols[i%n]
		}
	}
	return m.energy(d), m.energy(w)
}

// importances returns what each column counts once it is multiplied with cols.
func (m *Moments) importances(cols []float32) []float32 {
	out := m.squares()
	for i := range out {
		if cols != nil {
			out[i] /= cols[i] * cols[i]
		}
	}
	return out
}

// quantiser applies a method to the weights that are written.
type quantiser struct {
	*QuantizeOptions
	w       *writer
	pack    packing // of a folder
	skipped []string

	last *Moments // whose factor is
	u    []float32
}

// kind is what a weight is quantised to.
func (q *quantiser) kind(t *tensor) fmt.Stringer {
	if q.w.format == weights.GGUF {
		return t.to
	}
	return model.Scheme{Bits: q.pack.bits, Group: q.pack.group, Rows: 1}
}

// rounder returns what rounds one row of a weight, whose result nobody wants.
func (q *quantiser) rounder(t *tensor) rounder {
	if q.w.format == weights.GGUF {
		return blockRounder(make([]byte, t.Shape[1]/t.to.BlockValues()*t.to.BlockBytes()), t.to)
	}
	return q.pack.rounder(t.Shape[1], nil, nil, nil)
}

// roundable reports whether a method can change what is made of a weight.
func (q *quantiser) roundable(t *tensor) bool {
	_, ok := quant.AffineOf(t.to)
	return q.moments(t) != nil && (q.w.format == weights.Safetensors || ok)
}

// factor returns what errors of weights with these inputs are made up with. Neighbours share it.
func (q *quantiser) factor(m *Moments, gram []float32) (u []float32, err error) {
	if q.last != m {
		if q.u, err = factor(gram, m.In()); err != nil {
			return nil, err
		}
		q.last = m
	}
	return q.u, nil
}

// plainError returns the relative error of outputs that rounding a weight as it stands gives.
func (q *quantiser) plainError(t *tensor, m *Moments) (float64, error) {
	v, err := decode(t.Translated)
	if err != nil {
		return 0, err
	}
	rows := sample(v, m.In(), sampled)
	rounded := slices.Clone(rows)
	if err := compensate(rounded, m.In(), nil, m.squares(), func(int) rounder { return q.rounder(t) }); err != nil {
		return 0, err
	}
	return outputError(m.lost(rounded, rows, nil)), nil
}
