//go:build amd64 && !noasm

package cpu

const (
	pairWhole = 1344 << 10 // of rows, of the two panels under way and of the next two: so many bytes stay in the second cache
	pairSlice = 128 << 10  // of rows: with so many, those of two panels stay in the first cache
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

// matPairsAMX takes 32 rows and 2 panels at a time, or up to 16 rows and 4 panels. Rows that do not stay in the second cache take the
// blocks of all panels slice by slice; the sums under way are in x.work then.
func matPairsAMX(dst []float32, ldd int, x rows16, w []uint32, stride, panels, m int) {
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
	_, _ = x.half[(m-1)*x.ld+x.blocks*32-1], w[(panels-1)*stride+x.blocks*blockPairs*lanes-1]
	// Tall are the rows that go 32 at a time; wide are the panels that go in pairs.
	tall, wide := m, panels&^1
	if rest := m % 32; rest <= 16 {
		tall -= rest
	}
	slices := 1
	if tall > 32 && (tall+64)*x.blocks*64 > pairWhole {
		slices = (tall*x.blocks*64-1)/pairSlice + 1
	}
	for s := range slices {
		from, to := x.blocks*s/slices, x.blocks*(s+1)/slices
		part := pairPart{dst, ldd, x.half[from*32:], x.ld, w[from*blockPairs*lanes:], stride, to - from, s > 0}
		if tall > 0 {
			for p := 0; p < wide; p += 2 {
				part.tall(p, tall, wide, x.work, s == slices-1)
			}
		}
		for i := 0; i < m; i += lanes { // what is left: the last panel of an odd number, and the last 16 rows or fewer
			if i >= tall {
				part.few(i, 0, min(lanes, m-i), panels)
			} else if wide < panels {
				part.few(i, wide, min(lanes, m-i), 1)
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
	sums, ld := s.dst[p*lanes:], s.ldd
	to, ldt := sums, ld
	if s.add || !last {
		sums, ld = work[p*lanes*m:], 2*lanes
	}
	if !last {
		to, ldt = sums, ld
	}
	var next *uint32 // nil, if weights are used once: they are fetched a little ahead
	if m > 32 {
		next = &s.w[min(p+2, wide-2)*s.stride]
		if p+2 == wide && !last {
			next = &s.w[s.blocks*blockPairs*lanes]
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
		pairs22AMX(&to[i*ldt], ldt*4, from, ld*4, &s.x[i*s.ldx], s.ldx*2, &s.w[p*s.stride], s.stride*4, groups, s.blocks, &config, next, lines, fetch)
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
	to, config := &s.dst[i*s.ldd+p*lanes], pairConfig(m, m)
	from := to
	if !s.add {
		from = nil
	}
	pairs14AMX(to, s.ldd*4, from, s.ldd*4, &s.x[i*s.ldx], s.ldx*2, &s.w[p*s.stride], s.stride*4, n, s.blocks, &config)
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

//go:noescape
func pairs22AMX(to *float32, ldt int, from *float32, ldf int, x *uint16, ldx int, w *uint32, stride, groups, blocks int, config *tileConfig, next *uint32, lines, fetch int)

//go:noescape
func pairs14AMX(to *float32, ldt int, from *float32, ldf int, x *uint16, ldx int, w *uint32, stride, panels, blocks int, config *tileConfig)
