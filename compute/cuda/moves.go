package cuda

import (
	"cmp"
	"errors"
	"slices"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
)

// transit is what a step moves blocks through, between the cache and the host's memory. Kernels that pack and unpack
// them have a stream, and copies over the link one for each way: beside what steps compute, and beside each other.
// Many blocks go a few layers at a time, so that a step computes its first layers while the others are on their way.
type transit struct {
	out, in lane
	list    pinned // [moves, 2] from and to, as move_blocks reads them
	moves   pointer
	room    int // bytes of moves

	leave, come []compute.Transfer // of the step at hand, in the order in which they are in the host's memory

	begun  *event // the steps before are done
	spans  []span // of the step at hand
	passed []*event
	waited int  // for how many spans the step's work waits
	under  bool // moves are under way, of a step that failed if another one begins
}

// span is places of the cache that follow each other, which are moved at once.
type span struct{ first, end, offset, bytes int }

// lane is what blocks that go one way pass through: halves of memory of the device and of pinned memory, which have
// what is in a span.
type lane struct {
	half    int // bytes of each
	packed  pointer
	host    pinned
	next    int       // half
	full    [2]*event // packed, or come
	empty   [2]*event // in pinned memory, or unpacked
	used    [2]bool   // in the step at hand, by blocks that leave
	pending [2]left
}

// left are blocks that leave by way of the lane's pinned memory.
type left struct {
	blocks []compute.Transfer
	at     []int // in the half
	span   span
}

// halfBytes is the most memory of a half, unless one layer of a block is larger. Blocks that take more than spanBytes
// are cut: into at most mostSpans of equal size, or mostHalvings, or so few that there are at most mostCopies, which
// take 2 to 3 µs each beside their bytes. Tests change what is variable.
var halfBytes, spanBytes = 16 << 20, 64 << 20

const mostSpans, mostHalvings, mostCopies = 8, 5, 1536

// make makes room for one block each way.
func (m *transit) make(p *program) (err error) {
	events := []**event{&m.begun}
	for _, l := range []*lane{&m.out, &m.in} {
		events = append(events, &l.full[0], &l.full[1], &l.empty[0], &l.empty[1])
	}
	for _, e := range events {
		if *e, err = p.g.newEvent(false); err != nil {
			return err
		}
		if err = (*e).record(p.moving); err != nil { // it has passed
			return err
		}
	}
	return errors.Join(m.out.widen(p, 1), m.in.widen(p, 1))
}

func (m *transit) free(g *gpu) error {
	errs := []error{g.free(m.moves), g.freePinned(m.list)}
	events := append(m.passed, m.begun)
	for _, l := range []*lane{&m.out, &m.in} {
		errs = append(errs, g.free(l.packed), g.freePinned(l.host))
		events = append(events, l.full[0], l.full[1], l.empty[0], l.empty[1])
	}
	for _, e := range events {
		if e != nil {
			errs = append(errs, e.close())
		}
	}
	return errors.Join(errs...)
}

// widen makes room for n blocks in each half, or for as much of them as halfBytes and the device's memory allow.
// Nothing uses the lane.
func (l *lane) widen(p *program, n int) error {
	half := max(p.cache.largest(), min(halfBytes, n*int(p.cache.block)))
	if half <= l.half {
		return nil
	}
	packed, err := p.g.alloc(int64(2*half), "blocks on their way")
	if err == nil {
		var host pinned
		if host, err = p.g.allocPinned(2*half, "blocks on their way"); err == nil {
			err = errors.Join(p.g.free(l.packed), p.g.freePinned(l.host))
			l.half, l.packed, l.host = half, packed, host
			return err
		}
		err = errors.Join(err, p.g.free(packed))
	}
	if l.half > 0 { // it does with what it has
		return nil
	}
	return err
}

// moveBlocks moves blocks out, within and in: of each span one after the other, what leaves of one beside what comes of
// the one before. What comes is copied while the steps before compute.
func (p *program) moveBlocks(s *step) error {
	b, m := s.b, &s.r.transit
	m.spans, m.waited = m.spans[:0], 0
	if len(b.Out)+len(b.Copies)+len(b.In) == 0 {
		return nil
	}
	if m.under {
		if err := errors.Join(p.moving.wait(), p.leaving.wait(), p.coming.wait()); err != nil {
			return err
		}
		m.out.pending, m.out.used = [2]left{}, [2]bool{}
	}
	m.under = true
	m.leave, m.come = inOrder(m.leave, b.Out), inOrder(m.come, b.In)
	if err := errors.Join(m.out.widen(p, len(b.Out)), m.in.widen(p, len(b.In)), p.cut(m), p.listMoves(m, b)); err != nil {
		return err
	}
	for k := range len(m.spans) + 1 {
		var leave, come []compute.Transfer
		outs, ins := 1, 1 // of a half
		if k < len(m.spans) {
			leave, outs = m.leave, max(1, m.out.half/m.spans[k].bytes)
		}
		if k > 0 {
			come, ins = m.come, max(1, m.in.half/m.spans[k-1].bytes)
			for i := range b.Copies {
				if err := p.move(m, m.spans[k-1], len(b.Out)+i, 1, moveArgs{}); err != nil {
					return err
				}
			}
		}
		for left, coming := leave, come; len(left)+len(coming) > 0; {
			if n := p.pool.fit(left, outs); n > 0 {
				if err := p.moveOut(m, m.spans[k], len(leave)-len(left), left[:n]); err != nil {
					return err
				}
				left = left[n:]
			}
			if n := p.pool.fit(coming, ins); n > 0 {
				if err := p.moveIn(m, m.spans[k-1], len(b.Out)+len(b.Copies), len(come)-len(coming), coming[:n]); err != nil {
					return err
				}
				coming = coming[n:]
			}
		}
		if k > 0 {
			if err := m.passed[k-1].record(p.moving); err != nil {
				return err
			}
		}
	}
	return nil
}

// inOrder returns blocks, in memory of before, in the order in which they are in the host's memory: those that follow
// each other there are copied at once.
func inOrder(list, blocks []compute.Transfer) []compute.Transfer {
	list = append(list[:0], blocks...)
	slices.SortStableFunc(list, func(a, b compute.Transfer) int { return cmp.Compare(address(&a.Data[0]), address(&b.Data[0])) })
	return list
}

// cut cuts the places of the cache into spans. Where blocks leave they are of one size; else each has half of what is
// left, since computing takes less time than what it waits for.
func (p *program) cut(m *transit) error {
	block, largest := int(p.cache.block), p.cache.largest()
	left := max(1, min(mostSpans, max(len(m.leave), len(m.come))*block/spanBytes))
	if len(m.leave) == 0 {
		left = max(1, min(left, mostHalvings, mostCopies/max(1, p.pool.rows(m.come))))
	}
	for i, at, rest, most := 0, 0, block, 0; i < len(p.cache.places); i++ {
		size := int(p.cache.places[i].bytes)
		if last := len(m.spans) - 1; last >= 0 && m.spans[last].bytes+size <= most {
			m.spans[last].end, m.spans[last].bytes = i+1, m.spans[last].bytes+size
		} else {
			switch most = rest; {
			case left > 1 && len(m.leave) == 0:
				most = rest / 2
			case left > 1:
				most = rest/left + largest - 1
			}
			most, left = min(most, m.out.half, m.in.half), left-1
			m.spans = append(m.spans, span{i, i + 1, at, size})
		}
		at, rest = at+size, rest-size
	}
	for len(m.passed) < len(m.spans) {
		e, err := p.g.newEvent(false)
		if err != nil {
			return err
		}
		m.passed = append(m.passed, e)
	}
	return nil
}

// listMoves queues the list of a batch's moves, behind the steps before.
func (p *program) listMoves(m *transit, b *compute.Batch) error {
	n := len(b.Out) + len(b.Copies) + len(b.In)
	if err := errors.Join(p.widenPinned(&m.list, 8*n, "moves of blocks"), p.widenTo(&m.moves, &m.room, 8*n, "moves of blocks")); err != nil {
		return err
	}
	list := view[[2]int32](m.list, 0, n)[:0]
	for i, t := range m.leave {
		list = append(list, [2]int32{t.Block, int32(i)})
	}
	list = append(list, b.Copies...)
	for i, t := range m.come {
		list = append(list, [2]int32{int32(i), t.Block})
	}
	return errors.Join(m.begun.record(p.s), p.moving.after(m.begun), p.moving.toDevice(m.moves, m.list, 0, 8*n))
}

// move queues n moves of the list, from number first on, of a span. a.packed is where what is numbered 0 on the list
// would be packed.
func (p *program) move(m *transit, s span, first, n int, a moveArgs) error {
	at := int64(8 * s.first)
	a.base, a.bytes, a.offset = p.cache.base.at(at), p.cache.bytes.at(at), p.cache.offset.at(at)
	a.packed, a.packedBlock = a.packed.at(-int64(s.offset)), int64(s.bytes)
	a.moves = m.moves.at(int64(8 * first))
	return launch(p.moving, p.kernel["move_blocks"], grid{uint32(s.end - s.first), uint32(n), 1}, 256, &a)
}

// take returns the half that comes next.
func (l *lane) take() int {
	l.next ^= 1
	return l.next
}

// moveOut queues the way of a span of blocks to pinned memory: each to where the batch wants it, if that is pinned.
// They are the list's from number first on.
func (p *program) moveOut(m *transit, s span, first int, out []compute.Transfer) error {
	l := &m.out
	h := l.take()
	if err := l.deliver(p.g, h); err != nil {
		return err
	}
	l.used[h] = true
	at := h * l.half
	if err := errors.Join(p.moving.after(l.empty[h]), p.move(m, s, first, len(out), moveArgs{packed: l.packed.at(int64(at - first*s.bytes)), toPacked: 1}),
		l.full[h].record(p.moving), p.leaving.after(l.full[h])); err != nil {
		return err
	}
	w := &l.pending[h]
	w.span = s
	for i := 0; i < len(out); {
		to, into, n := p.pool.row(out[i:])
		from := l.packed.at(int64(at + i*s.bytes))
		if n == 0 {
			w.blocks, w.at = append(w.blocks, out[i]), append(w.at, at+i*s.bytes)
			if err := p.leaving.toHost(l.host, at+i*s.bytes, from, s.bytes); err != nil {
				return err
			}
			i++
			continue
		}
		if err := p.leaving.rowsToHost(to, into+s.offset, len(out[i].Data), from, s.bytes, n); err != nil {
			return err
		}
		i += n
	}
	return l.empty[h].record(p.leaving)
}

// deliver waits until blocks that leave by way of a half are in pinned memory, and takes them to where the batch wants
// them, if it is elsewhere. g is the calling goroutine's.
func (l *lane) deliver(g *gpu, h int) error {
	w := &l.pending[h]
	if len(w.blocks) == 0 {
		return nil
	}
	if err := g.try(cuEventSynchronize, []uintptr{l.empty[h].handle}, "waiting for blocks"); err != nil {
		return err
	}
	for i, t := range w.blocks {
		copy(t.Data[w.span.offset:][:w.span.bytes], view[byte](l.host, w.at[i], w.span.bytes))
	}
	clear(w.blocks)
	w.blocks, w.at = w.blocks[:0], w.at[:0]
	return nil
}

// deliver waits until all blocks that leave are where the batch wants them.
func (m *transit) deliver(g *gpu) error {
	for h := range m.out.used {
		if !m.out.used[h] {
			continue
		}
		m.out.used[h] = false
		if err := g.try(cuEventSynchronize, []uintptr{m.out.empty[h].handle}, "waiting for blocks"); err != nil {
			return err
		}
		if err := m.out.deliver(g, h); err != nil {
			return err
		}
	}
	clear(m.leave)
	clear(m.come)
	m.under = false
	return nil
}

// moveIn queues the way of a span of blocks from the host. They are from number first on of those that come, which
// begin on the list at another.
func (p *program) moveIn(m *transit, s span, begin, first int, in []compute.Transfer) error {
	l := &m.in
	h := l.take()
	at, free := h*l.half, false
	if err := p.coming.after(l.empty[h]); err != nil {
		return err
	}
	for i := 0; i < len(in); {
		from, where, n := p.pool.row(in[i:])
		to := at + i*s.bytes
		if n == 0 {
			if !free { // the copies before have read it
				if err := l.full[h].wait(); err != nil {
					return err
				}
			}
			free = true
			copy(view[byte](l.host, to, s.bytes), in[i].Data[s.offset:])
			if err := p.coming.toDevice(l.packed.at(int64(to)), l.host, to, s.bytes); err != nil {
				return err
			}
			i++
			continue
		}
		if err := p.coming.rowsToDevice(l.packed.at(int64(to)), s.bytes, from, where+s.offset, len(in[i].Data), n); err != nil {
			return err
		}
		i += n
	}
	return errors.Join(l.full[h].record(p.coming), p.moving.after(l.full[h]),
		p.move(m, s, begin+first, len(in), moveArgs{packed: l.packed.at(int64(at - first*s.bytes)), fromPacked: 1}), l.empty[h].record(p.moving))
}

// row returns where the first of some blocks is in the pool, and how many of them follow each other there; 0: it is not
// there.
func (l *pool) row(blocks []compute.Transfer) (in pinned, at, n int) {
	first := blocks[0].Data
	in, at, ok := l.find(first)
	if !ok {
		return in, 0, 0
	}
	begin, size := uintptr(unsafe.Pointer(unsafe.SliceData(first))), len(first)
	for n = 1; n < len(blocks) && at+(n+1)*size <= in.n; n++ {
		if uintptr(unsafe.Pointer(unsafe.SliceData(blocks[n].Data))) != begin+uintptr(n*size) {
			break
		}
	}
	return in, at, n
}

// fit returns how many of the first blocks go together, at most n: blocks that follow each other, and would be cut,
// come next.
func (l *pool) fit(blocks []compute.Transfer, n int) (all int) {
	for all < min(n, len(blocks)) {
		_, _, row := l.row(blocks[all:])
		if all+max(1, row) > n {
			return cmp.Or(all, n)
		}
		all += max(1, row)
	}
	return all
}

// rows returns how many times row is called for some blocks.
func (l *pool) rows(blocks []compute.Transfer) (all int) {
	for i := 0; i < len(blocks); all++ {
		_, _, n := l.row(blocks[i:])
		i += max(1, n)
	}
	return all
}

// untilMoved lets the step's work that is queued from now on wait until all that the step moves of a layer has been
// moved.
func (p *program) untilMoved(layer int) error { return p.untilPlace(p.cache.of[layer]) }

func (p *program) untilPlace(place int) error {
	m := p.transit
	if m == nil {
		return nil
	}
	for ; m.waited < len(m.spans) && m.spans[m.waited].first <= place; m.waited++ {
		if err := p.s.after(m.passed[m.waited]); err != nil {
			return err
		}
	}
	return nil
}

// untilAllMoved is untilMoved of all layers.
func (p *program) untilAllMoved() error { return p.untilPlace(len(p.cache.places)) }
