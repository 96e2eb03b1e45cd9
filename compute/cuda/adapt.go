package cuda

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
)

// adapters are the adapters of a program: of each slot, two groups (kernels/grouped.cuh) for each target. The rows of a
// step are sorted by adapter, and cut into chunks, as its indices say.
type adapters struct {
	low   [][]compute.LowRank // [slots+1][targets]
	table pointer             // [targets, 2, slots] of group: A, then B
	host  pinned              // the same, on its way
	rank  int                 // the largest so far
	ends  []int32             // [slots+1] of a step: where the rows of each adapter end, then those of none
	inner pointer             // what products with A yield (AdaptArgs of kernels/adapt.cu)
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

// Rows of a chunk in the kernels of adapt.cu: of steps of up to mostGraphRows rows, and of others.
const fewAdapted, manyAdapted = 8, 32

// adaptRange is the inputs of A in a range, adaptOuts the outputs of B of a block, or half of them of a gate's.
const adaptRange, adaptOuts = 1024, 512

// adaptKernels are the kernels of adapt.cu, each for chunks of few rows and of many.
var adaptKernels = []string{"down", "up", "wide", "gate"}

func adaptName(kernel string, rows int) string { return fmt.Sprintf("adapt_%s_%d", kernel, rows) }

// gateDown is the kernel for a gate of few rows and the product with A of its results.
const gateDown = "adapt_gate_down"

// gateDownShared is its dynamic shared memory, for a rank.
func gateDownShared(rank int) int {
	const ofB, ofA, results = 3 * 4 * 512, 8 * 512, 8 * 256 // of a warp
	return 8*(ofB+ofA+results) + 2*fewAdapted*(rank+8)*2
}

// adaptChunkRows is the rows of a chunk in steps of so many.
func adaptChunkRows(rows int) int {
	if rows <= mostGraphRows {
		return fewAdapted
	}
	return manyAdapted
}

// adaptChunks is the most chunks of so many rows, of adapters and of none.
func adaptChunks(rows, each, adapters int) int { return rows/each + min(rows, adapters+1) }

// adaptation is what adapters add to products that share their rows: down before the products, up after them.
type adaptation struct {
	p        *program
	x        compute.Tensor
	products []compute.Product
	ranges   int32
	scale    float32
	gate     *compute.Activate // of two products, nil if none
	next     *adaptation       // of the product that takes a gate's results: up multiplies them by A; nil if none
	skip     int32             // ranges of few rows that precede its own: those of the gate whose next it is
}

// adapt compiles what adapters add to products of x: rows times A, then times B, with one launch each. It returns
// nil where no adapter can change them.
func (p *program) adapt(x compute.Tensor, products []compute.Product, scale float32) (*adaptation, error) {
	a := &adaptation{p: p, x: x, scale: scale, ranges: int32(blocksOf(x.Cols, adaptRange))}
	for _, q := range products {
		if q.Target < 0 || q.Target > p.graph.Targets {
			return nil, fmt.Errorf("cuda: a product is target %d of %d", q.Target, p.graph.Targets)
		}
		if q.Target > 0 && p.graph.Adapters > 0 {
			a.products = append(a.products, q)
		}
	}
	if len(a.products) == 0 {
		return nil, nil
	}
	return a, nil
}

// args is what both products take, the rows of a chunk, and blocks for all chunks.
func (a *adaptation) args(s *shape) (adaptArgs, int, grid) {
	p, rows := a.p, s.count[compute.AllRows]
	each := adaptChunkRows(rows)
	args := adaptArgs{
		chunks: s.adapterChunks, rows: s.adapterRows, x: p.view(a.x).at, inner: p.lora.inner, ldx: p.view(a.x).ld,
		groups: int32(p.graph.Adapters), rank: int32(roundUp(p.lora.rank, tileIns)), ranges: a.ranges, scale: a.scale,
		room: int32(min(roundUp(p.limits.Rows, rowMultiple), mostGraphRows)),
	}
	args.inner = args.inner.at(4 * int64(a.skip) * int64(args.room) * int64(args.rank))
	if each == manyAdapted {
		args.inner, args.ranges, args.room = p.lora.inner, 0, int32(roundUp(p.limits.Rows, rowMultiple))
	}
	return args, each, grid{0, uint32(adaptChunks(rows, each, p.graph.Adapters)), 1}
}

// asideAdapted is up to how many rows of a step kernels of chunks of few rows run aside, and adaptShared the shared
// memory that their blocks ask for then: of these, a multiprocessor has several.
const asideAdapted, adaptShared = 64, 35 << 10

// asideAdapters are these kernels.
var asideAdapters = []string{adaptName("down", fewAdapted), adaptName("up", fewAdapted), adaptName("wide", fewAdapted)}

// run queues a kernel.
func (a *adaptation) run(s *shape, kernel string, each int, blocks grid, args *adaptArgs) error {
	if name := adaptName(kernel, each); s.count[compute.AllRows] <= asideAdapted && slices.Contains(asideAdapters, name) {
		return runAside(a.p, name, blocks, 256, adaptShared, args)
	}
	return run(a.p, adaptName(kernel, each), blocks, 256, args)
}

// down queues the products with A.
func (a *adaptation) down(s *shape) error {
	if !s.adapted || a.p.lora.rank == 0 {
		return nil
	}
	args, each, blocks := a.args(s)
	for i, q := range a.products {
		args.p[i].groups, _ = a.p.lowTable(q.Target)
	}
	blocks.x, blocks.z = uint32(max(args.ranges, 1)*args.rank/tileOuts), uint32(len(a.products))
	return a.run(s, "down", each, blocks, &args)
}

// up queues the products with B, and their addition.
func (a *adaptation) up(s *shape) error {
	if !s.adapted || a.p.lora.rank == 0 {
		return nil
	}
	kernel, outs := "up", adaptOuts
	args, each, blocks := a.args(s)
	for i, q := range a.products {
		_, args.p[i].groups = a.p.lowTable(q.Target)
		to := a.p.view(q.Dst)
		args.p[i].dst, args.p[i].outs, args.p[i].tiles = to, int32(q.Dst.Cols), int32(blocksOf(q.Dst.Cols, tileOuts))
		if to.wide == 1 {
			kernel = "wide"
		}
		blocks.x += blocksOf(q.Dst.Cols, outs)
	}
	if a.gate != nil {
		kernel = "gate"
		args.act, args.dst, blocks.x = int32(a.gate.Act), a.p.view(a.gate.Dst), blocksOf(a.gate.Dst.Cols, outs/2)
	}
	if a.next == nil {
		return a.run(s, kernel, each, blocks, &args)
	}
	shared := gateDownShared(int(args.rank))
	if each == manyAdapted || shared > a.p.d.g.info.shared {
		return errors.Join(a.run(s, kernel, each, blocks, &args), a.next.down(s))
	}
	next, _, _ := a.next.args(s)
	args.next, _ = a.p.lowTable(a.next.products[0].Target)
	args.nextInner, blocks.x = next.inner, uint32(next.ranges)
	f := *a.p.kernel[gateDown]
	f.shared = uint32(shared)
	return launch(a.p.s, &f, blocks, 256, &args)
}

// adaptedGate compiles a gate and what it gates where adapters may change them: what they add comes before the
// activation. A step without adapters has one kernel for both, which gives the same bits.
func (c *compiler) adaptedGate(x compute.Tensor, gate, up compute.Product, act compute.Activate) (operation, error) {
	p, products := c.p, []compute.Product{gate, up}
	x, narrow := c.narrow(x)
	activated := gate
	activated.Dst = act.Dst
	whole, err := c.base(x, []compute.Product{activated, up}, gemmArgs{mode: modeGated, act: int32(act.Act), scale: 1})
	if err != nil {
		return nil, err
	}
	base, err := c.base(x, products, gemmArgs{mode: modePlain, scale: 1})
	if err != nil {
		return nil, err
	}
	a, err := p.adapt(x, products, 1)
	if err != nil {
		return nil, err
	}
	a.gate, c.gates[c.at+2] = &act, a
	plain, adapted := []operation{whole}, []operation{a.down, base, a.up}
	if narrow != nil {
		plain, adapted = append([]operation{narrow}, plain...), append([]operation{narrow}, adapted...)
	}
	without, with := inTurn(plain), inTurn(adapted)
	return func(s *shape) error {
		if s.adapted && p.lora.rank > 0 {
			return with(s)
		}
		return without(s)
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
	if err := p.g.free(p.lora.inner); err != nil {
		return err
	}
	p.lora.inner = 0
	var err error
	if p.lora.inner, err = p.g.alloc(innerBytes(p.limits, rank, adaptRanges(p.graph)), "rows of adapters"); err != nil {
		return err
	}
	p.lora.rank = rank
	return nil
}

// innerBytes is the size of what products with A yield: sums of ranges of few rows, or all sums of many.
func innerBytes(l compute.Limits, rank, ranges int) int64 {
	all := roundUp(l.Rows, rowMultiple)
	return maxProducts * int64(roundUp(rank, tileIns)) * int64(max(4*ranges*min(all, mostGraphRows), 2*all))
}

// adaptRanges is the most ranges of A's inputs.
func adaptRanges(g *compute.Graph) int {
	n := 0
	for _, op := range g.Ops {
		if m, ok := op.(compute.MatMul); ok {
			n = max(n, int(blocksOf(m.X.Cols, adaptRange)))
		}
	}
	return n
}

// fillAdapters sorts the batch's rows by adapter, those without one last, and cuts them into chunks.
func (p *program) fillAdapters(s *shape, to pinned, b *compute.Batch) {
	n := p.graph.Adapters
	if n == 0 {
		return
	}
	all := s.count[compute.AllRows]
	each := adaptChunkRows(all)
	rows, chunks := s.ints(to, s.adapterRows, all), s.ints(to, s.adapterChunks, 4*adaptChunks(all, each, n))
	clear(p.lora.ends)
	group := func(q *compute.Seq) int { return (int(q.Adapter) + n) % (n + 1) }
	for i := range b.Seqs {
		p.lora.ends[group(&b.Seqs[i])] += b.Seqs[i].Rows
	}
	start := int32(0)
	for g, count := range p.lora.ends {
		for at := int32(0); at < count; at += int32(each) {
			copy(chunks, []int32{int32(g), start + at, min(int32(each), count-at), 0})
			chunks = chunks[4:]
		}
		p.lora.ends[g], start = start, start+count
	}
	clear(chunks)
	for i := range b.Seqs {
		q := &b.Seqs[i]
		end := &p.lora.ends[group(q)]
		for r := q.Row; r < q.Row+q.Rows; r++ {
			rows[*end] = r
			*end++
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
