package kv

import (
	"math/rand/v2"
	"testing"
)

// TestIndex compares an index with a map: small ones, in which most names collide, and the runs of entries go around
// the table's end.
func TestIndex(t *testing.T) {
	for nodes := 1; nodes <= 40; nodes++ {
		random := rand.New(rand.NewPCG(1, uint64(nodes)))
		x, all, where := newIndex(nodes), make([]node, nodes), map[Hash]int32{}
		names := make([]Hash, 3*nodes)
		for i := range names {
			names[i] = HashBlock(Hash{}, []int32{int32(i)}, Keys{})
		}
		var free []int32
		for n := range nodes {
			free = append(free, int32(n))
		}
		for range 400 {
			name := names[random.IntN(len(names))]
			if n, ok := where[name]; ok {
				x.remove(&name, n)
				delete(where, name)
				free = append(free, n)
			} else if last := len(free) - 1; last >= 0 {
				all[free[last]].name, where[name] = name, free[last]
				x.add(&name, free[last])
				free = free[:last]
			}
			for _, name := range names {
				want, ok := where[name]
				if !ok {
					want = none
				}
				if got := x.find(&name, all); got != want {
					t.Fatalf("%d nodes: %v is of node %d, want %d", nodes, name, got, want)
				}
			}
			if x.n != len(where) {
				t.Fatalf("%d nodes: %d names, want %d", nodes, x.n, len(where))
			}
		}
	}
}

// BenchmarkIndex finds, takes out and enters names of a million: the cost is that of the memory that it reads.
func BenchmarkIndex(b *testing.B) {
	const nodes = 1 << 20
	x, all := newIndex(nodes), make([]node, nodes)
	for n := range all {
		all[n].name = HashBlock(Hash{}, []int32{int32(n)}, Keys{})
		x.add(&all[n].name, int32(n))
	}
	at := uint32(0)
	for b.Loop() {
		at = at*1664525 + 1013904223
		n := int32(at >> 12)
		if name := all[n].name; x.find(&name, all) != n {
			b.Fatal("not found")
		} else {
			x.remove(&name, n)
			x.add(&name, n)
		}
	}
}
