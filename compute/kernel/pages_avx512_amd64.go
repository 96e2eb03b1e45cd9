//go:build amd64 && !noasm

package kernel

import "github.com/kvasir-llm/kvasir/quant"

// pageTile is the argument of a loop over the tiles of n panels; pages_avx512_amd64.h draws it. ldd and ldx are in
// bytes.
type pageTile struct {
	dst            *float32
	ldd            int
	x              *float32
	ldx            int
	base           *byte
	at             *int
	n, tiles, rows int
}

// pageLoops are the loops for keys and for values of a type.
type pageLoops struct{ keys, values func(t pageTile) }

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

func pageKeysAVX512(p PageProduct) {
	if p.M <= 0 || p.Panels <= 0 || p.Tiles <= 0 {
		return
	}
	n := KeyPages(p.Panels)
	_, _ = p.Dst[(p.M-1)*p.Ldd+n*Lanes-1], p.X[(pageRows(p.M)-1)*p.Ldx+p.Tiles*Lanes-1]
	pagesAVX512[p.Type].keys(p.tile(n))
}

func pageValuesAVX512(p PageProduct) {
	if p.M <= 0 || p.Panels <= 0 || p.Tiles <= 0 {
		return
	}
	_, _ = p.Dst[(p.M-1)*p.Ldd+p.Tiles*Lanes-1], p.X[(pageRows(p.M)-1)*p.Ldx+p.Panels*Lanes-1]
	pagesAVX512[p.Type].values(p.tile(p.Panels))
}

// tile checks that n panels lie in Src, and returns the argument of a loop over them.
func (p *PageProduct) tile(n int) pageTile {
	size := KVBytes(p.Type, p.Tiles)
	for _, o := range p.At[:n] {
		_ = p.Src[o : o+size]
	}
	_ = p.At[n+PagesAhead-1]
	return pageTile{&p.Dst[0], p.Ldd * 4, &p.X[0], p.Ldx * 4, &p.Src[0], &p.At[0], n, p.Tiles, p.M}
}

//go:noescape
func pageKeysF32AVX512(t pageTile)

//go:noescape
func pageValuesF32AVX512(t pageTile)

//go:noescape
func pageKeysF16AVX512(t pageTile)

//go:noescape
func pageValuesF16AVX512(t pageTile)

//go:noescape
func pageKeysBF16AVX512(t pageTile)

//go:noescape
func pageValuesBF16AVX512(t pageTile)

//go:noescape
func pageKeysQ8AVX512(t pageTile)

//go:noescape
func pageValuesQ8AVX512(t pageTile)

//go:noescape
func pageKeysQ4AVX512(t pageTile)

//go:noescape
func pageValuesQ4AVX512(t pageTile)
