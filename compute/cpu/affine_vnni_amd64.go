//go:build amd64 && !noasm

package cpu

import (
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// tileVNNI writes the products of rows with panels to dst, for codes of one kind (affine_vnni_amd64.h). ldd, ldq, lds and stride are in bytes,
// blocks and span, the inputs that share a super, in blocks of 32; section is the size of a section of 8 blocks, head
// of what comes before its codes, lastHead of that in a shorter one. offset is that of the codes or 0. rows, panels and blocks are at least 1.
type tileVNNI func(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

func matAffineVNNI(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*lanes-1]
	a := &affinePanels[t]
	few := m <= fewRowsVNNI[a.Bits] && a.layout != zeroPoints
	if x.blocks <= 0 || few { // tileVNNI needs no zeros to begin with
		for i := range m {
			clear(dst[i*ldd:][:panels*lanes])
		}
	}
	if x.blocks <= 0 {
		return
	}
	_, _ = x.q[(m-1)*x.ld+x.blocks*32-1], x.sums[(m-1)*x.lds+x.spans()-1]
	_ = w[(panels-1)*stride+a.bytes(x.blocks)-1]
	offset, lds := a.Offset, x.lds*int(unsafe.Sizeof(x.sums[0]))
	if few {
		panelsVNNI[t](&dst[0], ldd*4, &x.q[0], x.ld, &x.sums[0], lds, &w[0], stride, m, panels, x.blocks, int(a.layout), offset)
		return
	}
	if a.layout == zeroPoints {
		offset = 0
	}
	tilesVNNI[t](&dst[0], ldd*4, &x.q[0], x.ld, &x.sums[0], lds, &w[0], stride, m, panels, x.blocks, a.span/32,
		a.sectionBytes(sectionBlocks), int(a.layout), offset, a.headBytes(sectionBlocks), a.headBytes(x.blocks%sectionBlocks))
}

// tilesVNNI is indexed by type.
var tilesVNNI = [...]tileVNNI{
	quant.Q4_0:   tileCodes4VNNI,
	quant.Q4_1:   tileCodes4VNNI,
	quant.Q5_0:   tileCodes5VNNI,
	quant.Q5_1:   tileCodes5VNNI,
	quant.Q8_0:   tileCodes8VNNI,
	quant.Q2_K:   tileCodes2VNNI,
	quant.Q3_K:   tileCodes3VNNI,
	quant.Q4_K:   tileCodes4VNNI,
	quant.Q5_K:   tileCodes5VNNI,
	quant.Q6_K:   tileCodes6VNNI,
	quant.IQ4_NL: tileCodesIQ4VNNI,
	quant.IQ4_XS: tileCodesIQ4VNNI,
	quant.MXFP4:  tileCodesFP4VNNI,
	quant.U2_32:  tileCodes2VNNI,
	quant.U3_32:  tileCodes3VNNI,
	quant.U4_32:  tileCodes4VNNI,
	quant.U8_32:  tileCodes8VNNI,
	quant.U2_128: tileCodes2VNNI,
	quant.U3_128: tileCodes3VNNI,
	quant.U4_128: tileCodes4VNNI,
	quant.U8_128: tileCodes8VNNI,
}

//go:noescape
func tileCodes8VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

//go:noescape
func tileCodes4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

//go:noescape
func tileCodesIQ4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

//go:noescape
func tileCodesFP4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

//go:noescape
func tileCodes5VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

//go:noescape
func tileCodes2VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

//go:noescape
func tileCodes3VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)

//go:noescape
func tileCodes6VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, span, section, layout, offset, head, lastHead int)
