package kernel

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/quant"
)

// Lanes is how many outputs a panel holds side by side and how many partial sums a row sum has: the float32 values of a
// 512-bit register.
const Lanes = 16

const (
	MaxRowChunk = 512 // the most rows that share one pass over a group of panels
	GroupPanels = 8   // the most panels of a group

	PageQueries = 8 // the most rows of a PageProduct: for more, decoding the panels first costs less
	PagesAhead  = 4 // KV panels that are prefetched
)

// KeyPages returns how many places PageKeys reads for n panels of keys.
func KeyPages(n int) int { return (n + 3) &^ 3 }

// Padded returns n rounded up to whole vectors of lanes.
func Padded(n int) int { return (n + Lanes - 1) &^ (Lanes - 1) }

// Quantised reports whether products with weights of type t take quantised rows.
func Quantised(t quant.Type) bool { return t.BlockValues() > 1 }

// Table is one implementation of the inner loops. All implementations give the same bits (see Order). A panel is 16
// outputs of a weight side by side; panels follow one another at a fixed stride.
type Table struct {
	Name string

	// What is tuned for the instruction set.
	RowChunk  int      // rows that share one pass over a group of panels; at most MaxRowChunk
	TileRows  int      // the fewest rows for which MatAffine takes the tiles of Rows8; 0 if it never does
	PairChunk int      // RowChunk of products with 16-bit weights
	Pairs     PairForm // the rows that MatPairs takes

	// Products.

	// MatF32 computes a product with panels of float32 weights.
	MatF32 func(p Product[float32])
	// MatF16 and MatBF16 are MatF32 for 16-bit weights.
	MatF16, MatBF16 func(p Product[uint16])
	// MatPairs multiplies rows in bfloat16 with panels of pairs of 16-bit weights (pairs.go).
	MatPairs func(p PairProduct)
	// Round writes x, rounded to bfloat16, to dst as float32. Narrow writes it as bfloat16, in the order of the pairs,
	// and fills dst, which has whole blocks, with zeros.
	Round  func(dst, x []float32)
	Narrow func(dst []uint16, x []float32)
	// Widen8 decodes F8_E4M3: bytes w [k][16] become 2⁻⁸ times their values, times scale [16], in dst [k][16].
	Widen8 func(dst []float32, w []byte, scale []float32)
	// MatAffine multiplies quantised rows with panels of an affine type (affinePanel, matAffine).
	MatAffine func(p AffineProduct)
	// Quantize quantises a row x [n], n a multiple of 32, in spans of 32 or 256 values, of which the last may be short:
	// to values q [n], and to a scale, shares and sums for each span.
	Quantize func(q []int8, sums []SpanSums, x []float32, span int)
	// Spread copies row i to its tile. nil if TileRows is 0.
	Spread func(x *Rows8, i int)

	// Operations on rows.

	// SumSquares returns the 16-lane sum of (x - mean)².
	SumSquares func(x []float32, mean float32) float32
	// ScaleGain writes ((x - mean)·scale)·gain to dst.
	ScaleGain func(dst, x, gain []float32, mean, scale float32)
	// Scale writes x·factor to dst.
	Scale func(dst, x []float32, factor float32)
	// Softcap replaces s by limit·tanh(s/limit).
	Softcap func(s []float32, limit float32)
	// Silu writes (gate / (1 + exp(-gate)))·up to dst.
	Silu func(dst, gate, up []float32)
	// AddScaled writes fma(scale, x, dst) to dst.
	AddScaled func(dst, x []float32, scale float32)
	// Rotate rotates the two halves lo and hi of a head's rotary part: (a, b) becomes (a·cos - b·sin, b·cos + a·sin),
	// each as fma(a, cos, -(b·sin)) and fma(b, cos, a·sin).
	Rotate func(lo, hi, cos, sin []float32)
	// RotateInterleaved is Rotate for a and b that are neighbours in x.
	RotateInterleaved func(x, cos, sin []float32)
	// DecayAdd decays panels of float32 and adds an outer product: for panel p < len(v)/16, row i < len(x) and lane j,
	// w[(p·len(x) + i)·16 + j] becomes fma(x[i], v[16p + j], w·decay).
	DecayAdd func(w, x, v []float32, decay float32)

	// Attention.

	// Weigh replaces each score s of a row by its softmax weight 2^(s - most), where most is the greatest of the row,
	// and writes most and the 16-lane sum of the weights for each row. Rows have n scores, a multiple of 16, and are
	// ld apart. Masked scores are -Inf and become 0; if all are masked, most is Lowest.
	Weigh func(most, total, s []float32, ld, n int)
	// Shares merges the sums of two parts of a softmax, for a multiple of 16 queries: most becomes the greater of
	// most and later, and total becomes total·a + laterTotal·b, where a is 2^(old most - most) and b is 2^(later -
	// most).
	Shares func(a, b, most, total, later, laterTotal []float32)
	// Blend merges outputs with those factors: row i of dst becomes fma(b[i], x, a[i]·dst), unless total[i] is 0.
	// Rows have width values, a multiple of 16.
	Blend func(dst, x []float32, width int, a, b, total []float32)
	// PageKeys multiplies rows with the keys in KV panels: Dst[i·Ldd + 16p + j] = chain over k of X[i·Ldx + k] · (key
	// k of token j), for panel p. PageValues multiplies them with values: Dst[i·Ldd + 16p + j] = chain over the
	// panels' tokens k of X[i·Ldx + k] · (value 16p + j of token k), for tile p. They may read PageQueries rows of X.
	// PageKeys may write Panels rounded up to a multiple of 4, whose panels At names as well. The PagesAhead places
	// after those tell what comes next. nil where panels are widened instead, as they are for quantised types without
	// PageQuantised.
	PageQuantised        bool
	PageKeys, PageValues func(p PageProduct)
	// Widen decodes the first n tiles of a KV panel of type t, one of KVTypes, to float32, ldd values apart in dst.
	Widen func(t quant.Type, dst []float32, ldd int, src []byte, n int, values bool)
	// Transpose writes n tiles of 16·16 values, each transposed, to dst, ldd values apart.
	Transpose func(dst []float32, ldd int, src []float32, n int)
}

// Product is a product of M rows with panels of float weights. For row i < M, panel p < Panels and lane j,
// Dst[i·Ldd + 16p + j] is the chain over k < K of X[i·Ldx + k] · W[p·Stride + 16k + j], from Dst's own value if
// Accumulate is set and from 0 otherwise. M and K may be any number.
type Product[T float32 | uint16] struct {
	Dst          []float32
	Ldd          int
	X            []float32
	Ldx          int
	W            []T
	Stride       int // values from panel to panel
	Panels, M, K int
	Accumulate   bool
}

// AffineProduct is a product of M quantised rows with panels of an affine type, into Dst as in Product.
type AffineProduct struct {
	Type      quant.Type
	Dst       []float32
	Ldd       int
	X         Rows8
	W         []byte
	Stride    int // bytes from panel to panel
	Panels, M int
}

// PairProduct is a product of M rows in bfloat16 with panels of pairs of 16-bit weights, into Dst as in Product.
type PairProduct struct {
	Dst       []float32
	Ldd       int
	X         Rows16
	W         []uint32
	Stride    int // pairs from panel to panel
	Panels, M int
}

// PageProduct is a product of M rows, at most PageQueries, with KV panels in place: panel p begins at byte At[p] of
// Src.
type PageProduct struct {
	Type          quant.Type
	Dst           []float32
	Ldd           int
	X             []float32
	Ldx           int
	Src           []byte
	At            []int
	Panels, Tiles int // tiles of a panel
	M             int
}

// Implementations returns what this machine can run, best first. Portable Go comes last and always runs.
func Implementations() []*Table {
	return append(nativeKernels(), &portable)
}

// Pick returns the implementation of that name, or the best one if name is "".
func Pick(name string) (*Table, error) {
	all := Implementations()
	if name == "" {
		return all[0], nil
	}
	var names []string
	for _, k := range all {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return nil, fmt.Errorf("kernel: no kernels %q on this machine; it has %v", name, names)
}
