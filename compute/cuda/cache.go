package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// kvTypes are the types of keys and values, as kernels/kv.cuh numbers them, and the ends of the names of the kernels
// that attend to them.
var kvTypes = []struct {
	typ    quant.Type
	suffix string
}{{quant.BF16, ""}, {quant.F16, "_f16"}, {quant.F8_E4M3, "_fp8"}, {quant.Q8_0, "_q8"}}

// kindOfKV returns the number of a type of keys and values, -1 if it is none.
func kindOfKV(t quant.Type) int {
	for i, k := range kvTypes {
		if k.typ == t {
			return i
		}
	}
	return -1
}

// kvBytes returns the bytes of one head's key or value of one token.
func kvBytes(t quant.Type, dim int) int {
	n, _ := t.RowBytes(roundUp(dim, t.BlockValues()))
	return n
}

// cache is a paged KV cache (kernels/cache.cu). Layers of different groups may share memory: a place.
type cache struct {
	d      *device
	spec   compute.CacheSpec
	places []place
	of     []int     // the place of each layer, -1 of a recurrent one
	states []pointer // of each recurrent layer, [States, State] of float32
	groups int
	block  int64 // bytes of a packed block: all places', one after the other

	// What move_blocks reads, for each place: where it begins, the bytes of a block, and where it is in a packed block.
	base, bytes, offset pointer
}

// place is the memory of the layers that share it: Blocks blocks of bytes each.
type place struct {
	at    pointer
	bytes int64
}

func (c *cache) Spec() compute.CacheSpec { return c.spec }

// Bytes returns the memory of blocks and of states.
func (c *cache) Bytes() int64 {
	n := c.block * int64(c.spec.Blocks)
	for i := range c.spec.Layers {
		n += c.stateBytes(i)
	}
	return n
}

// Close frees the memory of blocks and of states.
func (c *cache) Close() error {
	if c.d.lost.Load() { // it goes with the device
		return nil
	}
	if err := c.d.g.enter(); err != nil {
		return err
	}
	defer c.d.g.leave()
	return errors.Join(c.d.loading.wait(), c.free())
}

func (c *cache) free() error {
	errs := []error{c.d.drop(c.d.g, c.base)}
	for _, at := range c.states {
		errs = append(errs, c.d.drop(c.d.g, at))
	}
	for i := range c.places {
		errs = append(errs, c.d.drop(c.d.g, c.places[i].at))
	}
	return errors.Join(errs...)
}

// stateBytes returns the memory of a recurrent layer's states, 0 for other layers.
func (c *cache) stateBytes(layer int) int64 {
	return 4 * int64(c.spec.States) * int64(c.spec.Layers[layer].State)
}

// layout makes a cache without memory: it computes places and their sizes.
func layout(spec compute.CacheSpec) *cache {
	c := &cache{spec: spec, groups: spec.Groups()}
	next := make([]int, c.groups)
	for _, l := range spec.Layers {
		if l.State > 0 {
			c.of = append(c.of, -1)
			continue
		}
		at := next[l.Group]
		next[l.Group]++
		if at == len(c.places) {
			c.places = append(c.places, place{})
		}
		size := kvBytes(spec.Type, l.KDim)
		if !l.Latent {
			size += kvBytes(spec.Type, l.VDim)
		}
		n := int64(roundUp(l.KVHeads*size*spec.BlockTokens, 16))
		c.places[at].bytes = max(c.places[at].bytes, n)
		c.of = append(c.of, at)
	}
	for _, p := range c.places {
		c.block += p.bytes
	}
	return c
}

// CacheBytes returns the memory of a cache.
func (d *device) CacheBytes(spec compute.CacheSpec) int64 {
	if kindOfKV(spec.Type) < 0 {
		if spec.Blocks > 0 {
			return 0
		}
		spec.Type = quant.BF16 // of which there is nothing: the states count
	}
	return layout(spec).Bytes()
}

// Cache makes a cache.
func (d *device) Cache(spec compute.CacheSpec) (compute.Cache, error) {
	if kindOfKV(spec.Type) < 0 {
		return nil, fmt.Errorf("cuda: a cache of %v; want one of %v", spec.Type, d.KVTypes())
	}
	for i, l := range spec.Layers {
		if l.State > 0 && spec.States < 1 {
			return nil, fmt.Errorf("cuda: layer %d of the cache has a state, and there are %d slots for it", i, spec.States)
		}
	}
	if spec.Blocks < 1 || spec.BlockTokens < 1 {
		return nil, fmt.Errorf("cuda: a cache of %d blocks of %d tokens", spec.Blocks, spec.BlockTokens)
	}
	if err := d.g.enter(); err != nil {
		return nil, err
	}
	defer d.g.leave()
	wide := func(l compute.CacheLayer) bool { return l.KDim > narrowHead && !l.Latent && attendDims[l.KDim] != "" }
	for _, w := range []bool{false, true} {
		if w && !slices.ContainsFunc(spec.Layers, wide) {
			continue
		}
		if err := d.g.loadAttention(d.kernels, kindOfKV(spec.Type), w); err != nil {
			return nil, err
		}
	}
	c := layout(spec)
	c.d, c.states = d, make([]pointer, len(spec.Layers))
	for i := range spec.Layers {
		if n := c.stateBytes(i); n > 0 {
			if err := d.take(&c.states[i], n, "recurrent states"); err != nil {
				return nil, errors.Join(err, c.free())
			}
		}
	}
	var offset, tail int64
	for _, l := range spec.Layers {
		if l.KDim%boxInputs != 0 {
			tail = boxTail
		}
	}
	var table []byte
	for i := range c.places {
		p := &c.places[i]
		if err := d.take(&p.at, p.bytes*int64(spec.Blocks)+tail, "the KV cache"); err != nil {
			return nil, errors.Join(fmt.Errorf("%w; the cache was to take %s in all", err, gigabytes(c.Bytes())), c.free())
		}
		table = binary.LittleEndian.AppendUint64(table, uint64(p.at))
		table = binary.LittleEndian.AppendUint64(table, uint64(p.bytes))
		table = binary.LittleEndian.AppendUint64(table, uint64(offset))
		offset += p.bytes
	}
	n := len(c.places)
	columns := make([]byte, 0, len(table))
	for column := range 3 {
		for i := range n {
			columns = append(columns, table[(i*3+column)*8:][:8]...)
		}
	}
	if err := d.take(&c.base, int64(len(columns)), "the KV cache"); err != nil {
		return nil, errors.Join(err, c.free())
	}
	c.bytes, c.offset = c.base.at(int64(8*n)), c.base.at(int64(16*n))
	err := d.stage(func(to pinned) { copy(to.bytes(), columns) })
	return c, errors.Join(err, d.loading.toDevice(c.base, d.staging[d.half], 0, len(columns)), d.staged(), d.loading.wait())
}

// largest returns the bytes of the largest place of a block.
func (c *cache) largest() (n int) {
	for _, p := range c.places {
		n = max(n, int(p.bytes))
	}
	return n
}

// layer returns where a layer is, with its block tables at tables, [groups, slots, stride].
func (c *cache) layer(i int, tables pointer, slots, stride int) layerArgs {
	l, p := c.spec.Layers[i], c.places[c.of[i]]
	return layerArgs{
		at: p.at, table: tables.at(4 * int64(l.Group) * int64(slots) * int64(stride)), block: p.bytes / 2,
		stride: int32(stride), tokens: int32(c.spec.BlockTokens), heads: int32(l.KVHeads),
		keyDim: int32(l.KDim), valueDim: int32(l.VDim),
	}
}

// rotatesWhole reports whether rotateWhole of cache.cu can rotate queries and keys, and store keys and values.
func (p *program) rotatesWhole(q, k *compute.Rotate, st *compute.Store) bool {
	const mostWhole = 256
	dim, layer := q.Angles.Cols, p.cache.spec.Layers[st.Layer]
	return !q.Rotary.Interleaved && !k.Rotary.Interleaved && q.Rotary.Skip == 0 && k.Rotary.Skip == 0 && k.Angles.Cols == dim &&
		q.Rotary.HeadDim == dim && k.Rotary.HeadDim == dim && layer.KDim == dim && layer.VDim == dim && dim%4 == 0 && dim <= mostWhole &&
		st.V.Buffer != 0 && p.view(q.X).wide+p.view(k.X).wide+p.view(st.V).wide == 0
}

// store compiles the rotations q and k, and the storing st of keys and values; any may be nil. norms, if not nil, are
// those of the heads of queries and keys, which come first.
func (p *program) store(q, k *compute.Rotate, st *compute.Store, norms *[2]compute.Norm) operation {
	args := storeArgs{}
	if norms != nil {
		args.qGain, args.qEps = norms[0].Gain.(*vector).at, norms[0].Eps
		args.kGain, args.kEps = norms[1].Gain.(*vector).at, norms[1].Eps
	}
	for _, r := range []*compute.Rotate{q, k} {
		if r == nil {
			continue
		}
		args.skip, args.pairs = int32(r.Rotary.Skip), int32(r.Angles.Cols/2)
		if r.Rotary.Interleaved {
			args.neighbours = 1
		}
	}
	kind := kindOfKV(p.cache.spec.Type)
	if q != nil && k != nil && st != nil && p.rotatesWhole(q, k, st) {
		args.whole, args.kind = 1, int32(kind)
	}
	return func(s *shape) error {
		if st != nil {
			if err := p.untilMoved(st.Layer); err != nil {
				return err
			}
		}
		a := args
		a.pos, a.slot = s.pos, s.slot
		rows := uint32(s.count[compute.AllRows])
		if st != nil && kind > 0 && args.whole == 0 { // keys are rotated by now
			b := storeAnyArgs{k: p.view(st.K), v: p.view(st.V), pos: s.pos, slot: s.slot, kind: int32(kind),
				cache: p.cache.layer(st.Layer, p.tables, p.limits.Slots, p.stride)}
			return run(p, "store_any", grid{rows, 2, 1}, 256, &b)
		}
		if q != nil {
			a.q, a.angles = p.view(q.X), p.view(q.Angles)
			a.qHeads, a.qDim = int32(q.Rotary.Heads), int32(q.Rotary.HeadDim)
		}
		if k != nil {
			a.k, a.angles = p.view(k.X), p.view(k.Angles)
			a.kHeads, a.kDim = int32(k.Rotary.Heads), int32(k.Rotary.HeadDim)
		}
		if st != nil {
			a.stores, a.cache = 1, p.cache.layer(st.Layer, p.tables, p.limits.Slots, p.stride)
			a.k, a.v = p.view(st.K), p.view(st.V)
		}
		parts := uint32(8) // blocks of a row
		switch {
		case rows > 256:
			parts = 1
		case rows > 64:
			parts = 2
		}
		kernel := "rotate_store"
		if args.whole == 1 && kind > 0 {
			kernel = "rotate_store_any"
		}
		return run(p, kernel, grid{rows, parts, 1}, 256, &a)
	}
}
