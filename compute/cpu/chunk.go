package cpu

import (
	"math"
	"math/bits"

	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

var negInf = float32(math.Inf(-1))

// partial is the state of the softmax of some queries over some positions: of each its greatest score, the sum of its
// weights 2^(score - most), which is 0 if it attends to none of them, and its output, the sum of the values by weight.
type partial struct {
	most, total []float32 // [queries], with room for whole groups of 16
	out         []float32 // [queries, width]
	width       int
}

func (p *partial) grow(queries, width int) {
	p.width = width
	p.most, p.total = kernel.Grown(p.most, queries+kernel.Lanes), kernel.Grown(p.total, queries+kernel.Lanes)
	p.out = kernel.Grown(p.out, queries*width)
}

// from returns the queries from query i on.
func (p *partial) from(i int) partial {
	return partial{p.most[i:], p.total[i:], p.out[i*p.width:], p.width}
}

// scratch is a worker's own memory.
type scratch struct {
	q       []float32 // [queries, kTiles·16] scaled queries of a tile
	scores  []float32 // [queries, chunkTokens] of a band
	keys    []float32 // of a chunk as float32: [chunkTokens/16][kTiles][16·16]
	values  []float32 // likewise: [vTiles][chunkTokens/16][16·16]
	part    partial   // of a chunk
	sum     partial   // of all chunks so far
	pages   []int     // where in the slab the panels of a chunk are: of keys, of values, and what comes next
	shares  []float32 // [2, queries] of the sum and of the part in their joint sum
	kv      kernel.KVRow
	branch  []byte    // panels of a head as a row of a tree sees them: of keys, then of values
	out     []float32 // of operations on rows
	edge    [kernel.MaxRowChunk * kernel.Lanes]float32
	work    []byte    // of products with tiles
	sums    []float32 // likewise, of those of pairs
	row     []float32 // inputs in the order of a weight
	packer  kernel.Packer
	panels  []byte // of a raw weight
	touched byte   // of what was read from a disk
	sampler choose.Sampler
	router  [2]float32 // the greatest score of a row, and the sum of its weights
}

func (s *scratch) grow(l *cacheLayer, queries, band int) {
	s.q, s.scores = kernel.Grown(s.q, max(queries, kernel.PageQueries)*l.kTiles*kernel.Lanes), kernel.Grown(s.scores, max(band, kernel.PageQueries)*chunkTokens)
	s.keys, s.values = kernel.Grown(s.keys, chunkTokens*l.kTiles*kernel.Lanes), kernel.Grown(s.values, chunkTokens*l.vTiles*kernel.Lanes)
	s.part.grow(queries, l.vTiles*kernel.Lanes)
	s.sum.grow(queries, l.vTiles*kernel.Lanes)
	s.shares = kernel.Grown(s.shares, 2*kernel.Padded(queries))
}

// join adds to s.sum what the queries have over later positions.
func (s *scratch) join(k *kernel.Table, later *partial, queries int) {
	n := kernel.Padded(queries)
	a, b := s.shares[:n], s.shares[n:2*n]
	k.Shares(a, b, s.sum.most[:n], s.sum.total[:n], later.most[:n], later.total[:n])
	k.Blend(s.sum.out, later.out, s.sum.width, a[:queries], b[:queries], later.total)
}

// chunk computes the part of chunk c in the attention of a tile and KV head.
func (d *Device) chunk(s *scratch, t *tile, head, c int, p *partial) {
	l := &d.op.cache.layers[d.op.layer]
	group := d.op.attn.Heads / l.KVHeads
	lo, hi := max(t.lo, c*chunkTokens)&^(kernel.Lanes-1), min(t.hi, (c+1)*chunkTokens)
	paged := !t.tree && d.paged(t.rows*group)
	if paged {
		s.findPages(l, d.table(&d.batch.Seqs[t.seq], l.Group), head, lo, hi)
		d.findNext(s, t, head, hi)
	} else {
		d.widenChunk(s, t, head, lo, hi)
	}
	step := bandRows(group)
	for row := 0; row < t.rows; row += step {
		d.band(s, t, row, min(step, t.rows-row), lo, hi, paged, p)
	}
}

// paged reports whether so many queries of a KV head read the running operation's panels where they lie.
func (d *Device) paged(queries int) bool {
	l := &d.op.cache.layers[d.op.layer]
	return queries <= kernel.PageQueries && !l.Latent && l.vTiles >= 4 && d.k.PageKeys != nil && (d.k.PageQuantised || !kernel.Quantised(l.typ))
}

// findPages fills s.pages for a head and positions [lo, hi) of a sequence.
func (s *scratch) findPages(l *cacheLayer, table []int32, head, lo, hi int) {
	n := (hi - lo + kernel.Lanes - 1) / kernel.Lanes
	s.pages = s.pages[:0]
	for i := range kernel.KeyPages(n) {
		pos := lo + min(i, n-1)*kernel.Lanes
		s.pages = append(s.pages, l.keysAt(int(table[pos/l.blockToken]), head, pos%l.blockToken))
	}
	for pos := lo; pos < hi; pos += kernel.Lanes {
		s.pages = append(s.pages, l.valuesAt(int(table[pos/l.blockToken]), head, pos%l.blockToken))
	}
}

// findNext adds to s.pages what comes next: the keys of later positions, from pos on, or of the next item; where
// these are few, their values too.
func (d *Device) findNext(s *scratch, t *tile, head, pos int) {
	l := &d.op.cache.layers[d.op.layer]
	if pos == t.hi {
		if head++; head == l.KVHeads {
			t, head = &d.tiles[min(t.index+1, len(d.tiles)-1)], 0
		}
		pos = t.lo &^ (kernel.Lanes - 1)
	}
	table, n := d.table(&d.batch.Seqs[t.seq], l.Group), (t.hi-pos+kernel.Lanes-1)/kernel.Lanes
	for i := range kernel.PagesAhead {
		if at := pos + i*kernel.Lanes; i < n {
			s.pages = append(s.pages, l.keysAt(int(table[at/l.blockToken]), head, at%l.blockToken))
		} else {
			at = pos + min(i-n, n-1)*kernel.Lanes
			s.pages = append(s.pages, l.valuesAt(int(table[at/l.blockToken]), head, at%l.blockToken))
		}
	}
}

// bandRows returns how many rows are a band: a power of two, and no more than tokens of a panel, so that few of a
// band's scores are of positions that its row does not see.
func bandRows(group int) int {
	return 1 << (bits.Len(uint(max(1, min(bandQueries/group, kernel.Lanes)))) - 1)
}

// widenChunk decodes the keys and values of positions [lo, hi) and the rest of the last panel.
func (d *Device) widenChunk(s *scratch, t *tile, head, lo, hi int) {
	l := &d.op.cache.layers[d.op.layer]
	table := d.table(&d.batch.Seqs[t.seq], l.Group)
	const ldd = chunkTokens * kernel.Lanes
	for pos := lo; pos < hi; pos += kernel.Lanes {
		keys, values := s.keys[(pos-lo)*l.kTiles*kernel.Lanes:], s.values[(pos-lo)*kernel.Lanes:]
		var keyPanel, valuePanel []byte
		if t.tree && pos+kernel.Lanes > int(d.batch.Seqs[t.seq].Start) {
			keyPanel, valuePanel = d.branchPanels(s, t, head, pos)
		} else {
			block, slot := int(table[pos/l.blockToken]), pos%l.blockToken
			keyPanel = l.keys(block, head, slot)
			if !l.Latent {
				valuePanel = l.values(block, head, slot)
			}
		}
		d.k.Widen(l.typ, keys, kernel.TileValues, keyPanel, l.kTiles, false)
		if l.Latent {
			d.k.Transpose(values, ldd, keys, l.vTiles)
		} else {
			d.k.Widen(l.typ, values, ldd, valuePanel, l.vTiles, true)
		}
	}
}

// branchPanels gathers panels of the keys and of the values that a row of a tree sees at 16 positions from pos on: as
// they would lie if the row and what it goes on from followed each other. So its result has the same bits.
func (d *Device) branchPanels(s *scratch, t *tile, head, pos int) (keys, values []byte) {
	l, seq := &d.op.cache.layers[d.op.layer], &d.batch.Seqs[t.seq]
	table, start := d.table(seq, l.Group), int(seq.Start)
	s.branch = kernel.Grown(s.branch, l.kPanel+l.vPanel)
	clear(s.branch)
	keys, values = s.branch[:l.kPanel], s.branch[l.kPanel:]
	put := func(at, token int) {
		block, slot := int(table[token/l.blockToken]), token%l.blockToken
		l.copyToken(keys, at, block, head, slot, false)
		if !l.Latent {
			l.copyToken(values, at, block, head, slot, true)
		}
	}
	for at := pos; at < min(start, pos+kernel.Lanes); at++ {
		put(at, at)
	}
	for r := int32(t.row); r >= 0 && int(d.batch.Pos[r]) >= max(pos, start); r = d.batch.Parent(seq, r) {
		if at := int(d.batch.Pos[r]); at < pos+kernel.Lanes {
			put(at, start+int(r-seq.Row))
		}
	}
	return keys, values
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
	from, to = max(from, lo)&^(kernel.Lanes-1), min(to, hi)
	if from >= to {
		for i := range most {
			most[i], total[i] = kernel.Lowest, 0
		}
		return
	}
	panels, panel, width := (to-from+kernel.Lanes-1)/kernel.Lanes, l.kTiles*kernel.TileValues, l.kTiles*kernel.Lanes
	if paged {
		d.k.PageKeys(kernel.PageProduct{
			Type: l.typ, Dst: s.scores, Ldd: chunkTokens, X: s.q, Ldx: width,
			Src: l.slab.data, At: s.pages, Panels: panels, Tiles: l.kTiles, M: m,
		})
	} else {
		d.k.MatF32(kernel.Product[float32]{
			Dst: s.scores, Ldd: chunkTokens, X: s.q[at*width:], Ldx: width,
			W: s.keys[(from-lo)*width:], Stride: panel, Panels: panels, M: m, K: width,
		})
	}
	d.mask(s.scores, t.seq, pos, m, group, from, panels*kernel.Lanes)
	d.k.Weigh(most, total, s.scores, chunkTokens, panels*kernel.Lanes)
	if paged {
		d.k.PageValues(kernel.PageProduct{
			Type: l.typ, Dst: out, Ldd: p.width, X: s.scores, Ldx: chunkTokens,
			Src: l.slab.data, At: s.pages[kernel.KeyPages(panels):], Panels: panels, Tiles: l.vTiles, M: m,
		})
	} else {
		d.k.MatF32(kernel.Product[float32]{
			Dst: out, Ldd: p.width, X: s.scores, Ldx: chunkTokens,
			W: s.values[(from-lo)*kernel.Lanes:], Stride: chunkTokens * kernel.Lanes, Panels: l.vTiles, M: m, K: panels * kernel.Lanes,
		})
	}
}

// mask caps the scores of m queries, group for each row from position pos on, over n positions from lo on, and makes
// those that the row does not attend to -Inf.
func (d *Device) mask(scores []float32, seq, pos, m, group, lo, n int) {
	for i := range m {
		row := scores[i*chunkTokens:][:n]
		from, to := d.attended(seq, pos+i/group)
		if limit := d.op.attn.Softcap; limit > 0 {
			d.k.Softcap(row, limit*log2e)
		}
		for j := range min(max(from-lo, 0), n) {
			row[j] = negInf
		}
		for j := max(to-lo, 0); j < n; j++ {
			row[j] = negInf
		}
	}
}
