//go:build amd64 && !noasm

package cpu

import (
	"unsafe"

	"github.com/kvasir-llm/kvasir/quant"
)

// amx is avx512vnni with the tile products of AMX for many rows.
var amx = func() kernels {
	k := avx512vnni
	k.name, k.matAffine, k.rowChunk, k.tileRows = "amx", matAffineAMX, maxRowChunk, tileRowsAMX
	return k
}()

// tileRowsAMX is how many rows it takes for tiles to be faster than VNNI. A panel is unpacked for all of them.
const tileRowsAMX = 48

// tileConfig is the operand of LDTILECFG.
type tileConfig struct {
	palette, _ uint8 // and the row to start from
	_          [14]uint8
	bytes      [16]uint16 // of a row of each tile
	rows       [16]uint8
}

// tiles32 and tiles16 are the tiles of affine_amx_amd64.h for groups of 32 and of 16 inputs.
var (
	tiles32 = tileConfig{palette: 1, bytes: [16]uint16{64, 64, 64, 64, 32, 32, 64, 64}, rows: [16]uint8{16, 16, 16, 16, 16, 16, 8, 8}}
	tiles16 = tileConfig{palette: 1, bytes: [16]uint16{64, 64, 64, 64, 16, 16, 64, 64}, rows: [16]uint8{16, 16, 16, 16, 16, 16, 4, 4}}
	tiles64 = tileConfig{palette: 1, bytes: [16]uint16{64, 64, 64, 64, 64, 64, 64, 64}, rows: [16]uint8{16, 16, 16, 16, 16, 16, 16, 16}}
)

// matAffineAMX unpacks one part of a panel after the other, which stays in the first cache, and multiplies 16 rows at a time
// with it.
func matAffineAMX(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int) {
	if m < tileRowsAMX || len(x.tileQ) == 0 || panels <= 0 || int(t) >= len(affineUnpack) || affineUnpack[t] == nil {
		matAffineVNNI(t, dst, ldd, x, w, stride, panels, m)
		return
	}
	a := &affinePanels[t]
	tiles := (m + lanes - 1) / lanes
	_ = dst[(m-1)*ldd+panels*lanes-1]
	_, _ = x.tileQ[tiles*x.blocks*rowTileValues-1], x.tileSums[tiles*x.blocks*rowTileSums-1]
	_ = w[(panels-1)*stride+a.bytes(x.blocks)-1]
	buf, rest := x.work[:tileBuffer], x.work[tileBuffer:]
	levels, rest := rest[:tileBlocks*512], rest[tileBlocks*512:]
	scales, mins := view[float32](rest[:tileBlocks*128]), view[float32](rest[tileBlocks*128:])
	product, config := tiles32AMX, &tiles32
	switch {
	case a.Group == 16 && a.Offset == 0:
		product, config = tiles16MinAMX, &tiles16
	case a.Group == 16:
		product, config = tiles16AMX, &tiles16
	case a.Offset == 0:
		product = tiles32MinAMX
	}
	level := (*int8)(unsafe.Pointer(&levels[0]))
	for p := range panels {
		codes, packed, supers := a.parts(w[p*stride:], x.blocks)
		for b := 0; b < x.blocks; b += tileBlocks {
			n := min(tileBlocks, x.blocks-b)
			affineUnpack[t](level, &scales[0], &mins[0], at(codes, b*a.codeBytes()), at(packed, b*(32/a.Group)*a.scaleBytes()),
				at(supers, b/8*a.superBytes()), n, uint8(a.Offset))
			product(&dst[p*lanes], ldd*4, &x.tileQ[b*rowTileValues], &x.tileSums[b*rowTileSums], level, &scales[0], &mins[0], &buf[0],
				m, n, x.blocks, config, b > 0)
		}
	}
}

// at returns the address of b[i], nil if b is empty.
func at(b []byte, i int) *byte {
	if len(b) == 0 {
		return nil
	}
	return &b[i]
}

// affineUnpack writes what the tiles need of a panel: see affine_amx_amd64.h. It is indexed by type.
var affineUnpack = [...]func(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8){
	quant.Q4_1:   unpackQ4_1VNNI,
	quant.Q4_K:   unpackQ4_KVNNI,
	quant.Q5_1:   unpackQ5_1VNNI,
	quant.Q5_K:   unpackQ5_KVNNI,
	quant.Q2_K:   unpackQ2_KVNNI,
	quant.Q3_K:   unpackQ3_KVNNI,
	quant.Q6_K:   unpackQ6_KVNNI,
	quant.Q8_0:   unpackQ8_0VNNI,
	quant.Q5_0:   unpackQ5_0VNNI,
	quant.Q4_0:   unpackQ4_0VNNI,
	quant.IQ4_NL: unpackIQ4_NLVNNI,
	quant.IQ4_XS: unpackIQ4_XSVNNI,
	quant.MXFP4:  unpackMXFP4VNNI,
}

//go:noescape
func tiles32AMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)

//go:noescape
func tiles32MinAMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)

//go:noescape
func tiles16AMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)

//go:noescape
func tiles16MinAMX(dst *float32, ldd int, q *int8, sums *float32, levels *int8, scales, mins *float32, buf *byte, rows, blocks, all int, config *tileConfig, accumulate bool)

//go:noescape
func roofTileAMX(n int, config *tileConfig)

//go:noescape
func unpackQ4_1VNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ4_KVNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ5_1VNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ5_KVNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ2_KVNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ3_KVNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ6_KVNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ8_0VNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ5_0VNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackQ4_0VNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackIQ4_NLVNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackIQ4_XSVNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)

//go:noescape
func unpackMXFP4VNNI(levels *int8, scales, mins *float32, codes, packed, supers *byte, blocks int, offset uint8)
