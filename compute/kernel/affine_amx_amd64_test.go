//go:build amd64 && !noasm

package kernel

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestUnpackAMX compares the digits and m that tiles take with the numbers of the panel. It needs no tiles, and so
// runs where the products cannot.
func TestUnpackAMX(t *testing.T) {
	if !slices.Contains(nativeKernels(), &avx512vnni) {
		t.Skip("no AVX-512 VNNI")
	}
	r := rand.New(rand.NewPCG(25, 25))
	levels, mins := AlignedTo(8192, 64), AlignedTo(512, 64)
	f := newFences(t)
	tested := 0
	for _, typ := range affineTypes {
		if int(typ.typ) >= len(unpackTypes) || unpackTypes[typ.typ] == 0 {
			continue
		}
		tested++
		a := &affinePanels[typ.typ]
		for _, blocks := range []int{1, 2, 3, 5, 8} {
			if typ.typ.BlockValues() == SpanValues {
				blocks = 8
			}
			panel := affineWeights(r, typ, 1, blocks, a.bytes(blocks))
			codes, scales, superScales, _ := a.section(panel, 0, blocks)
			codes, scales = place(f.x, codes), place(f.w, scales)
			unpackSpanAMX(&levels[0], &mins[0], &codes[0], &scales[0], blocks, int(unpackTypes[typ.typ]-1))
			for j := range Lanes {
				_, _, offset := a.superScale(superScales, 0, j)
				for b := range blocks {
					var block [32]uint8
					a.levels(&block, codes[b*a.codeBytes():], j)
					for i, level := range block {
						k := b*32 + i
						s, m := a.scales(scales, k/a.Group, j)
						at := levels[k/64*2048+k%64/4*64+j*4+k%4:]
						if got, want := int32(int8(at[1024]))<<8+int32(at[0]), (int32(level)-offset)*s; got != want {
							t.Fatalf("%v, %d blocks: output %d, input %d: digits of %d, want %d", typ.typ, blocks, j,
								k, got, want)
						}
						if got := unpackedMin(a, mins, k, j); got != m {
							t.Fatalf("%v, %d blocks: output %d, input %d: m is %d, want %d", typ.typ, blocks, j, k,
								got, m)
						}
					}
				}
			}
		}
	}
	if tested == 0 {
		t.Error("no type has tiles")
	}
}

// unpackedMin reads the m of input k and output j.
func unpackedMin(a *affinePanel, mins []byte, k, j int) int32 {
	if !a.hasMins() {
		return 0
	}
	group := k % 64 / a.Group
	return int32(int16(binary.LittleEndian.Uint16(mins[k/64*128+group/2*64+j*4+group%2*2:])))
}
