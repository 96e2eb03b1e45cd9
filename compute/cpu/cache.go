package cpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// cache is a paged KV cache. In a layer's part of a block, the keys of all heads come before their values, or stand alone if
// the layer is latent; of each head there are blockTokens/16 panels (KVTypes).
//
// The memory is in slabs: the first layers of all groups have their blocks in the first slab, and so on, since a block
// belongs to one group at a time.
type cache struct {
	spec   compute.CacheSpec
	layers []cacheLayer
	slabs  []slab
	bytes  int64
	runway *runway // nil if there is none
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
	cl := cacheLayer{CacheLayer: l, typ: t, kTiles: kvTiles(t, l.KDim), vTiles: kvTiles(t, l.VDim), blockToken: spec.BlockTokens}
	cl.kPanel, cl.vPanel = kvBytes(t, cl.kTiles), kvBytes(t, cl.vTiles)
	if l.Latent {
		cl.vPanel = 0
	}
	return cl
}

// bytes returns the size of the layer's part of a block.
func (l *cacheLayer) bytes() int {
	return padded(l.blockToken) / lanes * l.KVHeads * (l.kPanel + l.vPanel)
}

func (c *cache) Spec() compute.CacheSpec { return c.spec }
func (c *cache) Bytes() int64            { return c.bytes }

// Cache implements compute.Device. BlockTokens must be a multiple of 16.
func (d *Device) Cache(spec compute.CacheSpec) (compute.Cache, error) {
	if spec.Blocks < 1 || spec.BlockTokens < lanes || spec.BlockTokens%lanes != 0 {
		return nil, fmt.Errorf("cpu: a cache of %d blocks of %d tokens; want at least one, of a multiple of %d tokens", spec.Blocks, spec.BlockTokens, lanes)
	}
	if spec.Type != 0 && !slices.Contains(KVTypes, spec.Type) {
		return nil, fmt.Errorf("cpu: a cache of type %v; known are %v", spec.Type, KVTypes)
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
			cl.state = view[float32](d.arena.apart(spec.States * l.State * 4))
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
	if c.runway = newRunway(c.slabs, spec.Blocks, c.bytes); c.runway != nil {
		go c.runway.run(d.done)
	}
	return c, nil
}

// padded returns the next multiple of 16.
func padded(n int) int { return (n + lanes - 1) &^ (lanes - 1) }

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

// CopyBlock implements compute.Device.
func (d *Device) CopyBlock(c compute.Cache, from, to int32) {
	d.flush()
	for i := range c.(*cache).slabs {
		s := &c.(*cache).slabs[i]
		copy(s.block(int(to)), s.block(int(from)))
	}
}

// BlockBytes implements compute.Device.
func (d *Device) BlockBytes(c compute.Cache) int {
	n := 0
	for i := range c.(*cache).slabs {
		n += c.(*cache).slabs[i].size
	}
	return n
}

// PackBlock implements compute.Device. A packed block is its part of each slab, in order.
func (d *Device) PackBlock(c compute.Cache, block int32, dst []byte) {
	d.flush()
	for i := range c.(*cache).slabs {
		n := copy(dst, c.(*cache).slabs[i].block(int(block)))
		dst = dst[n:]
	}
}

// UnpackBlock implements compute.Device.
func (d *Device) UnpackBlock(c compute.Cache, block int32, src []byte) {
	d.flush()
	for i := range c.(*cache).slabs {
		n := copy(c.(*cache).slabs[i].block(int(block)), src)
		src = src[n:]
	}
}

// keysAt returns the byte of the slab at which the panel of one head's keys begins that holds the given slot of a block, and
// keys the panels from there to the last of the block; valuesAt and values likewise.
func (l *cacheLayer) keysAt(block, head, slot int) int {
	return block*l.slab.size + (head*(l.blockToken/lanes)+slot/lanes)*l.kPanel
}

func (l *cacheLayer) valuesAt(block, head, slot int) int {
	n := l.blockToken / lanes
	return block*l.slab.size + l.KVHeads*n*l.kPanel + (head*n+slot/lanes)*l.vPanel
}

func (l *cacheLayer) keys(block, head, slot int) []byte {
	return l.slab.data[l.keysAt(block, head, slot):][:(l.blockToken-slot&^(lanes-1))/lanes*l.kPanel]
}

func (l *cacheLayer) values(block, head, slot int) []byte {
	return l.slab.data[l.valuesAt(block, head, slot):][:(l.blockToken-slot&^(lanes-1))/lanes*l.vPanel]
}

// storeRun is a run of rows whose tokens share a panel.
type storeRun struct{ seq, from, to int32 }

// Store implements compute.Device. An item is the part of a sequence that lies in one panel.
func (d *Device) Store(c compute.Cache, layer int, k, v compute.Tensor) {
	o := rowOp{row: storeItem, cache: c.(*cache), layer: layer, src: k, aux: v}
	d.runs = d.runs[:0]
	l := &o.cache.layers[layer]
	for i, s := range d.batch.Seqs {
		for at := s.Start; at < s.Start+s.Rows; {
			end := min(at&^(lanes-1)+lanes, s.Start+s.Rows)
			d.runs = append(d.runs, storeRun{int32(i), at, end})
			if r := o.cache.runway; r != nil {
				r.use(s.Tables[l.Group][int(at)/l.blockToken])
			}
			at = end
		}
	}
	if len(d.runs) == d.batch.Rows() {
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
	block, slot := int(s.Tables[l.Group][int(run.from)/l.blockToken]), int(run.from)%l.blockToken
	for h := range l.KVHeads {
		if int(run.from)%lanes == 0 { // what others left there
			clear(l.keys(block, h, slot)[:l.kPanel])
			if !l.Latent {
				clear(l.values(block, h, slot)[:l.vPanel])
			}
		}
		for pos := run.from; pos < run.to; pos++ {
			r, j := int(s.Row+pos-s.Start), int(pos)%lanes
			row.put(d.k, l.typ, l.keys(block, h, slot), j, rowOf(o.src, r)[h*l.KDim:][:l.KDim], false)
			if !l.Latent {
				row.put(d.k, l.typ, l.values(block, h, slot), j, rowOf(o.aux, r)[h*l.VDim:][:l.VDim], true)
			}
		}
	}
}
