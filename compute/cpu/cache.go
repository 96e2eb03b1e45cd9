package cpu

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// cache is a paged KV cache in panels of 16, so that attention is products with panels. For each layer, block and KV
// head, keys are [blockTokens/16][KDim][16]: 16 tokens side by side; values are [vPad/16][blockTokens][16]: 16 dimensions
// side by side, VDim padded with zeros to a multiple of 16.
type cache struct {
	spec   compute.CacheSpec
	layers []cacheLayer
	bytes  int64
}

type cacheLayer struct {
	compute.CacheLayer
	vPad       int
	keys       []float32 // [blocks, KVHeads, kSize]
	values     []float32 // [blocks, KVHeads, vSize]
	kSize      int
	vSize      int
	blockToken int
}

func (c *cache) Spec() compute.CacheSpec { return c.spec }
func (c *cache) Bytes() int64            { return c.bytes }

// Cache implements compute.Device. BlockTokens must be a multiple of 16.
func (d *Device) Cache(spec compute.CacheSpec) (compute.Cache, error) {
	if spec.Blocks < 1 || spec.BlockTokens < lanes || spec.BlockTokens%lanes != 0 {
		return nil, fmt.Errorf("cpu: a cache of %d blocks of %d tokens; want at least one, of a multiple of %d tokens", spec.Blocks, spec.BlockTokens, lanes)
	}
	c := &cache{spec: spec, bytes: d.CacheBytes(spec)}
	for i, l := range spec.Layers {
		if l.KVHeads < 1 || l.KDim < 1 || l.VDim < 1 {
			return nil, fmt.Errorf("cpu: cache layer %d: %d heads of key %d and value %d", i, l.KVHeads, l.KDim, l.VDim)
		}
		cl := cacheLayer{CacheLayer: l, vPad: padded(l.VDim), blockToken: spec.BlockTokens}
		cl.kSize, cl.vSize = l.KDim*spec.BlockTokens, cl.vPad*spec.BlockTokens
		heads := spec.Blocks * l.KVHeads
		cl.keys = view[float32](aligned(heads * cl.kSize * 4))
		cl.values = view[float32](aligned(heads * cl.vSize * 4))
		c.layers = append(c.layers, cl)
	}
	return c, nil
}

// padded returns the next multiple of 16.
func padded(n int) int { return (n + lanes - 1) &^ (lanes - 1) }

// CacheBytes implements compute.Device.
func (d *Device) CacheBytes(spec compute.CacheSpec) int64 {
	n := int64(0)
	for _, l := range spec.Layers {
		n += int64(spec.Blocks) * int64(spec.BlockTokens) * int64(l.KVHeads) * int64(l.KDim+padded(l.VDim)) * 4
	}
	return n
}

// key returns the panels of one head of a block, value likewise.
func (l *cacheLayer) key(block, head int) []float32 {
	return l.keys[(block*l.KVHeads+head)*l.kSize:][:l.kSize]
}

func (l *cacheLayer) value(block, head int) []float32 {
	return l.values[(block*l.KVHeads+head)*l.vSize:][:l.vSize]
}

// Store implements compute.Device.
func (d *Device) Store(c compute.Cache, layer int, k, v compute.Tensor) {
	d.op = operation{cache: c.(*cache), layer: layer, src: k, aux: v}
	d.each(len(d.batch.Seqs), d.jobs.store)
}

func (d *Device) storeSeq(_, i int) {
	s := d.batch.Seqs[i]
	l := &d.op.cache.layers[d.op.layer]
	for n := range int(s.Rows) {
		pos := int(s.Start) + n
		block, slot := int(s.Blocks[pos/l.blockToken]), pos%l.blockToken
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
