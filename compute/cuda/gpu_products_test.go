package cuda

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestProductKernels checks that all kernels that can compute a product of many rows give the same bits, and write
// nothing beside them: with outputs and rows that are no whole parts, several products, ranges, biases, and gates that
// are far below zero.
func TestProductKernels(t *testing.T) {
	d := gpuDevice(t)
	r := rand.New(rand.NewPCG(4, 2))
	g := llama(t, d, 1, 128, less(16384, 2048), 4, 2, 64, 1000, func(out, in int) compute.Matrix {
		return load(t, d, repeated(t, r, quant.BF16, out, in))
	})
	p := compileGraph(t, d, g, oneLayer(t, d, 4, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}), compute.Limits{Rows: 256, Slots: 1}).(*program)
	for _, typ := range []quant.Type{quant.BF16, quant.Q4_K, quant.Q8_0, quant.U8_32, quant.U8_128, quant.F8_E4M3} {
		for _, c := range less([]productCase{
			{outs: []int{200}, in: 2048, rows: 300, mode: modeAdd, wide: 1},
			{outs: []int{456}, in: 14336, rows: 513, mode: modeAdd, wide: 1, bias: true},
			{outs: []int{192, 64, 104}, in: 4096, rows: 777},
			{outs: []int{192, 64, 100}, in: 4096, rows: 300},
			{outs: []int{80, 64, 32}, in: 512, rows: 300},
			{outs: []int{320, 104}, in: 768, rows: 520, bias: true},
			{outs: []int{192, 64, 100}, in: 1024, rows: 520, wide: 1},
			{outs: []int{328, 328}, in: 1280, rows: 600, mode: modeGated},
			{outs: []int{192, 64, 104}, in: 2880, rows: 777}, // inputs that are no multiple of 256
			{outs: []int{200}, in: 2112, rows: 150, mode: modeAdd, wide: 1, bias: true},
			{outs: []int{328, 328}, in: 1088, rows: 300, mode: modeGated},
			{outs: []int{80, 64, 32}, in: 64, rows: 40},
			{outs: []int{328, 328}, in: 1280, rows: 600, mode: modeGated, bias: true},
			{outs: []int{328, 328}, in: 9216, rows: 300, mode: modeGated, act: int32(compute.GELUTanh), bias: true},
			{outs: []int{72, 72}, in: 512, rows: 1000, mode: modeGated, act: int32(compute.ReLU)},
			{outs: []int{72}, in: 14336, rows: 1, mode: modeAdd, wide: 1},
			{outs: []int{72, 40}, in: 4096, rows: 3},
			{outs: []int{40}, in: 8960, rows: 8, wide: 1, bias: true},
			{outs: []int{40, 40}, in: 4096, rows: 7, mode: modeGated},
			{outs: []int{72, 72}, in: 1536, rows: 16, mode: modeGated, bias: true},
			{outs: []int{14200, 14200}, in: 512, rows: 2, mode: modeGated, bias: true, few: true},
			{outs: []int{200}, in: 512, rows: 4, mode: modeAdd, wide: 1, bias: true, few: true},
			{outs: []int{72, 40}, in: 4096, rows: 3, mode: modeAdd, wide: 1, bias: true, few: true},
			{outs: []int{6000, 1000, 500}, in: 2112, rows: 4, wide: 1, bias: true, few: true},
			{outs: []int{72, 72}, in: 2240, rows: 1, mode: modeGated, few: true},
		}, []productCase{
			{outs: []int{72}, in: 2048, rows: 270, mode: modeAdd, wide: 1, bias: true},
			{outs: []int{40}, in: 2048, rows: 180},
			{outs: []int{40, 24}, in: 2112, rows: 140}, // inputs that are no multiple of 256
			{outs: []int{72, 72}, in: 320, rows: 270, mode: modeGated, bias: true},
			{outs: []int{40}, in: 64, rows: 40, mode: modeAdd, wide: 1},
			{outs: []int{24}, in: 8448, rows: 140, mode: modeAdd, wide: 1},
			{outs: []int{192, 64, 104}, in: 256, rows: 300},
			{outs: []int{80, 64, 32}, in: 256, rows: 70},
			{outs: []int{192, 64, 100}, in: 256, rows: 130, wide: 1},
			{outs: []int{136, 136}, in: 512, rows: 270, mode: modeGated, act: int32(compute.GELUTanh), bias: true},
			{outs: []int{72, 72}, in: 256, rows: 300, mode: modeGated, act: int32(compute.ReLU)},
			{outs: []int{40}, in: 2304, rows: 1, mode: modeAdd, wide: 1},
			{outs: []int{40}, in: 1280, rows: 8, bias: true},
			{outs: []int{24, 24}, in: 1536, rows: 3, mode: modeGated},
			{outs: []int{24, 24}, in: 256, rows: 9, mode: modeGated, bias: true},
			{outs: []int{856, 856}, in: 256, rows: 2, mode: modeGated, bias: true, few: true},
			{outs: []int{40}, in: 256, rows: 4, mode: modeAdd, wide: 1, bias: true, few: true},
			{outs: []int{72, 40}, in: 2304, rows: 3, mode: modeAdd, wide: 1, bias: true, few: true},
			{outs: []int{300, 72, 40}, in: 2112, rows: 4, wide: 1, bias: true, few: true},
			{outs: []int{24, 24}, in: 2240, rows: 1, mode: modeGated, few: true},
		}) {
			codes := typ == quant.Q8_0 || typ == quant.U8_32 || typ == quant.U8_128 // are here for gemm_ring.cu
			if c.in%typ.BlockValues() != 0 || codes && c.rows > ringedRows {
				continue
			}
			c.few, c.scales = c.few || codes, "output"
			c.test(t, d, p, typ, r)
			if typ == quant.F8_E4M3 && !c.few {
				for _, c.scales = range []string{"group", "block"} {
					c.test(t, d, p, typ, r)
				}
			}
		}
	}
}

// TestSuits holds that kernels of more than 128 rows that halve the inputs are for parts that all fit at a time, of
// which an H200 takes 66.
func TestSuits(t *testing.T) {
	halves, of := warpgroups{outs: 128, rows: 256, split: true}, func(rows, outs int32) *gemmArgs {
		return &gemmArgs{rows: rows, products: 1, p: [maxProducts]productArgs{{tiles: outs / tileOuts}}}
	}
	if !halves.suits(of(512, 4096), 132) || halves.suits(of(513, 4096), 132) || halves.suits(of(2048, 3072), 132) {
		t.Error("64 parts do not suit it, or 96 or 192 do")
	}
	if all := (warpgroups{outs: 128, rows: 256}); !all.suits(of(2048, 3072), 132) {
		t.Error("parts of all inputs have to fit at a time")
	}
}

// productCase is a product.
type productCase struct {
	outs      []int
	in, rows  int
	mode, act int32
	wide      int32
	bias      bool
	few       bool   // of kernels for many rows, the first alone is tried
	scales    string // of F8_E4M3
}

func (c productCase) test(t *testing.T, d *device, p *program, typ quant.Type, r *rand.Rand) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := gemmArgs{ldx: int32(c.in), tilesIn: int32(c.in / tileIns), rows: int32(c.rows), products: int32(len(c.outs)), mode: c.mode, act: c.act, scale: 0.5}
	ld, size, tiles := 0, 2, 0
	if c.wide == 1 {
		size = 4
	}
	var weights []*matrix
	for i, out := range c.outs {
		src := repeated(t, r, typ, out, c.in)
		if typ == quant.F8_E4M3 {
			src = float8Source(t, r, c.scales, out, c.in)
		}
		m := load(t, d, src).(*matrix)
		weights, tiles = append(weights, m), tiles+m.tiles()
		a.ranges, a.p[i] = m.ranges(), productArgs{w: m.at, outs: int32(out), tiles: int32(m.tiles()), dst: rows{wide: c.wide}}
		if c.bias {
			bias := bell(r, out, 1)
			for o := range bias {
				if r.IntN(5) == 0 {
					bias[o] = -200
				}
			}
			a.p[i].bias = vectorOf(t, d, bias).(*vector).at
		}
		ld += out
	}
	ld += 24 - ld%8
	must(p.g.enter())
	defer p.g.leave()
	in, out := 2*roundUp(c.rows, rowMultiple)*c.in, size*(c.rows+1)*ld
	host, err := p.g.allocPinned(max(in, out), "numbers")
	must(err)
	x, err := p.g.alloc(int64(in), "rows")
	must(err)
	dst, err := p.g.alloc(int64(out), "results")
	must(err)
	defer func() {
		must(p.g.free(x))
		must(p.g.free(dst))
		must(p.g.freePinned(host))
	}()
	for i, v := range bell(r, in/2, 1) {
		view[uint16](host, 0, in/2)[i] = uint16(math.Float32bits(v) >> 16)
	}
	must(p.s.toDevice(x, host, 0, in))
	must(p.s.wait())
	a.x = x
	at := 0
	for i, n := range c.outs {
		a.p[i].dst.at, a.p[i].dst.ld = dst.at(int64(at*size)), int32(ld)
		at += n
	}
	var first []byte
	try := func(name string, run func() error) {
		must(p.s.fill(dst, 0x3c, int64(out)))
		must(run())
		must(p.s.toHost(host, 0, dst, out))
		must(p.s.wait())
		if got := host.bytes()[:out]; first == nil {
			first = bytes.Clone(got)
		} else if !bytes.Equal(first, got) {
			t.Errorf("%v, %+v: %s gives other bits", typ, c, name)
		}
	}
	p.copyKernels() // those of the type are there now
	must(d.loading.wait())
	f := weights[0].format
	if p.inFloat8(compute.Product{W: weights[0]}) {
		f8 := float8Rows{inputs: c.in, rows: float8Padded(c.rows)}
		n, scales := f8.bytes()
		f8.x, err = p.g.alloc(n, "rows")
		must(err)
		f8.scales, err = p.g.alloc(scales, "scales")
		must(err)
		old := p.float8
		p.float8 = f8
		by := weights[0].float8
		for _, m := range weights {
			by = min(by, m.float8) // of a few outputs, groups are blocks
		}
		args, err := p.float8Args(&a, c.rows, by)
		must(err)
		must(p.roundRows(&args, c.in))
		for _, k := range float8Runs(p, &args) {
			try(k.name, func() error { return k.run(&args) })
		}
		p.float8 = old
		must(p.g.free(f8.x))
		must(p.g.free(f8.scales))
		return
	}
	if c.rows <= fews[len(fews)-1].rows {
		for _, few := range []struct {
			name    string
			applies bool
			run     func(format, *gemmArgs) (bool, error)
		}{
			{"gemm_few", f != formatBF16 || c.rows <= fewOfBF16, p.few},
			{gemmRing, p.kernel[f.kernel(gemmRing)] != nil && c.rows <= ringedRows, p.ring},
		} {
			if few.applies {
				try(few.name, func() error {
					done, err := few.run(f, &a)
					if !done {
						t.Errorf("%v, %+v: %s does not compute it", typ, c, few.name)
					}
					return err
				})
			}
		}
	}
	for i, b := range f.blockings() {
		if p.kernel[f.kernel(b.name())] != nil && (i == 0 || !c.few) {
			try(b.name(), func() error {
				return run(p, f.kernel(b.name()), grid{blocksOf(tiles*tileOuts, b.outs) * blocksOf(c.rows, b.rows), 1, 1}, b.threads, &a)
			})
		}
	}
	for _, w := range warpgroupKernels {
		if p.kernel[f.kernel(w.name())] != nil && w.fits(&a) && a.storable() && !c.few {
			try(w.name(), func() error { return w.run(p, f, &a, tiles) })
		}
	}
}

// TestBoxable checks which products kernels compute whose results leave as boxes.
func TestBoxable(t *testing.T) {
	for _, c := range []struct {
		outs []int
		mode int32
		wide int32
		ld   int32
		want bool
	}{
		{outs: []int{4096, 1024, 1024}, ld: 6144, want: true},
		{outs: []int{192, 64, 104}, ld: 376, want: true},
		{outs: []int{192, 64, 100}, ld: 376},
		{outs: []int{192, 64, 100}, ld: 356, wide: 1, want: true},
		{outs: []int{200}, ld: 201},
		{outs: []int{80, 64}, ld: 144},
		{outs: []int{80, 80}, ld: 80, mode: modeGated, want: true},
	} {
		a := gemmArgs{products: int32(len(c.outs)), mode: c.mode}
		for i, n := range c.outs {
			a.p[i] = productArgs{outs: int32(n), tiles: int32(blocksOf(n, tileOuts)), dst: rows{ld: c.ld, wide: c.wide}}
		}
		if got := a.boxable(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestRingBlocks checks how products of few rows are cut for an H100, and for an H200, whose memory gives more in the
// same time.
func TestRingBlocks(t *testing.T) {
	i := info{sms: 132, shared: mostShared}
	const h100, h200 = 3352, 4917 // GB/s
	for _, c := range []struct {
		bandwidth, mode, outs, ins int
		want                       ringedBlocks
	}{
		{h100, modePlain, 6144, 4096, ringedBlocks{3, 6, 4, 1, 0}},
		{h100, modeAdd, 4096, 4096, ringedBlocks{2, 4, 6, 1, 0}},
		{h100, modeGated, 28672, 4096, ringedBlocks{14, 14, 3, 1, 0}},
		{h100, modeAdd, 4096, 14336, ringedBlocks{2, 4, 6, 1, 0}},
		{h200, modePlain, 6144, 4096, ringedBlocks{3, 6, 4, 1, 0}},
		{h200, modeAdd, 4096, 4096, ringedBlocks{2, 4, 6, 2, 0}},
		{h200, modeGated, 28672, 4096, ringedBlocks{14, 14, 3, 1, 0}},
		{h200, modeAdd, 4096, 14336, ringedBlocks{2, 4, 6, 2, 0}},
		{0, modeAdd, 4096, 14336, ringedBlocks{2, 4, 6, 1, 0}},
		{h200, modeGated, 35000, 4096, ringedBlocks{}},  // too many warps
		{h200, modePlain, 128256, 4096, ringedBlocks{}}, // likewise
	} {
		i.bandwidth = c.bandwidth * 1000
		m := &matrix{out: c.outs, in: c.ins}
		if c.mode != modeGated {
			m.out = min(c.outs, 4096) // the largest of queries, keys and values
		}
		a := &gemmArgs{rows: 1, mode: int32(c.mode), tilesIn: int32(c.ins / tileIns), products: 1, ranges: m.ranges()}
		a.p[0].tiles = int32(c.outs / tileOuts)
		got, ok := formatBF16.arrangeRing(i, a)
		if got.shared = 0; !ok {
			got = ringedBlocks{}
		}
		if got != c.want {
			t.Errorf("%d outputs of %d inputs: %+v; want %+v", c.outs, c.ins, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 9))
	many := 0
	for range 20000 {
		f := []format{formatBF16, formatFP8, formatInt8, formatInt8Zero}[r.IntN(4)]
		a := &gemmArgs{rows: 1 + r.Int32N(ringedRows), mode: []int32{modePlain, modeAdd, modeGated}[r.IntN(3)], tilesIn: 4 * (1 + r.Int32N(300)), products: 1, ranges: 1 + r.Int32N(4)}
		a.p[0].tiles = 2 + 2*r.Int32N(900)
		c, ok := f.arrangeRing(i, a)
		if !ok {
			continue
		}
		many++
		steps := f.ringedSteps(a)
		// As rangeStart of gemm.cuh cuts inputs: the fetching warp goes on to the most parts of a range, and waits for
		// all warps that have any, once for each time that a stage is used again.
		records := int(a.tilesIn) / 4
		start := func(n int) int {
			if n == int(a.ranges) {
				return records
			}
			return records / 4 * n / int(a.ranges) * 4
		}
		var parts []int
		for n := range int(a.ranges) {
			if own := start(n+1) - start(n); own > 0 {
				parts = append(parts, int(blocksOf(own, steps)))
			}
		}
		if slices.Min(parts) < slices.Max(parts)-c.stages {
			t.Fatalf("%+v: a warp has %d parts and another one %d, with %d stages", a, slices.Min(parts), slices.Max(parts), c.stages)
		}
		// Where the kernel's shared memory ends:
		rows := roundUp(int(a.rows)*(int(a.tilesIn)*tileIns*2+16), 8)
		end := roundUp(c.warps*512+rows+8+16*c.stages, 128) + c.stages*c.warps*steps*f.recordBytes()
		if c.stages < 1 || c.warps > ringedWarps || c.shared > mostShared || end > c.shared {
			t.Fatalf("%+v: %+v", a, c)
		}
	}
	if many < 1000 {
		t.Errorf("%d products are cut; the test wants more", many)
	}
}
