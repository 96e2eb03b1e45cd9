//go:build amd64 && !noasm

package kernel

const (
	// Of rows, of the two panels under way and of the next two: so many bytes stay in the second cache.
	pairWhole = 1344 << 10
	pairSlice = 128 << 10 // of rows: with so many, those of two panels stay in the first cache
)

// pairConfig is the operand of LDTILECFG for tiles of first rows, and of second rows after them.
func pairConfig(first, second int) tileConfig {
	c := tileConfig{palette: 1}
	for i, n := range [8]int{first, first, second, second, first, second, 16, 16} {
		c.bytes[i], c.rows[i] = 64, uint8(n)
	}
	return c
}

// pairChunkAMX is how many rows share one pass over the weights.
const pairChunkAMX = 256

// matPairsAMX takes 32 rows and 2 panels at a time, or up to 16 rows and 4 panels. Rows that do not stay in the
// second cache take the blocks of all panels slice by slice; the sums under way are in x.work then.
func matPairsAMX(p PairProduct) {
	dst, ldd, x, w, stride, panels, m := p.Dst, p.Ldd, p.X, p.W, p.Stride, p.Panels, p.M
	if m <= 0 || panels <= 0 {
		return
	}
	_ = dst[(m-1)*ldd+panels*Lanes-1]
	if x.Blocks <= 0 {
		for i := range m {
			clear(dst[i*ldd:][:panels*Lanes])
		}
		return
	}
	_, _ = x.Half[(m-1)*x.Ld+x.Blocks*32-1], w[(panels-1)*stride+x.Blocks*blockPairs*Lanes-1]
	// Tall are the rows that go 32 at a time; wide are the panels that go in pairs.
	tall, wide := m, panels&^1
	if rest := m % 32; rest <= 16 {
		tall -= rest
	}
	slices := 1
	if tall > 32 && (tall+64)*x.Blocks*64 > pairWhole {
		slices = (tall*x.Blocks*64-1)/pairSlice + 1
	}
	for s := range slices {
		from, to := x.Blocks*s/slices, x.Blocks*(s+1)/slices
		part := pairPart{dst, ldd, x.Half[from*32:], x.Ld, w[from*blockPairs*Lanes:], stride, to - from, s > 0}
		if tall > 0 {
			for p := 0; p < wide; p += 2 {
				part.tall(p, tall, wide, x.Work, s == slices-1)
			}
		}
		for i := 0; i < m; i += Lanes { // what is left: the last panel of an odd number, and the last 16 rows or fewer
			if i >= tall {
				part.few(i, 0, min(Lanes, m-i), panels)
			} else if wide < panels {
				part.few(i, wide, min(Lanes, m-i), 1)
			}
		}
	}
}

// pairPart is a slice of a product.
type pairPart struct {
	dst    []float32
	ldd    int
	x      []uint16
	ldx    int
	w      []uint32
	stride int
	blocks int
	add    bool // to earlier slices
}

// tall multiplies the first m rows with panels p and p+1 of the first wide ones.
func (s *pairPart) tall(p, m, wide int, work []float32, last bool) {
	sums, ld := s.dst[p*Lanes:], s.ldd
	to, ldt := sums, ld
	if s.add || !last {
		sums, ld = work[p*Lanes*m:], 2*Lanes
	}
	if !last {
		to, ldt = sums, ld
	}
	var next *uint32 // nil, if weights are used once: they are fetched a little ahead
	if m > 32 {
		next = &s.w[min(p+2, wide-2)*s.stride]
		if p+2 == wide && !last {
			next = &s.w[s.blocks*blockPairs*Lanes]
		}
	}
	lines, fetch := (blockPairs*32-1)/m+1, 0
	if last && m > 32 {
		fetch = 31/s.blocks + 1
	}
	do := func(i, groups int, config tileConfig) {
		var from *float32
		if s.add {
			from = &sums[i*ld]
		}
		pairs22AMX(pairsAMX{
			to: &to[i*ldt], ldt: ldt * 4, from: from, ldf: ld * 4, x: &s.x[i*s.ldx], ldx: s.ldx * 2,
			w: &s.w[p*s.stride], stride: s.stride * 4,
			count: groups, blocks: s.blocks, config: &config, next: next, lines: lines, fetch: fetch,
		})
	}
	if m >= 32 {
		do(0, m/32, pairConfig(16, 16))
	}
	if rest := m % 32; rest > 0 {
		do(m-rest, 1, pairConfig(16, rest-16))
	}
}

// few multiplies m rows from row i on, up to 16, with n panels from panel p on.
func (s *pairPart) few(i, p, m, n int) {
	to, config := &s.dst[i*s.ldd+p*Lanes], pairConfig(m, m)
	from := to
	if !s.add {
		from = nil
	}
	pairs14AMX(pairsAMX{
		to: to, ldt: s.ldd * 4, from: from, ldf: s.ldd * 4, x: &s.x[i*s.ldx], ldx: s.ldx * 2,
		w: &s.w[p*s.stride], stride: s.stride * 4,
		count: n, blocks: s.blocks, config: &config,
	})
}

func narrowAVX512(dst []uint16, x []float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		narrowRowAVX512(&dst[0], &x[0], n)
	}
	narrow(dst[n:], x[n:])
}

//go:noescape
func narrowRowAVX512(dst *uint16, x *float32, n int)

// pairsAMX is the argument of a product of pairs with tiles, which goes to to. Distances are in bytes.
type pairsAMX struct {
	to     *float32
	ldt    int
	from   *float32 // earlier sums, or nil
	ldf    int
	x      *uint16 // rows
	ldx    int
	w      *uint32 // panels
	stride int
	count  int // of groups of 32 rows, or of panels
	blocks int
	config *tileConfig

	// Of products with two panels.
	next         *uint32 // what weights to fetch, or nil
	lines, fetch int     // of weights and of dst, for each block
}

// pairs22AMX multiplies groups of 32 rows with two panels, pairs14AMX up to 16 rows with panels.
//
//go:noescape
func pairs22AMX(t pairsAMX)

//go:noescape
func pairs14AMX(t pairsAMX)
