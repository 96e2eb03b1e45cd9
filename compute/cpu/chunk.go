package cpu

import (
	"math"

	"github.com/kvasir-llm/kvasir/quant"
)

var negInf = float32(math.Inf(-1))

// partial is the state of the softmax of some queries over some positions: of each its greatest score, the sum of its
// weights exp(score - most), which is 0 if it attends to none of them, and its output, the sum of the values by weight.
type partial struct {
	most, total []float32
	out         []float32 // [queries, width]
	width       int
}

func (p *partial) grow(queries, width int) {
	p.width = width
	p.most, p.total, p.out = grown(p.most, queries), grown(p.total, queries), grown(p.out, queries*width)
}

// from returns the queries from query i on.
func (p *partial) from(i int) partial {
	return partial{p.most[i:], p.total[i:], p.out[i*p.width:], p.width}
}

// join adds what the queries have over later positions.
func (p *partial) join(k *kernels, later *partial, queries int) {
	for i := range queries {
		if later.total[i] == 0 {
			continue
		}
		most := max(p.most[i], later.most[i])
		a, b := exp(p.most[i]-most), exp(later.most[i]-most)
		p.most[i] = most
		p.total[i] = float32(p.total[i]*a) + float32(later.total[i]*b)
		k.blend(p.out[i*p.width:][:p.width], later.out[i*p.width:][:p.width], a, b)
	}
}

// panelRun is how many panels are widened at a time. A chunk is a whole number of runs.
const panelRun = 4

// scratch is a worker's own memory.
type scratch struct {
	q      []float32 // [queries, KDim] scaled queries of a tile
	scores []float32 // [queries, chunkTokens]
	wide   []float32 // panels as float32: keys [panelRun][tiles][16·16], values [tiles][panelRun][16·16]
	tiles  []float32 // [tiles][16·16] of a latent panel
	part   partial   // of a chunk
	sum    partial   // of all chunks so far
	kv     kvRow
	out    []float32 // of operations on rows
	edge   [maxRowChunk * lanes]float32
	work   []byte    // of products with tiles
	row    []float32 // inputs in the order of a weight
}

func (s *scratch) grow(l *cacheLayer, queries int) {
	s.q, s.scores = grown(s.q, queries*l.KDim), grown(s.scores, queries*chunkTokens)
	s.wide = grown(s.wide, panelRun*max(l.kTiles, l.vTiles)*tileValues)
	if l.Latent {
		s.tiles = grown(s.tiles, l.vTiles*tileValues)
	}
	s.part.grow(queries, l.vTiles*lanes)
	s.sum.grow(queries, l.vTiles*lanes)
}

// chunk computes the part of chunk c in the attention of a tile and KV head.
func (d *Device) chunk(s *scratch, t *tile, head, c int, p *partial) {
	l := &d.op.cache.layers[d.op.layer]
	group := d.op.attn.Heads / l.KVHeads
	queries := t.rows * group
	lo, hi := max(t.lo, c*chunkTokens), min(t.hi, (c+1)*chunkTokens)
	lo &^= lanes - 1
	d.scoreKeys(s, t, head, lo, hi)
	first, width := int(d.batch.Pos[t.row]), (hi-lo+lanes-1)&^(lanes-1)
	for i := range queries {
		from, to := d.attended(t.seq, first+i/group)
		p.most[i], p.total[i] = d.weigh(s.scores[i*chunkTokens:][:width], max(from, lo)-lo, min(to, hi)-lo)
	}
	clear(p.out[:queries*p.width])
	d.mixValues(s, t, head, lo, hi, p)
}

// scoreKeys writes the scores of the tile's queries over positions [lo, hi) and the rest of the last panel.
func (d *Device) scoreKeys(s *scratch, t *tile, head, lo, hi int) {
	l := &d.op.cache.layers[d.op.layer]
	table := d.batch.Seqs[t.seq].Tables[l.Group]
	queries := t.rows * (d.op.attn.Heads / l.KVHeads)
	panel := l.kTiles * tileValues
	for at := lo; at < hi; {
		dst, n := s.scores[at-lo:], 0
		if d.inPlace(queries) {
			n = min((hi-at+lanes-1)/lanes, (l.blockToken-at%l.blockToken)/lanes)
			keys := l.keys(int(table[at/l.blockToken]), head, at%l.blockToken)
			d.floatPanels(l.typ, dst, chunkTokens, s.q, l.KDim, keys, panel, n, queries, l.KDim, false)
		} else {
			for ; n < panelRun && at+n*lanes < hi; n++ {
				pos := at + n*lanes
				d.k.widen(l.typ, s.wide[n*panel:], tileValues, l.keys(int(table[pos/l.blockToken]), head, pos%l.blockToken), l.kTiles, false)
			}
			d.k.matF32(dst, chunkTokens, s.q, l.KDim, s.wide, panel, n, queries, l.KDim, false)
		}
		at += n * lanes
	}
}

// mixValues adds the values of positions [lo, hi) to p by the weights in s.scores.
func (d *Device) mixValues(s *scratch, t *tile, head, lo, hi int, p *partial) {
	l := &d.op.cache.layers[d.op.layer]
	table := d.batch.Seqs[t.seq].Tables[l.Group]
	queries := t.rows * (d.op.attn.Heads / l.KVHeads)
	const ldd = panelRun * tileValues
	for at := lo; at < hi; {
		n := min(lanes, hi-at)
		if d.inPlace(queries) && !l.Latent {
			values := l.values(int(table[at/l.blockToken]), head, at%l.blockToken)
			d.floatPanels(l.typ, p.out, p.width, s.scores[at-lo:], chunkTokens, values, tileValues, l.vTiles, queries, n, true)
		} else {
			n = min(panelRun*lanes, hi-at)
			for pos := at; pos < at+n; pos += lanes {
				d.wideValues(s, l, s.wide[(pos-at)*lanes:], ldd, int(table[pos/l.blockToken]), head, pos%l.blockToken)
			}
			d.k.matF32(p.out, p.width, s.scores[at-lo:], chunkTokens, s.wide, ldd, l.vTiles, queries, n, true)
		}
		at += n
	}
}

// wideValues decodes a panel of values.
func (d *Device) wideValues(s *scratch, l *cacheLayer, dst []float32, ldd, block, head, slot int) {
	switch {
	case !l.Latent:
		d.k.widen(l.typ, dst, ldd, l.values(block, head, slot), l.vTiles, true)
	case l.typ == quant.F32:
		d.k.transpose(dst, ldd, view[float32](l.keys(block, head, slot)), l.vTiles)
	default:
		d.k.widen(l.typ, s.tiles, tileValues, l.keys(block, head, slot), l.vTiles, false)
		d.k.transpose(dst, ldd, s.tiles, l.vTiles)
	}
}

// inPlaceQueries is up to how many queries panels of floats are read where they are: widening them once for all costs more.
const inPlaceQueries = 16

func (d *Device) inPlace(queries int) bool {
	return queries <= inPlaceQueries && !quantised(d.op.cache.layers[d.op.layer].typ)
}

// floatPanels multiplies rows with panels of floats of a cache, as kernels.matF32 does.
func (d *Device) floatPanels(t quant.Type, dst []float32, ldd int, x []float32, ldx int, w []byte, stride, panels, m, k int, accumulate bool) {
	switch t {
	case quant.F16:
		d.k.matF16(dst, ldd, x, ldx, view[uint16](w), stride, panels, m, k, accumulate)
	case quant.BF16:
		d.k.matBF16(dst, ldd, x, ldx, view[uint16](w), stride, panels, m, k, accumulate)
	default:
		d.k.matF32(dst, ldd, x, ldx, view[float32](w), stride, panels, m, k, accumulate)
	}
}

// weigh turns the scores of one query into weights, 0 outside [from, to), and returns the greatest score and the sum of
// the weights, 0 if there are none.
func (d *Device) weigh(scores []float32, from, to int) (most, total float32) {
	if from >= to {
		clear(scores)
		return negInf, 0
	}
	if limit := d.op.attn.Softcap; limit > 0 {
		d.k.softcap(scores, limit)
	}
	for i := range scores[:from] {
		scores[i] = negInf
	}
	for i := to; i < len(scores); i++ {
		scores[i] = negInf
	}
	return d.k.softmax(scores)
}
