package cuda

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
)

// grouping is a kernel of grouped.cu: the rows and warps of its blocks, and how many steps it has in shared memory.
type grouping struct{ rows, warps, steps int }

// groupings are the kernels by rows.
var groupings = []grouping{{8, 4, 6}, {32, 4, 5}, {64, 8, 4}}

func (g grouping) name() string { return fmt.Sprintf("grouped_%d", g.rows) }

// shared is the shared memory that a block needs.
func (g grouping) shared(f format) int { return g.steps * (g.warps*f.recordBytes() + g.rows*128) }

// fewOfGroup is up to how many rows a group may have, on average, for the kernel of 8 rows to be the fastest of these
// with codes.
const fewOfGroup = 12

// groupingFor returns the kernel for groups of so many rows on average.
func (f format) groupingFor(rows, groups int) grouping {
	if f != formatBF16 && rows <= fewOfGroup*groups {
		return groupings[0]
	}
	for _, g := range groupings[:len(groupings)-1] {
		if rows <= g.rows*groups/2 || rows <= g.rows {
			return g
		}
	}
	return groupings[len(groupings)-1]
}

// groupOf returns the group that multiplies with a weight.
func groupOf(w compute.Matrix, bias compute.Vector) group {
	m := w.(*matrix)
	g := group{w: m.at, outs: int32(m.out), in: int32(m.in), scale: 1}
	if b, ok := bias.(*vector); ok && b != nil {
		g.bias = b.at
	}
	return g
}

// keep adds groups to the tables that a program has on the device, and returns where they will be in them.
func (p *program) keep(groups []group) int64 {
	at := len(p.groups)
	p.groups = append(p.groups, groups...)
	return int64(at) * int64(unsafe.Sizeof(group{}))
}

// multiplyGroups queues products of groups. outs has the most outputs of a group for each product. a.rows is how many
// rows all groups have together, or, if a.ends is 0, each one. All weights are of format f.
func (p *program) multiplyGroups(f format, a *groupedArgs, outs []int) error {
	rows, groups := int(a.rows), int(a.groups)
	if rows == 0 {
		return nil
	}
	var k grouping
	chunks := 0
	if a.ends == 0 {
		k = f.groupingFor(rows, 1)
		chunks = groups * int(blocksOf(rows, k.rows))
	} else {
		k = f.groupingFor(rows, groups)
		chunks = rows/k.rows + min(rows, groups)
	}
	blocks := 0
	a.products = int32(len(outs))
	for i, n := range outs {
		a.p[i].tiles = int32(blocksOf(n, tileOuts))
		blocks += int(blocksOf(n, tileOuts*k.warps))
	}
	if a.mode == modeGated {
		blocks = int(blocksOf(2*int(a.p[0].tiles), k.warps))
	}
	const most = 1 << 15 // blocks along an axis
	return run(p, f.kernel(k.name()), grid{uint32(blocks), uint32(min(chunks, most)), blocksOf(chunks, most)}, 32*k.warps, a)
}

// narrow returns x in bfloat16, and the operation that makes it so: nil if it is.
func (c *compiler) narrow(x compute.Tensor) (compute.Tensor, operation) {
	if !c.wide[x.Buffer] {
		return x, nil
	}
	p := c.p
	b := p.graph.Buffers[x.Buffer-1]
	p.buffers = append(p.buffers, buffer{rows: rows{ld: int32(roundUp(b.Width, inputsMultiple))}, domain: b.Domain})
	t := compute.Tensor{Buffer: len(p.buffers), Cols: x.Cols}
	return t, func(s *shape) error {
		a := addArgs{dst: p.view(t), src: p.view(x), cols: int32(x.Cols), gather: 1}
		return run(p, "add", grid{blocksOf(x.Cols, 256), p.count(x, s), 1}, 256, &a)
	}
}

// headsIns are the inputs of heads that heads_wgmma.cu is compiled for; it takes headsLeast rows or more, in blocks of
// headsRows, headsOuts outputs at a time.
var headsIns = []int{128, 512}

const headsLeast, headsRows, headsOuts = 16, 128, 128

func headsKernel(in int) string { return fmt.Sprintf("heads_wgmma_%d", in) }

// headsShared is the shared memory of a block of heads_wgmma.cu: rows, their results, a barrier, and what aligning
// takes.
func headsShared(in int) int { return headsRows*in*2 + headsRows*(headsOuts*2+16) + 16 + 1024 }

// multiplyHeads queues products of heads of many rows of x, if there is a kernel for them.
func (p *program) multiplyHeads(f format, a *groupedArgs, x compute.Tensor, in, out int) (done bool, err error) {
	dst, rows := a.p[0].dst, int(a.rows)
	if f != formatBF16 || !slices.Contains(headsIns, in) || p.kernel[headsKernel(in)] == nil || rows < headsLeast || a.inStep%boxInputs != 0 ||
		out%headsOuts != 0 || a.outStep%8 != 0 || dst.ld%8 != 0 || dst.wide != 0 {
		return false, nil
	}
	args := headsArgs{a: *a}
	if args.x, err = p.g.mapRows(a.p[0].x, x.Cols, rows, int(a.p[0].ldx), headsRows, 1); err != nil {
		return false, err
	}
	// Where multiprocessors have room, outputs have blocks of their own.
	blocks := grid{blocksOf(rows, headsRows), uint32(a.groups), uint32(out / headsOuts)}
	if int(blocks.x*blocks.y*blocks.z) > 2*p.d.g.info.sms {
		blocks.z = 1
	}
	return true, run(p, headsKernel(in), blocks, 256, &args)
}

// matMulHeads compiles products of the heads of each row: every head is a group of all rows. If copies, it also
// compiles the copying of the numbers that heads have besides.
func (c *compiler) matMulHeads(o compute.MatMulHeads, copies bool) (operation, error) {
	p, heads := c.p, len(o.W)
	if heads == 0 || o.X.Cols%heads != 0 || o.Dst.Cols%heads != 0 {
		return nil, fmt.Errorf("cuda: %d heads in rows of %d and %d", heads, o.X.Cols, o.Dst.Cols)
	}
	from, narrow := c.narrow(o.X)
	out, in := o.W[0].Dims()
	rest := o.X.Cols/heads - in
	if rest < 0 || o.Dst.Cols/heads-out != rest {
		return nil, fmt.Errorf("cuda: weights [%d, %d] between heads of %d and %d", out, in, o.X.Cols/heads, o.Dst.Cols/heads)
	}
	var groups []group
	f := o.W[0].(*matrix).format
	for _, w := range o.W {
		if w.(*matrix).format != f {
			return nil, fmt.Errorf("cuda: operation %d: heads of different formats: %w", c.at, compute.ErrUnsupported)
		}
		groups = append(groups, groupOf(w, nil))
	}
	at := p.keep(groups)
	args := groupedArgs{groups: int32(heads), inStep: int32(in + rest), outStep: int32(out + rest), scale: 1}
	if (in+rest)%8 == 0 {
		args.aligned = 1
	}
	if !copies && narrow == nil { // latent_rows comes between, and lets this begin once its rows are there
		args.late = 1
	}
	return func(s *shape) error {
		if narrow != nil {
			if err := narrow(s); err != nil {
				return err
			}
		}
		a, x := args, p.view(from)
		count := p.count(o.Dst, s)
		a.rows = int32(count)
		a.p[0] = groupedProductArgs{x: x.at, groups: p.groupTable.at(at), dst: p.view(o.Dst), ldx: x.ld}
		done, err := p.multiplyHeads(f, &a, from, in, out)
		if err == nil && !done {
			err = p.multiplyGroups(f, &a, []int{out})
		}
		if err != nil || rest == 0 || !copies {
			return err
		}
		r := restArgs{dst: p.view(o.Dst), x: x, in: int32(in), out: int32(out), rest: int32(rest)}
		return run(p, "heads_rest", grid{count, uint32(heads), 1}, 64, &r)
	}, nil
}
