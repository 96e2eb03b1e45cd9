package cpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/quant"
)

// KVTypes are the types that keys and values can have.
var KVTypes = kernel.KVTypes

// cache is a paged KV cache. In a layer's part of a block, the keys of all heads come before their values, or stand
// alone if the layer is latent; of each head there are blockTokens/16 panels (KVTypes).
//
// The memory is in slabs: the first layers of all groups have their blocks in the first slab, and so on, since a block
// belongs to one group at a time.
type cache struct {
	spec     compute.CacheSpec
	layers   []cacheLayer
	slabs    []slab
	bytes    int64
	prefault *prefault // nil if there is none
}

// slab holds one layer's part of each block.
type slab struct {
	data []byte // [blocks, size]
	size int    // bytes of the largest layer
}

// block returns the memory of one block.
func (s *slab) block(b int) []byte { return s.data[b*s.size:][:s.size] }

type cacheLayer struct {
	compute.CacheLayer
	typ            quant.Type
	kTiles, vTiles int // of a panel
	kPanel, vPanel int // bytes of a panel; a latent layer has no panels of values
	slab           *slab
	state          []float32 // [States, State] of a recurrent layer
	blockToken     int
}

// layerOf returns the layout of a layer that keeps tokens.
func layerOf(spec compute.CacheSpec, l compute.CacheLayer) cacheLayer {
	t := cmp.Or(spec.Type, quant.F32)
	cl := cacheLayer{CacheLayer: l, typ: t, kTiles: kernel.KVTiles(t, l.KDim), vTiles: kernel.KVTiles(t, l.VDim), blockToken: spec.BlockTokens}
	cl.kPanel, cl.vPanel = kernel.KVBytes(t, cl.kTiles), kernel.KVBytes(t, cl.vTiles)
	if l.Latent {
		cl.vPanel = 0
	}
	return cl
}

// bytes returns the size of the layer's part of a block.
func (l *cacheLayer) bytes() int {
	return kernel.Padded(l.blockToken) / kernel.Lanes * l.KVHeads * (l.kPanel + l.vPanel)
}

func (c *cache) Spec() compute.CacheSpec { return c.spec }
func (c *cache) Bytes() int64            { return c.bytes }

// Close implements compute.Cache: the memory is for the garbage collector, once nothing has it ready.
func (c *cache) Close() error {
	if c.prefault != nil {
		c.prefault.stop()
	}
	return nil
}

// Cache implements compute.Device. BlockTokens must be a multiple of 16.
func (d *Device) Cache(spec compute.CacheSpec) (compute.Cache, error) {
	d.busy.Lock()
	defer d.busy.Unlock()
	if spec.Blocks < 1 || spec.BlockTokens < kernel.Lanes || spec.BlockTokens%kernel.Lanes != 0 {
		return nil, fmt.Errorf("cpu: a cache of %d blocks of %d tokens; want at least one, of a multiple of %d tokens", spec.Blocks, spec.BlockTokens, kernel.Lanes)
	}
	if spec.Type != 0 && !slices.Contains(kernel.KVTypes, spec.Type) {
		return nil, fmt.Errorf("cpu: a cache of type %v; known are %v", spec.Type, kernel.KVTypes)
	}
	c := &cache{spec: spec, bytes: d.CacheBytes(spec)}
	for _, n := range slabSizes(spec) {
		c.slabs = append(c.slabs, slab{data: d.arena.apart(spec.Blocks * n), size: n})
	}
	used := make([]int, spec.Groups())
	for i, l := range spec.Layers {
		cl := layerOf(spec, l)
		if l.State > 0 {
			if spec.States < 1 {
				return nil, fmt.Errorf("cpu: cache layer %d has a state, and there are %d slots for it", i, spec.States)
			}
			cl.state = kernel.View[float32](d.arena.apart(spec.States * l.State * 4))
			c.layers = append(c.layers, cl)
			continue
		}
		if l.KVHeads < 1 || l.KDim < 1 || l.VDim < 1 || l.Latent && (l.KVHeads != 1 || l.VDim > l.KDim) {
			return nil, fmt.Errorf("cpu: cache layer %d: %d heads of key %d and value %d (latent: %v)", i, l.KVHeads, l.KDim, l.VDim, l.Latent)
		}
		cl.slab = &c.slabs[used[l.Group]]
		used[l.Group]++
		c.layers = append(c.layers, cl)
	}
	if c.prefault = newPrefault(c.slabs, spec.Blocks, c.bytes); c.prefault != nil {
		guard.Go(func() error { c.prefault.run(d.done); return nil }, d.pool.fail)
	}
	return c, nil
}

// slabSizes returns how many bytes of a block each slab holds.
func slabSizes(spec compute.CacheSpec) []int {
	var sizes []int
	used := make([]int, spec.Groups())
	for _, l := range spec.Layers {
		if l.State > 0 {
			continue
		}
		j := used[l.Group]
		if used[l.Group]++; j == len(sizes) {
			sizes = append(sizes, 0)
		}
		cl := layerOf(spec, l)
		sizes[j] = max(sizes[j], (cl.bytes()+63)&^63)
	}
	return sizes
}

// CacheBytes implements compute.Device.
func (d *Device) CacheBytes(spec compute.CacheSpec) int64 {
	n := int64(0)
	for _, size := range slabSizes(spec) {
		n += int64(spec.Blocks) * int64(size)
	}
	for _, l := range spec.Layers {
		n += int64(spec.States) * int64(l.State) * 4
	}
	return n
}

// copyBlock copies what block from holds, of all layers, to block to.
func (c *cache) copyBlock(from, to int32) {
	for i := range c.slabs {
		s := &c.slabs[i]
		copy(s.block(int(to)), s.block(int(from)))
	}
}

// shift copies what the layers of a group hold of one token.
func (c *cache) shift(s compute.Shift) {
	for i := range c.layers {
		l := &c.layers[i]
		if l.State > 0 || l.Group != int(s.Group) {
			continue
		}
		for h := range l.KVHeads {
			l.copyToken(l.keys(int(s.To), h, int(s.ToAt)), int(s.ToAt), int(s.From), h, int(s.FromAt), false)
			if !l.Latent {
				l.copyToken(l.values(int(s.To), h, int(s.ToAt)), int(s.ToAt), int(s.From), h, int(s.FromAt), true)
			}
		}
	}
}

// copyToken copies the key or the value of one head in a slot of a block to slot at of a panel.
func (l *cacheLayer) copyToken(panel []byte, at, block, head, slot int, values bool) {
	src, tiles := l.keys(block, head, slot), l.kTiles
	if values {
		src, tiles = l.values(block, head, slot), l.vTiles
	}
	kernel.CopyKV(l.typ, panel, at%kernel.Lanes, src, slot%kernel.Lanes, tiles, values)
}

// blockBytes returns the size of a block outside the cache: its part of each slab, in order.
func (c *cache) blockBytes() int {
	n := 0
	for i := range c.slabs {
		n += c.slabs[i].size
	}
	return n
}

// packBlock writes a block to dst.
func (c *cache) packBlock(block int32, dst []byte) {
	for i := range c.slabs {
		n := copy(dst, c.slabs[i].block(int(block)))
		dst = dst[n:]
	}
}

// unpackBlock reads a block that packBlock wrote, in a cache of the same spec but for its number of blocks.
func (c *cache) unpackBlock(block int32, src []byte) {
	for i := range c.slabs {
		n := copy(c.slabs[i].block(int(block)), src)
		src = src[n:]
	}
}

// keysAt returns the byte of the slab at which the panel of one head's keys begins that holds the given slot of a
// block, and keys the panels from there to the last of the block; valuesAt and values likewise.
func (l *cacheLayer) keysAt(block, head, slot int) int {
	return block*l.slab.size + (head*(l.blockToken/kernel.Lanes)+slot/kernel.Lanes)*l.kPanel
}

func (l *cacheLayer) valuesAt(block, head, slot int) int {
	n := l.blockToken / kernel.Lanes
	return block*l.slab.size + l.KVHeads*n*l.kPanel + (head*n+slot/kernel.Lanes)*l.vPanel
}

func (l *cacheLayer) keys(block, head, slot int) []byte {
	return l.slab.data[l.keysAt(block, head, slot):][:(l.blockToken-slot&^(kernel.Lanes-1))/kernel.Lanes*l.kPanel]
}

func (l *cacheLayer) values(block, head, slot int) []byte {
	return l.slab.data[l.valuesAt(block, head, slot):][:(l.blockToken-slot&^(kernel.Lanes-1))/kernel.Lanes*l.vPanel]
}

// storeRun is a run of rows whose tokens share a panel.
type storeRun struct{ seq, from, to int32 }

// store does compute.Store. An item is the part of a sequence that lies in one panel.
func (d *Device) store(c compute.Cache, layer int, k, v Tensor) {
	o := rowOp{row: storeItem, cache: c.(*cache), layer: layer, src: k, aux: v}
	d.runs = d.runs[:0]
	l := &o.cache.layers[layer]
	for i := range d.batch.Seqs {
		s := &d.batch.Seqs[i]
		for at := s.Start; at < s.Start+s.Rows; {
			end := min(at&^(kernel.Lanes-1)+kernel.Lanes, s.Start+s.Rows)
			d.runs = append(d.runs, storeRun{int32(i), at, end})
			if r := o.cache.prefault; r != nil {
				r.use(d.table(s, l.Group)[int(at)/l.blockToken])
			}
			at = end
		}
	}
	if len(d.runs) == d.rows {
		d.wait(o) // run i is row i
		return
	}
	d.flush()
	d.wait(o)
	d.flushRows(len(d.runs))
}

func storeItem(d *Device, o *rowOp, worker, item int) {
	l, run, row := &o.cache.layers[o.layer], d.runs[item], &d.scratch[worker].kv
	s := &d.batch.Seqs[run.seq]
	block, slot := int(d.table(s, l.Group)[int(run.from)/l.blockToken]), int(run.from)%l.blockToken
	for h := range l.KVHeads {
		if int(run.from)%kernel.Lanes == 0 { // what others left there
			clear(l.keys(block, h, slot)[:l.kPanel])
			if !l.Latent {
				clear(l.values(block, h, slot)[:l.vPanel])
			}
		}
		for pos := run.from; pos < run.to; pos++ {
			r, j := int(s.Row+pos-s.Start), int(pos)%kernel.Lanes
			row.Put(d.k, l.typ, l.keys(block, h, slot), j, rowOf(o.src, r)[h*l.KDim:][:l.KDim], false)
			if !l.Latent {
				row.Put(d.k, l.typ, l.values(block, h, slot), j, rowOf(o.aux, r)[h*l.VDim:][:l.VDim], true)
			}
		}
	}
}
