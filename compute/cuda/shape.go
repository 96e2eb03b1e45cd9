package cuda

import (
	"slices"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
)

// shape is where a step's indices lie on the device, for so many rows of each domain. A step of fewer rows may use it:
// it is filled up with rows that store nothing and whose results are not read.
type shape struct {
	count   [3]int // rows, by domain
	choices int
	few     int // how many rows may be computed chunk by chunk

	id, from, pos, slot, until, long, types pointer    // [rows]
	rowsOf                                  [3]pointer // by domain: which rows they are
	kinds                                   []work
	choose                                  pointer // [choices]
	runs                                    pointer // [runCount, 4] the rows of each sequence, in recurrent models
	runCount                                int
	adapterRows, adapterChunks              pointer // [rows] rows by adapter, those without one last; [most, 4] chunks of them
	adapted                                 bool    // some rows have an adapter
	alone                                   bool    // each row is the only one of its sequence, and in no tile
	ringed                                  bool    // attend_ring.cu takes the few rows, where it can
	whole                                   bool    // a block of attend_latent_few.cu has all chunks of a row

	kept     *shape  // that of the rows which compute.Keep leaves: for operations on each row by itself
	keptRows pointer // which these are, unless they are all: then kept is the shape itself

	bytes, fixed int // of all indices, and of those before the items of chunks
	base         pointer
}

// work is what one kind of attention does in a step (AttendArgs in kernels/attend.cuh).
type work struct {
	count     pointer // [4]: few rows, tiles, chunks of few rows
	few       pointer // [rows, 4] of each few row: where its chunks end, row, slot, until
	items     pointer // [chunkCount] of each chunk: which of the few rows
	tiles     pointer // [rows, 2]
	parts     pointer // [ringInts] where parts of attend_ring.cu begin
	tileCount int     // of the launch
}

// lay returns a shape of so many rows of each domain, choices and sequences, whose indices begin at base. compute.Keep
// leaves so many rows as kept says.
func (p *program) lay(base pointer, count [3]int, kept, choices, seqs int) *shape {
	s := &shape{count: count, choices: choices, base: base}
	rows := count[compute.AllRows]
	take := func(n int) pointer {
		at := base.at(int64(s.bytes))
		s.bytes += roundUp(4*n, 16)
		return at
	}
	for _, at := range []*pointer{&s.id, &s.from, &s.pos, &s.until, &s.long, &s.types} {
		*at = take(rows)
	}
	single := func(s *shape) {
		s.slot = take(s.count[compute.AllRows])
		s.rowsOf[compute.LogitRows], s.rowsOf[compute.HiddenRows] = take(count[compute.LogitRows]), take(count[compute.HiddenRows])
		if rows, n := s.count[compute.AllRows], p.graph.Adapters; n > 0 {
			s.adapterRows, s.adapterChunks = take(rows), take(4*adaptChunks(rows, fewAdapted, n))
		}
	}
	single(s)
	if s.kept = s; kept < rows {
		s.kept, s.keptRows = &shape{count: count, base: base}, take(kept)
		s.kept.count[compute.AllRows] = kept
		single(s.kept)
	}
	if p.recurrent {
		s.runs, s.runCount = take(4*seqs), seqs
	}
	for range p.kinds {
		s.kinds = append(s.kinds, work{count: take(4), few: take(4 * rows), tiles: take(2 * rows), parts: take(p.d.g.info.ringInts())})
	}
	s.choose = take(choices * int(unsafe.Sizeof(choiceArgs{})) / 4)
	s.fixed = s.bytes
	for k := range s.kinds {
		s.kinds[k].items = take(p.chunkCount)
	}
	return s
}

// ints returns n indices of a shape in the memory they are written to.
func (s *shape) ints(to pinned, at pointer, n int) []int32 { return view[int32](to, int(at-s.base), n) }

// fill writes a batch's indices. chunks is how many chunks of few rows there is room for.
func (p *program) fill(s *shape, to pinned, b *compute.Batch, chunks int) {
	rows, all := b.Rows(), s.count[compute.AllRows]
	id, from, pos := s.ints(to, s.id, all), s.ints(to, s.from, all), s.ints(to, s.pos, all)
	until, long, types := s.ints(to, s.until, all), s.ints(to, s.long, all), s.ints(to, s.types, all)
	copy(id, b.IDs)
	copy(pos, b.Pos)
	if len(b.From) > 0 {
		copy(from, b.From)
	} else {
		fillWith(from[:rows], -1)
	}
	clear(types)
	copy(types, b.Types)
	for _, q := range b.Seqs {
		for r := q.Row; r < q.Row+q.Rows; r++ {
			until[r], long[r] = b.Pos[r]+1, 0
			if p.bidirectional {
				until[r] = q.Start + q.Rows
			}
			if q.Long {
				long[r] = 1
			}
		}
	}
	clear(id[rows:])
	clear(pos[rows:])
	clear(until[rows:])
	clear(long[rows:])
	fillWith(from[rows:], -1)
	p.fillSingle(s, to, b)
	if s.kept != s {
		copy(s.ints(to, s.keptRows, len(p.keptRows)), p.keptRows)
		p.fillSingle(s.kept, to, &p.kept)
	}
	p.fillRuns(s, to, b)
	few := p.fillFew(b, until, chunks)
	for k := range s.kinds {
		p.fillKind(s, to, k, b, until, few)
	}
}

// fillSingle writes what operations on each row by itself want to know of a batch.
func (p *program) fillSingle(s *shape, to pinned, b *compute.Batch) {
	slot := s.ints(to, s.slot, s.count[compute.AllRows])
	for _, q := range b.Seqs {
		fillWith(slot[q.Row:q.Row+q.Rows], q.Slot)
	}
	fillWith(slot[b.Rows():], -1)
	for domain, wanted := range [3][]int32{compute.LogitRows: b.Logits, compute.HiddenRows: b.Hidden} {
		if n := s.count[domain]; domain != int(compute.AllRows) && n > 0 {
			of := s.ints(to, s.rowsOf[domain], n)
			copy(of, wanted)
			clear(of[len(wanted):])
		}
	}
	p.fillAdapters(s, to, b)
}

func fillWith(v []int32, x int32) {
	for i := range v {
		v[i] = x
	}
}

// isFew reports whether rows of a sequence are computed chunk by chunk.
func isFew(q *compute.Seq) bool { return q.Rows <= fewRows }

// chunksOf returns the chunks that a row sees of a kind of attention, and the first.
func (a attention) chunksOf(until int32) (first, n int32) {
	if a.window > 0 {
		first = max(until-int32(a.window), 0) / chunkTokens
	}
	return first, (until+chunkTokens-1)/chunkTokens - first
}

// fillFew returns for how many sequences, from the first on, there is room for the chunks of their rows, if they have
// few.
func (p *program) fillFew(b *compute.Batch, until []int32, chunks int) (seqs int) {
	room := make([]int, len(p.kinds))
	for i := range room {
		room[i] = chunks
	}
	for i := range b.Seqs {
		q := &b.Seqs[i]
		for k, kind := range p.kinds {
			for r := q.Row; isFew(q) && r < q.Row+q.Rows; r++ {
				_, n := kind.chunksOf(until[r])
				room[k] -= int(n)
			}
			if room[k] < 0 {
				return i
			}
		}
	}
	return len(b.Seqs)
}

// fillKind writes the items of a kind of attention. Of sequences from number few on all rows go into tiles.
func (p *program) fillKind(s *shape, to pinned, k int, b *compute.Batch, until []int32, few int) {
	w, kind, all := &s.kinds[k], p.kinds[k], s.count[compute.AllRows]
	count, rows, tiles, items := s.ints(to, w.count, 4), s.ints(to, w.few, 4*all), s.ints(to, w.tiles, 2*all), s.ints(to, w.items, p.chunkCount)
	clear(count)
	for i := range b.Seqs {
		q := &b.Seqs[i]
		if i < few && isFew(q) {
			for r := q.Row; r < q.Row+q.Rows; r++ {
				_, n := kind.chunksOf(until[r])
				fillWith(items[count[2]:][:n], count[0])
				count[2] += n
				copy(rows[4*count[0]:], []int32{count[2], r, q.Slot, until[r]})
				count[0]++
			}
			continue
		}
		// The last tiles of a sequence have the most to do: they come first.
		for at := (q.Rows - 1) / int32(kind.tokens) * int32(kind.tokens); at >= 0; at -= int32(kind.tokens) {
			tiles[2*count[1]], tiles[2*count[1]+1] = q.Row+at, min(int32(kind.tokens), q.Rows-at)
			count[1]++
		}
	}
	if n := p.d.g.info.ringInts(); n > 0 && s.ringed {
		fillParts(s.ints(to, w.parts, n), rows[:4*count[0]], kind.shares, p.d.g.info.sms)
	}
}

// buckets are the numbers of rows that graphs are captured for.
var buckets = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512}

// bucketOf returns the least bucket that has room for so many rows, 0 if none up to most has.
func bucketOf(rows, most int) int {
	i, _ := slices.BinarySearch(buckets, rows)
	if i == len(buckets) || buckets[i] > most {
		return 0
	}
	return buckets[i]
}
