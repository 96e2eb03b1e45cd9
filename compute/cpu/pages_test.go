package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestPages compares products with panels where they lie with those of their widened tiles.
func TestPages(t *testing.T) {
	each(t, func(t *testing.T, k *kernels, f *fences) {
		if k.pageKeys == nil {
			t.Skip("panels are widened")
		}
		r := rand.New(rand.NewPCG(22, 22))
		for _, typ := range KVTypes {
			if quantised(typ) && !k.pageQuantised {
				continue
			}
			for _, tiles := range []int{4, 6, 8, 10} {
				size := kvBytes(typ, tiles)
				const panels, most = 7, 6
				var memory []byte
				for range panels {
					memory = append(memory, randomPanel(r, typ, tiles)...)
				}
				src := place(f.w, memory)
				for m := 1; m <= pageQueries; m++ {
					for n := 1; n <= most; n++ {
						at := make([]int, keyPages(n)+pagesAhead)
						for i := range at {
							at[i] = r.IntN(panels) * size
						}
						wide := make([]float32, n*tiles*tileValues)
						what := fmt.Sprintf("%v, %d rows, %d panels of %d tiles", typ, m, n, tiles)

						x, want := numbers(r, pageQueries*tiles*lanes), make([]float32, m*n*lanes)
						for p := range n {
							portable.widen(typ, wide[p*tiles*tileValues:], tileValues, src[at[p]:][:size], tiles, false)
						}
						portable.matF32(want, n*lanes, x, tiles*lanes, wide, tiles*tileValues, n, m, tiles*lanes, false)
						ldd := keyPages(n) * lanes
						got := place(f.dst, make([]float32, m*ldd))
						k.pageKeys(typ, got, ldd, place(f.x, x), tiles*lanes, src, at, n, tiles, m)
						for i := range m {
							same(t, what+": keys", got[i*ldd:][:n*lanes], want[i*n*lanes:][:n*lanes])
						}

						x, want = numbers(r, pageQueries*n*lanes), make([]float32, m*tiles*lanes)
						for p := range n {
							portable.widen(typ, wide[p*tileValues:], n*tileValues, src[at[p]:][:size], tiles, true)
						}
						portable.matF32(want, tiles*lanes, x, n*lanes, wide, n*tileValues, tiles, m, n*lanes, false)
						got = place(f.dst, make([]float32, m*tiles*lanes))
						k.pageValues(typ, got, tiles*lanes, place(f.x, x), n*lanes, src, at, n, tiles, m)
						same(t, what+": values", got, want)
					}
				}
			}
		}
	})
}
