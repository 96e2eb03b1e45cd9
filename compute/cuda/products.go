package cuda

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// products compiles products that share their rows, up to four in a launch; args says what is done with the
// results.
func (c *compiler) products(o compute.MatMul, args gemmArgs) (operation, error) {
	p := c.p
	x, narrow := c.narrow(o.X)
	var launches []operation
	if narrow != nil {
		launches = append(launches, narrow)
	}
	for products := o.Products; len(products) > 0; {
		n := launchable(products[:min(len(products), maxProducts)])
		adapt, err := p.adapt(x, products[:n], args.scale)
		if err != nil {
			return nil, err
		}
		if g := c.gates[c.at]; adapt != nil && g != nil && g.gate.Dst == x && len(o.Products) == 1 {
			g.next, adapt.skip = adapt, 2*g.ranges
		} else if adapt != nil {
			launches = append(launches, adapt.down)
		}
		if args.mode == modeGated && n != 2 {
			return nil, fmt.Errorf("cuda: %d products of a gate", n)
		}
		op, err := c.base(x, products[:n], args)
		if err != nil {
			return nil, err
		}
		launches = append(launches, op)
		if adapt != nil {
			launches = append(launches, adapt.up)
		}
		products = products[n:]
	}
	return inTurn(launches), nil
}

// base compiles a launch of products without what adapters add.
func (c *compiler) base(x compute.Tensor, products []compute.Product, args gemmArgs) (operation, error) {
	if c.p.inFloat8(products[0]) {
		return c.productFloat8(x, products, args)
	}
	return c.p.product(x, products, args, c.turned)
}

// inTurn is operations as one.
func inTurn(ops []operation) operation {
	return func(s *shape) error {
		for _, op := range ops {
			if err := op(s); err != nil {
				return err
			}
		}
		return nil
	}
}

// launchable returns how many products, from the first on, one launch can compute: those whose weights have the format,
// the scaling and the number of ranges of the first.
func launchable(products []compute.Product) int {
	n, first := 1, products[0].W.(*matrix)
	same := func(m *matrix) bool {
		return m.format == first.format && m.float8 == first.float8 && m.ranges() == first.ranges()
	}
	for n < len(products) && same(products[n].W.(*matrix)) {
		n++
	}
	return n
}

// mostChain is the most inputs of a range of sums that keep float32's bits.
const mostChain = 16384

// ranges is how many ranges the inputs are cut into (gemm.cuh): of up to 16,384 each, and at least two for weights of
// few outputs, which too few warps would read otherwise to be as fast as the memory allows. Kernels that halve the
// ranges take two, and many rows are faster with fewer. The tensor cores of F8_E4M3 keep few bits of a sum: their
// ranges have up to 4,096 inputs, four of them up to 8,192, and there are one, two, four or eight, but one or two where
// groups of inputs have scales, of which each is summed by itself.
func (m *matrix) ranges() int32 {
	const float8Chain, fewOuts, least = 4096, 8192, 2048
	n := int32(blocksOf(m.tilesIn()*tileOuts, mostChain))
	switch m.dense() {
	case scaledByOutput:
		for n = 1; n < 4 && m.in > float8Chain*int(n); n *= 2 {
		}
		if m.in > 2*float8Chain*int(n) {
			n = 8
		}
	case scaledByGroup, scaledByBlock:
		n = 1
	}
	if m.out <= fewOuts && m.in >= least {
		n = max(n, 2)
	}
	return n
}

// product compiles one launch; if t is not nil, it may turn what it yields.
func (p *program) product(x compute.Tensor, products []compute.Product, args gemmArgs, t *turner) (operation, error) {
	f := products[0].W.(*matrix).format
	return p.launchOf(x, products, args, func(s *shape, a *gemmArgs, rows int) error {
		if a.rows = int32(rows); t != nil && t.chosen(f, s, a) {
			return t.run(f, s, a)
		}
		return p.multiply(f, a, rows)
	}, func(a *gemmArgs) int { return p.cost(f, a) })
}

// launchOf compiles a launch, which run queues; cost tells about how many nanoseconds it takes, 0 if that is not known.
func (p *program) launchOf(x compute.Tensor, products []compute.Product, args gemmArgs, run func(s *shape, a *gemmArgs, rows int) error, cost func(a *gemmArgs) int) (operation, error) {
	args.products = int32(len(products))
	for i, q := range products {
		m := q.W.(*matrix)
		if m.in != x.Cols || m.out != q.Dst.Cols {
			return nil, fmt.Errorf("cuda: a weight [%d, %d] between rows of %d and %d", m.out, m.in, x.Cols, q.Dst.Cols)
		}
		args.tilesIn = int32(m.tilesIn())
		args.ranges = m.ranges()
		p.long = p.long || args.ranges > 1
		args.p[i] = productArgs{w: m.at, outs: int32(m.out), tiles: int32(m.tiles())}
		if bias, ok := q.Bias.(*vector); ok && bias != nil {
			args.p[i].bias = bias.at
		}
	}
	if args.mode == modeGated && args.p[0].outs != args.p[1].outs {
		return nil, fmt.Errorf("cuda: a gate of %d values for %d", args.p[0].outs, args.p[1].outs)
	}
	dsts := make([]compute.Tensor, len(products))
	for i, q := range products {
		dsts[i] = q.Dst
	}
	placed := func() *gemmArgs {
		a := args
		a.x, a.ldx = p.view(x).at, p.view(x).ld
		for i, t := range dsts {
			a.p[i].dst = p.view(t)
		}
		return &a
	}
	if p.buffers[x.Buffer-1].domain == compute.AllRows {
		p.addCost(products, func(rows int) int {
			a := placed()
			a.rows = int32(rows)
			return cost(a)
		})
	}
	return func(s *shape) error { return run(s, placed(), int(p.count(x, s))) }, nil
}

// blocking is a kernel of gemm.cu: the outputs and rows of its blocks, its threads, and how many steps it has in
// shared memory.
type blocking struct{ outs, rows, threads, stages int }

// Kernels by rows, those with the most outputs first: for BF16, and for other formats.
var (
	blockings = []blocking{
		{64, 32, 256, 8}, {32, 32, 128, 10}, {64, 64, 256, 6}, {32, 64, 256, 8},
		{128, 128, 256, 4}, {64, 128, 256, 4}, {32, 128, 256, 4},
	}
	codeBlockings = []blocking{
		{128, 32, 256, 6}, {64, 32, 256, 8}, {32, 32, 128, 8}, {128, 64, 256, 6}, {64, 64, 256, 6}, {32, 64, 256, 6},
		{128, 128, 256, 4}, {64, 128, 256, 4}, {32, 128, 256, 4},
	}
)

// blockings are the kernels of a format.
func (f format) blockings() []blocking {
	if f == formatBF16 {
		return blockings
	}
	return codeBlockings
}

// kernel returns the name of a format's kernel.
func (f format) kernel(name string) string {
	if f != formatBF16 {
		name += "." + formats[f].name
	}
	return name
}

func (b blocking) name() string { return fmt.Sprintf("gemm_%dx%d", b.outs, b.rows) }

// shared is the shared memory that a block needs.
func (b blocking) shared(f format) int {
	return max(b.stages*(b.outs/recordOuts*f.recordBytes()+b.rows*128), 4*b.rows*(b.outs+4))
}

// few is a kernel of gemm_few.cu: up to how many rows it takes, whether it is for a gate and an up, and how it streams
// weights: those of BF16, of formats whose records are small, and of others.
type few struct {
	rows               int
	gated              bool
	bf16, small, large pipe
}

// fewOfBF16 is up to how many rows of BF16 these kernels are faster than those of warpgroups.
const fewOfBF16 = 8

// pipe is how many parts a warp has in shared memory, of how many steps each, and how many warps share the tiles of a
// range: as many as tiles, or one.
type pipe struct{ parts, steps, warps int }

var fews = []few{
	{8, false, pipe{6, 2, 1}, pipe{4, 4, 1}, pipe{4, 2, 1}}, {8, true, pipe{4, 2, 2}, pipe{2, 4, 1}, pipe{4, 2, 1}},
	{16, false, pipe{5, 2, 1}, pipe{4, 2, 1}, pipe{4, 2, 1}}, {16, true, pipe{4, 2, 1}, pipe{4, 2, 1}, pipe{4, 2, 1}},
}

func (k few) name() string {
	if k.gated {
		return fmt.Sprintf("gemm_%d_gated", k.rows)
	}
	return fmt.Sprintf("gemm_%d", k.rows)
}

// small reports whether a format's records are small: SMALL of kernels/ahead.cuh.
func (f format) small() bool { return f.recordBytes() < 1024 }

// pipe is that of a format.
func (k few) pipe(f format) pipe {
	switch {
	case f == formatBF16:
		return k.bf16
	case f.small():
		return k.small
	}
	return k.large
}

// shared is the shared memory of a block's warps for a range, for so many rows. For BF16 it is always that of k.rows,
// for which the kernel has room.
func (k few) shared(f format, rows int) int {
	r, tiles := k.pipe(f), 1
	if k.gated {
		tiles = 2
	}
	if f == formatBF16 {
		rows = k.rows
	}
	return r.parts * (tiles*r.steps*f.recordBytes() + r.warps*rows*(r.steps*128+16))
}

// evenShared is the least shared memory of each of so many blocks with which no multiprocessor has room for more than
// its share of them. Otherwise blocks that begin early crowd where those of the kernel before have ended, and the step
// waits for the multiprocessors that got the most. More would keep the next kernel's blocks away.
func (i info) evenShared(blocks int) int {
	const granule = 128
	each := int(blocksOf(blocks, i.sms))
	return ((i.shared+blockShared)/(each+1)/granule+1)*granule - blockShared
}

// blockShared is the shared memory that a block has for the driver. A multiprocessor has as much as a block can have,
// and this.
const blockShared = 1 << 10

// sharedSizes returns the dynamic shared memory of a format's products, of most bytes that a block can have.
func (f format) sharedSizes(most int) map[string]int {
	sizes := map[string]int{}
	for _, w := range warpgroupKernels {
		sizes[f.kernel(w.name())] = w.shared(f)
	}
	sizes[f.kernel(turnedBF16.name)] = turnedBF16.shared(f)
	for _, few := range fews {
		sizes[f.kernel(few.name())] = most
	}
	for _, b := range f.blockings() {
		sizes[f.kernel(b.name())] = b.shared(f)
	}
	for _, g := range groupings {
		sizes[f.kernel(g.name())] = g.shared(f)
	}
	for _, m := range manies {
		sizes[f.kernel(m.name(false))], sizes[f.kernel(m.name(true))] = mostShared, mostShared
	}
	sizes[f.kernel(gemmRing)], sizes[f.kernel(gatedRing)] = most, most
	// What these kernels have besides:
	for name, own := range map[string]int{"few_gated": 1 << 10, "few_down": 2 << 10, "route_few": 12 << 10} {
		sizes[f.kernel(name)] = most - own
	}
	if f == formatFP8 {
		for _, k := range float8Kernels {
			sizes[f.kernel(k.name)] = k.shared()
		}
		for _, k := range float8Fews {
			sizes[f.kernel(k.name())] = most - fewFloat8Own
		}
		for _, w := range float8Warpgroups {
			sizes[f.kernel(w.name())] = w.shared(f)
		}
		sizes[f.kernel(turnedFloat8.name)] = turnedFloat8.shared(f)
		f.expertsShared(sizes, most)
	}
	return sizes
}

// warpgroups returns the kernel of gemm_wgmma.cu that is the fastest for a product, by what its parts take, and about
// how many nanoseconds it takes, 0 if no kernel can compute it.
func (p *program) warpgroups(f format, a *gemmArgs, tiles int) (best warpgroups, least int) {
	sms := p.d.g.info.sms
	if !a.storable() || p.kernel[f.kernel(warpgroupKernels[0].name())] == nil {
		return warpgroups{}, 0
	}
	for _, w := range warpgroupKernels {
		if !w.fits(a) || !w.suits(a, sms) || p.kernel[f.kernel(w.name())] == nil {
			continue
		}
		if cost := w.cost(a, tiles, sms); least == 0 || cost < least {
			best, least = w, cost
		}
	}
	return best, least
}

// multiply queues a product. Up to 4 rows of large weights are for gemm_ring.cu, if it can compute them; others of up
// to 16 for gemm_few.cu, of BF16 up to 8; more for a kernel of warpgroups, if one can compute them. For others it takes
// the kernel of gemm.cu for as many rows, or for 128, whose blocks have the most outputs and still keep three quarters
// of the multiprocessors at work: the larger blocks are, the less they read again.
func (p *program) multiply(f format, a *gemmArgs, rows int) error {
	if rows == 0 {
		return nil
	}
	a.rows = int32(rows)
	tiles := a.tiles()
	if tiles*int(a.tilesIn)/4*f.recordBytes() >= ringedBytes {
		if done, err := p.ring(f, a); done || err != nil {
			return err
		}
	}
	if done, err := p.few(f, a); done || err != nil {
		return err
	}
	if w, cost := p.warpgroups(f, a, tiles); cost > 0 {
		return w.run(p, f, a, tiles)
	}
	enough := uint32(p.d.g.info.sms * 3 / 4)
	var best blocking
	var blocks uint32
	for _, b := range f.blockings() {
		if p.kernel[f.kernel(b.name())] == nil || b.rows < min(rows, 128) || best.rows > 0 && b.rows > best.rows {
			continue
		}
		best, blocks = b, blocksOf(tiles*tileOuts, b.outs)*blocksOf(rows, b.rows)
		if blocks >= enough {
			break
		}
	}
	return run(p, f.kernel(best.name()), grid{blocks, 1, 1}, best.threads, a)
}

// few queues a kernel of gemm_few.cu, if one is for so many rows.
func (p *program) few(f format, a *gemmArgs) (done bool, err error) {
	rows, tiles := int(a.rows), a.tiles()
	for _, few := range fews {
		shared := int(a.ranges) * few.shared(f, rows)
		fits := rows <= few.rows && few.gated == (a.mode == modeGated) && shared <= p.d.g.info.shared
		if !fits || f == formatBF16 && rows > fewOfBF16 && p.cost(f, a) > 0 {
			continue
		}
		if few.gated {
			tiles /= 2
		}
		k := *p.kernel[f.kernel(few.name())]
		if k.early {
			shared = max(shared, p.d.g.info.evenShared(tiles))
		}
		k.shared = uint32(shared)
		return true, launch(p.s, &k, grid{uint32(tiles), 1, 1}, 32*few.pipe(f).warps*int(a.ranges), a)
	}
	return false, nil
}
