package cpu

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/quant"
)

// lanes is how many outputs a panel holds side by side and how many partial sums a row sum has: the float32 values of a
// 512-bit register.
const lanes = 16

// kernels is one implementation of the inner loops. All implementations give the same bits (see Order). A panel is 16
// outputs of a weight side by side; panels follow one another at a fixed stride.
type kernels struct {
	name string

	rowChunk  int      // rows of an item of a product, which share one pass over a group of panels; at most maxRowChunk
	tileRows  int      // from so many rows on matAffine wants the tiles of rowsQ8; 0 is never
	pairChunk int      // rowChunk of products with weights of 16 bits alone
	pairs     pairForm // what matPairs takes

	// matF32 multiplies m rows of x with panels of float32 weights: for row i < m, panel p and lane j,
	// dst[i·ldd + 16p + j] = chain over k of x[i·ldx + k] · w[p·stride + 16k + j], from dst's own value if accumulate is
	// set and from 0 else. m and k may be any number.
	matF32 func(dst []float32, ldd int, x []float32, ldx int, w []float32, stride, panels, m, k int, accumulate bool)
	// matF16 and matBF16 are matF32 for panels of 16-bit weights. stride counts values.
	matF16  func(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool)
	matBF16 func(dst []float32, ldd int, x []float32, ldx int, w []uint16, stride, panels, m, k int, accumulate bool)
	// matPairs multiplies m rows in bfloat16 with panels of pairs of weights (pairs.go). stride counts pairs.
	matPairs func(dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int)
	// round writes x rounded to bfloat16 to dst. narrow writes the bfloat16 and zeros after them to dst, of whole blocks, in the order of
	// the pairs.
	round  func(dst, x []float32)
	narrow func(dst []uint16, x []float32)
	// widen8 writes the values of bytes [k][16] of F8_E4M3, times 2⁻⁸, times scale [16], to dst.
	widen8 func(dst []float32, w []byte, scale []float32)
	// matAffine multiplies m quantised rows with panels of an affine type (affinePanel). stride counts bytes.
	matAffine func(t quant.Type, dst []float32, ldd int, x rowsQ8, w []byte, stride, panels, m int)

	// quantize turns a row, a multiple of 32 values, into spans of 32 or 256 int8, of which the last may be short: values q [n],
	// and their scales, shares and sums [n/span].
	quantize func(q []int8, sums []spanSums, x []float32, span int)
	// spread copies row i to its tile, where tileRows is not 0.
	spread func(x *rowsQ8, i int)
	// sumSquares returns the 16-lane sum of (x - mean)².
	sumSquares func(x []float32, mean float32) float32
	// scaleGain writes ((x - mean)·scale)·gain to dst.
	scaleGain func(dst, x, gain []float32, mean, scale float32)
	// weigh turns rows of n scores, ld apart, into weights: s into 2^(s - most), where most is the greatest of the row. It
	// writes that and the 16-lane sum of the weights. n is a multiple of 16; masked scores are -Inf and become 0, and where
	// all are, most is lowest.
	weigh func(most, total, s []float32, ld, n int)
	// shares joins sums of weights, 16·n of them: most becomes the greater of most and later, total becomes total·a +
	// laterTotal·b, where a is 2^(old most - most) and b is 2^(later - most).
	shares func(a, b, most, total, later, laterTotal []float32)
	// blend writes fma(b[i], x, a[i]·dst) to the width values of row i of dst, unless total[i] is 0. width is a multiple of 16.
	blend func(dst, x []float32, width int, a, b, total []float32)
	// scale writes x·factor to dst.
	scale func(dst, x []float32, factor float32)
	// softcap replaces s by limit·tanh(s/limit).
	softcap func(s []float32, limit float32)
	// silu writes (gate / (1 + exp(-gate)))·up to dst.
	silu func(dst, gate, up []float32)
	// addScaled writes fma(scale, x, dst) to dst.
	addScaled func(dst, x []float32, scale float32)
	// decayAdd decays panels of float32 and adds an outer product: for panel p < len(v)/16, row i < len(x) and lane j,
	// w[(p·len(x) + i)·16 + j] becomes fma(x[i], v[16p + j], w·decay).
	decayAdd func(w, x, v []float32, decay float32)
	// pageKeys multiplies m rows of x, at most pageQueries, with the keys of n KV panels of tiles tiles (KVTypes), panel p at byte
	// at[p] of src: dst[i·ldd + 16p + j] = chain over k of x[i·ldx + k] · (key k of token j). pageValues multiplies them with
	// values: dst[i·ldd + 16p + j] = chain over the panels' tokens k of x[i·ldx + k] · (value 16p + j of token k), for tile p. They
	// may read pageQueries rows of x, pageKeys may write n rounded up to a multiple of 4, whose panels at names as well, and
	// the pagesAhead places after those tell what comes next. nil where panels are widened instead, as they are for quantised
	// types without pageQuantised.
	pageQuantised        bool
	pageKeys, pageValues func(t quant.Type, dst []float32, ldd int, x []float32, ldx int, src []byte, at []int, n, tiles, m int)
	// widen decodes the first n tiles of a KV panel (KVTypes), of values or of keys, to dst, ldd values apart.
	widen func(t quant.Type, dst []float32, ldd int, src []byte, n int, values bool)
	// transpose writes n tiles of 16·16 values, each turned about its diagonal, to dst, ldd values apart.
	transpose func(dst []float32, ldd int, src []float32, n int)
	// rotate turns pairs of one head: (a, b) becomes (a·cos - b·sin, b·cos + a·sin), each as fma(a, cos, -(b·sin)) and
	// fma(b, cos, a·sin). lo and hi are the two halves of the rotated part.
	rotate func(lo, hi, cos, sin []float32)
	// turnPairs is rotate for pairs that lie side by side: x is a and b of the first pair, then of the next.
	turnPairs func(x, cos, sin []float32)
}

// rowsQ8 is a run of quantised activation rows. Row i has its values, from -127 to 127, at q[i·ld:] and the scales, shares and sums of its
// spans of 256 at sums[i·lds:].
type rowsQ8 struct {
	q       []int8
	sums    []spanSums
	ld, lds int // ld is a multiple of 32
	blocks  int // of 32 values, of a row

	// For kernels with tiles, the rows once more, 16 by 16, in records that are the kernels' own; and scratch memory.
	tiles    []byte // [spans][rowTiles] records of rowTileBytes
	rowTiles int
	work     []byte // [workBytes]
}

// Sizes of the kernels with tiles (affine_amx_amd64.h).
const (
	rowTileBytes = 9024
	tileWork     = 30464 // of work, before sums of groupPanels panels and maxRowChunk rows
	workBytes    = tileWork + groupPanels*maxRowChunk*lanes*4
)

// spans returns how many spans a row has.
func (x *rowsQ8) spans() int { return (x.blocks*32 + spanValues - 1) / spanValues }

// implementations returns what this machine can run, best first. Portable Go comes last and always runs.
func implementations() []*kernels {
	return append(nativeKernels(), &portable)
}

// pick returns the implementation of that name, or the best one if name is "".
func pick(name string) (*kernels, error) {
	all := implementations()
	if name == "" {
		return all[0], nil
	}
	var names []string
	for _, k := range all {
		if k.name == name {
			return k, nil
		}
		names = append(names, k.name)
	}
	return nil, fmt.Errorf("cpu: no kernels %q on this machine; it has %v", name, names)
}
