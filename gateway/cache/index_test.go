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
			if got, c := x.Find(group, at, -1); got != name || math.Abs(c-cosine) > 1e-6 {
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
				x.Find("all", at, 0.9)
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

// questions are vectors of so many numbers, any two of which have a cosine of about 0.7, as those of texts about one
// subject have.
func questions(count, numbers int) [][]float32 {
	random := rand.New(rand.NewPCG(1, 2))
	subject := make([]float64, numbers)
	for j := range subject {
		subject[j] = random.NormFloat64()
	}
	all := make([][]float32, count)
	for i := range all {
		all[i] = make([]float32, numbers)
		for j := range all[i] {
			all[i][j] = float32(subject[j] + random.NormFloat64()*math.Sqrt(0.3/0.7))
		}
	}
	return all
}

// TestFindIsExact compares what is found with products of whole vectors, for thresholds that leave much out, little and
// nothing.
func TestFindIsExact(t *testing.T) {
	for _, numbers := range []int{1, 63, 64, 65, 200, 384, 1000} {
		x := NewIndex(mostInGroup)
		all := questions(200, numbers)
		for i, at := range all[:150] {
			x.Add("g", at, fmt.Sprint(i), time.Hour)
		}
		for i, q := range all {
			best, most := "", -2.0
			for j, at := range all[:150] {
				dot, a, b := 0.0, 0.0, 0.0
				for k := range q {
					dot, a, b = dot+float64(q[k])*float64(at[k]), a+float64(q[k])*float64(q[k]), b+float64(at[k])*float64(at[k])
				}
				if c := dot / math.Sqrt(a*b); c > most+1e-6 {
					best, most = fmt.Sprint(j), c
				}
			}
			for _, least := range []float64{-1, 0.5, most - 1e-5, 0.95} {
				want := best
				if most < least {
					want = ""
				}
				name, c := x.Find("g", q, least)
				if numbers > 1 && name != want || numbers == 1 && (name == "") != (want == "") || name != "" && math.Abs(c-most) > 2e-6 {
					t.Fatalf("%d numbers, question %d, at least %v: %q at %v; want %q at %v", numbers, i, least, name, c, want, most)
				}
			}
		}
	}
}

// BenchmarkFind compares a question with all of a full group, none of which is near enough.
func BenchmarkFind(b *testing.B) {
	all := questions(mostInGroup+1, 1024)
	x := NewIndex(mostInGroup)
	for i, at := range all[1:] {
		x.Add("g", at, fmt.Sprint(i), time.Hour)
	}
	for _, least := range []float64{-1, 0.9, 0.95} {
		b.Run(fmt.Sprint(least), func(b *testing.B) {
			for b.Loop() {
				x.Find("g", all[0], least)
			}
		})
	}
}
