package quant

import (
	"math"
	"testing"
)

func TestTypes(t *testing.T) {
	for typ := Type(1); typ < numTypes; typ++ {
		if layouts[typ].name == "" || typ.BlockValues() < 1 || typ.BlockBytes() < 1 {
			t.Errorf("type %d has no layout", uint8(typ))
			continue
		}
		got, err := Parse(typ.String())
		if err != nil || got != typ {
			t.Errorf("Parse(%q) = %v, %v", typ.String(), got, err)
		}
		n, err := typ.RowBytes(3 * typ.BlockValues())
		if err != nil || n != 3*typ.BlockBytes() {
			t.Errorf("%v: three blocks take %d bytes, %v", typ, n, err)
		}
	}
	for _, typ := range []Type{0, numTypes, 255} {
		if typ.Valid() || typ.BlockValues() != 0 || typ.BlockBytes() != 0 {
			t.Errorf("%v has a layout", typ)
		}
		if _, err := typ.RowBytes(0); err == nil {
			t.Errorf("%v has rows", typ)
		}
	}
	for _, name := range []string{"", "q8_0", "F33", "Type(1)"} {
		if got, err := Parse(name); err == nil {
			t.Errorf("Parse(%q) = %v", name, got)
		}
	}
}

// TestBlockSizes states the bits per value that the field quotes for each block type.
func TestBlockSizes(t *testing.T) {
	for typ, bits := range map[Type]float64{
		Q1_0: 1.125, Q2_0: 2.25, Q4_0: 4.5, Q4_1: 5, Q5_0: 5.5, Q5_1: 6, Q8_0: 8.5, Q8_1: 9, Q2_K: 2.625, Q3_K: 3.4375,
		Q4_K: 4.5, Q5_K: 5.5, Q6_K: 6.5625, Q8_K: 9.125, IQ1_S: 1.5625, IQ1_M: 1.75, IQ2_XXS: 2.0625, IQ2_XS: 2.3125,
		IQ2_S: 2.5625, IQ3_XXS: 3.0625, IQ3_S: 3.4375, IQ4_NL: 4.5, IQ4_XS: 4.25, TQ1_0: 1.6875, TQ2_0: 2.0625,
		MXFP4: 4.25, NVFP4: 4.5, F4: 4, F6_E2M3: 6, F6_E3M2: 6, F8_E4M3: 8, BF16: 16, C64: 64,
	} {
		if got := 8 * float64(typ.BlockBytes()) / float64(typ.BlockValues()); got != bits {
			t.Errorf("%v takes %g bits a value, want %g", typ, got, bits)
		}
	}
}

func TestRowBytesRefuses(t *testing.T) {
	for _, tc := range []struct {
		typ    Type
		values int
	}{{F32, -1}, {Q8_0, 31}, {Q8_0, 33}, {Q4_K, 128}, {F32, math.MaxInt}, {F64, math.MaxInt/8 + 1}, {Q8_0, math.MaxInt - 31}} {
		if n, err := tc.typ.RowBytes(tc.values); err == nil {
			t.Errorf("%d values of %v take %d bytes", tc.values, tc.typ, n)
		}
	}
}
