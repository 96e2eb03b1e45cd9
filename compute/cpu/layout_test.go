package cpu

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestCanonicalBlocks stores the same keys and values with every implementation of the kernels and every type: the
// canonical form of a block is the same, is what the tokens say, and packs to what it came from.
func TestCanonicalBlocks(t *testing.T) {
	for _, typ := range kernel.KVTypes {
		t.Run(typ.String(), func(t *testing.T) {
			var want []byte
			for _, kernels := range Kernels() {
				c, packed := storedBlock(t, typ, kernels)
				l := c.Layout(0)
				canonical, again := make([]byte, l.CanonicalBytes()), make([]byte, l.Bytes)
				if err := l.Canonical(canonical, packed); err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = canonical
					checkCanonical(t, &l, canonical)
				}
				if !bytes.Equal(canonical, want) {
					t.Errorf("%s: another canonical form", kernels)
				}
				for _, layer := range l.Layers() { // one by one
					n := layer.CanonicalBytes()
					if err := layer.Pack(again, canonical[:n]); err != nil {
						t.Fatal(err)
					}
					canonical = canonical[n:]
				}
				if !bytes.Equal(again, packed) || len(canonical) > 0 {
					t.Errorf("%s: packing the canonical form gives another block, and leaves %d bytes", kernels, len(canonical))
				}
			}
		})
	}
}

// layoutSpec has two layers of unlike shape in group 0, one of them latent, and one of another group.
func layoutSpec(typ quant.Type) compute.CacheSpec {
	return compute.CacheSpec{Blocks: 3, BlockTokens: 32, Type: typ, Layers: []compute.CacheLayer{
		{Group: 0, KVHeads: 2, KDim: 40, VDim: 20}, {Group: 1, KVHeads: 2, KDim: 40, VDim: 20},
		{Group: 0, KVHeads: 1, KDim: 24, VDim: 8, Latent: true},
	}}
}

// stored is the number at a dimension of a token's key or value, all heads' together.
func stored(layer int, values bool, token, dim int) float32 {
	x := float32((token*31+dim*7+layer*3)%29-14) / 8
	if values {
		x = -x
	}
	return x
}

// storedBlock stores a block of tokens and returns it packed.
func storedBlock(t *testing.T, typ quant.Type, kernels string) (*cache, []byte) {
	t.Helper()
	d, err := New(Options{Threads: 1, Kernels: kernels})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	spec := layoutSpec(typ)
	made, err := d.Cache(spec)
	if err != nil {
		t.Fatal(err)
	}
	c := made.(*cache)
	b := new(compute.Batch)
	b.Append(make([]int32, spec.BlockTokens), 0, false, []int32{1}, []int32{2})
	d.Begin(b)
	for i, layer := range spec.Layers {
		var kv [2]Tensor
		for j, cols := range []int{layer.KVHeads * layer.KDim, layer.KVHeads * layer.VDim} {
			if kv[j], err = d.Tensor(spec.BlockTokens, cols); err != nil {
				t.Fatal(err)
			}
			for n := range kv[j].Host {
				kv[j].Host[n] = stored(i, j == 1, n/cols, n%cols)
			}
		}
		d.store(c, i, kv[0], kv[1])
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, c.blockBytes())
	c.packBlock(1, packed)
	return c, packed
}

// checkCanonical compares a canonical block, in the order that the format says, with what was stored.
func checkCanonical(t *testing.T, l *compute.Layout, canonical []byte) {
	t.Helper()
	for _, p := range l.Parts {
		width := (p.Dims + p.Type.BlockValues() - 1) / p.Type.BlockValues()
		row := make([]float32, width*p.Type.BlockValues())
		for head := range p.Heads {
			for token := range l.Tokens {
				src := canonical[:width*p.Type.BlockBytes()]
				canonical = canonical[len(src):]
				if err := quant.Decode(row, src, p.Type); err != nil {
					t.Fatal(err)
				}
				for dim, got := range row {
					want, near := float32(0), map[quant.Type]float64{quant.Q8_0: 0.01, quant.Q4_0: 0.26}[p.Type]
					if dim < p.Dims {
						want = stored(p.Layer, p.Values, token, head*p.Dims+dim)
					}
					if math.Abs(float64(got-want)) > near {
						t.Fatalf("layer %d, values %v, head %d, token %d, dimension %d: %v; want %v", p.Layer, p.Values, head, token, dim, got, want)
					}
				}
			}
		}
	}
	if len(canonical) > 0 {
		t.Errorf("%d bytes are left", len(canonical))
	}
}

// TestBlocksTravel converts a block to the packing of a device that keeps rows [token][dimension], and back.
func TestBlocksTravel(t *testing.T) {
	c, packed := storedBlock(t, quant.BF16, "")
	l := c.Layout(0)
	rows := compute.Layout{Tokens: l.Tokens}
	for _, p := range l.Parts {
		row := p.Dims * 2
		p.Planes = []compute.Plane{{
			Bytes: 2, Count: 1, Offset: rows.Bytes, Head: l.Tokens * row, Token: compute.Axis{Near: row}, Block: compute.Axis{Near: 2},
		}}
		rows.Parts = append(rows.Parts, p)
		rows.Bytes += p.Heads * l.Tokens * row
	}
	canonical, other, back := make([]byte, l.CanonicalBytes()), make([]byte, rows.Bytes), make([]byte, l.Bytes)
	for _, err := range []error{
		l.Canonical(canonical, packed), rows.Pack(other, canonical), rows.Canonical(canonical, other), l.Pack(back, canonical),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	head, token, dim := 1, 17, 33
	at := ((head*l.Tokens+token)*40 + dim) * 2
	if got, want := quant.BF16ToF32(binary.LittleEndian.Uint16(other[at:])), stored(0, false, token, head*40+dim); got != want {
		t.Errorf("a key's number is %v; want %v", got, want)
	}
	if !bytes.Equal(back, packed) {
		t.Error("the block came back as another")
	}
	if err := l.Canonical(canonical[1:], packed); err == nil {
		t.Error("a canonical form that is too short is taken")
	}
}

// BenchmarkCanonical converts a block of a model of 125M parameters.
func BenchmarkCanonical(b *testing.B) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	spec := compute.CacheSpec{Blocks: 1, BlockTokens: 16, Type: quant.BF16}
	for range 12 {
		spec.Layers = append(spec.Layers, compute.CacheLayer{KVHeads: 12, KDim: 64, VDim: 64})
	}
	made, err := d.Cache(spec)
	if err != nil {
		b.Fatal(err)
	}
	l := made.(*cache).Layout(0)
	packed, canonical := make([]byte, l.Bytes), make([]byte, l.CanonicalBytes())
	b.SetBytes(int64(len(canonical)))
	for b.Loop() {
		if err := l.Canonical(canonical, packed); err != nil {
			b.Fatal(err)
		}
		if err := l.Pack(packed, canonical); err != nil {
			b.Fatal(err)
		}
	}
}
