package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// scaling says how a weight of F8_E4M3 is scaled, which decides how the rows are that it is multiplied with.
type scaling int

const (
	scaledOtherwise scaling = iota // it is multiplied as bfloat16
	scaledByOutput                 // rows have one scale
	scaledByGroup                  // rows have a scale for each float8Inputs
	scaledByBlock                  // besides, float8Outs outputs share theirs, from a multiple of as many on
)

// What a kernel is told of its scales (operand.cuh).
const byGroup, byBlock = 1, 2

// grouped reports whether groups of inputs have scales.
func (s scaling) grouped() bool { return s == scaledByGroup || s == scaledByBlock }

// float8Inputs are the inputs that share a scale where weights have scales of groups.
const float8Inputs = 128

// float8Multiple is what the inputs of dense products are a multiple of. Those of experts are one of float8Inputs.
const float8Multiple = 256

func scalingOf(src *compute.Source) scaling {
	switch {
	case src.Type != quant.F8_E4M3 || formatOf(src) != formatFP8 || src.In%float8Inputs != 0:
		return scaledOtherwise
	case src.Scales == nil || src.Group >= src.In:
		return scaledByOutput
	case src.Scales == nil || src.Group%float8Inputs != 0:
		return scaledOtherwise
	case blockwise(src):
		return scaledByBlock
	}
	return scaledByGroup
}

// dense says how a weight is scaled whose product is dense.
func (m *matrix) dense() scaling {
	if m.in%float8Multiple != 0 {
		return scaledOtherwise
	}
	return m.float8
}

// blockwise reports whether float8Outs outputs share their scales, from a multiple of as many on.
func blockwise(src *compute.Source) bool {
	groups := (src.In + src.Group - 1) / src.Group
	for from := 0; from < len(src.Scales); from += groups * float8Outs {
		block := src.Scales[from:min(from+groups*float8Outs, len(src.Scales))]
		for at := groups; at < len(block); at += groups {
			if !slices.Equal(block[at:min(at+groups, len(block))], block[:groups]) {
				return false
			}
		}
	}
	return true
}

// float8Kernel is a kernel of gemm_float8.cu for few rows: the rows that its blocks take of 64 outputs, how many steps
// it has in shared memory, whether rows have scales for groups, and the number of ranges of inputs that it is for. step
// and part are the nanoseconds that 128 inputs of a part take, and beginning and ending one, as measured on an H100,
// with groups on an H200: those that blocks take together that share a multiprocessor.
type float8Kernel struct {
	name                 string
	rows, stages, ranges int
	groups               bool
	step, part           int
}

// float8Outs are the outputs of a block of these kernels, and those that share scales where blocks do.
const float8Outs = 64

// float8Kernels are by rows. Most products have faster kernels of other files; these take all.
var float8Kernels = func() (all []float8Kernel) {
	for _, k := range []float8Kernel{
		{rows: 8, stages: 5, step: 168, part: 3000}, {rows: 16, stages: 6, step: 216, part: 5500}, {rows: 32, stages: 5, step: 292, part: 5500},
		{groups: true, rows: 8, stages: 7, step: 345, part: 500}, {groups: true, rows: 16, stages: 6, step: 350, part: 700},
		{groups: true, rows: 32, stages: 5, step: 365, part: 900},
	} {
		for _, k.ranges = range []int{1, 2, 4, 8} {
			switch {
			case !k.groups:
				k.name = fmt.Sprintf("gemm_float8_%d_%d", k.rows, k.ranges)
			case k.ranges <= 2:
				k.name = fmt.Sprintf("gemm_float8_groups_%d_%d", k.rows, k.ranges)
			default:
				continue
			}
			all = append(all, k)
		}
	}
	return all
}()

// float8Warpgroups are the kernels for more rows: where rows have one scale, and where groups have scales, whose times
// are an H200's.
var float8Warpgroups = []warpgroups{
	{128, 256, 1, false, 688, 5000, scaledByOutput}, {128, 192, 1, false, 560, 4000, scaledByOutput},
	{128, 160, 1, false, 490, 4000, scaledByOutput}, {128, 128, 1, false, 450, 4250, scaledByOutput},
	{128, 64, 1, false, 430, 1750, scaledByOutput}, {128, 32, 1, false, 400, 1000, scaledByOutput},
	{64, 128, 1, false, 290, 4000, scaledByOutput}, {64, 64, 1, false, 256, 2000, scaledByOutput},
	{128, 192, 1, true, 700, 9750, scaledByOutput}, {64, 192, 1, true, 440, 4000, scaledByOutput},
	{128, 128, 1, true, 616, 4750, scaledByOutput}, {64, 128, 1, true, 424, 2750, scaledByOutput},
	{64, 64, 1, true, 280, 2500, scaledByOutput}, {64, 32, 1, true, 250, 2250, scaledByOutput},
	{128, 128, 1, false, 546, 3000, scaledByGroup}, {128, 64, 1, false, 401, 1000, scaledByGroup},
	{128, 32, 1, false, 369, 500, scaledByGroup}, {64, 64, 1, false, 280, 1500, scaledByGroup},
	{128, 128, 1, true, 548, 2000, scaledByGroup}, {64, 128, 1, true, 373, 2300, scaledByGroup},
	{64, 64, 1, true, 303, 1300, scaledByGroup}, {64, 32, 1, true, 250, 1100, scaledByGroup},
	{128, 192, 1, false, 650, 2000, scaledByBlock}, {128, 128, 1, false, 490, 700, scaledByBlock},
}

// shared is the shared memory that a block needs: Ring of gemm_float8.cu.
func (k float8Kernel) shared() int {
	return 1024 + k.stages*(k.rows*(float8Inputs+4)+float8Outs/recordOuts*2*formatFP8.recordBytes()+16)
}

// float8Padded is how many rows in F8_E4M3 there is room for: whole parts of 192 and of 256, too.
func float8Padded(rows int) int { return roundUp(roundUp(rows, 192), rowMultiple) }

// float8Rows is memory for the rows of a product in F8_E4M3.
type float8Rows struct {
	inputs    int // the most of a product, of experts those of all routes of a row; 0: there is none
	rows      int // a multiple of rowMultiple
	x, scales pointer
}

func (f *float8Rows) make(p *program, take func(n int64, what string) pointer) {
	if f.inputs == 0 {
		return
	}
	f.rows = float8Padded(p.limits.Rows)
	x, scales := f.bytes()
	f.x, f.scales = take(x, "activations in F8_E4M3"), take(scales, "scales of activations")
}

func (f *float8Rows) bytes() (x, scales int64) {
	groups := int64(f.inputs / float8Inputs)
	return groups * float8Inputs * int64(f.rows), 4 * groups * int64(f.rows)
}

// float8Bytes is the memory that a graph takes for rows in F8_E4M3, if its weights are multiplied so.
func float8Bytes(g *compute.Graph, rows int) int64 {
	f := float8Rows{rows: float8Padded(rows)}
	add := func(q compute.Product) {
		if m, ok := q.W.(*matrix); ok && m.dense() != scaledOtherwise {
			f.inputs = max(f.inputs, m.in)
		}
	}
	for _, op := range g.Ops {
		switch o := op.(type) {
		case compute.MatMul:
			for _, q := range o.Products {
				add(q)
			}
		case compute.Head:
			add(o.Product)
		case compute.MatMulExperts:
			if by := scalingOfExperts(o.Products); by != scaledOtherwise && o.Routing >= 0 && o.Routing < len(g.Routings) {
				_, in := o.Products[0].W[0].Dims()
				f.inputs = max(f.inputs, g.Routings[o.Routing].Chosen*in)
			}
		}
	}
	x, scales := f.bytes()
	return x + scales
}

// inFloat8 reports whether a product is computed in the tensor cores of F8_E4M3: those of Hopper.
func (p *program) inFloat8(q compute.Product) bool {
	if q.W.(*matrix).dense() == scaledOtherwise {
		return false
	}
	// All or none: a kernel could be there for some numbers of rows, and not for others.
	for _, k := range float8Kernels {
		if p.kernel[formatFP8.kernel(k.name)] == nil {
			return false
		}
	}
	for _, w := range float8Warpgroups {
		if p.kernel[formatFP8.kernel(w.name())] == nil {
			return false
		}
	}
	return true
}

// productFloat8 compiles a launch of products in F8_E4M3 and, before it, the rounding of its rows, or their norm.
func (c *compiler) productFloat8(x compute.Tensor, products []compute.Product, args gemmArgs) (operation, error) {
	p, by := c.p, products[0].W.(*matrix).float8
	p.float8.inputs = max(p.float8.inputs, x.Cols)
	t, norm := c.turned, c.normed
	return p.launchOf(x, products, args, func(s *shape, a *gemmArgs, rows int) error {
		a.rows = int32(rows)
		if t != nil {
			t.done = false
		}
		if done, err := p.fewFloat8(a, norm, by); done || err != nil {
			return err
		}
		to, err := p.float8Args(a, rows, by)
		if err == nil {
			err = p.makeRows(norm, &to, x.Cols)
		}
		if err != nil {
			return err
		}
		if t != nil && t.chosenFloat8(s, &to) {
			return t.runFloat8(s, &to)
		}
		return p.multiplyFloat8(&to)
	}, func(a *gemmArgs) int { return p.costFloat8(a, by) })
}

// float8Args makes the parameter of a product whose rows are where the program keeps them.
func (p *program) float8Args(a *gemmArgs, rows int, by scaling) (float8Args, error) {
	to := float8Args{a: *a, x: p.float8.x, scales: p.float8.scales, padded: int32(float8Padded(rows))}
	to.a.rows = int32(rows)
	switch by {
	case scaledByGroup:
		to.groups = byGroup
	case scaledByBlock:
		to.groups = byBlock
	}
	if int(to.padded) > p.float8.rows {
		return to, fmt.Errorf("cuda: a product of %d rows; want at most %d", rows, p.float8.rows)
	}
	return to, nil
}

// makeRows queues what makes a product's rows, of `in` numbers each: their norm, if they have one, or their rounding.
func (p *program) makeRows(norm *compute.Normalize, a *float8Args, in int) error {
	if norm != nil {
		return p.normRows(*norm, a, in)
	}
	return p.roundRows(a, in)
}

// roundRows queues the rounding of a product's rows, of `in` numbers each.
func (p *program) roundRows(a *float8Args, in int) error {
	r := float8RowsArgs{x: a.a.x, to: a.x, scales: a.scales, ldx: a.a.ldx, in: int32(in), padded: a.padded, groups: a.groups}
	most := 1024
	if a.a.rows > asideRows {
		most = 256 // a multiprocessor has several rows at a time
	}
	threads := min(roundUp(in/float8Unit, 32), most)
	return runAside(p, formatFP8.kernel("float8_rows"), grid{uint32(a.a.rows), 1, 1}, threads, asideShared(int(a.a.rows)), &r)
}

// normRows queues a norm with its rounding, in place of roundRows.
func (p *program) normRows(o compute.Normalize, a *float8Args, in int) error {
	x := p.view(o.Src)
	r := float8NormArgs{x: x.at, ldx: x.ld, gain: o.Norm.Gain.(*vector).at, eps: o.Norm.Eps, to: a.x, scales: a.scales, in: int32(in), padded: a.padded, groups: a.groups}
	threads := roundUp(in/float8Unit, 32)
	return runAside(p, formatFP8.kernel("float8_norm"), grid{uint32(a.a.rows), 1, 1}, threads, asideShared(int(a.a.rows)), &r)
}

// float8Unit is the inputs that a thread of float8_norm has.
const float8Unit = 16

// normedInFloat8 reports whether the results of a norm are only the rows of the product after it, in F8_E4M3, and
// one kernel computes them so.
func (c *compiler) normedInFloat8(o compute.Normalize) bool {
	m, ok := c.productAfter(o)
	if !ok || len(m.Products) > maxProducts || launchable(m.Products) < len(m.Products) || !c.p.inFloat8(m.Products[0]) ||
		!c.wide[o.Src.Buffer] || c.wide[o.Dst.Buffer] || !c.deadAfter(c.at+1, o.Dst.Buffer) {
		return false
	}
	for _, q := range m.Products {
		if q.Dst.Buffer == o.Src.Buffer {
			return false
		}
	}
	n, in := o.Norm, o.Dst.Cols
	bias, ok := n.Bias.(*vector)
	return !n.Center && !(ok && bias != nil) && (n.Group == 0 || n.Group == in) && (n.Width == 0 || n.Width == in) && n.Gain.Len() == in &&
		in%float8Unit == 0 && in <= 1024*float8Unit
}

// normFloat8 compiles a norm and the product after it. Adapters take the norm's results as bfloat16.
func (c *compiler) normFloat8(o compute.Normalize) (operation, int, error) {
	c.normed = &o
	c.at++
	op, n, err := c.matMul(c.ops[c.at].(compute.MatMul))
	c.at--
	c.normed = nil
	if c.p.graph.Adapters == 0 || err != nil {
		return op, n + 1, err
	}
	norm := c.p.normalize(o, false)
	return func(s *shape) error {
		if s.adapted {
			if err := norm(s); err != nil {
				return err
			}
		}
		return op(s)
	}, n + 1, nil
}

// multiplyFloat8 queues a product.
func (p *program) multiplyFloat8(a *float8Args) error {
	if a.a.rows == 0 {
		return nil
	}
	few, wide, _ := float8KernelFor(a, p.d.g.info.sms)
	if few == nil {
		return p.runFloat8(*wide, a)
	}
	return few.run(p, a)
}

// fits reports whether a kernel computes a product.
func (k float8Kernel) fits(a *float8Args) bool {
	return k.groups == (a.groups != 0) && k.ranges == int(a.a.ranges)
}

// float8KernelFor chooses the kernel that is the fastest, one of few rows or one of warpgroups, and tells about how
// many nanoseconds it takes. They all give the same bits.
func float8KernelFor(a *float8Args, sms int) (few *float8Kernel, wide *warpgroups, least int) {
	least = math.MaxInt
	for i := range float8Kernels {
		k := &float8Kernels[i]
		if !k.fits(a) {
			continue
		}
		if cost := k.cost(a, sms); cost < least {
			few, least = k, cost
		}
	}
	if !a.a.storable() {
		return few, nil, least
	}
	for i := range float8Warpgroups {
		w := &float8Warpgroups[i]
		if cost := w.cost(&a.a, a.a.tiles(), sms); w.fitsFloat8(a) && w.suits(&a.a, sms) && cost < least {
			few, wide, least = nil, w, cost
		}
	}
	return few, wide, least
}

// fitsFloat8 reports whether the kernel computes a product: its last part's rows are there.
func (w warpgroups) fitsFloat8(a *float8Args) bool {
	return w.scaling.grouped() == (a.groups != 0) && (w.scaling != scaledByBlock || a.groups == byBlock) && w.fits(&a.a) && w.rows*int(blocksOf(int(a.a.rows), w.rows)) <= int(a.padded)
}

// cost is how many nanoseconds, about, a product takes.
func (k float8Kernel) cost(a *float8Args, sms int) int {
	blocks := int(a.a.tilesIn) * tileIns / float8Inputs
	return max(k.parts(a)*blocks/sms, blocks/k.ranges)*k.step + k.part
}

// parts is how many parts there are, of all inputs.
func (k float8Kernel) parts(a *float8Args) int {
	return int(blocksOf(int(a.a.rows), k.rows) * blocksOf(a.a.tiles()*tileOuts, float8Outs))
}

// run queues a kernel.
func (k float8Kernel) run(p *program, a *float8Args) error {
	return run(p, formatFP8.kernel(k.name), grid{uint32(k.ranges * k.parts(a)), 1, 1}, 160, a)
}

// runFloat8 queues a kernel of warpgroups.
func (p *program) runFloat8(w warpgroups, a *float8Args) error {
	args, err := w.argsFloat8(p, a)
	if err != nil {
		return err
	}
	return run(p, formatFP8.kernel(w.name()), w.grid(a.a.tiles(), int(a.a.rows), p.d.g.info.sms), w.threads(), &args)
}

// argsFloat8 makes the parameter of a kernel of F8_E4M3.
func (w warpgroups) argsFloat8(p *program, a *float8Args) (args float8BoxArgs, err error) {
	args.float8Args, args.sums = *a, p.sums
	if args.weights, err = w.mapWeights(p.g, &a.a); err != nil {
		return args, err
	}
	args.to, err = w.mapResults(p.g, &a.a)
	return args, err
}
