package cpu

import (
	"sort"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
)

// Attention goes over the positions of a sequence in chunks that begin at multiples of chunkTokens. Each chunk has a
// softmax and an output of its own, which are joined in the order of the chunks (FlashAttention, arXiv:2205.14135). So
// memory does not grow with the context, and chunks may be computed apart (Flash-Decoding) with the same result.
const chunkTokens = 256

// tile is a run of rows of one sequence that attend together: they and the query heads of a group share each load of a
// key or value.
type tile struct {
	index          int // in Device.tiles
	seq, row, rows int
	lo, hi         int  // positions that some row attends to
	first          int  // its first item
	parts          int  // items of each KV head
	partial        int  // where its queries are in Device.parts, if parts > 1
	tree           bool // a single row of a tree, which sees the batch's own rows as branchPanels gathers them
}

// A tile has up to tileQueries queries, and down to bandQueries where that gives every thread work. Its queries go
// through a chunk in bands of about bandQueries: of a few rows that see nearly the same positions.
const tileQueries, bandQueries = 512, 64

// log2e makes a score the exponent of a power of two, which is cheaper than one of e.
const log2e = 1.44269504088896341

// chunks returns the numbers of the chunks that a tile goes over.
func (t *tile) chunks() (from, to int) {
	return t.lo / chunkTokens, (t.hi + chunkTokens - 1) / chunkTokens
}

// attend does compute.Attend. An item is a tile and a KV head, or some chunks of that where there are not enough of
// them for all threads.
func (d *Device) attend(dst, q Tensor, c compute.Cache, layer int, a compute.Attention) {
	d.flush()
	d.op = operation{dst: dst, src: q, cache: c.(*cache), layer: layer, attn: a}
	l := &d.op.cache.layers[layer]
	group := a.Heads / l.KVHeads
	queries, work := d.cut(group, l.KVHeads)
	items, parted := 0, 0
	most := max(1, work*l.KVHeads/(4*len(d.scratch))) // chunks of an item
	d.apart = d.apart[:0]
	for i := range d.tiles {
		t := &d.tiles[i]
		from, to := t.chunks()
		t.first, t.parts = items, (to-from+most-1)/most
		if items += t.parts * l.KVHeads; t.parts > 1 {
			t.partial = parted
			parted += (to - from) * t.rows * a.Heads
			d.apart = append(d.apart, int32(i))
		}
	}
	d.parts.grow(parted, l.vTiles*kernel.Lanes)
	for w := range d.scratch {
		d.scratch[w].grow(l, queries, min(queries, bandRows(group)*group))
	}
	d.each(items, d.jobs.attend)
	if len(d.apart) > 0 {
		d.each(len(d.apart)*l.KVHeads, d.jobs.join)
	}
}

// cut cuts the batch into tiles. It returns the most queries of a tile and the sum of all tiles' chunks.
func (d *Device) cut(group, kvHeads int) (queries, chunks int) {
	d.tiles = d.tiles[:0]
	step := d.rows * kvHeads / (4 * len(d.scratch))
	step = max(min(step, tileQueries/group), bandQueries/group, 1)
	band := bandRows(group)
	add := func(t tile) {
		t.index = len(d.tiles)
		t.lo, _ = d.attended(t.seq, int(d.batch.Pos[t.row]))
		_, t.hi = d.attended(t.seq, int(d.batch.Pos[t.row+t.rows-1]))
		d.tiles = append(d.tiles, t)
		queries = max(queries, t.rows*group)
		from, to := t.chunks()
		chunks += to - from
	}
	for i := range d.batch.Seqs {
		s := &d.batch.Seqs[i]
		rows := int(d.batch.Lead(s))
		n := (rows + step - 1) / step
		size := ((rows+n-1)/n + band - 1) / band * band // equal tiles, of whole bands
		n = (rows + size - 1) / size
		for j := range n {
			at := j / 2 * size
			if j%2 == 0 { // the last and the first follow each other, and so on inwards: together they are the work of any other two
				at = (n - 1 - j/2) * size
			}
			add(tile{seq: i, row: int(s.Row) + at, rows: min(size, rows-at)})
		}
		for r := rows; r < int(s.Rows); r++ {
			add(tile{seq: i, row: int(s.Row) + r, rows: 1, tree: true})
		}
	}
	return queries, chunks
}

// attended returns the positions [lo, hi) that a query at position pos of sequence seq attends to.
func (d *Device) attended(seq, pos int) (lo, hi int) {
	if d.op.attn.Bidirectional {
		s := &d.batch.Seqs[seq]
		return 0, int(s.Start + s.Rows)
	}
	if w := d.op.attn.Window; w > 0 {
		lo = max(0, pos-w+1)
	}
	return lo, pos + 1
}

// attendItem goes over the chunks of an item and, if these are all of the tile, writes the rows.
func (d *Device) attendItem(worker, item int) {
	l, s := &d.op.cache.layers[d.op.layer], &d.scratch[worker]
	i := sort.Search(len(d.tiles), func(i int) bool { return d.tiles[i].first > item }) - 1
	t := &d.tiles[i]
	head, part := (item-t.first)/t.parts, (item-t.first)%t.parts
	group := d.op.attn.Heads / l.KVHeads
	queries := t.rows * group
	d.scaleQueries(s, t, head)
	from, to := t.chunks()
	if t.parts == 1 {
		d.clear(&s.sum, head, group, queries)
		for c := from; c < to; c++ {
			d.chunk(s, t, head, c, &s.part)
			s.join(d.k, &s.part, queries)
		}
		d.finish(t, head, &s.sum)
		return
	}
	n := to - from
	for c := from + n*part/t.parts; c < from+n*(part+1)/t.parts; c++ {
		p := d.parts.from(t.partial + (head*n+c-from)*queries)
		d.chunk(s, t, head, c, &p)
	}
}

// scaleQueries writes the tile's queries of a KV head to s.q, with zeros after each head's dimensions.
func (d *Device) scaleQueries(s *scratch, t *tile, head int) {
	l := &d.op.cache.layers[d.op.layer]
	group, width, scale := d.op.attn.Heads/l.KVHeads, l.kTiles*kernel.Lanes, d.op.attn.Scale*log2e
	for i := range t.rows * group {
		q := rowOf(d.op.src, t.row+i/group)[(head*group+i%group)*l.KDim:][:l.KDim]
		d.k.Scale(s.q[i*width:], q, scale)
		clear(s.q[i*width+l.KDim : (i+1)*width])
	}
}

// joinItem joins the chunks of a tile and KV head that were computed apart.
func (d *Device) joinItem(worker, item int) {
	l, s := &d.op.cache.layers[d.op.layer], &d.scratch[worker]
	t, head := &d.tiles[d.apart[item/l.KVHeads]], item%l.KVHeads
	group := d.op.attn.Heads / l.KVHeads
	queries := t.rows * group
	from, to := t.chunks()
	d.clear(&s.sum, head, group, queries)
	for c := range to - from {
		p := d.parts.from(t.partial + (head*(to-from)+c)*queries)
		s.join(d.k, &p, queries)
	}
	d.finish(t, head, &s.sum)
}

// clear begins the sums of a KV head's queries: with nothing, or with the sink of each, which has weight 1 and no
// value.
func (d *Device) clear(p *partial, head, group, queries int) {
	clear(p.out[:queries*p.width])
	for i := range queries {
		p.most[i], p.total[i] = kernel.Lowest, 0
		if sinks := d.op.attn.Sinks; sinks != nil {
			p.most[i], p.total[i] = sinks.(vector)[head*group+i%group]*log2e, 1
		}
	}
}

// finish writes the outputs of a tile and KV head.
func (d *Device) finish(t *tile, head int, sum *partial) {
	l := &d.op.cache.layers[d.op.layer]
	group := d.op.attn.Heads / l.KVHeads
	for i := range t.rows * group {
		dst := rowOf(d.op.dst, t.row+i/group)[(head*group+i%group)*l.VDim:][:l.VDim]
		d.k.Scale(dst, sum.out[i*sum.width:][:l.VDim], 1/sum.total[i])
	}
}
