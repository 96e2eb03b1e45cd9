package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNothingIsLost drives a queue through random histories: every request ends in one way, counts hold, and an empty
// queue keeps nothing but tenants that owe.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := NewQueue(rapid.IntRange(1, 10).Draw(t, "most"))
		waiting, going := map[*Request]bool{}, []*Request{}
		pick := func() *Request {
			for r := range waiting {
				return r
			}
			return nil
		}
		for now := range int64(rapid.IntRange(0, 200).Draw(t, "steps")) {
			now *= 1e8
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				r := &Request{
					Tenant: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "tenant")), Priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
					Weight: float64(rapid.IntRange(0, 3).Draw(t, "weight")), Cost: float64(rapid.IntRange(0, 100).Draw(t, "cost")),
					Deadline: now * rapid.Int64Range(0, 2).Draw(t, "deadline"), Again: rapid.IntRange(0, 9).Draw(t, "again") == 0,
				}
				waiting[r] = true
				if refusal := q.Add(now, r); refusal != nil {
					if !waiting[refusal.Request] || refusal.RetryAfter < 1 {
						t.Fatalf("refused %+v", refusal)
					}
					delete(waiting, refusal.Request)
				}
			case 3:
				if r := q.Next(now, Places{}, func(*Request) bool { return true }); r != nil {
					if !waiting[r] {
						t.Fatal("a request went that does not wait")
					}
					delete(waiting, r)
					going = append(going, r)
				} else if len(waiting) > 0 {
					t.Fatal("nobody goes although some wait")
				}
			case 4:
				if r := pick(); r != nil {
					delete(waiting, r)
					if !q.Remove(r) || q.Remove(r) {
						t.Fatal("a request that waits is removed once")
					}
				}
			case 5:
				if n := len(going); n > 0 {
					q.Settle(going[n-1], float64(rapid.IntRange(0, 200).Draw(t, "real")))
					going = going[:n-1]
				}
			}
			weights := 0.0
			for _, t := range q.tenants {
				if t.waiting+t.going > 0 {
					weights += t.weight
				}
			}
			if q.Waiting() != len(waiting) || q.weights != weights {
				t.Fatalf("%d wait with weights of %v; want %d and %v", q.Waiting(), q.weights, len(waiting), weights)
			}
		}
		for r := range waiting {
			q.Remove(r)
		}
		for _, r := range going {
			q.Settle(r, 0)
		}
		for name, x := range q.tenants {
			if x.waiting != 0 || x.going != 0 || x.cost != 0 {
				t.Fatalf("tenant %s: %+v", name, x)
			}
		}
	})
}

// served simulates a pool with slots that each serve a request at a time, for a minute, and returns the 99th percentile
// of the seconds until the first token of all tenants but the first, and the tokens served. Each tenant sends its
// requests at random times; rates are theirs per second.
func served(seed uint64, slots int, rates []float64) (p99, tokens float64) {
	const prefill, perToken = 0.2, 0.01 // seconds
	random := rand.New(rand.NewPCG(seed, 1))
	type event struct {
		at     float64
		tenant int // of an arrival
		done   *Request
		answer float64 // tokens
	}
	var events []event
	for tenant, rate := range rates {
		for at := random.ExpFloat64() / rate; at < 60; at += random.ExpFloat64() / rate {
			events = append(events, event{at: at, tenant: tenant})
		}
	}
	byTime := func(a, b event) int {
		if a.at < b.at {
			return -1
		}
		return 1
	}
	slices.SortFunc(events, byTime)
	q := NewQueue(1000)
	var waits []float64
	arrived := map[*Request]event{}
	for free := slots; len(events) > 0; {
		e := events[0]
		events = events[1:]
		now := int64(e.at * 1e9)
		if e.done != nil {
			q.Settle(e.done, 100+2*e.answer)
			tokens += e.answer
			free++
		} else {
			r := &Request{Tenant: fmt.Sprint(e.tenant), Cost: 100 + 2*100} // an answer is estimated at 100 tokens
			e.answer = 1 + float64(random.IntN(200))
			arrived[r] = e
			q.Add(now, r)
		}
		for ; free > 0; free-- {
			r := q.Next(now, Places{free, slots}, func(*Request) bool { return true })
			if r == nil {
				break
			}
			a := arrived[r]
			if a.tenant > 0 {
				waits = append(waits, e.at-a.at+prefill)
			}
			end := event{at: e.at + prefill + perToken*a.answer, done: r, answer: a.answer}
			i, _ := slices.BinarySearchFunc(events, end, byTime)
			events = slices.Insert(events, i, end)
		}
	}
	slices.Sort(waits)
	return waits[len(waits)*99/100], tokens
}

// TestGreedyTenantHarmsOnlyItself lets one of eight tenants send ten times its share, while the others send half of
// theirs, or nearly all. They hardly notice, and the pool serves no less.
func TestGreedyTenantHarmsOnlyItself(t *testing.T) {
	const slots, tenants = 64, 8
	for _, load := range []float64{0.5, 0.9} {
		for seed := range uint64(5) {
			share := slots / 1.2 / tenants // requests a second, of 1.2 seconds each
			rates := slices.Repeat([]float64{load * share}, tenants)
			alone, usual := served(seed, slots, rates)
			rates[0] = 10 * share
			beside, most := served(seed, slots, rates)
			t.Logf("load %v, seed %d: p99 %.3f s, beside the greedy one %.3f s; %.0f and %.0f tokens", load, seed, alone, beside,
				usual, most)
			if beside > 1.5*alone {
				t.Errorf("load %v, seed %d: the others' 99th percentile is %.3f s; want at most 1.5 times %.3f s", load, seed,
					beside, alone)
			}
			if most < usual {
				t.Errorf("load %v, seed %d: %.0f tokens under overload; %.0f without", load, seed, most, usual)
			}
		}
	}
}

// BenchmarkQueue adds and takes out requests of 1,000 tenants, of which 10,000 wait.
func BenchmarkQueue(b *testing.B) {
	q := NewQueue(20_000)
	n := 0
	add := func() {
		q.Add(int64(n)*1e6, &Request{Tenant: fmt.Sprint(n * 7919 % 1000), Cost: float64(n % 100)})
		n++
	}
	for range 10_000 {
		add()
	}
	b.ReportAllocs()
	for b.Loop() {
		add()
		q.Settle(q.Next(int64(n)*1e6, Places{}, func(*Request) bool { return true }), 50)
	}
}
