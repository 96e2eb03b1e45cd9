package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
)

// adapters are the adapters of a program: of each slot, two groups (kernels/grouped.cu) for each target. Rows that
// share an adapter are a group, in the order that a step's indices say.
type adapters struct {
	low   [][]compute.LowRank // [slots+1][targets]
	table pointer             // [targets, 2, slots] of group: A, then B
	host  pinned              // the same, on its way
	rank  int                 // what inner rows have room for
	inner [maxProducts]pointer
}

// lowTable is where the groups of a target's A are, and half past it those of B.
func (p *program) lowTable(target int) (a, b pointer) {
	n := int64(p.graph.Adapters) * int64(unsafe.Sizeof(group{}))
	a = p.lora.table.at(int64(target-1) * 2 * n)
	return a, a.at(n)
}

// lowBytes is the size of the table.
func (p *program) lowBytes() int {
	return 2 * p.graph.Targets * p.graph.Adapters * int(unsafe.Sizeof(group{}))
}

// adapt compiles what adapters add to products of x: rows times A, then times B, with one launch each. It returns
// nil where no adapter can change them.
func (p *program) adapt(x compute.Tensor, products []compute.Product, scale float32) (operation, error) {
	var targets []compute.Product
	for _, q := range products {
		if q.Target < 0 || q.Target > p.graph.Targets {
			return nil, fmt.Errorf("cuda: a product is target %d of %d", q.Target, p.graph.Targets)
		}
		if q.Target > 0 && p.graph.Adapters > 0 {
			targets = append(targets, q)
		}
	}
	if len(targets) == 0 {
		return nil, nil
	}
	return func(s *shape) error {
		if !s.adapted {
			return nil
		}
		ld := int32(roundUp(p.lora.rank, inputsMultiple))
		down := groupedArgs{ends: s.adapterEnds, from: s.adapterRows, groups: int32(p.graph.Adapters),
			rows: int32(s.count[compute.AllRows]), mode: modePlain, pads: 1, aligned: 1, scale: 1}
		up := down
		up.from, up.to, up.mode, up.pads, up.scale = 0, s.adapterRows, modeAdd, 0, scale
		ranks, outs := make([]int, len(targets)), make([]int, len(targets))
		for i, q := range targets {
			a, b := p.lowTable(q.Target)
			inner := rows{at: p.lora.inner[i], ld: ld}
			down.p[i] = groupedProductArgs{x: p.view(x).at, groups: a, dst: inner, ldx: p.view(x).ld}
			up.p[i] = groupedProductArgs{x: inner.at, groups: b, dst: p.view(q.Dst), ldx: ld}
			ranks[i], outs[i] = p.lora.rank, q.Dst.Cols
		}
		if err := p.multiplyGroups(formatBF16, &down, ranks); err != nil {
			return err
		}
		return p.multiplyGroups(formatBF16, &up, outs)
	}, nil
}

// checkPlace refuses an adapter for a slot that is not there, or of other weights.
func (p *program) checkPlace(b *compute.Batch) error {
	for _, place := range b.Place {
		if place.Slot < 1 || int(place.Slot) > p.graph.Adapters || place.Low != nil && len(place.Low) != p.graph.Targets {
			return fmt.Errorf("cuda: an adapter of %d weights for slot %d; there are %d weights and slots 1 to %d",
				len(place.Low), place.Slot, p.graph.Targets, p.graph.Adapters)
		}
	}
	for i := range b.Seqs {
		if a := b.Seqs[i].Adapter; a < 0 || int(a) > p.graph.Adapters {
			return fmt.Errorf("cuda: sequence %d: the adapter in slot %d; there are slots 1 to %d", i, a, p.graph.Adapters)
		}
	}
	return nil
}

// place puts adapters into slots, which waits for the steps before, and frees what the slots held.
func (p *program) place(all []compute.Placement) error {
	if len(all) == 0 {
		return nil
	}
	loaded := p.g.try(cuStreamSynchronize, []uintptr{p.d.loading.handle}, "waiting for an adapter's weights")
	if err := errors.Join(p.s.wait(), loaded); err != nil {
		return err
	}
	var old []compute.LowRank
	for _, place := range all {
		old = append(old, p.lora.low[place.Slot]...)
		p.lora.low[place.Slot] = place.Low
	}
	if err := p.lowRows(); err != nil {
		return err
	}
	table := view[group](p.lora.host, 0, p.lowBytes()/int(unsafe.Sizeof(group{})))
	clear(table)
	held := map[compute.Matrix]bool{}
	for slot, low := range p.lora.low {
		for target, l := range low {
			if l.A == nil {
				continue
			}
			at := target*2*p.graph.Adapters + slot - 1
			table[at], table[at+p.graph.Adapters] = groupOf(l.A, nil), groupOf(l.B, nil)
			table[at+p.graph.Adapters].scale = l.Scale
			held[l.A], held[l.B] = true, true
		}
	}
	errs := []error{p.s.toDevice(p.lora.table, p.lora.host, 0, p.lowBytes()), p.s.wait()}
	for _, l := range old {
		for _, m := range []compute.Matrix{l.A, l.B} {
			if m != nil && !held[m] {
				held[m] = true
				errs = append(errs, p.d.drop(p.g, m.(*matrix).at))
			}
		}
	}
	return errors.Join(errs...)
}

// lowRows makes room for the rows between A and B, whose size is the largest rank so far.
func (p *program) lowRows() error {
	rank := p.lora.rank
	for _, low := range p.lora.low {
		for _, l := range low {
			if l.A != nil {
				n, _ := l.A.Dims()
				rank = max(rank, n)
			}
		}
	}
	if rank == p.lora.rank {
		return nil
	}
	if err := p.forget(); err != nil {
		return err
	}
	size := 2 * int64(roundUp(p.limits.Rows, rowMultiple)) * int64(roundUp(rank, inputsMultiple))
	for i := range p.lora.inner {
		if err := p.g.free(p.lora.inner[i]); err != nil {
			return err
		}
		p.lora.inner[i] = 0
		var err error
		if p.lora.inner[i], err = p.g.alloc(size, "rows of adapters"); err != nil {
			return err
		}
	}
	p.lora.rank = rank
	return nil
}

// fillAdapters sorts the batch's rows by adapter.
func (p *program) fillAdapters(s *shape, to pinned, b *compute.Batch) {
	if p.graph.Adapters == 0 {
		return
	}
	ends, rows := s.ints(to, s.adapterEnds, p.graph.Adapters), s.ints(to, s.adapterRows, s.count[compute.AllRows])
	clear(ends)
	for i := range b.Seqs {
		if q := &b.Seqs[i]; q.Adapter > 0 {
			ends[q.Adapter-1] += q.Rows
		}
	}
	start := int32(0)
	for a, n := range ends {
		ends[a], start = start, start+n
	}
	for i := range b.Seqs {
		if q := &b.Seqs[i]; q.Adapter > 0 {
			for r := q.Row; r < q.Row+q.Rows; r++ {
				rows[ends[q.Adapter-1]] = r
				ends[q.Adapter-1]++
			}
		}
	}
}

// fillRuns lists the rows of each sequence, for recurrent layers.
func (p *program) fillRuns(s *shape, to pinned, b *compute.Batch) {
	if !p.recurrent {
		return
	}
	runs := s.ints(to, s.runs, 4*s.runCount)
	clear(runs)
	for i := range b.Seqs {
		q := &b.Seqs[i]
		copy(runs[4*i:], []int32{q.Row, q.Rows, q.Start, q.State})
	}
}
