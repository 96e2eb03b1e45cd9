package cuda

import (
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/internal/fakecuda"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestStairs holds that a program tells what steps of many rows take: in stairs, one of which ends where blocks of rows
// are full, and steeper than rows where they are not; and nothing where that is not known.
func TestStairs(t *testing.T) {
	stairs := func(major int, typ quant.Type, hidden, ffn int) []compute.Stair {
		f := fakecuda.New(fakecuda.Device{Name: "Fake", Major: major, SMs: 132, Shared: 227 << 10, Total: 80 << 30, Driver: 13000})
		d, err := newDevice(&fake{Driver: f, t: t, refuse: map[entry]code{}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		row := make([]byte, 2*ffn)
		g := llama(t, d, 1, hidden, ffn, 32, 8, 128, 256, func(out, in int) compute.Matrix {
			src := compute.Source{Name: "zeros", Type: typ, Out: out, In: in, Row: func(dst []byte, _ int) { copy(dst, row) }}
			if typ == quant.F8_E4M3 {
				src.Scales, src.Group = make([]float32, out), in
			}
			m, err := d.Matrix(src)
			if err != nil {
				t.Fatal(err)
			}
			return m
		})
		c, err := d.Cache(compute.CacheSpec{Layers: []compute.CacheLayer{{KVHeads: 8, KDim: 128, VDim: 128}}, Blocks: 64, BlockTokens: 16, Type: quant.BF16})
		if err != nil {
			t.Fatal(err)
		}
		return compileGraph(t, d, g, c, compute.Limits{Rows: 2048, Slots: 256}).(compute.Stepped).Stairs()
	}
	for _, typ := range []quant.Type{quant.BF16, quant.F8_E4M3} {
		all := stairs(9, typ, 4096, 14336)
		if len(all) < 8 || all[len(all)-1].Rows != 2048 {
			t.Fatalf("%v: %v", typ, all)
		}
		t.Logf("%v: %v", typ, all)
		full := false
		for i, s := range all[1:] {
			if s.Rows <= all[i].Rows || s.Work <= all[i].Work {
				t.Errorf("%v: %v after %v", typ, s, all[i])
			}
			full = full || s.Rows == 1024
		}
		if !full {
			t.Errorf("%v: 1,024 rows fill no stair", typ)
		}
	}
	if all := stairs(9, quant.BF16, 100, 200); len(all) < 8 {
		t.Errorf("of inputs that are no multiple of 256 it tells %v", all)
	}
	if all := stairs(8, quant.BF16, 4096, 14336); all != nil {
		t.Errorf("of a GPU whose kernels have no known times it tells %v", all)
	}
}
