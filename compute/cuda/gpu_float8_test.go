package cuda

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// scalingBeside returns how a device multiplies with a weight.
func (d *device) scalingBeside(src *compute.Source) scaling {
	if d.g.info.major != 9 {
		return scaledOtherwise
	}
	return scalingOf(src)
}

// unrounded returns the numbers of n outputs of F8_E4M3, by scales of bfloat16.
func unrounded(t testing.TB, src *compute.Source, n int) []float64 {
	t.Helper()
	codes := make([]float32, n*src.In)
	if err := quant.Decode(codes, src.Data[:n*src.In], quant.F8_E4M3); err != nil {
		t.Fatal(err)
	}
	v := wide(codes)
	for i := range v {
		if s := src.Scales; s != nil {
			groups := (src.In + src.Group - 1) / src.Group
			v[i] *= float64(roundBF16(s[i/src.In*groups+i%src.In/src.Group]))
		}
	}
	return v
}

// rounded returns a row as it is multiplied with weights of a scaling.
func rounded(t testing.TB, row []float64, by scaling) []float64 {
	t.Helper()
	if by == scaledOtherwise {
		return row
	}
	size := len(row)
	if by.grouped() {
		size = float8Inputs
	}
	out := make([]float64, len(row))
	for from := 0; from < len(row); from += size {
		part := row[from:min(len(row), from+size)]
		most := float32(1e-30)
		for _, v := range part {
			most = max(most, float32(math.Abs(v)))
		}
		var code [1]byte
		var value [1]float32
		for i, v := range part {
			if err := quant.Encode(code[:], []float32{float32(v) * (448 / most)}, quant.F8_E4M3); err != nil {
				t.Fatal(err)
			}
			if err := quant.Decode(value[:], code[:], quant.F8_E4M3); err != nil {
				t.Fatal(err)
			}
			out[from+i] = float64(value[0]) * float64(most/448)
		}
	}
	return out
}

// float8Source makes a weight of F8_E4M3 with a scale for the tensor, for each output, for groups of inputs or for
// blocks.
func float8Source(t testing.TB, r *rand.Rand, scales string, out, in int) compute.Source {
	t.Helper()
	src := compute.Source{Name: scales, Type: quant.F8_E4M3, Out: out, In: in, Data: make([]byte, out*in), Group: in}
	if scales == "group" || scales == "block" {
		src.Group = 128
	}
	groups := (in + src.Group - 1) / src.Group
	values := bell(r, min(len(src.Data), 1<<16), 60)
	if err := quant.Encode(src.Data[:len(values)], values, src.Type); err != nil {
		t.Fatal(err)
	}
	for i := len(values); i < len(src.Data); i++ { // encoding takes time
		src.Data[i] = src.Data[(i*7+i/len(values))%len(values)]
	}
	size := 1 / (60 * math.Sqrt(float64(in)))
	for o := range out {
		for g := range groups {
			scale := 1.0
			switch scales {
			case "output":
				scale += float64(o%5) / 3
			case "group":
				scale += float64((o+g)%5) / 3
			case "block":
				scale += float64((o/128+g)%5) / 3
			}
			src.Scales = append(src.Scales, float32(scale*size))
		}
	}
	return src
}

// float8Weight makes a random weight of F8_E4M3.
func float8Weight(t testing.TB, d compute.Device, r *rand.Rand, out, in int, by scaling) compute.Matrix {
	t.Helper()
	src := packedSource(t, r, quant.F8_E4M3, out, in)
	if by == scaledByOutput {
		src.Group, src.Scales = in, src.Scales[:out]
	}
	if groups := len(src.Scales) / out; by == scaledByBlock {
		for i := range src.Scales {
			src.Scales[i] = src.Scales[i/(groups*float8Outs)*groups*float8Outs+i%groups]
		}
	}
	w, err := d.Matrix(src)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestFloat8Products compares products in the tensor cores of F8_E4M3 with references that round as they do, and rows
// alone with rows in company.
func TestFloat8Products(t *testing.T) {
	d := gpuDevice(t)
	if d.g.info.major != 9 {
		t.Skip("its tensor cores of F8_E4M3 are not used")
	}
	rows := less(1000, 300)
	for _, scales := range []string{"tensor", "output", "group", "block"} {
		for _, shape := range less([][2]int{{37, 512}, {64, 256}, {75, 1280}, {333, 2048}, {300, 4608}, {1001, 4096}, {130, 14336}, {4096, 1024}, {200, 8448}, {50, 28672}, {50, 33024}},
			[][2]int{{37, 512}, {140, 256}, {24, 2048}, {24, 4608}, {40, 8448}, {24, 16640}}) {
			out, in := shape[0], shape[1]
			name := fmt.Sprintf("%s [%d, %d]", scales, out, in)
			r := rand.New(rand.NewPCG(uint64(out), uint64(in)))
			src, x, bias := float8Source(t, r, scales, out, in), bell(r, rows*in, 1), bell(r, out, 1)
			for i := range x {
				x[i] = roundBF16(x[i] * float32(i/in%7+1) / 3) // rows of several sizes
				if i%311 == 0 {
					x[i] *= 8
				}
			}
			g := &compute.Graph{Vocab: rows}
			h, y, hid := g.Buffer(in, compute.AllRows), g.Buffer(out, compute.AllRows), g.Buffer(out, compute.HiddenRows)
			q := compute.Product{Dst: y, W: load(t, d, src), Bias: vectorOf(t, d, bias)}
			g.Add(compute.Embed{Dst: h, Table: weight(t, d, x, rows, in), Scale: 1},
				compute.MatMul{X: h, Products: []compute.Product{q}}, compute.Gather{Dst: hid, Src: y}, compute.Choose{Hidden: hid})
			p := compileGraph(t, d, g, oneLayer(t, d, 80, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: rows, Slots: 4})
			if !p.(*program).inFloat8(q) {
				t.Fatalf("%s: it is not multiplied as F8_E4M3", name)
			}
			all := runHidden(t, p, ids(0, rows))
			numbers := unrounded(t, &src, out)
			for row := 0; row < rows; row += 111 {
				want := make([]float64, out)
				for i, v := range rounded(t, wide(x[row*in:][:in]), scalingOf(&src)) {
					for o := range out {
						want[o] += v * numbers[o*in+i]
					}
				}
				for o := range out {
					want[o] += float64(bias[o])
				}
				if e := distance(all[row], want); !(e < 4e-3) {
					t.Errorf("%s: row %d is off by %g", name, row, e)
				}
			}
			alike(t, p, name, all, less([]int{1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 200, 256, 257, 512, 999}, []int{1, 2, 3, 8, 9, 17, 33, 65, 129})...)
		}
	}
}

// TestFloat8Modes compares a gate and what it gates, and a product that is added to its rows, in the same way; with a
// norm before, too.
func TestFloat8Modes(t *testing.T) {
	d := gpuDevice(t)
	if d.g.info.major != 9 {
		t.Skip("its tensor cores of F8_E4M3 are not used")
	}
	for _, scales := range []string{"tensor", "output", "group", "block"} {
		testFloat8Modes(t, d, scales, false)
		testFloat8Modes(t, d, scales, true)
	}
}

func testFloat8Modes(t *testing.T, d *device, scales string, normed bool) {
	const eps = 1e-5
	rows := less(600, 140)
	in, inner := less(1280, 512), less(512, 256)
	r := rand.New(rand.NewPCG(8, 8))
	gate, up, down := float8Source(t, r, scales, inner, in), float8Source(t, r, scales, inner, in), float8Source(t, r, scales, in, inner)
	x, bias, gain := bell(r, rows*in, 1), bell(r, inner, 1), bell(r, in, 1)
	g := &compute.Graph{Vocab: rows}
	h, hid := g.Buffer(in, compute.AllRows), g.Buffer(in, compute.HiddenRows)
	a, b, added := g.Buffer(inner, compute.AllRows), g.Buffer(inner, compute.AllRows), g.Buffer(in, compute.AllRows)
	g.Add(compute.Embed{Dst: h, Table: weight(t, d, x, rows, in), Scale: 1})
	from := h
	if normed {
		from = g.Buffer(in, compute.AllRows)
		g.Add(compute.Normalize{Dst: from, Src: h, Norm: compute.Norm{Gain: vectorOf(t, d, gain), Eps: eps}})
	}
	g.Add(compute.MatMul{X: from, Products: []compute.Product{{Dst: a, W: load(t, d, gate)}, {Dst: b, W: load(t, d, up), Bias: vectorOf(t, d, bias)}}},
		compute.Activate{Dst: a, Gate: a, Up: b, Act: compute.SiLU},
		compute.MatMul{X: a, Products: []compute.Product{{Dst: added, W: load(t, d, down)}}},
		compute.Add{Dst: h, Src: added, Scale: 0.5},
		compute.Gather{Dst: hid, Src: h}, compute.Choose{Hidden: hid})
	p := compileGraph(t, d, g, oneLayer(t, d, 80, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: rows, Slots: 4})
	if n := len(p.(*program).ops); n != 4 {
		t.Fatalf("the graph became %d operations", n)
	}
	all := runHidden(t, p, ids(0, rows))
	by := scalingOf(&gate)
	w, v, last := unrounded(t, &gate, inner), unrounded(t, &up, inner), unrounded(t, &down, in)
	for row := 0; row < rows; row += 97 {
		want := wide(x[row*in:][:in])
		row8 := want
		if normed {
			squares := 0.0
			for _, f := range want {
				squares += f * f
			}
			row8 = make([]float64, in)
			for i, f := range want {
				row8[i] = f / math.Sqrt(squares/float64(in)+eps) * float64(gain[i])
			}
		}
		row8 = rounded(t, row8, by)
		mid := make([]float64, inner)
		for o := range mid {
			one, two := 0.0, float64(bias[o])
			for i, f := range row8 {
				one += f * w[o*in+i]
				two += f * v[o*in+i]
			}
			mid[o] = float64(roundBF16(float32(one / (1 + math.Exp(-one)) * two)))
		}
		for i, f := range rounded(t, mid, by) {
			for o := range want {
				want[o] += 0.5 * f * last[o*inner+i]
			}
		}
		if e := distance(all[row], want); !(e < 5e-2) { // what rounds in another way counts a sixteenth
			t.Errorf("%s, normed %t: row %d is off by %g", scales, normed, row, e)
		}
	}
	alike(t, p, fmt.Sprintf("%s, normed %t", scales, normed), all, less([]int{1, 2, 3, 7, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 200, 256, 257, 512, 599}, []int{1, 2, 3, 8, 9, 17, 33, 65})...)
}

// TestFloat8Kernels checks that all kernels that can compute a product give the same bits.
func TestFloat8Kernels(t *testing.T) {
	d := gpuDevice(t)
	if d.g.info.major != 9 {
		t.Skip("its tensor cores of F8_E4M3 are not used")
	}
	rows, out := less(300, 140), less(200, 136)
	r := rand.New(rand.NewPCG(9, 8))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, scales := range []string{"output", "group", "block"} {
		for _, in := range less([]int{256, 2048, 4352, 8448, 14336}, []int{256, 2048}) {
			src := float8Source(t, r, scales, out, in)
			g := &compute.Graph{Vocab: rows}
			h, y, hid := g.Buffer(in, compute.AllRows), g.Buffer(out, compute.AllRows), g.Buffer(out, compute.HiddenRows)
			q := compute.Product{Dst: y, W: load(t, d, src)}
			g.Add(compute.Embed{Dst: h, Table: weight(t, d, bell(r, rows*in, 1), rows, in), Scale: 1},
				compute.MatMul{X: h, Products: []compute.Product{q}}, compute.Gather{Dst: hid, Src: y}, compute.Choose{Hidden: hid})
			p := compileGraph(t, d, g, oneLayer(t, d, 80, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: rows, Slots: 4}).(*program)
			runHidden(t, p, ids(0, rows)) // which leaves the rows where products find them
			m, dst := q.W.(*matrix), p.view(y)
			a := gemmArgs{tilesIn: int32(m.tilesIn()), products: 1, mode: modePlain, scale: 1, ranges: m.ranges()}
			a.p[0] = productArgs{w: m.at, outs: int32(out), tiles: int32(m.tiles()), dst: dst}
			args, err := p.float8Args(&a, rows, m.float8)
			must(err)
			must(p.g.enter())
			size := 2 * rows * int(dst.ld)
			host, err := p.g.allocPinned(size, "results")
			must(err)
			var first []byte
			for _, k := range float8Runs(p, &args) {
				must(p.s.fill(dst.at, 0x3c, int64(size)))
				must(k.run(&args))
				must(p.s.toHost(host, 0, dst.at, size))
				must(p.s.wait())
				if first == nil {
					first = bytes.Clone(host.bytes()[:size])
				} else if !bytes.Equal(first, host.bytes()[:size]) {
					t.Errorf("%s, %d inputs: %s gives other bits", scales, in, k.name)
				}
			}
			must(p.g.freePinned(host))
			p.g.leave()
		}
	}
}

// TestFloat8OnFake runs products of F8_E4M3 on a driver that computes nothing.
func TestFloat8OnFake(t *testing.T) {
	f := newFake(t)
	f.Devices[0].Shared = mostShared
	t.Cleanup(f.leaks)
	d := deviceOf(t, f)
	r := rand.New(rand.NewPCG(1, 1))
	for _, scales := range []string{"tensor", "block"} {
		g := llama(t, d, 1, 256, 512, 4, 2, 64, 600, func(out, in int) compute.Matrix {
			return load(t, d, float8Source(t, r, scales, out, in))
		})
		p := compileGraph(t, d, g, oneLayer(t, d, 80, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}), compute.Limits{Rows: 600, Slots: 4}).(*program)
		if p.float8.inputs != 512 || p.float8.rows != 768 {
			t.Errorf("there is room for %d rows of %d", p.float8.rows, p.float8.inputs)
		}
		for _, n := range []int{1, 8, 40, 600} {
			wait(t, p, ids(0, n))
		}
	}
}

// TestScaling checks which weights are multiplied as F8_E4M3.
func TestScaling(t *testing.T) {
	for _, c := range []struct {
		src  compute.Source
		want scaling
	}{
		{compute.Source{Type: quant.F8_E4M3, In: 768}, scaledByOutput},
		{compute.Source{Type: quant.F8_E4M3, In: 768, Group: 768, Scales: []float32{1}}, scaledByOutput},
		{compute.Source{Type: quant.F8_E4M3, In: 384}, scaledByOutput},
		{compute.Source{Type: quant.F8_E4M3, In: 300}, scaledOtherwise},
		{compute.Source{Type: quant.F8_E4M3, In: 300, Group: 128, Scales: []float32{1}}, scaledOtherwise},
		{compute.Source{Type: quant.F8_E4M3, In: 512, Group: 128, Scales: []float32{1, 2, 3, 4, 1, 2, 3, 4}}, scaledByBlock},
		{compute.Source{Type: quant.F8_E4M3, In: 512, Group: 128, Scales: []float32{1, 2, 3, 4, 1, 2, 3, 5}}, scaledByGroup},
		{compute.Source{Type: quant.F8_E4M3, In: 512, Group: 256, Scales: slices.Concat(slices.Repeat([]float32{1, 2}, 64), []float32{3, 4})}, scaledByBlock},
		{compute.Source{Type: quant.F8_E4M3, In: 512, Group: 256, Scales: slices.Concat(slices.Repeat([]float32{1, 2}, 63), []float32{3, 4})}, scaledByGroup},
		{compute.Source{Type: quant.F8_E4M3, In: 512, Group: 64, Scales: []float32{1}}, scaledOtherwise},
		{compute.Source{Type: quant.F8_E4M3, In: 512, Group: 96, Scales: []float32{1}}, scaledOtherwise},
		{compute.Source{Type: quant.F8_E4M3, In: 512, Order: []int32{0}}, scaledOtherwise},
		{compute.Source{Type: quant.BF16, In: 300}, scaledOtherwise},
	} {
		if got := scalingOf(&c.src); got != c.want {
			t.Errorf("%v in groups of %d: %d; want %d", c.src.Type, c.src.Group, got, c.want)
		}
	}
}

// TestScalingOfExperts checks how experts are multiplied whose weights are scaled in several ways.
func TestScalingOfExperts(t *testing.T) {
	weights := func(in int, all ...scaling) (q compute.ExpertProduct) {
		for _, by := range all {
			q.W = append(q.W, &matrix{in: in, float8: by})
		}
		return q
	}
	for _, c := range []struct {
		products []compute.ExpertProduct
		want     scaling
	}{
		{nil, scaledOtherwise},
		{[]compute.ExpertProduct{weights(384, scaledByOutput, scaledByOutput)}, scaledByOutput},
		{[]compute.ExpertProduct{weights(384, scaledByOutput, scaledOtherwise)}, scaledOtherwise},
		{[]compute.ExpertProduct{weights(384, scaledByOutput, scaledByGroup)}, scaledOtherwise},
		{[]compute.ExpertProduct{weights(384, scaledByBlock), weights(384, scaledByBlock)}, scaledByBlock},
		{[]compute.ExpertProduct{weights(384, scaledByBlock), weights(384, scaledByGroup)}, scaledByGroup},
		{[]compute.ExpertProduct{weights(384, scaledByGroup), weights(384, scaledByBlock)}, scaledByGroup},
		{[]compute.ExpertProduct{weights(4096, scaledByOutput)}, scaledByOutput},
		{[]compute.ExpertProduct{weights(4224, scaledByOutput, scaledByOutput)}, scaledByGroup},
		{[]compute.ExpertProduct{weights(4224, scaledByOutput, scaledByBlock)}, scaledByGroup},
		{[]compute.ExpertProduct{weights(4224, scaledByOutput, scaledOtherwise)}, scaledOtherwise},
	} {
		if got := scalingOfExperts(c.products); got != c.want {
			t.Errorf("%v: %d; want %d", c.products, got, c.want)
		}
	}
}

// TestFloat8Choice checks that few rows have a kernel of few rows and many one of many.
func TestFloat8Choice(t *testing.T) {
	for _, c := range []struct {
		rows, outs, ins int
		want            string
	}{
		{1, 4096, 4096, "gemm_float8_8_2"}, {8, 4096, 14336, "gemm_float8_8_4"}, {16, 4096, 14336, "gemm_float8_64x32_split"},
		{256, 4096, 14336, "gemm_float8_64x128"},
		{192, 4096, 14336, "gemm_float8_64x192_split"},
		{2048, 28672, 4096, "gemm_float8_128x256"}, {8192, 4096, 14336, "gemm_float8_128x256"},
	} {
		m := &matrix{out: c.outs, in: c.ins, float8: scaledByOutput}
		a := &float8Args{a: gemmArgs{rows: int32(c.rows), tilesIn: int32(c.ins / tileIns), products: 1, ranges: m.ranges()}, padded: int32(float8Padded(c.rows))}
		a.a.p[0].tiles = int32(c.outs / tileOuts)
		name := ""
		if few, wide, _ := float8KernelFor(a, 132); few != nil {
			name = few.name
		} else {
			name = wide.name()
		}
		if name != c.want {
			t.Errorf("%d rows for %d outputs of %d inputs: %s; want %s", c.rows, c.outs, c.ins, name, c.want)
		}
	}
}

// TestFloat8Blocks checks how products of few rows are cut for an H100.
func TestFloat8Blocks(t *testing.T) {
	i := info{sms: 132, shared: mostShared}
	for _, c := range []struct {
		rows, mode, outs, ins int
		want                  float8Blocks
	}{
		{1, modePlain, 6144, 4096, float8Blocks{3, 8, 16, 3, 210432}},
		{1, modeAdd, 4096, 4096, float8Blocks{2, 4, 16, 3, 141824}},
		{1, modeGated, 28672, 4096, float8Blocks{14, 16, 7, 3, 218608}},
		{1, modeAdd, 4096, 14336, float8Blocks{2, 8, 12, 3, 221632}},
		{8, modeAdd, 4096, 14336, float8Blocks{2, 8, 6, 2, 220512}},
		{1, modePlain, 128256, 4096, float8Blocks{4, 4, 5, 3, 48720}},
		{1, modeAdd, 8192, 28672, float8Blocks{4, 16, 5, 3, 206160}},
		{1, modeAdd, 16384, 53248, float8Blocks{1, 8, 10, 3, 226720}},
		{8, modeAdd, 8192, 28672, float8Blocks{}}, // rows alone take 224 KB
	} {
		m := &matrix{out: c.outs, in: c.ins, float8: scaledByOutput}
		if c.mode == modePlain && c.outs < 8192 {
			m.out = 4096 // the largest of queries, keys and values
		}
		a := &gemmArgs{rows: int32(c.rows), mode: int32(c.mode), tilesIn: int32(c.ins / tileIns), products: 1, ranges: m.ranges()}
		a.p[0].tiles = int32(c.outs / tileOuts)
		k := float8Few{ranges: int(a.ranges)}
		if got, _ := k.arrange(i, a); got != c.want {
			t.Errorf("%d rows for %d outputs of %d inputs: %+v; want %+v", c.rows, c.outs, c.ins, got, c.want)
		}
	}
}

// float8Run runs one of the kernels of F8_E4M3; rows is how many a part of it has.
type float8Run struct {
	name string
	rows int
	run  func(a *float8Args) error
}

// float8Runs are all kernels that compute a product.
func float8Runs(p *program, a *float8Args) (all []float8Run) {
	for _, k := range float8Kernels {
		if k.fits(a) {
			all = append(all, float8Run{k.name, k.rows, func(a *float8Args) error { return k.run(p, a) }})
		}
	}
	for _, w := range float8Warpgroups {
		if w.fitsFloat8(a) {
			all = append(all, float8Run{w.name(), w.rows, func(a *float8Args) error { return p.runFloat8(w, a) }})
		}
	}
	// The last: it makes rows in an order of its own where the others have theirs.
	if a.a.rows <= fewFloat8Rows {
		all = append(all, float8Run{"gemm_float8_few", fewFloat8Rows, func(a *float8Args) error { // rounding included
			by := scaledByOutput
			if a.groups != 0 {
				by = scaledByGroup
			}
			_, err := p.fewFloat8(&a.a, nil, by)
			return err
		}})
	}
	return all
}

// speedOfFloat8 prints how long each kernel of F8_E4M3 takes for a product of n rows, and how long their rounding.
func speedOfFloat8(t *testing.T, p *program, q productOf, args []gemmArgs, n int, dst pointer, host pinned) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f := float8Rows{inputs: q.in, rows: float8Padded(n)}
	x, scales := f.bytes()
	var err error
	f.x, err = p.g.alloc(x, "rows")
	must(err)
	f.scales, err = p.g.alloc(scales, "scales")
	must(err)
	old := p.float8
	p.float8 = f
	defer func() {
		p.float8 = old
		must(p.g.free(f.x))
		must(p.g.free(f.scales))
	}()
	from, err := p.g.newEvent(true)
	must(err)
	to, err := p.g.newEvent(true)
	must(err)
	const times = 12
	timed := func(run func(i int) error) float64 {
		must(run(0))
		must(from.record(p.s))
		for i := range times {
			must(run(i))
		}
		must(to.record(p.s))
		must(p.s.wait())
		ms, err := to.since(from)
		must(err)
		return float64(ms) * 1e3 / times
	}
	size, ld := int64(2), 0
	if q.mode == modeAdd {
		size = 4
	}
	size8 := 0.0 // of the weights
	for i, out := range q.outs {
		ld += out
		size8 += float64(q.weights[0][i].Bytes())
	}
	results := size * int64(n) * int64(ld)
	seed := maphash.MakeSeed()
	for _, by := range []scaling{scaledByOutput, scaledByBlock} {
		var rounded []float8Args
		us := timed(func(i int) error {
			a, err := p.float8Args(&args[i%len(args)], n, by)
			a.a.ranges = (&matrix{out: q.outs[0], in: q.in, float8: by}).ranges()
			rounded = append(rounded, a)
			if err != nil {
				return err
			}
			return p.roundRows(&rounded[len(rounded)-1], q.in)
		})
		fmt.Printf("    FP8, scales of %s: rounding %.1f;", map[scaling]string{scaledByOutput: "rows", scaledByBlock: "128 inputs"}[by], us)
		first := uint64(0)
		for _, k := range float8Runs(p, &rounded[0]) {
			if n > 8*k.rows && k.rows < 128 || k.rows >= 4*n && k.rows > 32 {
				continue
			}
			must(p.s.fill(dst, 0x3c, results))
			must(k.run(&rounded[1]))
			must(p.s.toHost(host, 0, dst, int(results)))
			must(p.s.wait())
			if sum := maphash.Bytes(seed, view[byte](host, 0, int(results))); by == scaledByOutput {
				// the weights have several scales of an output, of which kernels may take any
			} else if first == 0 {
				first = sum
			} else if sum != first {
				t.Errorf("%s of %d rows: %s gives other bits", q.name, n, k.name)
			}
			us := timed(func(i int) error { return k.run(&rounded[1+i%len(args)]) })
			fmt.Printf(" %s %.1f (%.0f, %.0f)", strings.TrimPrefix(k.name, "gemm_float8"), us, size8/us/1e3, 2*float64(n)*float64(ld)*float64(q.in)/us/1e6)
		}
		fmt.Println()
	}
	must(from.close())
	must(to.close())
}

// TestFloat8Operands makes the operands of gemm_float8.cu from a record, as its lanes do, and checks that they meet the
// inputs that its rows have at the same places.
func TestFloat8Operands(t *testing.T) {
	src := compute.Source{Name: "w", Type: quant.F8_E4M3, Out: recordOuts, In: recordIns}
	for i := range recordOuts * recordIns {
		src.Data = append(src.Data, byte(i*37+i/recordIns)&0x7e)
	}
	m := &matrix{out: src.Out, in: src.In, kind: src.Type, format: formatFP8}
	record := make([]byte, m.Bytes())
	if err := packTiles(record, m, &src); err != nil {
		t.Fatal(err)
	}
	for lane := range 32 {
		g, l := lane/4, lane%4
		for k := range 2 { // 32 inputs each
			for i := range 4 { // as ldmatrix has them
				for j, code := range record[i%2*halfRecord+(k*2+i/2)*128+lane*4:][:4] {
					out, place := g+i%2*8, i/2*16+4*l+j                   // as wgmma has them
					in := k*32 + place/16*16 + place%16/4*2 + j/2 + j%2*8 // as putSixteen writes them
					if want := src.Data[out*recordIns+in]; code != want {
						t.Fatalf("lane %d, word %d of %d: byte %d is %#x; input %d of output %d is %#x", lane, i, k, j, code, in, out, want)
					}
				}
			}
		}
	}
}
