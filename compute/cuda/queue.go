package cuda

import (
	"errors"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
)

func bf16ToF32(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }

// pending is the token of a choice that the device makes.
const pending = math.MinInt32

// What choose.cu writes instead of a token.
const (
	notFinite = -1 // a logit is NaN or +Inf
	forbidden = -2 // all logits are -Inf
	notAfter  = -3 // Choice.After did not hold
)

// chosenOf makes a result of what the kernels of choose.cu wrote.
func chosenOf(token int32) compute.Chosen {
	switch token {
	case notFinite:
		return compute.Chosen{Token: -1, Err: choose.ErrNaN}
	case forbidden:
		return compute.Chosen{Token: -1, Err: choose.ErrForbidden}
	case notAfter:
		return compute.Chosen{Token: -1}
	}
	return compute.Chosen{Token: token}
}

// queueStep queues a step's work; where the host chooses tokens, it also waits for it.
func (p *program) queueStep(s *step) error {
	b := s.b
	if err := s.r.event.wait(); err != nil { // the step before the one before
		return err
	}
	p.transit = &s.r.transit
	defer func() { p.transit = nil }()
	if err := p.editTables(s); err != nil {
		return err
	}
	if err := p.place(b.Place); err != nil {
		return err
	}
	if err := p.setChoosers(s); err != nil {
		return err
	}
	if b.Rows() == 0 {
		return errors.Join(p.moveBlocks(s), p.untilAllMoved(), s.r.event.record(p.s))
	}
	if err := errors.Join(p.grow(compute.LogitRows, len(b.Logits)), p.grow(compute.HiddenRows, len(b.Hidden))); err != nil {
		return err
	}
	if err := p.compute(s); err != nil {
		return err
	}
	if err := p.chooseMore(s); err != nil {
		return err
	}
	if err := p.readBack(s); err != nil {
		return err
	}
	if err := s.r.event.record(p.s); err != nil || len(s.onHost) == 0 {
		return err
	}
	if err := p.held(s); err != nil {
		return err
	}
	return p.chooseOnHost(s)
}

// compute queues the graph: replayed if there are few enough rows and none is in a tile, otherwise kernel by kernel.
func (p *program) compute(s *step) error {
	b := s.b
	rows := max(b.Rows(), len(b.Logits), len(b.Choose))
	bucket := bucketOf(rows, min(mostGraphRows, roundUp(p.limits.Rows, rowMultiple)))
	for i := range b.Seqs {
		if !isFew(&b.Seqs[i]) {
			bucket = 0
		}
	}
	if len(b.Hidden) > 0 {
		bucket = 0
	}
	alone := p.alone(b, max(bucket, b.Rows()))
	key := graphKey{
		rows: bucket, alone: alone, ringed: p.ringed(b, bucket, alone), whole: p.latentsWhole(b),
		adapted: slices.ContainsFunc(b.Seqs, func(q compute.Seq) bool { return q.Adapter > 0 }),
	}
	var sh *shape
	if bucket > 0 {
		sh = p.shapeOf(key)
	} else {
		kept := b.Rows()
		if p.keepAt > 0 {
			p.keptRows = b.Keep(&p.kept, p.keptRows[:0])
			kept = len(p.keptRows)
		}
		sh = p.lay(p.index, [3]int{b.Rows(), len(b.Logits), len(b.Hidden)}, kept, len(b.Choose), len(b.Seqs))
		sh.adapted, sh.kept.adapted = key.adapted, key.adapted
		sh.ringed, sh.whole = key.ringed, key.whole
	}
	p.fill(sh, s.r.in, b, p.chunkCount)
	p.fillChoices(s, sh)
	tiles := false
	for k := range sh.kinds {
		w := &sh.kinds[k]
		count := sh.ints(s.r.in, w.count, 4)
		if w.tileCount = int(count[1]); bucket == 0 {
			sh.few = max(sh.few, int(count[0]))
		}
		tiles = tiles || count[1] > 0
	}
	sh.alone = key.alone && !tiles
	// Blocks come behind the step's own copies: on some machines all copies to the device take turns, whatever their
	// streams.
	if err := errors.Join(p.copyIndices(sh, s.r.in), p.moveBlocks(s)); err != nil {
		return err
	}
	if bucket == 0 || tiles {
		return errors.Join(p.queueGraph(sh), p.untilAllMoved())
	}
	if err := p.untilAllMoved(); err != nil {
		return err
	}
	gr, err := p.captured(key)
	if err != nil {
		return err
	}
	return p.s.replay(gr)
}

// copyIndices queues the copies of a step's indices. Of items, which have room for many chunks, it copies those that
// the step has.
func (p *program) copyIndices(sh *shape, from pinned) error {
	end := sh.fixed
	for k := range sh.kinds {
		w := &sh.kinds[k]
		n := 4 * int(sh.ints(from, w.count, 4)[2])
		at := int(w.items - sh.base)
		if k == 0 {
			end = at + n
		} else if err := p.s.toDevice(w.items, from, at, max(n, 16)); err != nil {
			return err
		}
	}
	return p.s.toDevice(sh.base, from, 0, end)
}

// logitCapacity returns the rows of logits that there is room for.
func (p *program) logitCapacity() int {
	n := math.MaxInt
	for i := range p.buffers {
		if b := &p.buffers[i]; b.domain == compute.LogitRows {
			n = min(n, b.capacity)
		}
	}
	return n
}

// queueGraph queues the kernels of all operations.
func (p *program) queueGraph(s *shape) error {
	of := s
	for i, op := range p.ops {
		if i == p.keepAt {
			of = s.kept
		}
		if of.count[compute.AllRows] == 0 {
			break
		}
		if err := op(of); err != nil {
			return err
		}
	}
	if !p.chooses || s.choices == 0 {
		return nil
	}
	logits := p.view(p.choose.Logits)
	a := chooseArgs{logits: logits.at, choices: s.choose, chosen: p.chosen, ld: logits.ld, vocab: int32(p.choose.Logits.Cols)}
	return run(p, "choose", grid{uint32(s.choices), 1, 1}, 1024, &a)
}

// readBack queues the copies of what the host wants.
func (p *program) readBack(s *step) error {
	b, r := s.b, s.r
	if n := len(b.Choose); n > 0 {
		if err := p.s.toHost(r.chosen, 0, p.chosen, 4*n); err != nil {
			return err
		}
	}
	logits := p.view(p.choose.Logits)
	wanted := len(b.Read) + len(s.onHost)
	rowBytes := 4 * p.choose.Logits.Cols
	if err := p.widenPinned(&r.logits, wanted*rowBytes, "logits"); err != nil {
		return err
	}
	for i := range wanted {
		row := int32(0)
		if i < len(b.Read) {
			row = b.Read[i]
		} else {
			row = b.Choose[s.onHost[i-len(b.Read)]].Row
		}
		if err := p.s.toHost(r.logits, i*rowBytes, logits.at.at(4*int64(row)*int64(logits.ld)), rowBytes); err != nil {
			return err
		}
		s.logits = append(s.logits, view[float32](r.logits, i*rowBytes, rowBytes/4))
	}
	if n := len(b.Hidden); n > 0 && p.choose.Hidden.Buffer > 0 {
		s.hiddenRaw = p.view(p.choose.Hidden)
		size := n * int(s.hiddenRaw.ld) * int(2+2*s.hiddenRaw.wide)
		if err := p.widenPinned(&r.hidden, size, "hidden states"); err != nil {
			return err
		}
		return p.s.toHost(r.hidden, 0, s.hiddenRaw.at, size)
	}
	return nil
}

// widenPinned makes pinned memory at least n bytes long. What it held is lost.
func (p *program) widenPinned(m *pinned, n int, what string) error {
	if n <= m.n {
		return nil
	}
	if err := p.g.freePinned(*m); err != nil {
		return err
	}
	*m = pinned{}
	var err error
	*m, err = p.g.allocPinned(n+n/2, what)
	return err
}

// chooseOnHost waits for the step, and makes the choices that the device does not. Tokens go to where the next step
// finds them.
func (p *program) chooseOnHost(s *step) error {
	if err := p.g.try(cuEventSynchronize, []uintptr{s.r.event.handle}, "waiting for a step"); err != nil {
		return err
	}
	s.collect()
	words := compute.MaskWords(p.graph.Vocab)
	chosen := view[int32](s.r.chosen, 0, len(s.b.Choose))
	for k, i := range s.onHost {
		c := s.b.Choose[i]
		row := s.logits[len(s.b.Read)+k]
		if c.After >= 0 && s.results[c.After].Token != s.b.IDs[s.b.Logits[c.Row]] {
			s.results[i] = compute.Chosen{Token: -1}
		} else {
			var mask []uint32
			if c.Mask >= 0 {
				mask = s.b.Masks[int(c.Mask)*words:][:words]
			}
			r := p.choosers.sampler.Choose(&p.choosers.slots[max(c.Slot, 0)].state, row, c, mask)
			r.Top = slices.Clone(r.Top)
			s.results[i] = r
		}
		chosen[i] = s.results[i].Token
	}
	return p.s.toDevice(p.chosen, s.r.chosen, 0, 4*len(chosen))
}

// editTables queues the changes of block tables.
func (p *program) editTables(s *step) error {
	edits := s.b.Edits
	if err := p.widen(edits); err != nil {
		return err
	}
	for len(edits) > 0 {
		n := min(len(edits), p.editCount)
		if len(edits) < len(s.b.Edits) { // the memory is read until the launch before is done
			if err := p.s.wait(); err != nil {
				return err
			}
		}
		to := view[compute.TableEdit](s.r.in, p.indexBytes, n)
		copy(to, edits)
		if err := p.s.toDevice(p.edits, s.r.in, p.indexBytes, 16*n); err != nil {
			return err
		}
		a := editArgs{tables: p.tables, edits: p.edits, n: int32(n), slots: int32(p.limits.Slots), stride: int32(p.stride)}
		if err := run(p, "edit_tables", grid{1, 1, 1}, 256, &a); err != nil {
			return err
		}
		edits = edits[n:]
	}
	return nil
}
