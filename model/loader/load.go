// Package loader reads the weights of a checkpoint, plain or quantised in any layout it knows, and uploads them to a
// device; it reads adapters too. It asks family what the checkpoint's model is and how its tensors are called, and
// knows nothing of what runs the result. Read Model first, then Reader.
package loader

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Model reads the Spec of a checkpoint and uploads its weights to a device. progress, if not nil, is called with the
// bytes of the checkpoint read so far and in all. The checkpoint may be closed afterwards.
func Model(ckpt *weights.Checkpoint, dev compute.Device, progress func(done, total int64)) (*model.Model, error) {
	return Part(ckpt, dev, 0, 1, progress)
}

// Part is Model for one part of a model that is divided among several devices (model.Spec.Shard).
func Part(ckpt *weights.Checkpoint, dev compute.Device, rank, of int, progress func(done, total int64)) (*model.Model, error) {
	whole, err := family.Read(ckpt)
	if err != nil {
		return nil, err
	}
	l := &loader{Reader: NewReader(ckpt, whole, family.LayoutOf(whole, ckpt)), dev: dev, whole: whole}
	l.progress = progress
	if whole.TiedHead && l.hasOwnHead() {
		whole.TiedHead = false
	}
	spec := whole
	if of != 1 {
		if spec, err = whole.Shard(rank, of); err != nil {
			return nil, err
		}
	}
	l.part = spec.Part
	l.embeddings(spec)
	l.head(spec)
	for i := 0; i < len(spec.Layers) && l.err == nil; i++ {
		l.out.Layers = append(l.out.Layers, l.layer(i, spec))
	}
	l.refuseUnused(len(spec.Layers))
	if l.err != nil {
		return nil, l.err
	}
	return model.New(spec, l.out, dev)
}

// loader uploads weights by slot and keeps the first fault.
type loader struct {
	*Reader
	dev   compute.Device
	whole *model.Spec // what the checkpoint holds
	part  model.Part  // which part of it is loaded
	out   model.Weights
}

// embeddings loads the embedding tables and their norm.
func (l *loader) embeddings(spec *model.Spec) {
	l.out.Embed = l.matrix("embed", 0, spec.Vocab, spec.Hidden)
	if n, from := spec.Positions, spec.PositionsFrom; n > 0 {
		if table := l.Weight("positions", 0, from+n, spec.Hidden); l.err == nil {
			l.out.Positions = l.take(table.Rows(from, n))
		}
	}
	if spec.TokenTypes > 0 {
		l.out.Types = l.matrix("types", 0, spec.TokenTypes, spec.Hidden)
	}
	if spec.EmbedNorm {
		l.out.EmbedNorm = l.norm("embed.norm", 0, spec.Norm, spec.Hidden)
	}
}

// head loads the last norm and the head.
func (l *loader) head(spec *model.Spec) {
	if spec.Normed() {
		l.out.Norm = l.norm("norm", 0, spec.Norm, spec.Hidden)
	}
	switch l.out.Head = (model.Linear{W: l.out.Embed}); {
	case spec.Outputs() == 0:
		return
	case spec.Encoder:
		l.out.Pooler = model.Linear{W: l.matrix("pooler", 0, spec.Hidden, spec.Hidden), Bias: l.vector("pooler", ".bias", 0, spec.Hidden)}
		l.out.Head = model.Linear{W: l.matrix("classes", 0, spec.Classes, spec.Hidden), Bias: l.vector("classes", ".bias", 0, spec.Classes)}
		return
	case !spec.TiedHead:
		l.out.Head.W = l.rows(l.share("head", spec.Vocab), 0, spec.Hidden)
	case spec.Part.Of > 1:
		l.out.Head.W = l.rows(l.share("embed", spec.Vocab), 0, spec.Hidden)
	}
	if spec.HeadBias {
		l.out.Head.Bias = l.bias(l.share("head", spec.Vocab), 0)
	}
}

// layer loads layer i.
func (l *loader) layer(i int, spec *model.Spec) model.LayerWeights {
	var out model.LayerWeights
	s, hidden := spec.Layers[i], spec.Hidden
	if s.PreNorm {
		out.AttnNorm = l.norm("attn.norm", i, spec.Norm, hidden)
		if !s.Parallel {
			out.FFNNorm = l.norm("ffn.norm", i, spec.Norm, hidden)
		}
	}
	if s.PostNorm || s.SumNorm {
		out.AttnPost = l.norm("attn.post", i, spec.Norm, hidden)
		out.FFNPost = l.norm("ffn.post", i, spec.Norm, hidden)
	}
	out.Mixer = l.mixer(i, spec)
	l.feedForward(&out, i, l.whole.Layers[i].FFN, hidden)
	return out
}

// part is a weight, or some of its outputs: out of them, from output from on, of the all that the checkpoint has.
type part struct {
	slot           string
	all, from, out int
}

// undivided is a weight that every part of a model has.
func undivided(slot string, out int) part { return part{slot, out, 0, out} }

// share is this part's share of a weight's outputs.
func (l *loader) share(slot string, all int) part {
	from, out := l.part.Even(all)
	return part{slot, all, from, out}
}

// linears loads weights that read the same input. Adapters may change each, or all at once by the name that joins them.
func (l *loader) linears(joined string, i, in int, bias bool, parts ...part) []model.Linear {
	out := l.together(joined, i, in, bias, parts)
	join := model.Module{Slot: joined, Layer: i}
	for _, w := range out {
		join.Targets = append(join.Targets, w.Target)
	}
	l.out.Modules = append(l.out.Modules, join)
	return out
}

// together loads each weight from a tensor of its own or, where the first has none, from its rows of the one tensor
// that joins them.
func (l *loader) together(joined string, i, in int, bias bool, parts []part) []model.Linear {
	var out []model.Linear
	if l.Has(parts[0].slot, i) || !l.Has(joined, i) {
		for _, p := range parts {
			out = append(out, l.outputs(p, i, in, bias))
		}
		return out
	}
	rows := 0
	for _, p := range parts {
		rows += p.all
	}
	w, biases := l.Weight(joined, i, rows, in), []float32(nil)
	if bias {
		biases = l.Values(joined, ".bias", i, rows)
	}
	if l.err != nil {
		return make([]model.Linear, len(parts))
	}
	from := 0
	for _, p := range parts {
		rows, heads := w.Rows(from+p.from, p.out), l.heads(p.slot, i)
		rows.Heads = heads
		part := model.Linear{W: l.take(rows), Target: l.adaptable(p.slot, i, p.out, in)}
		if bias {
			part.Bias = l.upload(inOrder(heads, biases[from+p.from:][:p.out]))
		}
		out, from = append(out, part), from+p.all
	}
	return out
}

// linear loads a weight that every part of a model has.
func (l *loader) linear(slot string, i, out, in int, bias bool) model.Linear {
	return l.outputs(undivided(slot, out), i, in, bias)
}

// outputs loads a weight or some of its outputs.
func (l *loader) outputs(p part, i, in int, bias bool) model.Linear {
	w := model.Linear{W: l.rows(p, i, in), Target: l.adaptable(p.slot, i, p.out, in)}
	if bias {
		w.Bias = l.bias(p, i)
	}
	return w
}

// inputs loads this part's share of a weight's inputs. The products of all parts are summed; only the
// first part has the bias.
func (l *loader) inputs(slot string, i, out, all int, bias bool) model.Linear {
	from, in := l.part.Even(all)
	w := model.Linear{W: l.take(l.columns(l.Weight(slot, i, out, all), from, in)), Target: l.adaptable(slot, i, out, in)}
	if bias {
		if v := l.Values(slot, ".bias", i, out); l.part.First() {
			w.Bias = l.upload(v)
		}
	}
	return w
}

// columns returns in of a weight's inputs, from input from on.
func (l *loader) columns(src compute.Source, from, in int) compute.Source {
	if l.err != nil || in == src.In {
		return src
	}
	src, err := src.Inputs(from, in)
	l.keep(err)
	return src
}

// rows loads a weight without its bias.
func (l *loader) rows(p part, i, in int) compute.Matrix {
	src := l.Weight(p.slot, i, p.all, in)
	if l.err == nil && p.out != p.all {
		src = src.Rows(p.from, p.out)
	}
	src.Heads = l.heads(p.slot, i)
	return l.take(src)
}

// bias loads the bias of a weight.
func (l *loader) bias(p part, i int) compute.Vector {
	v := l.ordered(p.slot, ".bias", i, p.all)
	if l.err != nil {
		return nil
	}
	return l.upload(v[p.from:][:p.out])
}

func (l *loader) norm(slot string, i int, n model.Norm, size int) compute.Norm {
	out := compute.Norm{Eps: n.Eps, Center: n.Center, Gain: l.gain(slot, i, n, size)}
	if n.Bias {
		out.Bias = l.vector(slot, ".bias", i, size)
	}
	return out
}

// gain loads a norm's gain.
func (l *loader) gain(slot string, i int, n model.Norm, size int) compute.Vector {
	v := l.ordered(slot, ".weight", i, size)
	if n.PlusOne && l.ckpt.Format() != weights.GGUF { // GGUF files hold the sum
		for j := range v {
			v[j]++
		}
	}
	return l.upload(v)
}

// vector loads a bias or another vector of size values.
func (l *loader) vector(slot, suffix string, i, size int) compute.Vector {
	return l.upload(l.ordered(slot, suffix, i, size))
}

func (l *loader) upload(v []float32) compute.Vector {
	if l.err != nil {
		return nil
	}
	out, err := l.dev.Vector(v)
	l.keep(err)
	l.out.Bytes += int64(len(v)) * 4
	return out
}

// matrix loads a weight of out rows of in values.
func (l *loader) matrix(slot string, i, out, in int) compute.Matrix {
	return l.take(l.Weight(slot, i, out, in))
}

// take uploads a weight.
func (l *loader) take(src compute.Source) compute.Matrix {
	if l.err != nil {
		return nil
	}
	stored, kept := src.Data, false
	if src.Type == quant.F64 {
		if l.keep(narrow(&src)); l.err != nil {
			return nil
		}
	} else {
		src.Read = l.ckpt.Read
		src.Keep = func() func() {
			release := l.ckpt.Keep(stored)
			kept = release != nil
			return release
		}
	}
	m, err := l.dev.Matrix(src)
	if err != nil {
		l.keep(err)
		return nil
	}
	if !kept {
		l.ckpt.Release(stored)
	}
	l.out.Bytes += m.Bytes()
	return m
}

// narrow rounds a weight of F64 to F32.
func narrow(src *compute.Source) error {
	info := weights.Info{Name: src.Name, Type: src.Type, Shape: []int{src.Out, src.In}}
	v, err := weights.Tensor{Info: info, Data: src.Data}.Floats()
	if err != nil {
		return err
	}
	src.Type, src.Data = quant.F32, make([]byte, 4*len(v))
	return quant.Encode(src.Data, v, quant.F32)
}

// adaptable makes a weight a target of adapters.
func (l *loader) adaptable(slot string, i, out, in int) *model.Target {
	t := &model.Target{Slot: slot, Layer: i, Out: out, In: in}
	l.out.Modules = append(l.out.Modules, model.Module{Slot: slot, Layer: i, Targets: []*model.Target{t}})
	return t
}
