package cuda

// The kernels of gemm_ring.cu, and what they are for: up to ringedRows rows, and weights of at least ringedBytes, with
// fewer of which gemm_few.cu begins and ends sooner; but no more than such blocks can have (arrangeRing).
const (
	gemmRing    = "gemm_ring"
	gatedRing   = "gemm_ring_gated"
	ringedRows  = 4
	ringedBytes = 24 << 20
	ringedWarps = 15 // MOST_WARPS
)

// ringed reports whether gemm_ring.cu is for a format. Making bfloat16 of smaller codes takes its warps too long.
func (f format) ringed() bool { return formats[f].bits >= 8 }

// ringedSteps is how many steps of 64 inputs a warp has in a stage: STEPS. A gate and an up have the most warps: with
// four steps of BF16, too few stages would fit.
func (f format) ringedSteps(a *gemmArgs) int {
	if a.mode == modeGated && f == formatBF16 {
		return 2
	}
	return 4
}

// ringedBlocks says how a product is cut: the tiles of outputs of a block, the warps of it that multiply, the stages of
// its ring, how many of them are on their way at once before rows are there, and its shared memory.
type ringedBlocks struct{ tiles, warps, stages, atOnce, shared int }

// arrangeRing cuts a product. ok is false if a block would have too many warps, or too few stages.
func (f format) arrangeRing(i info, a *gemmArgs) (c ringedBlocks, ok bool) {
	const (
		leastStages   = 3
		leastOnTheWay = 32 << 10 // bytes of weights for a multiprocessor, about, at once
		nanos         = 1600     // or what it gets of the memory in this time: 59 KB on an H200, 40 on an H100
	)
	onTheWay := max(leastOnTheWay, i.bandwidth*nanos/1000/i.sms)
	steps, pair := f.ringedSteps(a), 1
	if a.mode == modeGated {
		pair = 2
	}
	c.tiles = roundUp(int(blocksOf(a.tiles(), i.sms)), pair)
	c.warps = c.tiles * int(a.ranges)
	records, ranges := int(a.tilesIn)/4, int(a.ranges)
	longest, shortest := records-records/4*(ranges-1)/ranges*4, records/4/ranges*4 // records of a range
	parts := int(blocksOf(longest, steps))
	missed := parts - int(blocksOf(shortest, steps)) // stages that some warps have no part in
	const align = 128                                // of the ring
	stage := c.warps*steps*f.recordBytes() + 16      // with its barriers
	beside := c.warps*512 + roundUp(int(a.rows)*(int(a.tilesIn)*tileIns*2+16), 8) + 8 + align
	c.stages = min((i.shared-beside)/stage, parts)
	c.atOnce = max((onTheWay+stage/2)/stage, 1)
	c.shared = beside + c.stages*stage
	return c, c.warps <= ringedWarps && c.stages >= max(min(leastStages, parts), missed)
}

// ring queues a kernel of gemm_ring.cu, if one computes the product.
func (p *program) ring(f format, a *gemmArgs) (done bool, err error) {
	name := gemmRing
	if a.mode == modeGated {
		name = gatedRing
	}
	k := p.kernel[f.kernel(name)]
	if k == nil || int(a.rows) > ringedRows || a.x%16 != 0 || a.ldx%8 != 0 {
		return false, nil
	}
	c, ok := f.arrangeRing(p.d.g.info, a)
	if !ok {
		return false, nil
	}
	with := *k
	with.shared = uint32(c.shared)
	args := gemmRingArgs{a: *a, tiles: int32(c.tiles), stages: int32(c.stages), atOnce: int32(c.atOnce)}
	return true, launch(p.s, &with, grid{blocksOf(a.tiles(), c.tiles), 1, 1}, 32*(c.warps+1), &args)
}
