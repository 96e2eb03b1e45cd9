package cpu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// keeper is a checkpoint of one weight that counts its releases.
type keeper struct {
	compute.Source
	released int
}

// newKeeper returns random blocks of a weight.
func newKeeper(r *rand.Rand, typ quant.Type, out, in int) *keeper {
	k := &keeper{Source: compute.Source{Name: "w", Type: typ, Out: out, In: in, Data: randomBlocks(r, typ, out*in/typ.BlockValues())}}
	k.Keep = func() func() { return func() { k.released++ } }
	return k
}

// load loads the weight as it stands, to be packed later, and packed.
func (k *keeper) load(t *testing.T, d *Device) (raw, packed *matrix) {
	t.Helper()
	at := k.Source
	at.Keep = nil
	var both [2]*matrix
	for i, src := range []compute.Source{k.Source, at} {
		m, err := d.Matrix(src)
		if err != nil {
			t.Fatal(err)
		}
		both[i] = m.(*matrix)
	}
	if both[0].raw == nil || both[1].raw != nil || both[0].Bytes() != both[1].Bytes() {
		t.Fatalf("%v: a weight whose data is kept must be packed later, one whose data is not at once, of as many bytes", k.Type)
	}
	return both[0], both[1]
}

// newRaw starts a device that packs no weight between steps.
func newRaw(t *testing.T, kernels string, threads int) *Device {
	t.Helper()
	d, err := New(Options{Threads: threads, Kernels: kernels})
	if err != nil {
		t.Fatal(err)
	}
	d.idleTime = time.Hour
	t.Cleanup(func() { d.Close() })
	return d
}

// TestRawWeights reads weights before, while and after they are packed, by the row and by products of few and many
// rows, and expects the bits of those that were packed at once.
func TestRawWeights(t *testing.T) {
	eachKernels(t, func(t *testing.T, k *kernel.Table) {
		r := rand.New(rand.NewPCG(61, 61))
		d := newRaw(t, k.Name, 3)
		for _, typ := range kernel.AffineTypes() {
			const out, in = 83, 768 // the last panel has 3 outputs
			counts := []int{1, 9}
			if typ == quant.Q8_0 {
				counts = append(counts, kernel.MaxRowChunk+40)
			}
			for _, rows := range counts {
				src := newKeeper(r, typ, out, in)
				raw, packed := src.load(t, d)
				x := Tensor{Rows: rows, Cols: in, Host: normals(r, rows*in)}
				same := func(when string) {
					t.Helper()
					what := fmt.Sprintf("%v, %d rows, %s", typ, rows, when)
					var of [2]Tensor
					for i, w := range []*matrix{packed, raw} {
						of[i] = Tensor{Rows: rows, Cols: out, Host: make([]float32, rows*out)}
						d.matMul(x, []Product{{Dst: of[i], W: w}})
					}
					sameBits(t, what, of[1].Host, of[0].Host)
					for n := range out {
						var of [2][in]float32
						d.row(0, of[0][:], packed, n)
						d.row(1, of[1][:], raw, n)
						sameBits(t, fmt.Sprintf("%s: row %d", what, n), of[1][:], of[0][:])
					}
				}
				d.Begin(&compute.Batch{IDs: make([]int32, rows)})
				same("before")
				if raw.raw == nil || src.released != 0 {
					t.Fatalf("%v: packed by the first product", typ)
				}
				if err := d.packMore(raw, 2); err != nil {
					t.Fatal(err)
				}
				raw.raw.read = false
				same("half packed")
				if raw.raw == nil {
					t.Fatalf("%v: packed by the first product", typ)
				}
				same("packed")
				if raw.raw != nil || src.released != 1 {
					t.Fatalf("%v: the second product must pack the weight; its data was released %d times", typ, src.released)
				}
				same("after")
				if err := d.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestHeads loads weights whose rows are stored in another order, at once and later, and expects the rows and products
// of the same weight in its own.
func TestHeads(t *testing.T) {
	heads := compute.Heads{Size: 10, Turned: 8}
	const out, in = 90, 256
	eachKernels(t, func(t *testing.T, k *kernel.Table) {
		r := rand.New(rand.NewPCG(64, 64))
		d := newRaw(t, k.Name, 3)
		for _, typ := range append(kernel.AffineTypes(), quant.F32, quant.F16, quant.BF16, quant.F8_E4M3) {
			src := compute.Source{Name: "w", Type: typ, Out: out, In: in}
			switch {
			case kernel.IsAffine(typ):
				src.Data = randomBlocks(r, typ, out*in/typ.BlockValues())
			case typ == quant.F8_E4M3:
				src.Data, src.Group = float8s(r, out*in), 256
				for range out * in / 256 {
					src.Scales = append(src.Scales, float32(r.NormFloat64()))
				}
			default:
				src.Data = make([]byte, out*in*typ.BlockBytes())
				if err := quant.Encode(src.Data, normals(r, out*in), typ); err != nil {
					t.Fatal(err)
				}
			}
			stored := src
			stored.Heads = heads
			stored.Data, stored.Scales = bytes.Clone(src.Data), slices.Clone(src.Scales)
			for n := range out {
				moveRow(stored.Data, src.Data, heads.Stored(n), n, out)
				moveRow(stored.Scales, src.Scales, heads.Stored(n), n, out)
			}
			byRow, size := stored, len(src.Data)/out
			byRow.Row = func(dst []byte, n int) { copy(dst, stored.Data[n*size:][:size]) }
			later := stored
			later.Keep = func() func() { return func() {} }
			want := products(t, d, src)
			for form, s := range []compute.Source{stored, byRow, later} {
				for i, got := range products(t, d, s) {
					sameBits(t, fmt.Sprintf("%v, form %d: %d", typ, form, i), got, want[i])
				}
			}
		}
		if _, err := d.Matrix(compute.Source{Name: "w", Type: quant.F32, Out: 3, In: 1, Data: make([]byte, 12), Heads: heads}); err == nil ||
			!strings.Contains(err.Error(), `cpu: weight "w": 3 rows in heads of 10`) {
			t.Errorf("error %v", err)
		}
	})
}

// moveRow copies row from of rows to row to.
func moveRow[T any](dst, src []T, to, from, rows int) {
	size := len(src) / rows
	copy(dst[to*size:][:size], src[from*size:])
}

// TestRawWeightsAreReleased packs some weights while no step runs, and closes a device that has not packed others. The
// data of each is released once, and what is still to be packed counts as taken until then.
func TestRawWeightsAreReleased(t *testing.T) {
	r, before := rand.New(rand.NewPCG(62, 62)), unpacked.Load()
	for _, packs := range []bool{false, true} {
		d := newRaw(t, "", 2)
		var all []*keeper
		bytes := int64(0)
		for range 3 {
			k := newKeeper(r, quant.Q8_0, 200, 256)
			raw, _ := k.load(t, d)
			all, bytes = append(all, k), bytes+raw.Bytes()
		}
		if got := unpacked.Load() - before; got != bytes {
			t.Errorf("%d bytes are to be packed; want %d", got, bytes)
		}
		if packs {
			if err := d.packRest(); err != nil {
				t.Fatal(err)
			}
		} else if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for i, k := range all {
			if k.released != 1 {
				t.Errorf("packed %v: the data of weight %d was released %d times; want once", packs, i, k.released)
			}
		}
		if got := unpacked.Load() - before; got != 0 || len(d.raw) != 0 {
			t.Errorf("packed %v: %d bytes of %d weights are still to be packed", packs, got, len(d.raw))
		}
	}
}

// TestDataThatIsNotKept loads weights whose source does not let the device keep their data.
func TestDataThatIsNotKept(t *testing.T) {
	d := newRaw(t, "", 2)
	k := newKeeper(rand.New(rand.NewPCG(63, 63)), quant.Q4_0, 32, 256)
	k.Keep = func() func() { return nil }
	m, err := d.Matrix(k.Source)
	if err != nil {
		t.Fatal(err)
	}
	if w := m.(*matrix); w.raw != nil || len(w.data) == 0 {
		t.Error("the weight is not packed")
	}
}
