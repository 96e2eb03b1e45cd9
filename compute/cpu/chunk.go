package cpu

import (
	"math"
	"math/bits"
)

var negInf = float32(math.Inf(-1))

// lowest is the greatest score of a query that attends to nothing.
const lowest = -math.MaxFloat32

// partial is the state of the softmax of some queries over some positions: of each its greatest score, the sum of its
// weights 2^(score - most), which is 0 if it attends to none of them, and its output, the sum of the values by weight.
type partial struct {
	most, total []float32 // [queries], with room for whole groups of 16
	out         []float32 // [queries, width]
	width       int
}

func (p *partial) grow(queries, width int) {
	p.width = width
	p.most, p.total = grown(p.most, queries+lanes), grown(p.total, queries+lanes)
	p.out = grown(p.out, queries*width)
}

// from returns the queries from query i on.
func (p *partial) from(i int) partial {
	return partial{p.most[i:], p.total[i:], p.out[i*p.width:], p.width}
}

// scratch is a worker's own memory.
type scratch struct {
	q      []float32 // [queries, kTiles·16] scaled queries of a tile
	scores []float32 // [queries, chunkTokens] of a band
	keys   []float32 // of a chunk as float32: [chunkTokens/16][kTiles][16·16]
	values []float32 // likewise: [vTiles][chunkTokens/16][16·16]
	part   partial   // of a chunk
	sum    partial   // of all chunks so far
	pages  []int     // where in the slab the panels of a chunk are: of keys, of values, and what comes next
	shares []float32 // [2, queries] of the sum and of the part in their joint sum
	kv     kvRow
	out    []float32 // of operations on rows
	edge   [maxRowChunk * lanes]float32
	work   []byte     // of products with tiles
	sums   []float32  // likewise, of those of pairs
	row    []float32  // inputs in the order of a weight
	router [2]float32 // the greatest score of a row, and the sum of its weights
}

func (s *scratch) grow(l *cacheLayer, queries, band int) {
	s.q, s.scores = grown(s.q, max(queries, pageQueries)*l.kTiles*lanes), grown(s.scores, max(band, pageQueries)*chunkTokens)
	s.keys, s.values = grown(s.keys, chunkTokens*l.kTiles*lanes), grown(s.values, chunkTokens*l.vTiles*lanes)
	s.part.grow(queries, l.vTiles*lanes)
	s.sum.grow(queries, l.vTiles*lanes)
	s.shares = grown(s.shares, 2*padded(queries))
}

// join adds to s.sum what the queries have over later positions.
func (s *scratch) join(k *kernels, later *partial, queries int) {
	n := padded(queries)
	a, b := s.shares[:n], s.shares[n:2*n]
	k.shares(a, b, s.sum.most[:n], s.sum.total[:n], later.most[:n], later.total[:n])
	k.blend(s.sum.out, later.out, s.sum.width, a[:queries], b[:queries], later.total)
}

// chunk computes the part of chunk c in the attention of a tile and KV head.
func (d *Device) chunk(s *scratch, t *tile, head, c int, p *partial) {
	l := &d.op.cache.layers[d.op.layer]
	group := d.op.attn.Heads / l.KVHeads
	lo, hi := max(t.lo, c*chunkTokens)&^(lanes-1), min(t.hi, (c+1)*chunkTokens)
	paged := d.paged(t.rows * group)
	if paged {
		s.findPages(l, d.batch.Seqs[t.seq].Tables[l.Group], head, lo, hi)
		d.findNext(s, t, head, hi)
	} else {
		d.widenChunk(s, t, head, lo, hi)
	}
	step := bandRows(group)
	for row := 0; row < t.rows; row += step {
		d.band(s, t, row, min(step, t.rows-row), lo, hi, paged, p)
	}
}

const (
	pageQueries = 8 // up to so many queries of a KV head, panels are read where they lie: widening them costs more
	pagesAhead  = 4 // panels that are fetched before they are multiplied
)

// paged reports whether so many queries of a KV head read the running operation's panels where they lie.
func (d *Device) paged(queries int) bool {
	l := &d.op.cache.layers[d.op.layer]
	return queries <= pageQueries && !l.Latent && l.vTiles >= 4 && d.k.pageKeys != nil && (d.k.pageQuantised || !quantised(l.typ))
}

// keyPages returns how many places of scratch.pages belong to n panels of keys.
func keyPages(n int) int { return (n + 3) &^ 3 }

// findPages fills s.pages for a head and positions [lo, hi) of a sequence.
func (s *scratch) findPages(l *cacheLayer, table []int32, head, lo, hi int) {
	n := (hi - lo + lanes - 1) / lanes
	s.pages = s.pages[:0]
	for i := range keyPages(n) {
		pos := lo + min(i, n-1)*lanes
		s.pages = append(s.pages, l.keysAt(int(table[pos/l.blockToken]), head, pos%l.blockToken))
	}
	for pos := lo; pos < hi; pos += lanes {
		s.pages = append(s.pages, l.valuesAt(int(table[pos/l.blockToken]), head, pos%l.blockToken))
	}
}

// findNext adds to s.pages what comes next: the keys of later positions, from pos on, or of the next item; where these are few, their
// values too.
func (d *Device) findNext(s *scratch, t *tile, head, pos int) {
	l := &d.op.cache.layers[d.op.layer]
	if pos == t.hi {
		if head++; head == l.KVHeads {
			t, head = &d.tiles[min(t.index+1, len(d.tiles)-1)], 0
		}
		pos = t.lo &^ (lanes - 1)
	}
	table, n := d.batch.Seqs[t.seq].Tables[l.Group], (t.hi-pos+lanes-1)/lanes
	for i := range pagesAhead {
		if at := pos + i*lanes; i < n {
			s.pages = append(s.pages, l.keysAt(int(table[at/l.blockToken]), head, at%l.blockToken))
		} else {
			at = pos + min(i-n, n-1)*lanes
			s.pages = append(s.pages, l.valuesAt(int(table[at/l.blockToken]), head, at%l.blockToken))
		}
	}
}

// bandRows returns how many rows are a band: a power of two, and no more than tokens of a panel, so that few of a band's scores are
// of positions that its row does not see.
func bandRows(group int) int {
	return 1 << (bits.Len(uint(max(1, min(bandQueries/group, lanes)))) - 1)
}

// widenChunk decodes the keys and values of positions [lo, hi) and the rest of the last panel.
func (d *Device) widenChunk(s *scratch, t *tile, head, lo, hi int) {
	l := &d.op.cache.layers[d.op.layer]
	table := d.batch.Seqs[t.seq].Tables[l.Group]
	const ldd = chunkTokens * lanes
	for pos := lo; pos < hi; pos += lanes {
		block, slot := int(table[pos/l.blockToken]), pos%l.blockToken
		keys, values := s.keys[(pos-lo)*l.kTiles*lanes:], s.values[(pos-lo)*lanes:]
		d.k.widen(l.typ, keys, tileValues, l.keys(block, head, slot), l.kTiles, false)
		if l.Latent {
			d.k.transpose(values, ldd, keys, l.vTiles)
		} else {
			d.k.widen(l.typ, values, ldd, l.values(block, head, slot), l.vTiles, true)
		}
	}
}

// band attends with n rows of a tile, from row row on, to what they see of the positions [lo, hi) that s.keys and
// s.values hold, or s.pages tells of.
func (d *Device) band(s *scratch, t *tile, row, n, lo, hi int, paged bool, p *partial) {
	l := &d.op.cache.layers[d.op.layer]
	group, pos := d.op.attn.Heads/l.KVHeads, int(d.batch.Pos[t.row])+row
	at, m := row*group, n*group
	most, total, out := p.most[at:][:m], p.total[at:][:m], p.out[at*p.width:]
	from, _ := d.attended(t.seq, pos)
	_, to := d.attended(t.seq, pos+n-1)
	from, to = max(from, lo)&^(lanes-1), min(to, hi)
	if from >= to {
		for i := range most {
			most[i], total[i] = lowest, 0
		}
		return
	}
	panels, panel, width := (to-from+lanes-1)/lanes, l.kTiles*tileValues, l.kTiles*lanes
	if paged {
		d.k.pageKeys(l.typ, s.scores, chunkTokens, s.q, width, l.slab.data, s.pages, panels, l.kTiles, m)
	} else {
		d.k.matF32(s.scores, chunkTokens, s.q[at*width:], width, s.keys[(from-lo)*width:], panel, panels, m, width, false)
	}
	d.mask(s.scores, t.seq, pos, m, group, from, panels*lanes)
	d.k.weigh(most, total, s.scores, chunkTokens, panels*lanes)
	if paged {
		d.k.pageValues(l.typ, out, p.width, s.scores, chunkTokens, l.slab.data, s.pages[keyPages(panels):], panels, l.vTiles, m)
	} else {
		d.k.matF32(out, p.width, s.scores, chunkTokens, s.values[(from-lo)*lanes:], chunkTokens*lanes, l.vTiles, m, panels*lanes, false)
	}
}

// mask caps the scores of m queries, group for each row from position pos on, over n positions from lo on, and makes those
// that the row does not attend to -Inf.
func (d *Device) mask(scores []float32, seq, pos, m, group, lo, n int) {
	for i := range m {
		row := scores[i*chunkTokens:][:n]
		from, to := d.attended(seq, pos+i/group)
		if limit := d.op.attn.Softcap; limit > 0 {
			d.k.softcap(row, limit*log2e)
		}
		for j := range min(max(from-lo, 0), n) {
			row[j] = negInf
		}
		for j := max(to-lo, 0); j < n; j++ {
			row[j] = negInf
		}
	}
}
