package cuda

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
)

// rowSource says where a kernel of gemm_float8_few.cu has its rows from.
type rowSource int

const (
	rowsMade rowSource = iota
	rowsRounded
	rowsNormed
)

// float8Few is a kernel of gemm_float8_few.cu: the ranges of inputs, where it has its rows from, and whether rows have
// scales for groups.
type float8Few struct {
	ranges int
	from   rowSource
	groups bool
}

var float8Fews = func() (all []float8Few) {
	for _, from := range []rowSource{rowsMade, rowsRounded, rowsNormed} {
		for _, ranges := range []int{1, 2, 4, 8} {
			all = append(all, float8Few{ranges, from, false})
		}
		all = append(all, float8Few{1, from, true}, float8Few{2, from, true})
	}
	return all
}()

// The most rows of these kernels, and up to how many rows blocks make rows themselves: with more, one kernel that makes
// them is faster.
const (
	fewFloat8Rows  = 8
	ownFloat8Rows  = 2
	fewFloat8Warps = 16      // MOST_WARPS
	fewFloat8Own   = 2 << 10 // bytes of shared memory that are not dynamic, or a little less
)

func (k float8Few) name() string {
	name := "gemm_float8_few"
	if k.groups {
		name += "_groups"
	}
	return fmt.Sprintf("%s_%d%s", name, k.ranges, []string{"", "_rounds", "_norms"}[k.from])
}

// float8Blocks says how a product is cut: the tiles of outputs of a block, the warps of it that multiply, its stages,
// how many of them are on their way at once before rows are there, and its shared memory.
type float8Blocks struct{ tiles, warps, stages, atOnce, shared int }

// arrange cuts a product: a block for each multiprocessor or, where it would have too many warps, small blocks, several
// for a multiprocessor. ok is false if too few stages fit.
func (k float8Few) arrange(i info, a *gemmArgs) (c float8Blocks, ok bool) {
	const resident, leastStages = 4, 4
	onTheWay, leastAtOnce := 32<<10, 2 // bytes of weights for a multiprocessor, about, at once; and stages
	if a.rows == 1 {
		leastAtOnce = 3
	}
	if a.mode == modeAdd && a.rows <= ownFloat8Rows {
		onTheWay /= 2 // attention of a row or two, in front, waits for what it reads behind them
	}
	pair := 1
	if a.mode == modeGated {
		pair = 2
	}
	each := 1
	if c.tiles = roundUp(int(blocksOf(a.tiles(), i.sms)), pair); c.tiles*k.ranges > fewFloat8Warps {
		c.tiles = roundUp(int(blocksOf(resident, k.ranges)), pair)
		each = min(resident, int(blocksOf(int(blocksOf(a.tiles(), c.tiles)), i.sms)))
	}
	used := c.tiles * k.ranges
	c.warps = roundUp(used, 4)
	longest := int(blocksOf(int(a.tilesIn)*tileIns/float8Multiple, k.ranges)) * float8Multiple
	steps, stage := longest/float8Inputs, used*2*formatFP8.recordBytes()
	c.atOnce = max((onTheWay/each+stage/2)/stage, leastAtOnce)
	beside := int(a.rows)*longest*k.ranges + used*512 + 256
	if k.groups {
		beside += 32 * int(a.tilesIn) * tileIns / float8Inputs // scales of up to 8 rows
	}
	for ; each > 0 && used <= fewFloat8Warps; each-- {
		room := (i.shared+blockShared)/each - blockShared - fewFloat8Own
		if c.stages = min((room-beside)/(stage+16), steps); c.stages >= min(leastStages, steps) {
			oneMore := (i.shared+blockShared)/(each+1) - blockShared // with less, a multiprocessor has room for one more
			c.shared = max(beside+c.stages*(stage+16), min(oneMore, room))
			return c, true
		}
	}
	return float8Blocks{}, false
}

// sourceOfRows says where a product of so many threads has its rows from; norm: what makes them, if it is a norm. That
// may read what the product adds to, and then blocks must not make rows while others are done.
func sourceOfRows(a *gemmArgs, norm *compute.Normalize, threads int) rowSource {
	const keptUnits = 4 // KEPT of roundRows
	switch {
	case a.rows > ownFloat8Rows:
		return rowsMade
	case norm != nil && a.mode != modeAdd && int(a.tilesIn) <= threads:
		return rowsNormed
	case norm == nil && int(a.tilesIn) <= keptUnits*threads:
		return rowsRounded
	}
	return rowsMade
}

// fewFloat8 queues a product of few rows and what makes its rows, if there is a kernel for it. norm is that of its
// rows, or nil.
func (p *program) fewFloat8(a *gemmArgs, norm *compute.Normalize, by scaling) (done bool, err error) {
	k := float8Few{ranges: int(a.ranges), groups: by.grouped()}
	if a.rows == 0 || a.rows > fewFloat8Rows || int(a.tilesIn)*tileIns < float8Multiple*k.ranges {
		return false, nil
	}
	c, ok := k.arrange(p.d.g.info, a)
	k.from = sourceOfRows(a, norm, 32*c.warps)
	f := p.kernel[formatFP8.kernel(k.name())]
	if !ok || f == nil {
		return false, nil
	}
	args := float8FewArgs{a: *a, x: p.float8.x, scales: p.float8.scales, tiles: int32(c.tiles), stages: int32(c.stages), atOnce: int32(c.atOnce)}
	if norm != nil {
		x := p.view(norm.Src)
		args.wide, args.ldWide, args.gain, args.eps = x.at, x.ld, norm.Norm.Gain.(*vector).at, norm.Norm.Eps
	}
	if k.from == rowsMade {
		rows := float8Args{a: *a, x: args.x, scales: args.scales} // padded is 0: as the kernel takes them
		if k.groups {
			rows.groups = 1
		}
		if err := p.makeRows(norm, &rows, int(a.tilesIn)*tileIns); err != nil {
			return false, err
		}
	}
	with := *f
	with.shared = uint32(c.shared)
	return true, launch(p.s, &with, grid{blocksOf(a.tiles(), c.tiles), 1, 1}, 32*(c.warps+1), &args)
}
