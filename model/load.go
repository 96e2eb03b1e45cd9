package model

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Model is a decoder whose weights are on a device. But for the adapters in its slots it is immutable; it serves any number of
// Runners.
type Model struct {
	Spec  *Spec
	Bytes int64 // of the weights on the device

	// KVType is the type of keys and values in the caches of Runners, 0 for F32. It may change before NewRunner.
	KVType quant.Type

	dev              compute.Device
	embed, positions compute.Matrix
	types            compute.Matrix // of tokens
	embedNorm        compute.Norm
	pooler, head     linear
	norm             compute.Norm
	freqs, long      []compute.Vector // of each of Spec.Ropes; long may be nil
	layers           []layer

	format  weights.Format // of the checkpoint it came from
	modules []module       // what adapters may change
	placed  []bool         // by adapter slot; the first is nobody's
}

// layer holds the weights of one layer. Norms that the Spec does not have are zero.
type layer struct {
	attnNorm, ffnNorm, attnPost, ffnPost compute.Norm
	qNorm, kNorm                         compute.Norm
	q, k, v, o                           linear // in latent attention, k makes the latents, and v those of queries
	outGate                              linear
	keysUp, valuesUp                     []compute.Matrix // of each head, from latents
	delta                                compute.Delta
	gate, up, down                       linear // of a dense feed-forward, or of the shared expert
	mixture                              mixture
	sinks                                compute.Vector
}

// linear is a weight and its bias, nil if it has none.
type linear struct {
	w    compute.Matrix
	bias compute.Vector
	at   *target // nil if it takes no adapters
}

// Load reads the Spec of a checkpoint and takes its weights over to a device. progress, if not nil, hears of bytes of
// the checkpoint read so far and in all. The checkpoint may be closed afterwards.
func Load(ckpt *weights.Checkpoint, dev compute.Device, progress func(done, total int64)) (*Model, error) {
	spec, err := ReadSpec(ckpt)
	if err != nil {
		return nil, err
	}
	f := familyOf(spec)
	l := &loader{ckpt: ckpt, dev: dev, progress: progress, family: f, slots: slotsOf(f, ckpt), used: map[string]bool{}}
	l.quantized = spec.Quantization
	l.transposed = f.transposed && ckpt.Format() != weights.GGUF
	for _, t := range ckpt.Tensors() {
		l.total += t.Size
	}
	m := &Model{Spec: spec, dev: dev, format: ckpt.Format()}
	if spec.TiedHead && l.hasOwnHead() {
		spec.TiedHead = false
	}
	l.embeddings(m, spec)
	l.head(m, spec)
	for i := 0; i < len(spec.Layers) && l.err == nil; i++ {
		m.layers = append(m.layers, l.layer(i, spec))
	}
	for i, r := range spec.Ropes {
		v, err := dev.Vector(r.Freqs)
		l.keep(err)
		m.freqs, m.long = append(m.freqs, v), append(m.long, nil)
		if r.Long != nil {
			m.long[i], err = dev.Vector(r.Long)
			l.keep(err)
		}
	}
	l.refuseUnused(len(spec.Layers))
	if l.err != nil {
		return nil, l.err
	}
	m.Bytes, m.modules = l.bytes, l.modules
	m.MakeSlots(0)
	return m, nil
}

// loader takes tensors over by slot and keeps the first fault.
type loader struct {
	ckpt     *weights.Checkpoint
	dev      compute.Device
	family   *family
	slots    slots
	progress func(done, total int64)

	quantized  Quantization    // how linear weights may be stored
	transposed bool            // matrices of layers are stored as [in, out]
	used       map[string]bool // names of tensors taken over
	modules    []module        // what adapters may change

	done, total int64 // bytes of the checkpoint
	bytes       int64 // bytes on the device
	err         error
}

func (l *loader) keep(err error) {
	if l.err == nil {
		l.err = err
	}
}

// hasOwnHead reports whether the checkpoint has a head that differs from the embedding table. Then it counts, whatever the
// configuration says of tying.
func (l *loader) hasOwnHead() bool {
	if l.packed(l.slots["head"]) {
		return true
	}
	head, ok := l.ckpt.Tensor(l.slots["head"] + ".weight")
	embed, _ := l.ckpt.Tensor(l.slots["embed"] + ".weight")
	return ok && !bytes.Equal(head.Data, embed.Data)
}

// embeddings takes over what tokens become before the first layer.
func (l *loader) embeddings(m *Model, spec *Spec) {
	m.embed = l.matrix("embed", 0, spec.Vocab, spec.Hidden)
	if n, from := spec.Positions, spec.PositionsFrom; n > 0 {
		if table := l.weight("positions", 0, from+n, spec.Hidden); l.err == nil {
			m.positions = l.take(table.Rows(from, n))
		}
	}
	if spec.TokenTypes > 0 {
		m.types = l.matrix("types", 0, spec.TokenTypes, spec.Hidden)
	}
	if spec.EmbedNorm {
		m.embedNorm = l.norm("embed.norm", 0, spec.Norm, spec.Hidden)
	}
}

// head takes over what stands behind the last layer.
func (l *loader) head(m *Model, spec *Spec) {
	if spec.normed() {
		m.norm = l.norm("norm", 0, spec.Norm, spec.Hidden)
	}
	switch m.head = (linear{w: m.embed}); {
	case spec.Encoder && spec.Classes == 0:
		return
	case spec.Encoder:
		m.pooler = linear{w: l.matrix("pooler", 0, spec.Hidden, spec.Hidden), bias: l.vector("pooler", ".bias", 0, spec.Hidden)}
		m.head = linear{w: l.matrix("classes", 0, spec.Classes, spec.Hidden), bias: l.vector("classes", ".bias", 0, spec.Classes)}
		return
	case !spec.TiedHead:
		m.head.w = l.matrix("head", 0, spec.Vocab, spec.Hidden)
	}
	if spec.HeadBias {
		m.head.bias = l.vector("head", ".bias", 0, spec.Vocab)
	}
}

// layer takes over layer i.
func (l *loader) layer(i int, spec *Spec) layer {
	var out layer
	s, hidden := spec.Layers[i], spec.Hidden
	if s.PreNorm {
		out.attnNorm = l.norm("attn.norm", i, spec.Norm, hidden)
		if !s.Parallel {
			out.ffnNorm = l.norm("ffn.norm", i, spec.Norm, hidden)
		}
	}
	if s.PostNorm || s.SumNorm {
		out.attnPost = l.norm("attn.post", i, spec.Norm, hidden)
		out.ffnPost = l.norm("ffn.post", i, spec.Norm, hidden)
	}
	l.attention(&out, i, spec)
	l.feedForward(&out, i, s.FFN, hidden)
	return out
}

// part is one of several weights that read the same input.
type part struct {
	slot string
	out  int
}

// linears takes over weights that read the same input. Adapters may change each, or all at once by the name that joins them.
func (l *loader) linears(joined string, i, in int, bias bool, parts ...part) []linear {
	out := l.together(joined, i, in, bias, parts)
	join := module{slot: joined, layer: i}
	for _, w := range out {
		join.targets = append(join.targets, w.at)
	}
	l.modules = append(l.modules, join)
	return out
}

// together takes over each weight from a tensor of its own or, where the first has none, from its rows of the one tensor that
// joins them.
func (l *loader) together(joined string, i, in int, bias bool, parts []part) []linear {
	var out []linear
	if l.has(parts[0].slot, i) || !l.has(joined, i) {
		for _, p := range parts {
			out = append(out, l.linear(p.slot, i, p.out, in, bias))
		}
		return out
	}
	rows := 0
	for _, p := range parts {
		rows += p.out
	}
	w, biases := l.weight(joined, i, rows, in), []float32(nil)
	if bias {
		biases = l.values(joined, ".bias", i, rows)
	}
	if l.err != nil {
		return make([]linear, len(parts))
	}
	from := 0
	for _, p := range parts {
		part := linear{w: l.take(w.Rows(from, p.out)), at: l.adaptable(p.slot, i, p.out, in)}
		if bias {
			part.bias = l.upload(biases[from:][:p.out])
		}
		out, from = append(out, part), from+p.out
	}
	return out
}

func (l *loader) linear(slot string, i, out, in int, bias bool) linear {
	w := linear{w: l.matrix(slot, i, out, in), at: l.adaptable(slot, i, out, in)}
	if bias {
		w.bias = l.vector(slot, ".bias", i, out)
	}
	return w
}

func (l *loader) norm(slot string, i int, n Norm, size int) compute.Norm {
	out := compute.Norm{Eps: n.Eps, Center: n.Center, Gain: l.gain(slot, i, n, size)}
	if n.Bias {
		out.Bias = l.vector(slot, ".bias", i, size)
	}
	return out
}

// headNorm takes over the norm of queries or keys. It spans a row if the stored gain is that long; else a head, with gains of
// its own for each head if they have the shape [heads, headDim].
func (l *loader) headNorm(slot string, i int, n Norm, heads, headDim int) compute.Norm {
	size := headDim
	if t, ok := l.ckpt.Tensor(l.slots.name(slot, i) + ".weight"); ok && len(t.Shape) == 2 {
		return compute.Norm{Eps: n.Eps, Center: n.Center, Group: headDim, Gain: l.upload(l.named(t.Name, heads, headDim))}
	} else if ok && t.Values() == heads*headDim {
		size = heads * headDim
	}
	return l.norm(slot, i, n, size)
}

// gain takes over a norm's gain.
func (l *loader) gain(slot string, i int, n Norm, size int) compute.Vector {
	v := l.values(slot, ".weight", i, size)
	if n.PlusOne && l.ckpt.Format() != weights.GGUF { // GGUF files hold the sum
		for j := range v {
			v[j]++
		}
	}
	return l.upload(v)
}

// vector takes over a bias or another vector of size values.
func (l *loader) vector(slot, suffix string, i, size int) compute.Vector {
	return l.upload(l.values(slot, suffix, i, size))
}

func (l *loader) upload(v []float32) compute.Vector {
	if l.err != nil {
		return nil
	}
	out, err := l.dev.Vector(v)
	l.keep(err)
	l.bytes += int64(len(v)) * 4
	return out
}

// values decodes a vector.
func (l *loader) values(slot, suffix string, i, size int) []float32 {
	return l.named(l.slots.name(slot, i)+suffix, size)
}

// named decodes the tensor of that name.
func (l *loader) named(name string, shape ...int) []float32 {
	t, ok := l.tensor(name, shape...)
	if !ok {
		return nil
	}
	v, err := decode(t)
	l.keep(err)
	return v
}

// matrix takes over a weight of out rows of in values.
func (l *loader) matrix(slot string, i, out, in int) compute.Matrix {
	return l.take(l.weight(slot, i, out, in))
}

// weight finds a weight of out rows of in values.
func (l *loader) weight(slot string, i, out, in int) compute.Source {
	name := l.slots.name(slot, i)
	if !l.transposed || !strings.Contains(l.slots[slot], "%d") || l.packed(name) {
		return l.stored(name, out, in)
	}
	t, ok := l.tensor(name+".weight", in, out)
	if !ok {
		return compute.Source{}
	}
	data, err := transposed(t)
	l.keep(err)
	return compute.Source{Name: t.Name, Type: t.Type, Out: out, In: in, Data: data}
}

// transposed returns the values of a tensor column by column.
func transposed(t weights.Tensor) ([]byte, error) {
	if t.Type.BlockValues() != 1 {
		return nil, fmt.Errorf("model: tensor %q: values in blocks of type %v cannot be transposed", t.Name, t.Type)
	}
	size, rows, cols := t.Type.BlockBytes(), t.Shape[0], t.Shape[1]
	out := make([]byte, 0, len(t.Data))
	for c := range cols {
		for r := range rows {
			out = append(out, t.Data[(r*cols+c)*size:][:size]...)
		}
	}
	return out, nil
}

// take gives a weight to the device.
func (l *loader) take(src compute.Source) compute.Matrix {
	if l.err != nil {
		return nil
	}
	m, err := l.dev.Matrix(src)
	if err != nil {
		l.keep(err)
		return nil
	}
	l.ckpt.Release(src.Data)
	l.bytes += m.Bytes()
	return m
}

// refuseUnused refuses a checkpoint with a tensor that its configuration has no use for.
func (l *loader) refuseUnused(layers int) {
	for slot, pattern := range l.slots {
		if slot == "head" || slot == "pooler" { // may repeat the embedding table; may have served training alone
			continue
		}
		for i := range layers {
			for _, name := range l.slots.tensors(slot, i) {
				if t, ok := l.ckpt.Tensor(name); ok && !l.used[name] && !(l.quantized.Method != "" && allZero(t)) {
					l.keep(fmt.Errorf("model: the configuration has no use for tensor %q", name))
				}
			}
			if !strings.Contains(pattern, "%d") {
				break
			}
		}
		l.refuseFurther(slot, pattern, layers)
	}
}

// refuseFurther refuses a layer after the last, unless it is one that predicts further tokens, which has a weight of its own.
func (l *loader) refuseFurther(slot, pattern string, layers int) {
	before, _, inLayer := strings.Cut(pattern, "%d")
	if !inLayer {
		return
	}
	for _, own := range []string{".eh_proj.weight", ".nextn.eh_proj.weight"} {
		if _, ok := l.ckpt.Tensor(before + strconv.Itoa(layers) + own); ok {
			return
		}
	}
	for _, name := range l.slots.tensors(slot, layers) {
		if _, ok := l.ckpt.Tensor(name); ok {
			l.keep(fmt.Errorf("model: tensor %q is of a layer after the last; the configuration asks for %d layers", name, layers))
		}
	}
}

// tensor finds a tensor and checks its shape.
func (l *loader) tensor(name string, shape ...int) (weights.Tensor, bool) {
	if l.err != nil {
		return weights.Tensor{}, false
	}
	t, ok := l.ckpt.Tensor(name)
	if !ok {
		l.keep(fmt.Errorf("model: tensor %q of shape %v is missing", name, shape))
		return t, false
	}
	if !slices.Equal(t.Shape, shape) {
		l.keep(fmt.Errorf("model: tensor %q has shape %v; the configuration asks for %v", name, t.Shape, shape))
		return t, false
	}
	l.used[name] = true
	l.done += t.Size
	if l.progress != nil {
		l.progress(l.done, l.total)
	}
	return t, true
}

// decode returns a stored tensor's values.
func decode(t weights.Tensor) ([]float32, error) {
	v := make([]float32, t.Values())
	if err := quant.Decode(v, t.Data, t.Type); err != nil {
		return nil, fmt.Errorf("model: tensor %q: %w", t.Name, err)
	}
	return v, nil
}
