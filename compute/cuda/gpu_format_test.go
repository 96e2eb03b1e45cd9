package cuda

import (
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// repeated is a weight of a type whose rows repeat after some, because encoding takes time.
func repeated(t testing.TB, r *rand.Rand, typ quant.Type, out, in int) compute.Source {
	few := packedSource(t, r, typ, min(out, 61), in)
	src, size, groups := few, len(few.Data)/few.Out, len(few.Scales)/few.Out
	src.Out, src.Data, src.Scales = out, nil, nil
	for n := range out {
		src.Data = append(src.Data, few.Data[n%few.Out*size:][:size]...)
		src.Scales = append(src.Scales, few.Scales[n%few.Out*groups:][:groups]...)
	}
	if few.Scales == nil {
		src.Scales = nil
	}
	return src
}

// onDevice returns the numbers of n outputs as the device makes them, in float64.
func onDevice(t testing.TB, src *compute.Source, n int) []float64 {
	t.Helper()
	first := src.Rows(0, n)
	m := &matrix{out: n, in: src.In, format: formatOf(&first)}
	packed := make([]byte, m.Bytes())
	if err := packTiles(packed, m, &first); err != nil {
		t.Fatal(err)
	}
	v := make([]float64, n*src.In)
	for i := range v {
		out, in := i/src.In, i%src.In
		v[i] = float64(numberOf(m.format, packed[(out/16*m.tilesIn()/4+in/64)*m.format.recordBytes():], out%16, in%64))
	}
	return v
}

// load loads a weight.
func load(t testing.TB, d compute.Device, src compute.Source) compute.Matrix {
	t.Helper()
	m, err := d.Matrix(src)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// alike checks that rows give the same bits beside few others as beside all.
func alike(t *testing.T, p compute.Program, what string, all [][]float32, counts ...int) {
	t.Helper()
	for _, n := range counts {
		from := len(all) - n
		for row, got := range runHidden(t, p, ids(from, n)) {
			for o := range got {
				if want := all[from+row][o]; got[o] != want {
					t.Fatalf("%s: output %d of row %d is %v beside %d rows and %v beside all", what, o, row, got[o], n, want)
				}
			}
		}
	}
}

// TestPackedProducts compares products of every type with references, and rows alone with rows in company.
func TestPackedProducts(t *testing.T) {
	d := gpuDevice(t)
	const vocab = 300
	for _, typ := range packedTypes {
		r := rand.New(rand.NewPCG(1, uint64(typ)))
		least := max(typ.BlockValues(), 32)
		for _, shape := range less([][2]int{{100, least}, {37, 5 * least}, {300, 8448}, {6500, 1024}, {6500, 8448}},
			[][2]int{{100, least}, {37, 5 * least}, {24, 2304}}) {
			out, in := shape[0], shape[1]
			if in%typ.BlockValues() != 0 || out > 6000 && in > 8192 && typ != quant.Q4_0 && typ != quant.Q6_K && typ != quant.F8_E4M3 {
				continue
			}
			src, x := repeated(t, r, typ, out, in), bell(r, vocab*in, 1)
			g := &compute.Graph{Vocab: vocab}
			h, y, hid := g.Buffer(in, compute.AllRows), g.Buffer(out, compute.AllRows), g.Buffer(out, compute.HiddenRows)
			g.Add(compute.Embed{Dst: h, Table: weight(t, d, x, vocab, in), Scale: 1},
				compute.MatMul{X: h, Products: []compute.Product{{Dst: y, W: load(t, d, src)}}},
				compute.Gather{Dst: hid, Src: y}, compute.Choose{Hidden: hid})
			p := compileGraph(t, d, g, oneLayer(t, d, 8, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: vocab, Slots: 4})
			all := runHidden(t, p, ids(0, vocab))
			n := min(out, 61)
			numbers := onDevice(t, &src, n)
			by := d.scalingBeside(&src)
			if by != scaledOtherwise {
				numbers = unrounded(t, &src, n)
			}
			for row := 0; row < vocab; row += 37 {
				want := make([]float64, out)
				row8 := rounded(t, wide(x[row*in:][:in]), by)
				for o := range out {
					if o >= n {
						want[o] = want[o%n]
						continue
					}
					for i := range in {
						want[o] += row8[i] * numbers[o*in+i]
					}
				}
				if e := distance(all[row], want); !(e < 3e-3) {
					t.Fatalf("%v [%d, %d]: row %d is off by %g", typ, out, in, row, e)
				}
			}
			alike(t, p, src.Name, all, less([]int{1, 3, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 200}, []int{1, 9, 17, 33, 65, 129})...)
		}
	}
}

// TestPackedCompany checks a packed table, and a gate and products whose weights have several formats.
func TestPackedCompany(t *testing.T) {
	d := gpuDevice(t)
	vocab := less(300, 140)
	in, out := less(512, 256), less(200, 72)
	r := rand.New(rand.NewPCG(5, 6))
	for _, typ := range packedTypes {
		table, gate := repeated(t, r, typ, vocab, in), repeated(t, r, typ, out, in)
		up := repeated(t, r, typ, out, in)
		other := repeated(t, r, quant.Q6_K, out, in)
		for _, second := range []compute.Source{up, other} {
			g := &compute.Graph{Vocab: vocab}
			h := g.Buffer(in, compute.AllRows)
			a, b := g.Buffer(out, compute.AllRows), g.Buffer(out, compute.AllRows)
			hid := g.Buffer(out, compute.HiddenRows)
			g.Add(compute.Embed{Dst: h, Table: load(t, d, table), Scale: 1},
				compute.MatMul{X: h, Products: []compute.Product{{Dst: a, W: load(t, d, gate)}, {Dst: b, W: load(t, d, second)}}},
				compute.Activate{Dst: a, Gate: a, Up: b, Act: compute.ReLU},
				compute.Gather{Dst: hid, Src: a}, compute.Choose{Hidden: hid})
			p := compileGraph(t, d, g, oneLayer(t, d, 8, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: vocab, Slots: 4})
			all := runHidden(t, p, ids(0, vocab))
			n := 61
			x, w, v := onDevice(t, &table, n), onDevice(t, &gate, n), onDevice(t, &second, n)
			by := [2]scaling{d.scalingBeside(&gate), d.scalingBeside(&second)}
			if by[0] != scaledOtherwise {
				w = unrounded(t, &gate, n)
			}
			if by[1] != scaledOtherwise {
				v = unrounded(t, &second, n)
			}
			for row := 0; row < n; row += 7 {
				want := make([]float64, out)
				rows := [2][]float64{rounded(t, x[row*in:][:in], by[0]), rounded(t, x[row*in:][:in], by[1])}
				for o := range out {
					one, two := 0.0, 0.0
					for i := range in {
						one += rows[0][i] * w[o%n*in+i]
						two += rows[1][i] * v[o%n*in+i]
					}
					want[o] = max(one, 0) * two
				}
				if e := distance(all[row], want); !(e < 1e-2) {
					t.Fatalf("%v beside %s: row %d is off by %g", typ, second.Name, row, e)
				}
			}
			alike(t, p, typ.String()+" beside "+second.Name, all, less([]int{1, 5, 12, 16, 17, 64, 150}, []int{5, 17, 64})...)
		}
	}
}
