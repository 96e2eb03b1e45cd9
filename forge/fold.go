package forge

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// fold is a place where scales cancel out: columns of some weights are multiplied with what the values that they read
// are divided by.
type fold struct {
	source *tensor   // a norm, or a weight whose outputs they are
	bias   *tensor   // of the source, or nil
	to     []*tensor // weights
	shared int       // outputs of heads of this length are read by `times` heads each; 0: all are read once
	times  int
}

// folds returns the places of a layer, or why there are none.
func (q *quantiser) folds(i int) (out []fold, skipped []string) {
	l := q.w.spec.Layers[i]
	a, plain := l.Mixer.(model.GQA)
	f := l.FFN
	skip := func(what, why string) {
		skipped = append(skipped, fmt.Sprintf("layer %d: %s are not scaled: %s", i, what, why))
	}
	add := func(what, from string, x fold, slots ...string) {
		x.source, x.bias = q.find(from, i, ".weight"), q.find(from, i, ".bias")
		for _, slot := range slots {
			if t := q.find(slot, i, ".weight"); t != nil && q.moments(t) != nil {
				x.to = append(x.to, t)
			} else if t != nil {
				skip(what, "nothing is known of those of "+t.Name)
				return
			}
		}
		if x.source == nil || x.source.Type.BlockValues() > 1 || len(x.to) == 0 {
			skip(what, "nothing to scale them with")
			return
		}
		out = append(out, x)
	}
	attention, feed := []string{"q", "k", "v", "qkv"}, []string{"gate", "up", "gate_up"}
	plain = plain && !a.Gated
	switch {
	case !l.PreNorm:
		skip("inputs", "no norm stands before them")
	case l.Parallel && plain && f.Experts.Count == 0:
		add("inputs", "attn.norm", fold{}, append(attention, feed...)...)
	case !plain || l.Parallel:
		skip("inputs of attention", "its kind")
	default:
		add("inputs of attention", "attn.norm", fold{}, attention...)
	}
	switch {
	case f.Experts.Count > 0:
		skip("inputs of experts", "their router reads them too")
	case l.PreNorm && !l.Parallel:
		add("inputs of the feed-forward", "ffn.norm", fold{}, feed...)
	}
	if q.Method != AWQ {
		return out, skipped
	}
	switch {
	case !plain || a.Clip > 0:
		skip("values", "their kind")
	case q.find("v", i, ".weight") == nil:
		skip("values", "they are one tensor with queries")
	default:
		add("values", "v", fold{shared: a.ValueDim, times: a.Heads / a.KVHeads}, "o")
	}
	switch {
	case f.Experts.Count > 0:
	case !f.Gated:
		skip("inputs of the down projection", "they come from an activation")
	case q.find("up", i, ".weight") == nil || q.find("gate", i, ".weight") == nil:
		skip("inputs of the down projection", "gate and up are one tensor")
	default:
		add("inputs of the down projection", "up", fold{}, "down")
	}
	return out, skipped
}

// find returns the tensor of a slot, or nil.
func (q *quantiser) find(slot string, layer int, suffix string) *tensor {
	for i := range q.w.tensors {
		t := &q.w.tensors[i]
		if t.Slot == slot && t.Layer == layer && len(t.Name) > len(suffix) && t.Name[len(t.Name)-len(suffix):] == suffix {
			return t
		}
	}
	return nil
}

// foldAll chooses scales for every layer and gives them to its tensors.
func (q *quantiser) foldAll(ctx context.Context) error {
	for i := range q.w.spec.Layers {
		folds, skipped := q.folds(i)
		q.skipped = append(q.skipped, skipped...)
		for _, f := range folds {
			if err := ctx.Err(); err != nil {
				return err
			}
			scales, err := q.scales(f)
			if err == nil {
				err = q.apply(f, scales)
			}
			if err != nil {
				return err
			}
		}
		if q.Searching != nil {
			q.Searching(i+1, len(q.w.spec.Layers))
		}
	}
	return nil
}

// scales chooses what the columns of a fold are multiplied with.
func (q *quantiser) scales(f fold) ([]float32, error) {
	m := q.moments(f.to[0])
	values := make([][]float32, len(f.to))
	most := make([]float32, m.In()) // greatest weight of each column
	for i, t := range f.to {
		v, err := decode(t.Translated)
		if err != nil {
			return nil, err
		}
		for k, x := range v {
			most[k%len(most)] = max(most[k%len(most)], x, -x)
		}
		values[i] = sample(v, m.In(), sampled/2)
	}
	if q.Method == SmoothQuant {
		scales := make([]float32, m.In())
		for k := range scales { // inputs are divided by them
			scales[k] = float32(math.Pow(float64(m.Most[k]), q.Alpha) / math.Pow(float64(most[k]), 1-q.Alpha))
		}
		return bounded(f.alike(scales)), nil
	}
	best, chosen := math.Inf(1), []float32(nil)
	const steps = 10
	for step := range steps {
		scales := make([]float32, m.In())
		for k, v := range m.Means {
			scales[k] = float32(math.Pow(float64(v), float64(step)/steps))
		}
		scales = bounded(f.alike(scales))
		lost, err := q.lossOf(f, values, scales)
		if err != nil {
			return nil, err
		}
		if lost < best {
			best, chosen = lost, scales
		}
	}
	return chosen, nil
}

// lossOf returns the squared error of outputs, over those of each weight, that some rows have when they are scaled
// and rounded.
func (q *quantiser) lossOf(f fold, values [][]float32, scales []float32) (float64, error) {
	sum := 0.0
	for i, t := range f.to {
		m := q.moments(t)
		if !q.roundable(t) {
			continue // nothing is lost
		}
		rows := slices.Clone(values[i])
		scale(rows, scales, nil)
		rounded := slices.Clone(rows)
		if err := compensate(rounded, m.In(), nil, m.importances(scales), func(int) rounder { return q.rounder(t) }); err != nil {
			return 0, err
		}
		lost, _ := m.lost(rounded, rows, scales)
		sum += lost * float64(t.Shape[0]) / float64(len(rows)/m.In())
	}
	return sum, nil
}

// alike makes scales of columns that read one value the same, their geometric mean.
func (f fold) alike(scales []float32) []float32 {
	if f.times < 2 {
		return scales
	}
	for at := 0; at < len(scales); at += f.shared * f.times {
		for d := range f.shared {
			sum := 0.0
			for h := range f.times {
				sum += math.Log(float64(max(scales[at+h*f.shared+d], 1e-4)))
			}
			for h := range f.times {
				scales[at+h*f.shared+d] = float32(math.Exp(sum / float64(f.times)))
			}
		}
	}
	return scales
}

// bounded keeps scales in a range, about 1 in the middle.
func bounded(scales []float32) []float32 {
	sum := 0.0
	for i, v := range scales {
		scales[i] = min(max(v, 1e-4), 1e4)
		if !(v > 0) {
			scales[i] = 1
		}
		sum += math.Log(float64(scales[i]))
	}
	mean := float32(math.Exp(sum / float64(len(scales))))
	for i := range scales {
		scales[i] = min(max(scales[i]/mean, 1e-3), 1e3)
	}
	return scales
}

// apply gives scales to the tensors of a fold. Those of a norm become what its stored gains say exactly.
func (q *quantiser) apply(f fold, scales []float32) error {
	if len(f.source.Shape) > 1 {
		rows := scales
		if f.times > 1 {
			rows = nil
			for at := 0; at < len(scales); at += f.shared * f.times {
				rows = append(rows, scales[at:at+f.shared]...)
			}
		}
		if len(rows) != f.source.Shape[0] {
			return fmt.Errorf("forge: tensor %q has %d outputs; want %d", f.source.Name, f.source.Shape[0], len(rows))
		}
		f.source.rows = rows
		if f.bias != nil {
			f.bias.rows = rows
			f.bias.values = f.bias.scaled
		}
	} else if err := q.divideNorm(f, scales); err != nil {
		return err
	}
	for _, t := range f.to {
		t.cols = scales
	}
	return nil
}

// scaled returns a vector's bytes.
func (t *tensor) scaled(context.Context) ([]byte, error) {
	v, err := t.decoded()
	if err != nil {
		return nil, err
	}
	return encode(t.Name, v, t.to, func(dst []byte, src []float32, _ int) error { return quant.Encode(dst, src, t.to) })
}

// divideNorm divides a norm's gains by scales, which change to what the rounded gains were divided by.
func (q *quantiser) divideNorm(f fold, scales []float32) error {
	t, more := f.source, float32(0)
	if q.w.spec.Norm.PlusOne && q.w.format == weights.Safetensors {
		more = 1
	}
	gains, err := decode(t.Translated)
	if err != nil {
		return err
	}
	if len(gains) != len(scales) {
		return fmt.Errorf("forge: tensor %q has %d gains; want %d", t.Name, len(gains), len(scales))
	}
	divided := make([]float32, len(gains))
	for k, g := range gains {
		divided[k] = (g+more)/scales[k] - more
	}
	data, err := encode(t.Name, divided, t.to, func(dst []byte, src []float32, _ int) error { return quant.Encode(dst, src, t.to) })
	if err != nil {
		return err
	}
	stored, err := decode(Translated{Name: t.Name, Type: t.to, Shape: t.Shape, Read: func() ([]byte, error) { return data, nil }})
	if err != nil {
		return err
	}
	for k, g := range gains {
		if scales[k] = 1; stored[k]+more != 0 && g+more != 0 {
			scales[k] = (g + more) / (stored[k] + more)
		}
	}
	t.values = func(context.Context) ([]byte, error) { return data, nil }
	if f.bias != nil {
		f.bias.rows = scales
		f.bias.values = f.bias.scaled
	}
	return nil
}
