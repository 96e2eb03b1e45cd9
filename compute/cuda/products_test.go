package cuda

import (
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/internal/fakecuda"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestEvenShared holds that a multiprocessor has room for its share of a launch's blocks, and for no other one.
func TestEvenShared(t *testing.T) {
	for _, i := range []info{{sms: 132, shared: 227 << 10}, {sms: 108, shared: 163 << 10}, {sms: 4, shared: 99 << 10}} {
		for blocks := 1; blocks <= 20*i.sms; blocks++ {
			shared := i.evenShared(blocks)
			room, share := (i.shared+blockShared)/(shared+blockShared), (blocks+i.sms-1)/i.sms
			if shared > i.shared || room != share {
				t.Fatalf("%d multiprocessors have room for %d of %d blocks of %d bytes each; want %d", i.sms, room, blocks, shared, share)
			}
		}
	}
}

// TestFewEvenly holds that blocks of few rows are spread so: where they need more memory than that, they have what they
// need.
func TestFewEvenly(t *testing.T) {
	f := fakecuda.New(fakecuda.Device{Name: "Fake H100", Major: 9, SMs: 132, Shared: 227 << 10, Total: 80 << 30, Driver: 13000})
	d := deviceOf(t, &fake{Driver: f, t: t, refuse: map[entry]code{}})
	row := make([]byte, 1024)
	g := llama(t, d, 1, 256, 512, 4, 2, 64, 256, func(out, in int) compute.Matrix {
		m, err := d.Matrix(compute.Source{Name: "zeros", Type: quant.Q4_K, Out: out, In: in, Row: func(dst []byte, _ int) { copy(dst, row) }})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
	p := compileGraph(t, d, g, oneLayer(t, d, 4, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}), compute.Limits{Rows: 16, Slots: 1}).(*program)
	if err := p.g.enter(); err != nil {
		t.Fatal(err)
	}
	defer p.g.leave()
	for _, k := range []struct {
		name        string
		tiles, mode int32
		ranges      int32
		share       int // of blocks of one row of Q4_K
	}{
		{"queries, keys, values", 384, modePlain, 2, 3}, {"output", 256, modeAdd, 2, 2},
		{"gate, up", 896, modeGated, 1, 7}, {"one too many", 133, modePlain, 1, 2}, {"few", 7, modePlain, 2, 1},
	} {
		for f, most := range map[format]int{formatBF16: fewOfBF16, formatInt4Min: 16} {
			for rows := 1; rows <= most; rows++ {
				a := gemmArgs{products: 1, tilesIn: 256, mode: k.mode, ranges: k.ranges}
				a.p[0] = productArgs{outs: k.tiles * tileOuts, tiles: k.tiles}
				if k.mode == modeGated {
					a.products, a.p[1] = 2, a.p[0]
				}
				a.rows = int32(rows)
				if done, err := p.few(f, &a); !done || err != nil {
					t.Fatal(done, err)
				}
				blocks, shared := p.s.config.blocks.x, int(p.s.config.shared)
				if int32(blocks) != k.tiles {
					t.Fatalf("%s: %d blocks; want %d", k.name, blocks, k.tiles)
				}
				room := (227<<10 + blockShared) / (shared + blockShared)
				if room > k.share || f == formatInt4Min && rows == 1 && room < k.share {
					t.Errorf("%s of %d rows of format %d: a multiprocessor has room for %d blocks of %d bytes; want %d", k.name, rows, f, room, shared, k.share)
				}
				// Few rows of large weights of 16 bits have a block for each multiprocessor instead.
				if err := p.multiply(f, &a, rows); err != nil {
					t.Fatal(err)
				}
				ringed := f == formatBF16 && rows <= ringedRows && int(a.products*k.tiles)*64*f.recordBytes() >= ringedBytes
				if got := int(p.s.config.blocks.x); (got <= 132) != (ringed || k.tiles <= 132) {
					t.Errorf("%s of %d rows of format %d: %d blocks", k.name, rows, f, got)
				}
			}
		}
	}
}
