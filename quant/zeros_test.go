package quant

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestZeroBlocks writes blocks and decodes them, bit for bit: a product rounded once.
func TestZeroBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for bits, types := range ZeroTypes {
		for values, typ := range types {
			if typ.BlockValues() != values || typ.BlockBytes() != zeroHeader+bits*values/8 {
				t.Errorf("%v: blocks of %d values in %d bytes", typ, typ.BlockValues(), typ.BlockBytes())
			}
			for range 50 {
				scale, zero, codes := float32(r.NormFloat64()), uint8(r.Uint32()), make([]uint8, values)
				for i := range codes {
					codes[i] = uint8(r.Uint32()) & (1<<bits - 1)
				}
				block, got := make([]byte, typ.BlockBytes()), make([]float32, values)
				PutZeroBlock(block, scale, zero, codes, bits)
				if err := Decode(got, block, typ); err != nil {
					t.Fatal(err)
				}
				for i, v := range got {
					if want := scale * float32(int(codes[i])-int(zero)); math.Float32bits(v) != math.Float32bits(want) {
						t.Fatalf("%v: value %d is %g; want %g", typ, i, v, want)
					}
				}
			}
		}
	}
}
