package cuda

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// productOf is one of the products of a layer of the 8B Llama shape, with enough weights that none stays in a cache.
type productOf struct {
	name     string
	in, mode int
	outs     []int
	weights  [][]*matrix
}

// TestSpeedOfProducts measures every kernel on the products of a layer of the 8B Llama shape, and checks that all give
// the same bits, if KVASIR_GPU_PRODUCTS lists types and rows: "BF16 1 64 8192 Q4_K 64".
func TestSpeedOfProducts(t *testing.T) {
	what := strings.Fields(os.Getenv("KVASIR_GPU_PRODUCTS"))
	if len(what) == 0 {
		t.Skip("KVASIR_GPU_PRODUCTS lists nothing to measure")
	}
	const most = 8192
	d := gpuDevice(t)
	r := rand.New(rand.NewPCG(1, 1))
	g := llama(t, d, 1, 128, 16384, 4, 2, 64, 1000, func(out, in int) compute.Matrix {
		return load(t, d, repeated(t, r, quant.BF16, out, in))
	})
	p := compileGraph(t, d, g, oneLayer(t, d, 4, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}), compute.Limits{Rows: 256, Slots: 1}).(*program)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.g.enter())
	defer p.g.leave()
	const xBytes, dstBytes = 2 * most * 14336, 4 * most * 14336
	x, err := p.g.alloc(xBytes, "rows")
	must(err)
	dst, err := p.g.alloc(dstBytes, "results")
	must(err)
	host, err := p.g.allocPinned(dstBytes, "results")
	must(err)
	defer func() {
		must(p.g.free(x))
		must(p.g.free(dst))
		must(p.g.freePinned(host))
	}()
	random := view[uint16](host, 0, xBytes/2)
	for i := range random {
		random[i] = uint16(r.Uint32())&0x81ff | 0x3e00 // 0.125 to 0.5, of both signs
	}
	must(p.s.toDevice(x, host, 0, xBytes))
	must(p.s.wait())
	var products []productOf
	for _, word := range what {
		rows, err := strconv.Atoi(word)
		if err == nil {
			for _, q := range products {
				speedOfProduct(t, p, q, rows, x, dst, host)
			}
			continue
		}
		typ, err := quant.Parse(word)
		must(err)
		products = []productOf{
			{name: "queries, keys, values", in: 4096, mode: modePlain, outs: []int{4096, 1024, 1024}},
			{name: "attention's output", in: 4096, mode: modeAdd, outs: []int{4096}},
			{name: "gate, up", in: 4096, mode: modeGated, outs: []int{14336, 14336}},
			{name: "down", in: 14336, mode: modeAdd, outs: []int{4096}},
		}
		pool, values := packedSource(t, r, typ, 64, 16384), typ.BlockValues()
		random := func(out, in int) compute.Source {
			if pool.Scales != nil {
				src := repeated(t, r, typ, out, in)
				for i := range src.Scales { // of any blocks, too
					src.Scales[i] = src.Scales[0]
				}
				return src
			}
			size, need := typ.BlockBytes(), in/values
			blocks := len(pool.Data)/size - need
			return compute.Source{Name: typ.String(), Type: typ, Out: out, In: in, Row: func(dst []byte, n int) {
				copy(dst, pool.Data[n*37%blocks*size:][:need*size])
			}}
		}
		for i := range products {
			q := &products[i]
			for bytes := int64(0); bytes < 256<<20; {
				var set []*matrix
				for _, out := range q.outs {
					m := load(t, d, random(out, q.in)).(*matrix)
					bytes += m.Bytes()
					set = append(set, m)
				}
				q.weights = append(q.weights, set)
			}
		}
		must(d.loading.wait())
		p.copyKernels() // those of the type are there now
		fmt.Println(typ)
	}
}

// speedOfProduct prints how long each kernel takes for a product of so many rows.
func speedOfProduct(t *testing.T, p *program, q productOf, n int, x, dst pointer, host pinned) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	from, err := p.g.newEvent(true)
	must(err)
	to, err := p.g.newEvent(true)
	must(err)
	wide, size := int32(0), int64(2)
	if q.mode == modeAdd {
		wide, size = 1, 4
	}
	var args []gemmArgs
	f := q.weights[0][0].format
	ld, bytes := 0, int64(0)
	for _, out := range q.outs {
		ld += out
	}
	for _, w := range q.weights {
		a := gemmArgs{x: x, ldx: int32(q.in), tilesIn: int32(q.in / 16), rows: int32(n), products: int32(len(w)), mode: int32(q.mode), scale: 1, ranges: w[0].ranges()}
		at := dst
		bytes = 0
		for i, m := range w {
			a.p[i] = productArgs{w: m.at, outs: int32(m.out), tiles: int32(m.tiles()), dst: rows{at: at, ld: int32(ld), wide: wide}}
			at = at.at(size * int64(m.out))
			bytes += m.Bytes()
		}
		args = append(args, a)
	}
	tiles := ld / tileOuts
	fmt.Printf("%s, %d rows, µs (GB/s, TFLOP/s):", q.name, n)
	seed, first := maphash.MakeSeed(), uint64(0)
	try := func(name string, run func(a *gemmArgs) error) {
		if p.kernel[f.kernel(name)] == nil {
			return
		}
		results := size * int64(n) * int64(ld)
		must(p.s.fill(dst, 0x3c, results))
		must(run(&args[0]))
		must(p.s.toHost(host, 0, dst, int(results)))
		must(p.s.wait())
		if sum := maphash.Bytes(seed, view[byte](host, 0, int(results))); first == 0 {
			first = sum
		} else if sum != first {
			t.Errorf("%s of %d rows: %s gives other bits", q.name, n, name)
		}
		const times = 12
		must(from.record(p.s))
		for i := range times {
			must(run(&args[i%len(args)]))
		}
		must(to.record(p.s))
		must(p.s.wait())
		ms, err := to.since(from)
		must(err)
		us := float64(ms) * 1e3 / times
		fmt.Printf(" %s %.1f (%.0f, %.0f)", strings.TrimPrefix(name, "gemm_"), us, float64(bytes)/us/1e3, 2*float64(n)*float64(ld)*float64(q.in)/us/1e6)
	}
	if n <= fewOfBF16 || n <= fews[len(fews)-1].rows && f != formatBF16 {
		name := "gemm_8"
		if n > 8 {
			name = "gemm_16"
		}
		try(name, func(a *gemmArgs) error {
			_, err := p.few(f, a)
			return err
		})
	}
	if _, ok := f.arrangeRing(p.d.g.info, &args[0]); ok && n <= ringedRows {
		try(gemmRing, func(a *gemmArgs) error {
			_, err := p.ring(f, a)
			return err
		})
	}
	for _, b := range f.blockings() {
		if b.rows >= min(n, 128) && (b.rows <= 2*n || b.rows == 32) {
			try(b.name(), func(a *gemmArgs) error {
				return run(p, f.kernel(b.name()), grid{blocksOf(tiles*tileOuts, b.outs) * blocksOf(n, b.rows), 1, 1}, b.threads, a)
			})
		}
	}
	for _, w := range warpgroupKernels {
		if !w.fits(&args[0]) {
			continue
		}
		try(w.name(), func(a *gemmArgs) error { return w.run(p, f, a, tiles) })
	}
	fmt.Println()
	if f == formatFP8 {
		speedOfFloat8(t, p, q, args, n, dst, host)
	}
	must(from.close())
	must(to.close())
}
