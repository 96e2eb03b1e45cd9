//go:build (amd64 || arm64) && !noasm

package kernel

import "github.com/kvasir-llm/kvasir/quant"

// tileWidths are the inner loops of widen: n is the number of tiles, or of pairs of tiles of the quantised types, and
// at least 1; ldd is in bytes.
type tileWidths struct {
	f16, bf16, keysQ8, valuesQ8, keysQ4, valuesQ4 func(dst *float32, ldd int, src *byte, n int)
}

// widened checks the arguments of widen and calls the loop of the type.
func widened(w *tileWidths, t quant.Type, dst []float32, ldd int, src []byte, n int, values bool) {
	if t == quant.F32 || n <= 0 {
		widen(t, dst, ldd, src, n, values)
		return
	}
	_, _ = dst[(n-1)*ldd+TileValues-1], src[KVBytes(t, n)-1]
	d, s := &dst[0], &src[0]
	switch {
	case t == quant.F16:
		w.f16(d, ldd*4, s, n)
	case t == quant.BF16:
		w.bf16(d, ldd*4, s, n)
	case t == quant.Q8_0 && values:
		w.valuesQ8(d, ldd*4, s, n/2)
	case t == quant.Q8_0:
		w.keysQ8(d, ldd*4, s, n/2)
	case values:
		w.valuesQ4(d, ldd*4, s, n/2)
	default:
		w.keysQ4(d, ldd*4, s, n/2)
	}
}

func transposed(loop func(dst *float32, ldd int, src *float32, n int), dst []float32, ldd int, src []float32, n int) {
	if n > 0 {
		_, _ = dst[(n-1)*ldd+TileValues-1], src[n*TileValues-1]
		loop(&dst[0], ldd*4, &src[0], n)
	}
}
