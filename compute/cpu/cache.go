package cpu

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// cache is a paged KV cache in panels of 16, so that attention is products with panels. For each layer, block and KV
// head, keys are [blockTokens/16][KDim][16]: 16 tokens side by side; values are [vPad/16][blockTokens][16]: 16 dimensions
// side by side, VDim padded with zeros to a multiple of 16.
//
// The memory is in slabs: the first layers of all groups have their blocks in the first slab, and so on, since a block
// belongs to one group at a time.
type cache struct {
	spec   compute.CacheSpec
	layers []cacheLayer
	slabs  []slab
	bytes  int64
}

// slab holds one layer's part of each block.
type slab struct {
	data []float32 // [blocks, size]
	size int       // values of the largest layer
}

// block returns the memory of one block.
func (s *slab) block(b int) []float32 { return s.data[b*s.size:][:s.size] }

type cacheLayer struct {
	compute.CacheLayer
	vPad       int
	kSize      int // values of one head's keys in a block
	vSize      int
	slab       *slab
	state      []float32 // [States, State] of a recurrent layer
	blockToken int
}

func (c *cache) Spec() compute.CacheSpec { return c.spec }
func (c *cache) Bytes() int64            { return c.bytes }

// Cache implements compute.Device. BlockTokens must be a multiple of 16.
func (d *Device) Cache(spec compute.CacheSpec) (compute.Cache, error) {
	if spec.Blocks < 1 || spec.BlockTokens < lanes || spec.BlockTokens%lanes != 0 {
		return nil, fmt.Errorf("cpu: a cache of %d blocks of %d tokens; want at least one, of a multiple of %d tokens", spec.Blocks, spec.BlockTokens, lanes)
	}
	if spec.Type != 0 && spec.Type != quant.F32 {
		return nil, fmt.Errorf("cpu: a cache of type %v; known is F32", spec.Type)
	}
	c := &cache{spec: spec, bytes: d.CacheBytes(spec)}
	for _, n := range slabSizes(spec) {
		c.slabs = append(c.slabs, slab{data: view[float32](aligned(spec.Blocks * n * 4)), size: n})
	}
	used := make([]int, spec.Groups())
	for i, l := range spec.Layers {
		cl := cacheLayer{CacheLayer: l, vPad: padded(l.VDim), blockToken: spec.BlockTokens}
		if l.State > 0 {
			if spec.States < 1 {
				return nil, fmt.Errorf("cpu: cache layer %d has a state, and there are %d slots for it", i, spec.States)
			}
			cl.state = view[float32](aligned(spec.States * l.State * 4))
			c.layers = append(c.layers, cl)
			continue
		}
		if l.KVHeads < 1 || l.KDim < 1 || l.VDim < 1 || l.Latent && (l.KVHeads != 1 || l.VDim > l.KDim) {
			return nil, fmt.Errorf("cpu: cache layer %d: %d heads of key %d and value %d (latent: %v)", i, l.KVHeads, l.KDim, l.VDim, l.Latent)
		}
		cl.kSize, cl.vSize = l.KDim*spec.BlockTokens, cl.vPad*spec.BlockTokens
		cl.slab = &c.slabs[used[l.Group]]
		used[l.Group]++
		c.layers = append(c.layers, cl)
	}
	return c, nil
}

// padded returns the next multiple of 16.
func padded(n int) int { return (n + lanes - 1) &^ (lanes - 1) }

// slabSizes returns how many values of a block each slab holds.
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
		sizes[j] = max(sizes[j], spec.BlockTokens*l.KVHeads*(l.KDim+padded(l.VDim)))
	}
	return sizes
}

// CacheBytes implements compute.Device.
func (d *Device) CacheBytes(spec compute.CacheSpec) int64 {
	n := int64(0)
	for _, size := range slabSizes(spec) {
		n += int64(spec.Blocks) * int64(size) * 4
	}
	for _, l := range spec.Layers {
		n += int64(spec.States) * int64(l.State) * 4
	}
	return n
}

// CopyBlock implements compute.Device.
func (d *Device) CopyBlock(c compute.Cache, from, to int32) {
	for i := range c.(*cache).slabs {
		s := &c.(*cache).slabs[i]
		copy(s.block(int(to)), s.block(int(from)))
	}
}

// BlockBytes implements compute.Device.
func (d *Device) BlockBytes(c compute.Cache) int {
	n := 0
	for i := range c.(*cache).slabs {
		n += c.(*cache).slabs[i].size * 4
	}
	return n
}

// PackBlock implements compute.Device. A packed block is its part of each slab, in order.
func (d *Device) PackBlock(c compute.Cache, block int32, dst []byte) {
	for i := range c.(*cache).slabs {
		n := copy(dst, bytesOf(c.(*cache).slabs[i].block(int(block))))
		dst = dst[n:]
	}
}

// UnpackBlock implements compute.Device.
func (d *Device) UnpackBlock(c compute.Cache, block int32, src []byte) {
	for i := range c.(*cache).slabs {
		n := copy(bytesOf(c.(*cache).slabs[i].block(int(block))), src)
		src = src[n:]
	}
}

// key returns the panels of one head of a block, value likewise.
func (l *cacheLayer) key(block, head int) []float32 {
	return l.slab.block(block)[head*l.kSize:][:l.kSize]
}

func (l *cacheLayer) value(block, head int) []float32 {
	return l.slab.block(block)[l.KVHeads*l.kSize+head*l.vSize:][:l.vSize]
}

// Store implements compute.Device.
func (d *Device) Store(c compute.Cache, layer int, k, v compute.Tensor) {
	d.op = operation{cache: c.(*cache), layer: layer, src: k, aux: v}
	d.each(len(d.batch.Seqs), d.jobs.store)
}

func (d *Device) storeSeq(_, i int) {
	s := d.batch.Seqs[i]
	l := &d.op.cache.layers[d.op.layer]
	table := s.Tables[l.Group]
	for n := range int(s.Rows) {
		pos := int(s.Start) + n
		block, slot := int(table[pos/l.blockToken]), pos%l.blockToken
		k, v := rowOf(d.op.src, int(s.Row)+n), rowOf(d.op.aux, int(s.Row)+n)
		for h := range l.KVHeads {
			keys := l.key(block, h)[slot/lanes*l.KDim*lanes+slot%lanes:]
			for i, x := range k[h*l.KDim:][:l.KDim] {
				keys[i*lanes] = x
			}
			values := l.value(block, h)[slot*lanes:]
			for i, x := range v[h*l.VDim:][:l.VDim] {
				values[i/lanes*l.blockToken*lanes+i%lanes] = x
			}
		}
	}
}
