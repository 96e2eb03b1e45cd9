//go:build amd64 && !noasm

package cpu

import "github.com/kvasir-llm/kvasir/quant"

// panelVNNI adds the products of up to panelRows rows with panels to dst, for codes of one kind (affine_panel_vnni_amd64.s). ldd, ldq,
// lds and stride are in bytes; w and stride are multiples of 64. rows, panels and blocks are at least 1.
type panelVNNI func(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

// panelRows is how many rows panelVNNI takes.
const panelRows = 16

// panelsVNNI is indexed by type.
var panelsVNNI = [...]panelVNNI{
	quant.Q4_0: panelCodes4VNNI, quant.Q4_1: panelCodes4VNNI, quant.Q5_0: panelCodes5VNNI, quant.Q5_1: panelCodes5VNNI, quant.Q8_0: panelCodes8VNNI,
	quant.Q2_K: panelCodes2VNNI, quant.Q3_K: panelCodes3VNNI, quant.Q4_K: panelCodes4VNNI, quant.Q5_K: panelCodes5VNNI, quant.Q6_K: panelCodes6VNNI,
	quant.IQ4_NL: panelCodesIQ4VNNI, quant.IQ4_XS: panelCodesIQ4VNNI, quant.MXFP4: panelCodesFP4VNNI,
}

// fewRowsVNNI is up to how many rows panelsVNNI is the faster, by the bits of codes: beyond, tables of S·T pay.
var fewRowsVNNI = [...]int{2: 8, 3: 8, 4: 8, 5: 8, 6: panelRows, 8: panelRows}

//go:noescape
func panelCodes8VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

//go:noescape
func panelCodes4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

//go:noescape
func panelCodesIQ4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

//go:noescape
func panelCodesFP4VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

//go:noescape
func panelCodes5VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

//go:noescape
func panelCodes3VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

//go:noescape
func panelCodes6VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)

//go:noescape
func panelCodes2VNNI(dst *float32, ldd int, q *int8, ldq int, sums *spanSums, lds int, w *byte, stride, rows, panels, blocks, layout, offset int)
