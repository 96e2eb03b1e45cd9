package cpu

import (
	"math"

	"github.com/kvasir-llm/kvasir/compute"
)

// tile is a run of rows of one sequence that attend together.
type tile struct {
	seq       int
	row, rows int
}

// scratch is a worker's own memory.
type scratch struct {
	q       []float32 // [queries, KDim] scaled queries of a tile
	scores  []float32 // [queries, width]
	out     []float32 // [queries, vPad]
	inverse []float32 // [queries] 1 / the sum of a query's weights
	edge    [rowChunk * lanes]float32
}

// Bounds of a tile: at most tileRows rows, and as few as it takes for its scores to stay in cache.
const (
	tileRows   = 16
	tileScores = 64 << 10
)

var negInf = float32(math.Inf(-1))

// Attend implements compute.Device. An item is a tile and a KV head: the query heads of the group and the rows of the
// tile share each load of a key or value.
func (d *Device) Attend(dst, q compute.Tensor, c compute.Cache, layer int, a compute.Attention) {
	d.op = operation{dst: dst, src: q, cache: c.(*cache), layer: layer, attn: a}
	l := &d.op.cache.layers[layer]
	group := a.Heads / l.KVHeads
	d.tiles = d.tiles[:0]
	queries, scores := 0, 0
	for i, s := range d.batch.Seqs {
		width := int(s.Start+s.Rows) + 2*lanes
		if a.Window > 0 {
			width = min(width, a.Window+tileRows+2*lanes)
		}
		step := min(max(tileScores/(group*width), 1), tileRows)
		for at := 0; at < int(s.Rows); at += step {
			t := tile{seq: i, row: int(s.Row) + at, rows: min(step, int(s.Rows)-at)}
			d.tiles = append(d.tiles, t)
			queries = max(queries, t.rows*group)
			scores = max(scores, t.rows*group*width)
		}
	}
	for w := range d.scratch {
		s := &d.scratch[w]
		s.q, s.scores = grown(s.q, queries*l.KDim), grown(s.scores, scores)
		s.out, s.inverse = grown(s.out, queries*l.vPad), grown(s.inverse, queries)
	}
	d.each(len(d.tiles)*l.KVHeads, d.jobs.attend)
}

func (d *Device) attendItem(worker, item int) {
	l := &d.op.cache.layers[d.op.layer]
	t, head := d.tiles[item/l.KVHeads], item%l.KVHeads
	seq, s := &d.batch.Seqs[t.seq], &d.scratch[worker]
	table := seq.Tables[l.Group]
	group := d.op.attn.Heads / l.KVHeads
	queries := t.rows * group
	first := int(d.batch.Pos[t.row])
	lo, hi := d.attended(first)
	hi += t.rows - 1
	base := lo &^ (lanes - 1)
	width := (hi - base + lanes - 1) &^ (lanes - 1)

	for r := range t.rows {
		q := rowOf(d.op.src, t.row+r)[head*group*l.KDim:][:group*l.KDim]
		for i, x := range q {
			s.q[r*len(q)+i] = x * d.op.attn.Scale
		}
	}
	for at := base; at < hi; {
		n := min(l.blockToken-at%l.blockToken, width+base-at) // whole groups of 16 tokens, up to the block's end
		keys := l.key(int(table[at/l.blockToken]), head)[at%l.blockToken*l.KDim:]
		d.k.matF32(s.scores[at-base:], width, s.q, l.KDim, keys, l.KDim*lanes, n/lanes, queries, l.KDim, false)
		at += n
	}
	out := s.out[:queries*l.vPad]
	clear(out)
	for i := range queries {
		row := s.scores[i*width:][:width]
		from, to := d.attended(first + i/group)
		s.inverse[i] = d.weigh(row, from-base, to-base, head*group+i%group)
	}
	for at := base; at < hi; {
		n := min(l.blockToken-at%l.blockToken, hi-at)
		values := l.value(int(table[at/l.blockToken]), head)[at%l.blockToken*lanes:]
		d.k.matF32(out, l.vPad, s.scores[at-base:], width, values, l.blockToken*lanes, l.vPad/lanes, queries, n, true)
		at += n
	}
	for i := range queries {
		dst := rowOf(d.op.dst, t.row+i/group)[(head*group+i%group)*l.VDim:][:l.VDim]
		for j := range dst {
			dst[j] = out[i*l.vPad+j] * s.inverse[i]
		}
	}
}

// attended returns the positions [lo, hi) that a query at position pos attends to.
func (d *Device) attended(pos int) (lo, hi int) {
	if w := d.op.attn.Window; w > 0 {
		lo = max(0, pos-w+1)
	}
	return lo, pos + 1
}

// weigh turns the scores of one query into weights, 0 outside [from, to), and returns 1 / their sum.
func (d *Device) weigh(scores []float32, from, to, head int) float32 {
	for i := range scores[:from] {
		scores[i] = negInf
	}
	for i := to; i < len(scores); i++ {
		scores[i] = negInf
	}
	if c := d.op.attn.Softcap; c > 0 {
		for i, s := range scores[from:to] {
			scores[from+i] = c * tanh(s/c)
		}
	}
	floor := negInf
	if d.op.attn.Sinks != nil {
		floor = d.op.attn.Sinks.(vector)[head]
	}
	most, total := d.k.softmax(scores, floor)
	if d.op.attn.Sinks != nil {
		total += exp(floor - most)
	}
	return 1 / total
}
