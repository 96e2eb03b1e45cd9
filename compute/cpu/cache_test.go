package cpu

import (
	"bytes"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// TestBlocksArePackedAndCopied stores tokens of a sequence in a cache of two groups of unlike layers, moves its
// blocks by copyBlock and by packBlock and unpackBlock into another cache, and attends from there.
func TestBlocksArePackedAndCopied(t *testing.T) {
	const tokens, blockTokens = 40, 16
	d, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	spec := compute.CacheSpec{Blocks: 16, BlockTokens: blockTokens, Layers: []compute.CacheLayer{
		{Group: 0, KVHeads: 2, KDim: 16, VDim: 20}, {Group: 1, KVHeads: 1, KDim: 24, VDim: 8}, {Group: 0, KVHeads: 1, KDim: 8, VDim: 16},
	}}
	newCache := func(blocks int) compute.Cache {
		s := spec
		s.Blocks = blocks
		c, err := d.Cache(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	tensor := func(cols int, seed float32) Tensor {
		x, err := d.Tensor(tokens, cols)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Host {
			x.Host[i] = seed * float32(i%37-18)
		}
		return x
	}
	begin := func(tables ...[]int32) {
		b := new(compute.Batch)
		b.Append(make([]int32, tokens), 0, false, tables...)
		d.Begin(b)
	}
	attend := func(c compute.Cache) []float32 {
		var out []float32
		for i, l := range spec.Layers {
			dst := tensor(l.KVHeads*l.VDim, 0)
			d.attend(dst, tensor(l.KVHeads*l.KDim, 0.3), c, i, compute.Attention{Heads: l.KVHeads, Scale: 1})
			out = append(out, dst.Host...)
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		return out
	}

	from, other := newCache(16), newCache(9)
	tables := [][]int32{{3, 1, 4}, {15, 9, 2}}
	begin(tables...)
	for i, l := range spec.Layers {
		d.store(from, i, tensor(l.KVHeads*l.KDim, 0.01*float32(i+1)), tensor(l.KVHeads*l.VDim, 0.02))
	}
	want := attend(from)

	copied := [][]int32{{5, 6, 7}, {8, 10, 11}}
	moved := [][]int32{{8, 0, 1}, {2, 3, 4}}
	packed := make([]byte, from.(*cache).blockBytes())
	for g := range tables {
		for i, b := range tables[g] {
			from.(*cache).copyBlock(b, copied[g][i])
			from.(*cache).packBlock(b, packed)
			other.(*cache).unpackBlock(moved[g][i], packed)
		}
	}
	begin(copied...)
	if !bytes.Equal(byteView(attend(from)), byteView(want)) {
		t.Error("copied blocks give other results")
	}
	begin(moved...)
	if !bytes.Equal(byteView(attend(other)), byteView(want)) {
		t.Error("blocks packed and unpacked into another cache give other results")
	}
}
