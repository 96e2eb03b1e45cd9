//go:build amd64 && !noasm

package cpu

import "github.com/kvasir-llm/kvasir/quant"

// pageLoop multiplies rows rows with the tiles of n panels; pages_avx512_amd64.h draws it. ldd and ldx are in bytes.
type pageLoop func(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

// pageLoops are the loops for keys and for values of a type.
type pageLoops struct{ keys, values pageLoop }

var pagesAVX512 = [...]pageLoops{
	quant.F32:  {pageKeysF32AVX512, pageValuesF32AVX512},
	quant.F16:  {pageKeysF16AVX512, pageValuesF16AVX512},
	quant.BF16: {pageKeysBF16AVX512, pageValuesBF16AVX512},
	quant.Q8_0: {pageKeysQ8AVX512, pageValuesQ8AVX512},
	quant.Q4_0: {pageKeysQ4AVX512, pageValuesQ4AVX512},
}

// pageRows returns how many rows of x the loops read for m rows.
func pageRows(m int) int {
	switch {
	case m > 4:
		return 8
	case m > 2:
		return 4
	}
	return m
}

func pageKeysAVX512(t quant.Type, dst []float32, ldd int, x []float32, ldx int, src []byte, at []int, n, tiles, m int) {
	if m <= 0 || n <= 0 || tiles <= 0 {
		return
	}
	n = (n + 3) &^ 3
	_, _ = dst[(m-1)*ldd+n*lanes-1], x[(pageRows(m)-1)*ldx+tiles*lanes-1]
	checkPages(src, at[:n], kvBytes(t, tiles))
	_ = at[n+pagesAhead-1]
	pagesAVX512[t].keys(&dst[0], ldd*4, &x[0], ldx*4, &src[0], &at[0], n, tiles, m)
}

func pageValuesAVX512(t quant.Type, dst []float32, ldd int, x []float32, ldx int, src []byte, at []int, n, tiles, m int) {
	if m <= 0 || n <= 0 || tiles <= 0 {
		return
	}
	_, _ = dst[(m-1)*ldd+tiles*lanes-1], x[(pageRows(m)-1)*ldx+n*lanes-1]
	checkPages(src, at[:n], kvBytes(t, tiles))
	_ = at[n+pagesAhead-1]
	pagesAVX512[t].values(&dst[0], ldd*4, &x[0], ldx*4, &src[0], &at[0], n, tiles, m)
}

// checkPages panics if a panel of size bytes does not lie in src.
func checkPages(src []byte, at []int, size int) {
	for _, o := range at {
		_ = src[o : o+size]
	}
}

//go:noescape
func pageKeysF32AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageValuesF32AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageKeysF16AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageValuesF16AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageKeysBF16AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageValuesBF16AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageKeysQ8AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageValuesQ8AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageKeysQ4AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)

//go:noescape
func pageValuesQ4AVX512(dst *float32, ldd int, x *float32, ldx int, base *byte, at *int, n, tiles, rows int)
