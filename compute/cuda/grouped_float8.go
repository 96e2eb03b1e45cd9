package cuda

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// manyFloat8 is a kernel of grouped_float8.cu: a many for weights of a scaling, and of so many inputs at least. Those
// for blocks take longer to end a part than those for groups, and pay only for many steps.
type manyFloat8 struct {
	many
	by          scaling
	leastInputs int
}

// manyFloat8s are the kernels, of which the first that suits is taken.
var manyFloat8s = []manyFloat8{
	{many{256, 1, 2, 96, 0}, scaledByOutput, 0}, {many{128, 1, 2, 20, 0}, scaledByOutput, 0}, {many{32, 2, 2, 0, 0}, scaledByOutput, 0},
	{many{192, 1, 3, 96, 0}, scaledByBlock, 1024}, {many{128, 1, 2, 20, 0}, scaledByGroup, 0}, {many{32, 2, 2, 0, 0}, scaledByGroup, 0},
}

// scales reports whether a kernel is for a product of so many inputs and of weights of a scaling. Kernels for blocks
// have two of them in a part, those of a gate and of what it gates or two of one product.
func (m manyFloat8) scales(by scaling, in int, a *groupedArgs) bool {
	if in < m.leastInputs || m.by == scaledByBlock && a.products > 1 && a.mode != modeGated {
		return false
	}
	return m.by == by || m.by == scaledByGroup && by == scaledByBlock
}

// unit is what the rows that a kernel multiplies are a multiple of (UNIT).
func (m manyFloat8) unit() int {
	if m.by == scaledByBlock {
		return 64
	}
	return m.rows / 4
}

func (m manyFloat8) name(gated bool) string {
	name := fmt.Sprintf("grouped_float8%s_%d", []string{"", "", "_groups", "_blocks"}[m.by], m.rows)
	if gated {
		name += "_gated"
	}
	return name
}

// scalesBefore is the rows before a part whose scales a box may have (BEFORE).
const scalesBefore = 4

// fewFloat8Name is the name of a kernel of grouped_float8_few.cu: that of a gate and what it gates, or of the last
// product.
func fewFloat8Name(by scaling, gated bool) string {
	name := "few_float8"
	if by.grouped() {
		name += "_groups"
	}
	if gated {
		return name + "_gated"
	}
	return name + "_down"
}

// expertsShared adds the dynamic shared memory of these kernels, of most bytes that a block can have.
func (f format) expertsShared(sizes map[string]int, most int) {
	for _, m := range manyFloat8s {
		sizes[f.kernel(m.name(false))], sizes[f.kernel(m.name(true))] = mostShared, mostShared
	}
	for _, by := range []scaling{scaledByOutput, scaledByGroup} {
		sizes[f.kernel(fewFloat8Name(by, true))], sizes[f.kernel(fewFloat8Name(by, false))] = most-fewExpertsOwn, most-fewExpertsOwn
	}
}

// scalingOfExperts says how the weights of products are scaled, if all are alike and can be multiplied in the tensor
// cores of F8_E4M3. These add up to 4,096 inputs where groups have no scales: with more inputs, each group has its
// output's. Some by block and some by group are by group.
func scalingOfExperts(products []compute.ExpertProduct) scaling {
	const most = 4096
	by := scaling(-1)
	for _, q := range products {
		for _, w := range q.W {
			m := w.(*matrix)
			own := m.float8
			if own == scaledByOutput && m.in > most {
				own = scaledByGroup
			}
			switch {
			case by < 0 || by == scaledByBlock && own == scaledByGroup:
				by = own
			case own != by && !(by == scaledByGroup && own == scaledByBlock):
				return scaledOtherwise
			}
		}
	}
	return max(by, scaledOtherwise)
}

// expertsInFloat8 says how experts' products are computed in the tensor cores of F8_E4M3, if they are.
func (p *program) expertsInFloat8(o compute.MatMulExperts, t *routing) scaling {
	by := scalingOfExperts(o.Products)
	if t.Experts > mostGroups {
		return scaledOtherwise
	}
	for _, m := range manyFloat8s { // all or none, as inFloat8 says
		if p.kernel[formatFP8.kernel(m.name(false))] == nil {
			return scaledOtherwise
		}
	}
	return by
}

// multiplyFloat8Experts queues products of routes that are ordered by expert, and before them the rounding of their
// rows.
func (p *program) multiplyFloat8Experts(s *shape, e *expertProducts, a *groupedArgs) error {
	count, in := s.count[compute.AllRows], e.x.Cols
	routes, padded := count*e.t.Chosen, p.float8.rows*e.t.Chosen
	if count == 0 {
		return nil
	}
	x := p.view(e.x)
	r := float8SpreadArgs{to: p.float8.x, scales: p.float8.scales, at: e.t.at, slot: s.slot, in: int32(in), rows: int32(count), chosen: int32(e.t.Chosen), padded: int32(padded)}
	if e.routed {
		x, r.at, r.rows, r.chosen = p.routed(e.x), 0, int32(routes), 1
	}
	r.x, r.ldx = x.at, x.ld
	if e.float8.grouped() {
		r.groups = byGroup
	}
	const rowsOfBlock = 8
	if err := run(p, formatFP8.kernel("float8_spread"), grid{blocksOf(int(r.rows), rowsOfBlock), 1, 1}, 32*rowsOfBlock, &r); err != nil {
		return err
	}
	a.groups, a.pads, a.aligned, a.ends, a.rows, a.products = int32(e.t.Experts), 1, 1, e.t.ends, int32(routes), int32(len(e.dsts))
	a.known = 1 // float8_spread comes between
	for i, dst := range e.dsts {
		a.p[i] = groupedProductArgs{groups: p.groupTable.at(e.tables[i]), dst: p.routed(dst), tiles: int32(blocksOf(dst.Cols, tileOuts))}
	}
	m := manyFloat8For(e.float8, in, a, e.t.Experts)
	args := manyFloat8Args{manyArgs: manyArgs{a: *a, steps: int32(in / float8Inputs)}, scales: r.scales}
	for i := range m.rows / m.unit() {
		rows := m.unit() * (i + 1)
		var err error
		if e.float8.grouped() {
			if args.boxes[i], err = p.g.mapScales(r.scales, padded, in/float8Inputs, rows+scalesBefore); err != nil {
				return err
			}
		}
		if m.steps == 1 {
			rows /= clusterSize
		}
		// Two codes are a number of bfloat16.
		if args.x[i], err = p.g.mapRows(r.to, in/2, routes, in/2, rows, 1); err != nil {
			return err
		}
	}
	blocks := p.d.g.info.sms / clusterSize * clusterSize
	return run(p, formatFP8.kernel(m.name(a.mode == modeGated)), grid{uint32(blocks), 1, 1}, m.threads(), &args)
}

// manyFloat8For returns the kernel for a product.
func manyFloat8For(by scaling, in int, a *groupedArgs, experts int) manyFloat8 {
	for _, m := range manyFloat8s {
		if m.scales(by, in, a) && int(a.rows) >= m.least*experts {
			return m
		}
	}
	panic("cuda: no kernel for experts in F8_E4M3")
}

// fewExperts says how a kernel of grouped_float8_few.cu computes: its threads, the warps of a block that have a tile,
// and the bytes that it needs beside their rings.
type fewExperts struct{ threads, warps, beside, in int }

// fewExpertsOwn is the shared memory of these kernels that is not dynamic, or a little less.
const fewExpertsOwn = 2 << 10

// fewExpertsOf says so of a product: of a gate and what it gates blocks have a row, of the last product those of all
// routes.
func fewExpertsOf(in, chosen int, gated bool) fewExperts {
	const reach = 128 // what a matrix may reach into
	scales := 4 * roundUp(in/float8Inputs, 2)
	if gated {
		return fewExperts{128, 4, in + reach + scales, in}
	}
	return fewExperts{32 * roundUp(chosen, 4), chosen, (in+scales)*chosen + reach, in}
}

// ring returns the stages of a ring, and the shared memory, of so many blocks; ok is false if too few stages fit.
func (f fewExperts) ring(i info, blocks int) (stages, shared int, ok bool) {
	const deep, resident, least = 2, 3, 2 // deep: steps of a stage
	stage, all := deep*2*formatFP8.recordBytes()+8, int(blocksOf(f.in/float8Inputs, deep))
	for n := min(resident, int(blocksOf(blocks, i.sms))); n > 0; n-- {
		room := (i.shared+blockShared)/n - blockShared - fewExpertsOwn
		if stages = min((room-f.beside)/(f.warps*stage), all); stages >= min(least, all) {
			return stages, f.beside + stages*f.warps*stage, true
		}
	}
	return 0, 0, false
}

// fewFloat8Experts is fewGated or fewDown of products in F8_E4M3.
func (p *program) fewFloat8Experts(e *expertProducts, gated bool) fewLaunch {
	const mostChosen = 16
	f, k := fewExpertsOf(e.x.Cols, e.t.Chosen, gated), p.kernel[formatFP8.kernel(fewFloat8Name(e.float8, gated))]
	if _, _, ok := f.ring(p.d.g.info, 1); k == nil || !ok || e.t.Chosen > mostChosen {
		return nil
	}
	tiles := blocksOf(e.dsts[0].Cols, tileOuts)
	return func(rows int, a *fewArgs) error {
		g := grid{tiles, uint32(rows), 1}
		if gated { // a block has two tiles of each, of one route
			g = grid{blocksOf(int(tiles), 2), uint32(rows * e.t.Chosen), 1}
		}
		stages, shared, _ := f.ring(p.d.g.info, int(g.x*g.y))
		own := *k
		own.shared = uint32(shared)
		return launch(p.s, &own, g, f.threads, &fewFloat8Args{fewArgs: *a, stages: int32(stages)})
	}
}
