package cuda

import "fmt"

// warpgroups is a kernel of gemm_wgmma.cuh: the outputs and rows of a part; the steps of a stage, of 64 inputs, or of
// 128 of F8_E4M3; whether the blocks of a cluster take half of the ranges of inputs of one part each; and the
// nanoseconds that a step takes, and beginning and ending a part, as measured on an H100. A step of 64x64 is an H200's,
// where 64x128_split is faster than two parts of it, and _split of more than 128 rows are as much faster than others as
// on an H200.
type warpgroups struct {
	outs, rows, steps int
	split             bool
	step, part        int
	scaling           scaling
}

var warpgroupKernels = []warpgroups{
	{128, 256, 1, false, 604, 6500, scaledOtherwise}, {128, 224, 1, false, 550, 5500, scaledOtherwise}, {128, 192, 1, false, 505, 4500, scaledOtherwise},
	{128, 160, 1, false, 460, 4000, scaledOtherwise}, {128, 128, 2, false, 408, 3750, scaledOtherwise}, {128, 64, 2, false, 324, 2250, scaledOtherwise},
	{128, 32, 2, false, 296, 750, scaledOtherwise}, {64, 128, 2, false, 288, 4000, scaledOtherwise}, {64, 64, 2, false, 230, 500, scaledOtherwise},
	{128, 256, 1, true, 620, 8000, scaledOtherwise}, {128, 192, 1, true, 514, 8500, scaledOtherwise}, {64, 192, 1, true, 395, 3500, scaledOtherwise},
	{128, 128, 2, true, 452, 3500, scaledOtherwise}, {64, 128, 2, true, 390, 2250, scaledOtherwise}, {64, 64, 2, true, 250, 1500, scaledOtherwise},
	{64, 32, 4, true, 204, 500, scaledOtherwise}, {256, 32, 2, false, 540, 2000, scaledOtherwise}, // the last one of codes alone
}

const (
	clusterSize  = 2 // blocks of a cluster, which take the same rows
	mostShared   = 232448
	sumsOfRanges = 128 * 256 * 4 // bytes of a block's
	boxTiles     = 4             // tiles of outputs of the largest boxes of weights and results
	leavingRows  = 32            // rows of a box of results
)

// Of parts whose results leave as boxes, by rows: how many fours of a thread's sums are in shared memory between
// ranges, and the nanoseconds that sums take to where they are kept, and back.
var (
	keptSums = map[int]int{256: 7, 224: 12, 192: 15, 160: 11, 128: 11}
	awayTime = map[int]int{256: 8000, 224: 7000, 192: 5000, 160: 3500, 128: 2500}
)

const awayBlocks = 1000 // the same where blocks have scales, of which a thread has 64 sums

// leave reports whether results leave as boxes.
func (w warpgroups) leave() bool {
	return !w.split && (w.rows > 128 || w.scaling.grouped() && w.rows == 128)
}

func (w warpgroups) name() string {
	name := [...]string{"gemm_wgmma", "gemm_float8", "gemm_float8_groups", "gemm_float8_blocks"}[w.scaling] + fmt.Sprintf("_%dx%d", w.outs, w.rows)
	if w.split {
		name += "_split"
	}
	return name
}

// multiplying is the threads that multiply: a warpgroup for each 64 outputs or, where blocks have scales, 64 rows.
func (w warpgroups) multiplying() int {
	if w.scaling == scaledByBlock {
		return 2 * w.rows
	}
	return 2 * w.outs
}

func (w warpgroups) threads() int { return w.multiplying() + 128 }

// shared is the shared memory that a block needs: Plan of gemm_wgmma.cuh.
func (w warpgroups) shared(f format) int {
	const chunk = 32 // rows that are stored at once
	staged := min(2*chunk, w.rows) * 4 * w.outs
	if w.split { // sums that the other block gives
		staged = max(w.rows/2, chunk) * 4 * w.outs * w.mostGiven()
		if w.rows > 128 { // results, beside
			staged += w.outs / 64 * 8192
		}
	}
	if w.leave() {
		kept := keptSums[w.rows]
		if w.scaling == scaledByBlock && w.rows == 192 {
			kept = 10 // with more, three stages fit in place of four
		}
		staged = kept * 16 * w.multiplying()
	}
	return w.sharedBeside(f, staged)
}

// mostGiven is how many ranges' sums a block of a cluster that takes all ranges of a part gives the other at most.
func (w warpgroups) mostGiven() int {
	if w.scaling == scaledByOutput && (w.rows <= 128 || w.outs == 64) {
		return 2
	}
	return 1
}

// sharedBeside is the shared memory of a block that has so many bytes of it besides stages and barriers.
func (w warpgroups) sharedBeside(f format, staged int) int {
	records := 1
	if w.scaling != scaledOtherwise {
		records = 2
	}
	stage := w.steps * (w.rows*128 + w.outs/recordOuts*records*f.recordBytes())
	if w.scaling.grouped() {
		stage += 4 * w.rows
	}
	stages := min((mostShared-1024-256-staged)/stage, 14)
	return 1024 + stages*stage + staged + 256
}

// parts is how many parts there are for a cluster.
func (w warpgroups) parts(tiles, rows int) int {
	outs := w.outs * clusterSize
	if w.split {
		outs = w.outs
	}
	return int(blocksOf(tiles*tileOuts, outs) * blocksOf(rows, w.rows))
}

// box is the rows and steps that a block fetches at once.
func (w warpgroups) box() (rows, steps int) {
	switch {
	case w.split:
		return w.rows, w.steps
	case w.steps > 1:
		return w.rows, w.steps / clusterSize
	}
	return w.rows / clusterSize, 1
}

// fits reports whether the kernel computes a product.
func (w warpgroups) fits(a *gemmArgs) bool {
	given := int(a.ranges) / clusterSize
	return (!w.split || int(a.ranges)%clusterSize == 0 && given <= w.mostGiven()) && (!w.leave() || a.boxable())
}

// boxable reports whether weights and results are whole boxes, except those of the last product, and rows of results
// whole units of 16 bytes: the copy engine would write beyond their end otherwise.
func (a *gemmArgs) boxable() bool {
	for i, q := range a.p[:a.products] {
		size := 2 + 2*q.dst.wide
		whole := a.mode == modeGated || i == int(a.products)-1 || q.tiles%boxTiles == 0
		if !whole || q.outs*size%16 != 0 || q.dst.ld*size%16 != 0 || q.dst.at%16 != 0 {
			return false
		}
	}
	return true
}

// run queues the kernel for all rows of a.
func (w warpgroups) run(p *program, f format, a *gemmArgs, tiles int) error {
	args, err := w.args(p, a)
	if err != nil {
		return err
	}
	return run(p, f.kernel(w.name()), w.grid(tiles, int(a.rows), p.d.g.info.sms), w.threads(), &args)
}

// args makes the kernel's parameter.
func (w warpgroups) args(p *program, a *gemmArgs) (args wgmmaArgs, err error) {
	boxRows, boxSteps := w.box()
	x, err := p.g.mapRows(a.x, int(a.tilesIn)*tileOuts, int(a.rows), int(a.ldx), boxRows, boxSteps)
	if err != nil {
		return args, err
	}
	to, err := w.mapResults(p.g, a)
	return wgmmaArgs{x: x, to: to, a: *a, sums: p.sums}, err
}

// mapResults describes where results leave as boxes: those of a gate to the first product's rows.
func (w warpgroups) mapResults(g *gpu, a *gemmArgs) (to productMaps, err error) {
	if !w.leave() {
		return to, nil
	}
	for i, q := range a.p[:a.products] {
		if a.mode != modeGated || i == 0 {
			to[i], err = g.mapResults(q.dst, int(q.outs), int(a.rows), leavingRows)
		}
		if err != nil {
			return to, err
		}
	}
	return to, nil
}

// mapWeights describes where weights of F8_E4M3 come as boxes.
func (w warpgroups) mapWeights(g *gpu, a *gemmArgs) (weights productMaps, err error) {
	if !w.leave() {
		return weights, nil
	}
	steps := 2
	if w.scaling == scaledByBlock {
		steps = 1 // kernels want the first records of all tiles, then the second ones
	}
	for i, q := range a.p[:a.products] {
		if weights[i], err = g.mapWeights(q.w, formatFP8.recordBytes(), int(a.tilesIn)/4, int(q.tiles), steps, boxTiles); err != nil {
			return weights, err
		}
	}
	return weights, nil
}

// tiles is how many tiles of outputs a product has.
func (a *gemmArgs) tiles() (n int) {
	for _, q := range a.p[:a.products] {
		n += int(q.tiles)
	}
	return n
}

// grid is the blocks of a launch: those that fit at a time, or as many as there are parts for.
func (w warpgroups) grid(tiles, rows, sms int) grid {
	return grid{uint32(clusterSize * min(w.parts(tiles, rows), sms/clusterSize)), 1, 1}
}

// suits reports whether the kernel is worth its cost. Those of more than 128 rows that halve the inputs are for parts
// that are all computed at the same time: their blocks do not share rows, and do not store beside the next part.
func (w warpgroups) suits(a *gemmArgs, sms int) bool {
	return !w.split || w.rows <= 128 || w.parts(a.tiles(), int(a.rows)) <= sms/clusterSize
}

// cost is how many nanoseconds, about, a product of so many tiles of outputs takes.
func (w warpgroups) cost(a *gemmArgs, tiles, sms int) int {
	steps, part := int(a.tilesIn)/4, w.part
	switch {
	case w.scaling == scaledByBlock:
		part += int(a.ranges-1) * awayBlocks
	case w.leave():
		part += int(a.ranges-1) * awayTime[w.rows]
	}
	if w.scaling != scaledOtherwise {
		steps /= 2
	}
	if w.split {
		steps /= clusterSize
	}
	return int(blocksOf(w.parts(tiles, int(a.rows)), sms/clusterSize)) * (steps*w.step + part)
}

// storable reports whether the kernels of warpgroups can store the results: those of gates as bfloat16, those that are
// added as float32, others as either, but all of a launch alike, and without a softcap.
func (a *gemmArgs) storable() bool {
	wide := a.p[0].dst.wide
	for _, q := range a.p[1:a.products] {
		if q.dst.wide != wide && a.mode != modeGated {
			return false
		}
	}
	return a.softcap == 0 && (a.mode != modeGated || wide == 0) && (a.mode != modeAdd || wide == 1)
}
