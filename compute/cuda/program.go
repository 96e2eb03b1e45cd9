package cuda

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/guard"
)

// program is a compiled graph. One goroutine queues the steps' work on one stream, and chooses on the host what the
// device does not; another waits for it.
type program struct {
	d       *device
	g       *gpu // the device's, with memory of its own for calls
	s       *stream
	moving  *stream  // kernels that move blocks
	coming  *stream  // copies of blocks from the host
	leaving *stream  // and to it
	transit *transit // of the step that is being queued
	cache   *cache
	kernel  map[string]*function // those that the device had loaded when the program was compiled
	limits  compute.Limits
	graph   *compute.Graph

	buffers       []buffer // by number - 1; those that the compiler adds follow
	ops           []operation
	keepAt        int           // the first of ops that runs over the rows of kept alone; 0: there is none
	kept          compute.Batch // what compute.Keep leaves of the batch that is being queued, and which rows
	keptRows      []int32
	costs         []launchCost
	costed        []*matrix // the first weights of their products
	choose        compute.Choose
	chooses       bool
	kinds         []attention
	attends       int
	bidirectional bool
	recurrent     bool
	turnsFew      bool   // attention may turn queries and keys
	ringsMany     bool   // attend_ring.cu may take more than ringRows rows
	latents       bool   // attend_latent_few.cu takes few rows
	seen          []bool // slots of a step, see alone
	long          bool   // a product has several ranges of inputs

	routings   []routing
	routes     []pointer // memory of routings
	groups     []group
	groupTable pointer // groups, on the device
	lora       adapters

	tables     pointer // [groups, slots, stride] of block numbers
	stride     int
	index      pointer // the step's indices
	indexBytes int
	sums       pointer // of products' ranges
	float8     float8Rows
	edits      pointer
	editCount  int     // room in edits
	chosen     pointer // [rows] what the last step chose
	chunks     pointer // [chunkCount, heads, size + 2] what chunks of few rows give (AttendArgs.partial)
	chunkCount int
	partialRow int64   // bytes of a chunk in chunks
	heads      int     // the most query heads
	arrived    pointer // [rows, heads] counters of attend_few, 0 between kernels
	taken      pointer // [2] counters of attend_wgmma, 0 between kernels: tiles that are taken, and blocks that are done

	graphs  map[graphKey]*graph
	shapes  map[graphKey]*shape
	ahead   ahead
	rings   [2]ring
	pool    pool
	started int
	queue   chan *step // of work
	queued  chan *step // of finish
	done    chan struct{}

	choosers choosers

	alarm  chan struct{} // of held: a step failed
	mu     sync.Mutex
	epoch  int   // how many faults were returned by a Wait
	failed int   // the epoch whose steps are skipped
	lost   error // why nothing runs any more
}

// ring is what belongs to every other step, since two are under way: memory of the host, and the step.
type ring struct {
	in      pinned // indices and edits
	chosen  pinned
	logits  pinned // [Read and rows that the host chooses from, outputs]
	hidden  pinned
	tokens  pinned // of choosers
	list    pinned
	said    pinned
	transit transit
	event   *event
	step    step
}

// graphKey says which steps a captured graph is for: those of up to so many rows, with or without adapters, whether
// attention turns queries and keys (alone), and whether attend_ring.cu computes it.
type graphKey struct {
	rows                   int
	adapted, alone, ringed bool
	whole                  bool // of latents
}

// mostGraphRows is the most rows of a captured graph.
const mostGraphRows = 512

// logitRows is how many rows of logits there is room for at first, if not one for each slot; more is made when a batch
// wants them.
const logitRows = 128

// Compile makes a program. Memory is for batches at the limits, but for rows of logits, which grow.
func (d *device) Compile(g *compute.Graph, c compute.Cache, l compute.Limits) (compute.Program, error) {
	if l.Rows < 1 || l.Slots < 1 {
		return nil, fmt.Errorf("cuda: a program for %d rows and %d slots", l.Rows, l.Slots)
	}
	own := *d.g
	p := &program{
		d: d, g: &own, cache: c.(*cache), limits: l, graph: g, failed: -1,
		graphs: map[graphKey]*graph{}, shapes: map[graphKey]*shape{}, queue: make(chan *step, 2), queued: make(chan *step, 2), done: make(chan struct{}),
		choosers: choosers{slots: make([]chooser, l.Slots)}, seen: make([]bool, l.Slots), alarm: make(chan struct{}, 1),
	}
	p.copyKernels()
	if err := p.compile(); err != nil {
		return nil, err
	}
	if err := p.g.enter(); err != nil {
		return nil, err
	}
	defer p.g.leave()
	if err := d.loading.wait(); err != nil { // for what is to be read from other streams
		return nil, err
	}
	if err := p.make(); err != nil {
		p.free()
		return nil, err
	}
	waiting := *d.g
	guard.Go(p.work, func(error) { close(p.queued) })
	guard.Go(func() error { return p.finish(&waiting) }, func(error) { close(p.done) })
	return p, nil
}

// copyKernels lists the kernels that there are now: those of the graph's weights and the cache are among them.
func (p *program) copyKernels() {
	p.kernel = make(map[string]*function, len(p.d.kernels.byName))
	for name, f := range p.d.kernels.byName {
		own := *f // whose shared memory is the program's choice
		p.kernel[name] = &own
	}
}

// Workspace returns the memory that a program takes.
func (d *device) Workspace(g *compute.Graph, l compute.Limits) int64 {
	wide, routed := wideBuffers(g.Ops), routedWidths(g)
	n := int64(chunkBytes) + 4*int64(g.Vocab)*int64(min(l.Rows, adjustedRows))
	for _, r := range g.Routings {
		n += (&routing{Routing: r}).bytes(roundUp(l.Rows, rowMultiple))
	}
	if g.Adapters > 0 {
		const rank = 256 // more, if an adapter has it, is taken when it is placed
		n += innerBytes(l, rank, adaptRanges(g))
	}
	if d.g.info.major == hopper {
		n += float8Bytes(g, l.Rows)
	}
	for i, b := range g.Buffers {
		size := int64(2)
		if wide[i+1] {
			size = 4
		}
		n += size * int64(roundUp(max(b.Width, routed[i+1]), inputsMultiple)) * int64(capacityOf(b.Domain, l))
	}
	return n
}

// capacityOf returns the rows of a buffer at first.
func capacityOf(domain compute.Domain, l compute.Limits) int {
	rows := roundUp(l.Rows, rowMultiple)
	if domain != compute.AllRows {
		rows = min(rows, max(logitRows, roundUp(l.Slots, rowMultiple)))
	}
	return rows
}

// chunkBytes is the most memory for what the chunks of few rows give.
const chunkBytes = 512 << 20

// make allocates what a program needs.
func (p *program) make() (err error) {
	if p.s, err = p.g.newStream(); err != nil {
		return err
	}
	for _, s := range []**stream{&p.moving, &p.coming, &p.leaving} {
		if *s, err = p.g.newStream(); err != nil {
			return err
		}
	}
	take := func(n int64, what string) pointer {
		var at pointer
		if err == nil {
			if at, err = p.g.alloc(n, what); err == nil {
				err = p.s.fill(at, 0, max(n, 16))
			}
		}
		return at
	}
	for i := range p.buffers {
		b := &p.buffers[i]
		b.capacity = capacityOf(b.domain, p.limits)
		b.at = take(b.size(), "activations")
	}
	p.stride = p.cache.spec.Blocks
	p.tables = take(p.tableBytes(), "block tables")
	rows := roundUp(p.limits.Rows, rowMultiple)
	if p.partialRow > 0 {
		want := p.cache.spec.Blocks*p.cache.spec.BlockTokens/chunkTokens + 2*mostGraphRows
		p.chunkCount = min(want, int(chunkBytes/p.partialRow))
	}
	for i := range p.routings {
		r := &p.routings[i]
		p.routes = append(p.routes, take(r.bytes(rows), "routes"))
		r.lay(p.routes[i], rows)
	}
	if err == nil {
		err = p.makeGroups(take)
	}
	p.indexBytes = p.lay(0, [3]int{rows, rows, rows}, rows-1, rows, rows).bytes // those of rows that are all kept are fewer
	p.index = take(int64(p.indexBytes), "indices")
	if p.g.info.major == hopper && p.long {
		p.sums = take(int64(p.g.info.sms)*sumsOfRanges, "sums of products")
	}
	p.float8.make(p, take)
	p.editCount = 4096
	p.edits = take(int64(16*p.editCount), "edits of block tables")
	p.chosen = take(int64(4*rows), "tokens")
	if p.partialRow > 0 {
		p.chunks = take(int64(p.chunkCount)*p.partialRow, "sums of attention")
		n := 4 * int64(rows) * int64(p.heads)
		p.arrived = take(n+8, "counters of attention")
		p.taken = p.arrived.at(n)
	}
	for i := range p.rings {
		r := &p.rings[i]
		if err == nil {
			r.in, err = p.g.allocPinned(p.indexBytes+16*p.editCount, "indices")
		}
		if err == nil {
			r.chosen, err = p.g.allocPinned(4*rows, "tokens")
		}
		if err == nil {
			r.event, err = p.g.newEvent(false) // and recorded by steps
		}
		if err == nil {
			err = r.transit.make(p)
		}
	}
	if err == nil {
		err = p.s.wait()
	}
	if err == nil {
		err = p.captureAhead()
	}
	return err
}

// makeGroups copies the tables of groups to the device, and makes room for those of adapters.
func (p *program) makeGroups(take func(int64, string) pointer) error {
	if p.graph.Adapters > 0 && p.graph.Targets > 0 {
		p.lora.low, p.lora.ends = make([][]compute.LowRank, p.graph.Adapters+1), make([]int32, p.graph.Adapters+1)
		p.lora.table = take(int64(p.lowBytes()), "adapters")
		var err error
		if p.lora.host, err = p.g.allocPinned(p.lowBytes(), "adapters"); err != nil {
			return err
		}
	}
	if len(p.groups) == 0 {
		return nil
	}
	n := len(p.groups) * int(unsafe.Sizeof(group{}))
	p.groupTable = take(int64(n), "addresses of weights")
	to, err := p.g.allocPinned(n, "addresses of weights")
	if err != nil {
		return err
	}
	copy(view[group](to, 0, len(p.groups)), p.groups)
	return errors.Join(p.s.toDevice(p.groupTable, to, 0, n), p.s.wait(), p.g.freePinned(to))
}

// size returns the bytes of a buffer; what a kernel reads past its last row is within.
func (b *buffer) size() int64 {
	const slack = 256
	return int64(b.capacity)*int64(b.ld)*int64(2+2*b.wide) + slack
}

func (p *program) tableBytes() int64 {
	return 4 * int64(max(p.cache.groups, 1)) * int64(p.limits.Slots) * int64(p.stride)
}

// free gives a program's memory back, and that of the adapters in its slots.
func (p *program) free() error {
	errs := []error{}
	for _, low := range p.lora.low {
		for _, l := range low {
			if l.A != nil {
				errs = append(errs, p.d.drop(p.g, l.A.(*matrix).at), p.d.drop(p.g, l.B.(*matrix).at))
			}
		}
	}
	for _, gr := range p.graphs {
		errs = append(errs, gr.close())
	}
	for i := range p.buffers {
		errs = append(errs, p.g.free(p.buffers[i].at))
	}
	all := append([]pointer{p.tables, p.index, p.sums, p.edits, p.chosen, p.chunks, p.arrived, p.groupTable, p.lora.table, p.lora.inner, p.float8.x, p.float8.scales}, p.routes...)
	all = append(all, p.choosers.memory()...)
	for _, at := range all {
		errs = append(errs, p.g.free(at))
	}
	errs = append(errs, p.g.freePinned(p.lora.host), p.pool.free(p.g))
	for i := range p.rings {
		r := &p.rings[i]
		for _, at := range []pinned{r.in, r.chosen, r.logits, r.hidden, r.tokens, r.list, r.said} {
			errs = append(errs, p.g.freePinned(at))
		}
		errs = append(errs, r.transit.free(p.g))
		if r.event != nil {
			errs = append(errs, r.event.close())
		}
	}
	for _, s := range []*stream{p.s, p.moving, p.coming, p.leaving} {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}

// BlockBytes returns the bytes of a packed block.
func (p *program) BlockBytes() int { return int(p.cache.block) }

// Trees reports that a batch must not have Parents: the kernels of attention know rows by position alone.
func (p *program) Trees() bool { return false }

// Close ends the program's goroutines, when they have done what is queued. What a fault has spoilt goes with the
// device.
func (p *program) Close() error {
	close(p.queue)
	<-p.done
	if p.d.lost.Load() {
		return nil
	}
	if err := p.g.enter(); err != nil {
		return err
	}
	defer p.g.leave()
	return errors.Join(p.s.wait(), p.moving.wait(), p.coming.wait(), p.leaving.wait(), p.free())
}

// grow makes room for more rows of a domain. Graphs with the old memory are captured again.
func (p *program) grow(domain compute.Domain, rows int) error {
	for i := range p.buffers {
		b := &p.buffers[i]
		if b.domain != domain || b.capacity >= rows {
			continue
		}
		if err := p.forget(); err != nil {
			return err
		}
		if err := p.g.free(b.at); err != nil {
			return err
		}
		b.at, b.capacity = 0, roundUp(rows, rowMultiple)
		var err error
		if b.at, err = p.g.alloc(b.size(), fmt.Sprintf("%d rows of logits", rows)); err != nil {
			b.capacity = 0
			return err
		}
		if err := p.s.fill(b.at, 0, b.size()); err != nil {
			return err
		}
	}
	return nil
}

// forget frees all graphs, once what is queued is done.
func (p *program) forget() error {
	errs := []error{p.s.wait()}
	for key, gr := range p.graphs {
		errs = append(errs, gr.close())
		delete(p.graphs, key)
	}
	clear(p.shapes)
	return errors.Join(errs...)
}

// widen makes block tables longer, if an edit is past their end.
func (p *program) widen(edits []compute.TableEdit) error {
	most := 0
	for _, e := range edits {
		most = max(most, int(e.At)+1)
	}
	if most <= p.stride {
		return nil
	}
	if err := p.forget(); err != nil {
		return err
	}
	old, oldStride, oldAt := p.tableBytes(), p.stride, p.tables
	p.stride = roundUp(most*3/2, 64)
	at, err := p.g.alloc(p.tableBytes(), "block tables")
	if err != nil {
		p.stride = oldStride
		return err
	}
	p.tables = at
	for i := range old / int64(4*oldStride) {
		if err := p.s.within(at.at(i*int64(4*p.stride)), oldAt.at(i*int64(4*oldStride)), int64(4*oldStride)); err != nil {
			return err
		}
	}
	return errors.Join(p.s.wait(), p.g.free(oldAt))
}
