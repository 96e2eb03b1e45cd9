package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestIndex finds the nearest question of a group, as long as its answer lasts.
func TestIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewIndex(3)
		want := func(group string, at []float32, name string, cosine float64) {
			t.Helper()
			if got, c := x.Find(group, at); got != name || math.Abs(c-cosine) > 1e-6 {
				t.Errorf("%s %v: %q at %v; want %q at %v", group, at, got, c, name, cosine)
			}
		}
		want("g", []float32{1, 0}, "", 0)
		x.Add("g", []float32{2, 0}, "east", time.Minute)
		x.Add("g", []float32{0, 0}, "nowhere", time.Minute)
		x.Add("g", []float32{float32(math.NaN()), 0}, "nothing", time.Minute)
		x.Add("g", []float32{0, 5}, "north", 2*time.Minute)
		x.Add("h", []float32{0, 1}, "other", time.Minute)
		want("h", []float32{1, 0}, "other", 0)
		want("g", []float32{3, 4}, "north", 0.8)
		want("g", []float32{4, 3}, "east", 0.8)
		want("g", []float32{1, 0, 0}, "", 0)
		want("g", []float32{0, 0}, "", 0)
		x.Add("g", []float32{-1, 0}, "west", time.Minute) // in place of "other", which was found first
		want("g", []float32{-2, 0}, "west", 1)
		x.Add("g", []float32{1, 0}, "west", time.Minute)
		want("g", []float32{-2, 0}, "north", 0)
		x.Drop("g", "west")
		x.Drop("none", "west")
		time.Sleep(time.Minute)
		want("g", []float32{1, 0}, "north", 0)
		time.Sleep(time.Minute)
		want("g", []float32{1, 0}, "", 0)
	})
}

// TestIndexIsBounded fills an index from several goroutines: one group, and many.
func TestIndexIsBounded(t *testing.T) {
	x := NewIndex(2 * mostInGroup)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for i := range mostInGroup {
				at := []float32{random.Float32(), random.Float32() - 0.5}
				x.Add("all", at, fmt.Sprint(g, " ", i), time.Minute)
				x.Add(fmt.Sprint(random.IntN(700)), at, fmt.Sprint(g, " ", i), time.Minute)
				x.Find("all", at)
				x.Drop("all", fmt.Sprint(g, " ", i-3*(i%2)))
			}
		})
	}
	all.Wait()
	n := 0
	for group, list := range x.groups {
		if n += len(list); len(list) == 0 || len(list) > mostInGroup {
			t.Errorf("group %s has %d", group, len(list))
		}
	}
	if n != x.order.Len() || n > 2*mostInGroup {
		t.Errorf("%d in groups, %d in order", n, x.order.Len())
	}
}

// BenchmarkFind compares a question with all of a full group.
func BenchmarkFind(b *testing.B) {
	x := NewIndex(mostInGroup)
	at := make([]float32, 1024)
	for i := range mostInGroup {
		for j := range at {
			at[j] = rand.Float32() - 0.5
		}
		x.Add("g", at, fmt.Sprint(i), time.Hour)
	}
	for b.Loop() {
		x.Find("g", at)
	}
}
