package cuda

import (
	"errors"

	"github.com/kvasir-llm/kvasir/compute"
)

// transit is what a step moves blocks through, between the cache and the host's memory: places for blocks, on the
// device and in pinned memory, the first half for those that leave the cache and the second for those that come. Copies
// over the link are on a stream of their own, beside what the steps compute.
type transit struct {
	places int     // of a half
	packed pointer // [2·places, block]
	host   pinned  // likewise
	list   pinned  // [moves, 2] from and to, as move_blocks reads them
	moves  pointer
	room   int // bytes of moves

	packedOut *event // blocks that leave the cache are packed
	stored    *event // and in pinned memory
	arrived   *event // blocks that come are packed
	out       []compute.Transfer
}

// movedBytes is the most memory of a step for blocks on their way, on the device and on the host; more of them wait.
const movedBytes = 64 << 20

// make makes room for one block each way.
func (m *transit) make(p *program) (err error) {
	for _, e := range []**event{&m.packedOut, &m.stored, &m.arrived} {
		if *e, err = p.g.newEvent(false); err != nil {
			return err
		}
	}
	return p.roomToMove(m, 1)
}

func (m *transit) free(g *gpu) error {
	errs := []error{g.free(m.packed), g.free(m.moves), g.freePinned(m.host), g.freePinned(m.list)}
	for _, e := range []*event{m.packedOut, m.stored, m.arrived} {
		if e != nil {
			errs = append(errs, e.close())
		}
	}
	return errors.Join(errs...)
}

// roomToMove makes room for n blocks each way, or for as many as movedBytes and the device's memory allow.
func (p *program) roomToMove(m *transit, n int) error {
	block := int(p.cache.block)
	if n = min(n, 1024, max(1, movedBytes/2/max(1, block))); n <= m.places {
		return nil
	}
	packed, err := p.g.alloc(int64(2*n*block), "blocks on their way")
	if err == nil {
		var host pinned
		if host, err = p.g.allocPinned(2*n*block, "blocks on their way"); err == nil {
			err = errors.Join(p.g.free(m.packed), p.g.freePinned(m.host))
			m.places, m.packed, m.host = n, packed, host
			return err
		}
		err = errors.Join(err, p.g.free(packed))
	}
	if m.places > 0 { // so many at a time
		return nil
	}
	return err
}

// moveBlocks moves blocks out, within and in, one after the other. What comes is copied while the step before computes;
// what leaves, while this one does.
func (p *program) moveBlocks(s *step) error {
	b, m := s.b, &s.r.transit
	m.out = nil
	if len(b.Out)+len(b.Copies)+len(b.In) == 0 {
		return nil
	}
	if err := errors.Join(m.stored.wait(), m.arrived.wait()); err != nil { // of a step that failed, perhaps
		return err
	}
	if err := errors.Join(p.roomToMove(m, max(len(b.Out), len(b.In))), p.listMoves(m, b)); err != nil {
		return err
	}
	if err := p.copyIn(m, b.In[:min(len(b.In), m.places)]); err != nil {
		return err
	}
	if err := p.moveOut(m, b.Out); err != nil {
		return err
	}
	for i := range b.Copies {
		if err := p.move(m, len(b.Out)+i, 1, moveArgs{}); err != nil {
			return err
		}
	}
	for at := 0; at < len(b.In); at += m.places {
		part := b.In[at:min(at+m.places, len(b.In))]
		if at > 0 { // those before have left their places
			if err := errors.Join(p.s.wait(), p.copyIn(m, part)); err != nil {
				return err
			}
		}
		if err := p.s.after(m.arrived); err != nil {
			return err
		}
		if err := p.move(m, len(b.Out)+len(b.Copies)+at, len(part), moveArgs{fromPacked: 1}); err != nil {
			return err
		}
	}
	return nil
}

// listMoves queues the list of a batch's moves.
func (p *program) listMoves(m *transit, b *compute.Batch) error {
	n := len(b.Out) + len(b.Copies) + len(b.In)
	if err := errors.Join(p.widenPinned(&m.list, 8*n, "moves of blocks"), p.widenTo(&m.moves, &m.room, 8*n, "moves of blocks")); err != nil {
		return err
	}
	list := view[[2]int32](m.list, 0, n)[:0]
	for i, t := range b.Out {
		list = append(list, [2]int32{t.Block, int32(i % m.places)})
	}
	list = append(list, b.Copies...)
	for i, t := range b.In {
		list = append(list, [2]int32{int32(m.places + i%m.places), t.Block})
	}
	return p.s.toDevice(m.moves, m.list, 0, 8*n)
}

// move queues n moves of the list, from number first on.
func (p *program) move(m *transit, first, n int, a moveArgs) error {
	a.base, a.bytes, a.offset = p.cache.base, p.cache.bytes, p.cache.offset
	a.packed, a.moves, a.packedBlock = m.packed, m.moves.at(int64(8*first)), p.cache.block
	return run(p, "move_blocks", grid{uint32(len(p.cache.places)), uint32(n), 1}, 256, &a)
}

// moveOut queues the copies of blocks to pinned memory.
func (p *program) moveOut(m *transit, out []compute.Transfer) error {
	for at := 0; at < len(out); at += m.places {
		if err := m.deliver(p.g, &p.pool); err != nil {
			return err
		}
		m.out = out[at:min(at+m.places, len(out))]
		if err := p.move(m, at, len(m.out), moveArgs{toPacked: 1}); err != nil {
			return err
		}
		if err := errors.Join(m.packedOut.record(p.s), p.copies.after(m.packedOut), p.copyOut(m), m.stored.record(p.copies)); err != nil {
			return err
		}
	}
	return nil
}

// copyOut queues the copies of packed blocks to the host: each to where the batch wants it, if that is pinned memory.
func (p *program) copyOut(m *transit) error {
	for i, t := range m.out {
		n := len(t.Data)
		to, at, ok := p.pool.find(t.Data)
		if !ok {
			to, at = m.host, i*n
		}
		if err := p.copies.toHost(to, at, m.packed.at(int64(i*n)), n); err != nil {
			return err
		}
	}
	return nil
}

// deliver waits until blocks that leave are in pinned memory, and takes them to where the batch wants them.
func (m *transit) deliver(g *gpu, l *pool) error {
	if len(m.out) == 0 {
		return nil
	}
	if err := g.try(cuEventSynchronize, []uintptr{m.stored.handle}, "waiting for blocks"); err != nil {
		return err
	}
	for i, t := range m.out {
		if _, _, there := l.find(t.Data); !there {
			copy(t.Data, view[byte](m.host, i*len(t.Data), len(t.Data)))
		}
	}
	m.out = nil
	return nil
}

// copyIn queues the copies of blocks to the device.
func (p *program) copyIn(m *transit, in []compute.Transfer) error {
	for i, t := range in {
		to := (m.places + i) * len(t.Data)
		from, at, ok := p.pool.find(t.Data)
		if !ok {
			from, at = m.host, to
			copy(view[byte](m.host, at, len(t.Data)), t.Data)
		}
		if err := p.copies.toDevice(m.packed.at(int64(to)), from, at, len(t.Data)); err != nil {
			return err
		}
	}
	return m.arrived.record(p.copies)
}
