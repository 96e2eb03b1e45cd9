//go:build amd64 && !noasm

package cpu

import (
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// affineTile sets, for each of rows rows and panels panels, the chain of an affine type over blocks blocks in dst. q and sums
// are the rows' values and sums (rowsQ8); ldd, ldq, lds, the distance of rows in sums, and stride are in bytes. rows is at
// least 1 and at most the tile's limit; panels and blocks are at least 1.
type affineTile func(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

// tiledAffine runs a matAffine in tiles of at most limit rows.
func tiledAffine(tile affineTile, t quant.Type, limit int, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	if x.blocks <= 0 {
		for i := range m {
			clear(dst[i*ldd:][:panels*lanes])
		}
		return
	}
	_, _ = x.q[(m-1)*x.ld+x.blocks*32-1], x.sums[(m-1)*x.lds+x.spans()-1]
	_ = w[(panels-1)*stride+affinePanels[t].bytes(x.blocks)-1]
	lds := x.lds * int(unsafe.Sizeof(x.sums[0]))
	if m <= limit {
		tile(&dst[0], ldd*4, &x.q[0], x.ld, &x.sums[0], lds, &w[0], stride, m, panels, x.blocks)
		return
	}
	groups := (m + limit - 1) / limit
	for p := 0; p < panels; p += 2 {
		for g := range groups {
			i, end := m*g/groups, m*(g+1)/groups
			tile(&dst[i*ldd+p*lanes], ldd*4, &x.q[i*x.ld], x.ld, &x.sums[i*x.lds], lds, &w[p*stride], stride, end-i, min(2, panels-p), x.blocks)
		}
	}
}

func matAffineAVX2(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	tiledAffine(affineTilesAVX2[t], t, quantRowsAVX2, dst, ldd, x, w, stride, panels, m)
}

// affineTilesAVX2 is indexed by type.
var affineTilesAVX2 = [...]affineTile{
	quant.Q4_0:   tileQ4_0AVX2,
	quant.Q4_1:   tileQ4_1AVX2,
	quant.Q5_0:   tileQ5_0AVX2,
	quant.Q5_1:   tileQ5_1AVX2,
	quant.Q8_0:   tileQ8_0AVX2,
	quant.Q2_K:   tileQ2_KAVX2,
	quant.Q3_K:   tileQ3_KAVX2,
	quant.Q4_K:   tileQ4_KAVX2,
	quant.Q5_K:   tileQ5_KAVX2,
	quant.Q6_K:   tileQ6_KAVX2,
	quant.IQ4_NL: tileIQ4_NLAVX2,
	quant.IQ4_XS: tileIQ4_XSAVX2,
	quant.MXFP4:  tileMXFP4AVX2,
	quant.U2_32:  tileU2_32AVX2,
	quant.U3_32:  tileU3_32AVX2,
	quant.U4_32:  tileU4_32AVX2,
	quant.U8_32:  tileU8_32AVX2,
	quant.U2_128: tileU2_128AVX2,
	quant.U3_128: tileU3_128AVX2,
	quant.U4_128: tileU4_128AVX2,
	quant.U8_128: tileU8_128AVX2,
}

//go:noescape
func tileQ4_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ4_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ5_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ5_1AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ8_0AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ2_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ3_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ4_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ5_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileQ6_KAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileIQ4_NLAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileIQ4_XSAVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileMXFP4AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU2_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU3_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU4_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU8_32AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU2_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU3_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU4_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)

//go:noescape
func tileU8_128AVX2(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks int)
