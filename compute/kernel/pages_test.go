package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestPages compares products with panels where they lie with those of their widened tiles.
func TestPages(t *testing.T) {
	each(t, func(t *testing.T, k *Table, f *fences) {
		if k.PageKeys == nil {
			t.Skip("panels are widened")
		}
		r := rand.New(rand.NewPCG(22, 22))
		for _, typ := range KVTypes {
			if Quantised(typ) && !k.PageQuantised {
				continue
			}
			for _, tiles := range []int{4, 6, 8, 10} {
				size := KVBytes(typ, tiles)
				const panels, most = 7, 6
				var memory []byte
				for range panels {
					memory = append(memory, randomPanel(r, typ, tiles)...)
				}
				src := place(f.w, memory)
				for m := 1; m <= PageQueries; m++ {
					for n := 1; n <= most; n++ {
						at := make([]int, KeyPages(n)+PagesAhead)
						for i := range at {
							at[i] = r.IntN(panels) * size
						}
						wide := make([]float32, n*tiles*TileValues)
						what := fmt.Sprintf("%v, %d rows, %d panels of %d tiles", typ, m, n, tiles)

						x, want := numbers(r, PageQueries*tiles*Lanes), make([]float32, m*n*Lanes)
						for p := range n {
							portable.Widen(typ, wide[p*tiles*TileValues:], TileValues, src[at[p]:][:size], tiles, false)
						}
						portable.MatF32(Product[float32]{want, n * Lanes, x, tiles * Lanes, wide, tiles * TileValues,
							n, m, tiles * Lanes, false})
						ldd := KeyPages(n) * Lanes
						got := place(f.dst, make([]float32, m*ldd))
						k.PageKeys(PageProduct{typ, got, ldd, place(f.x, x), tiles * Lanes, src, at, n, tiles, m})
						for i := range m {
							same(t, what+": keys", got[i*ldd:][:n*Lanes], want[i*n*Lanes:][:n*Lanes])
						}

						x, want = numbers(r, PageQueries*n*Lanes), make([]float32, m*tiles*Lanes)
						for p := range n {
							portable.Widen(typ, wide[p*TileValues:], n*TileValues, src[at[p]:][:size], tiles, true)
						}
						portable.MatF32(Product[float32]{want, tiles * Lanes, x, n * Lanes, wide, n * TileValues,
							tiles, m, n * Lanes, false})
						got = place(f.dst, make([]float32, m*tiles*Lanes))
						k.PageValues(PageProduct{typ, got, tiles * Lanes, place(f.x, x), n * Lanes, src, at, n,
							tiles, m})
						same(t, what+": values", got, want)
					}
				}
			}
		}
	})
}
