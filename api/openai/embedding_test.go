package openai

import (
	"bytes"
	"math"
	"testing"
)

// TestVectorBytes holds that numbers are rounded to the nearest one of their type, and written in their order.
func TestVectorBytes(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		x          float32
		half, bf16 uint16
	}{
		{0, 0, 0}, {1, 0x3c00, 0x3f80}, {-2, 0xc000, 0xc000}, {65504, 0x7bff, 0x4780}, {65520, 0x7c00, 0x4780}, {inf, 0x7c00, 0x7f80},
		{0x1p-24, 0x0001, 0x3380}, {0x1p-25, 0, 0x3300}, {0x1p-14, 0x0400, 0x3880}, {1 + 0x1p-11, 0x3c00, 0x3f80}, {1 + 3*0x1p-11, 0x3c02, 0x3f80},
		{0.1, 0x2e66, 0x3dcd}, {0x1p-14 - 0x1p-26, 0x0400, 0x3880},
	} {
		h := Vector{[]float32{c.x}, Encoding{EmbedDtype: "float16"}}.Append(nil)
		b := Vector{[]float32{c.x}, Encoding{EmbedDtype: "bfloat16", Endianness: "big"}}.Append(nil)
		if !bytes.Equal(h, []byte{byte(c.half), byte(c.half >> 8)}) || !bytes.Equal(b, []byte{byte(c.bf16 >> 8), byte(c.bf16)}) {
			t.Errorf("%g: %x and %x; want %04x and %04x", c.x, h, b, c.half, c.bf16)
		}
	}
}
