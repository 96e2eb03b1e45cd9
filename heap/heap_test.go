package heap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestHeap compares a heap with a list that is sorted each time.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rank := map[int]int{}
		at := map[int]int{}
		h := New(func(a, b int) bool { return rank[a] < rank[b] }, func(x, place int) { at[x] = place })
		var in []int
		for i := range rapid.IntRange(1, 60).Draw(t, "changes") {
			r := rapid.IntRange(0, 9).Draw(t, "rank")
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				rank[i] = r
				h.Push(i)
				in = append(in, i)
			case 1:
				if len(in) > 0 {
					k := rapid.IntRange(0, len(in)-1).Draw(t, "who leaves")
					x := in[k]
					in = slices.Delete(in, k, k+1)
					if h.Remove(at[x]); at[x] != -1 {
						t.Fatalf("%d has left and is at %d", x, at[x])
					}
				}
			default:
				if len(in) > 0 {
					x := rapid.SampledFrom(in).Draw(t, "who changes")
					rank[x] = r
					h.Fix(at[x])
				}
			}
			if x, wrong := h.Check(func(x int) int { return at[x] }); wrong || h.Len() != len(in) {
				t.Fatalf("%d is at %d (%v) of %d; want %d", x, at[x], wrong, h.Len(), len(in))
			}
			for _, x := range in {
				if rank[x] < rank[h.First()] {
					t.Fatalf("%d comes before %d, which is in front", x, h.First())
				}
			}
		}
	})
}
