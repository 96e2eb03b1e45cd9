package fair

import (
	"cmp"
	"fmt"
	"math"
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
				var p Places
				if all := rapid.SampledFrom([]int{0, 0, 4, 16}).Draw(t, "places"); all > len(going) {
					p = Places{Free: all - len(going), All: all}
				}
				if r := q.Next(now, p, func(*Request) bool { return true }); r != nil {
					if !waiting[r] {
						t.Fatal("a request went that does not wait")
					}
					delete(waiting, r)
					going = append(going, r)
				} else if len(waiting) > 0 && p.Free == p.All {
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
					q.Settle(now, going[n-1], float64(rapid.IntRange(0, 200).Draw(t, "real")))
					going = going[:n-1]
				}
			}
			weights, greed := 0.0, 0.0
			for _, t := range q.tenants {
				if t.waiting+t.going > 0 {
					weights += t.weight
				}
				if t.greedy {
					greed += t.weight
				}
			}
			if q.Waiting() != len(waiting) || q.weights != weights || q.greed != greed || q.kept >= max(q.all, 1) {
				t.Fatalf("%d wait with weights of %v, of which %v are greedy, and %d places of %d are kept; want %d, %v and %v", q.Waiting(),
					q.weights, q.greed, q.kept, q.all, len(waiting), weights, greed)
			}
		}
		for r := range waiting {
			q.Remove(r)
		}
		for _, r := range going {
			q.Settle(0, r, 0)
		}
		for name, x := range q.tenants {
			if x.waiting != 0 || x.going != 0 || x.cost != 0 {
				t.Fatalf("tenant %s: %+v", name, x)
			}
		}
	})
}

// TestStrangersAreForgotten lets many tenants send one request each, beside one that is charged for much. The queue
// remembers a few of them, and what that one owes as long as it is one of the latest.
func TestStrangersAreForgotten(t *testing.T) {
	q := NewQueue(10)
	always := func(*Request) bool { return true }
	serve := func(name string, cost float64) {
		q.Add(0, &Request{Tenant: name, Cost: 1})
		q.Settle(0, q.Next(0, Places{}, always), cost)
	}
	for i := range 100_000 {
		if serve(fmt.Sprint("stranger", i), 1); i%1000 == 0 {
			serve("greedy", 100)
		}
	}
	if n := len(q.tenants); n > remembered || q.idle.Len() != n {
		t.Errorf("%d tenants are remembered, of which %d are idle", n, q.idle.Len())
	}
	if g := q.tenants["greedy"]; g == nil || g.counter < 100*99 {
		t.Errorf("the greedy tenant's account is %+v", g)
	}
}

// pool is what a simulation serves: slots that each serve a request at a time.
type pool struct {
	slots    int
	unused   float64 // places, as a share of all, that are kept for others than greedy tenants and are not used
	seconds  float64 // that it lasts
	patience float64 // seconds that a request waits at most; 0 is any number
}

// Seconds of the requests that are simulated: until the first token, of a later token, and of all, on average.
const (
	prefill  = 0.2
	perToken = 0.01
	service  = prefill + perToken*100.5
)

// run simulates a pool and returns the 99th percentile of the seconds until the first token of all tenants but the
// first, and the tokens a second that were served. Each tenant sends its requests at random times; rates are theirs per
// second.
func (p pool) run(seed uint64, rates []float64) (p99, tokens float64) {
	type event struct {
		at      float64
		tenant  int
		request *Request // that has ended
		answer  float64  // tokens
	}
	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	var arrivals, ends []event
	for tenant, rate := range rates {
		random := rand.New(rand.NewPCG(seed, uint64(tenant)))
		for at := random.ExpFloat64() / rate; at < p.seconds; at += random.ExpFloat64() / rate {
			arrivals = append(arrivals, event{at: at, tenant: tenant, answer: 1 + float64(random.IntN(200))})
		}
	}
	slices.SortFunc(arrivals, byTime)
	q := NewQueue(1000)
	q.SetUnused(p.unused)
	var waits []float64
	var late []*Request // in the order of their deadlines
	for free := p.slots; len(arrivals)+len(ends) > 0; {
		var e event
		if len(ends) > 0 && (len(arrivals) == 0 || ends[0].at < arrivals[0].at) {
			e, ends = ends[0], ends[1:]
			q.Settle(int64(e.at*1e9), e.request, 100+2*e.answer)
			if free++; e.at < p.seconds {
				tokens += e.answer
			}
		} else {
			e, arrivals = arrivals[0], arrivals[1:]
			r := &Request{Tenant: fmt.Sprint(e.tenant), Cost: 100 + 2*100, Value: e} // an answer is estimated at 100 tokens
			if p.patience > 0 {
				r.Deadline = int64((e.at + p.patience) * 1e9)
				late = append(late, r)
			}
			q.Add(int64(e.at*1e9), r)
		}
		for ; len(late) > 0 && late[0].Deadline < int64(e.at*1e9); late = late[1:] {
			q.Remove(late[0])
		}
		for now := int64(e.at * 1e9); free > 0; {
			r := q.Next(now, Places{free, p.slots}, func(*Request) bool { return true })
			if r == nil {
				break
			}
			a := r.Value.(event)
			if a.tenant > 0 {
				waits = append(waits, e.at-a.at+prefill)
			}
			free--
			q.First(now+int64(prefill*1e9), r)
			end := event{at: e.at + prefill + perToken*a.answer, request: r, answer: a.answer}
			i, _ := slices.BinarySearchFunc(ends, end, byTime)
			ends = slices.Insert(ends, i, end)
		}
	}
	slices.Sort(waits)
	return waits[len(waits)*99/100], tokens / p.seconds
}

// capacity is how many tokens a second slots serve: an answer has 100.5 on average.
func capacity(slots int) float64 { return float64(slots) / service * 100.5 }

// chain returns, of a pool of which k places are kept from greedy tenants that want all, how likely a request of the
// others finds no place, and how many places are unused. It follows the busy places from their least number upwards.
func (d demand) chain(k int) (none, unused float64) {
	total, likely := 0.0, 1.0
	for n := d.places - float64(k); likely > 1e-12*total; n++ { // places, and requests that wait
		total += likely
		if n < d.places {
			unused += likely * (d.places - n)
		} else {
			none += likely
		}
		likely *= d.busy / min(n+1, d.places)
	}
	return none / total, unused / total
}

// unluckiest returns how long the unluckiest hundredth of the others waits for first tokens.
func (d demand) unluckiest(k int) float64 {
	none, _ := d.chain(k)
	return d.first + max(0, math.Log(none/unlucky))*d.service/(d.places-d.busy)
}

// floor returns the least of a pool that is unused where the others wait at most so many times as long as alone.
func (d demand) floor(times float64) float64 {
	for k := range int(d.places) {
		if d.unluckiest(k) <= times*d.unluckiest(int(d.places)) {
			_, unused := d.chain(k)
			return unused / d.places
		}
	}
	return 1 - d.busy/d.places
}

// TestKept compares the number of kept places to the least one that is enough, tried one by one, and to the most that
// leaves no more unused than it may.
func TestKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := demand{places: float64(rapid.IntRange(1, 100).Draw(t, "places")), service: rapid.Float64Range(0.1, 10).Draw(t, "service")}
		d.busy = d.places * rapid.Float64Range(0.02, 0.98).Draw(t, "busy")
		d.first = d.service * rapid.Float64Range(0, 1).Draw(t, "first")
		unused := d.places * rapid.Float64Range(0, 1).Draw(t, "unused")
		most := harm * d.unluckiest(int(d.places))
		want := 0
		for ; want < int(d.places)-1 && d.unluckiest(want) > most*(1+1e-9); want++ {
			if _, next := d.chain(want + 1); next > unused {
				break
			}
		}
		if got := d.kept(unused); got != want {
			t.Errorf("%+v, at most %v unused: %d are kept; want %d", d, unused, got, want)
		}
	})
}

// TestGreedyTenantHarmsOnlyItself lets one of several tenants send ten times its share, and compares the others' waits
// to those without it, while they send a quarter of their shares or more. What the pool serves is compared to what it
// could, and to the most that it can while the others' waits are 1.5 times as long; see demand.kept.
func TestGreedyTenantHarmsOnlyItself(t *testing.T) {
	const seeds = 8
	for _, c := range []struct {
		slots, tenants int
		unused         float64
		most           float64 // of the other tenants' 99th percentile, to that without the greedy one's requests
		least          float64 // of what the pool can serve, or is asked to
	}{
		{8, 4, Unused, 2.9, 0.76}, {8, 8, Unused, 2.6, 0.76}, {16, 8, Unused, 1.7, 0.68}, {16, 16, Unused, 1.6, 0.65},
		{32, 8, Unused, 1.55, 0.77}, {32, 32, Unused, 1.5, 0.79}, {64, 8, Unused, 1.75, 0.86}, {64, 32, Unused, 1.5, 0.88},
		{128, 32, Unused, 1.5, 0.92},
		{16, 8, 0.1, 2.6, 0.9}, {32, 32, 0.1, 2, 0.88}, {16, 8, 0, 3.5, 0.98},
	} {
		for _, load := range []float64{0.25, 0.5, 0.6, 0.7, 0.8, 0.9} {
			alone, beside, served := 0.0, 0.0, 0.0
			for seed := range uint64(seeds) {
				share := float64(c.slots) / service / float64(c.tenants) // requests a second
				rates := slices.Repeat([]float64{load * share}, c.tenants)
				p := pool{slots: c.slots, unused: c.unused, seconds: 300}
				rates[0] = 0
				usual, _ := p.run(seed, rates)
				rates[0] = 10 * share
				p99, most := p.run(seed, rates)
				alone, beside, served = alone+usual/seeds, beside+p99/seeds, served+most/capacity(c.slots)/seeds
			}
			asked := (10 + load*float64(c.tenants-1)) / float64(c.tenants)
			d := demand{places: float64(c.slots), first: prefill, service: service}
			d.busy = load * d.places * (1 - 1/float64(c.tenants))
			t.Logf("%d slots, %d tenants, load %v, %v unused: p99 %.3f s, beside the greedy one %.3f s, %.2f times; %.1f%% of the pool, of %.1f%%",
				c.slots, c.tenants, load, c.unused, alone, beside, beside/alone, 100*served, 100*min(asked, 1-d.floor(1.5)))
			if beside > c.most*alone {
				t.Errorf("%d slots, %d tenants, load %v: the others' 99th percentile is %.3f s; want at most %v times %.3f s", c.slots,
					c.tenants, load, beside, c.most, alone)
			}
			if least := c.least * min(1, asked); served < least {
				t.Errorf("%d slots, %d tenants, load %v: %.1f%% of the pool serves; want %.1f%%", c.slots, c.tenants, load, 100*served, 100*least)
			}
		}
	}
}

// TestOverloadKeepsGoodput lets all tenants send ten times their share, alike or not, and their requests wait for five
// seconds at most. What is answered in that time is nine tenths of what the pool can serve.
func TestOverloadKeepsGoodput(t *testing.T) {
	for _, slots := range []int{8, 64, 256} {
		for name, rates := range map[string][]float64{
			"alike": slices.Repeat([]float64{1}, 8), "one": {1}, "unlike": {1, 2, 4, 8, 16, 32, 64, 128}, "many": slices.Repeat([]float64{1}, 100),
		} {
			all := 0.0
			for _, r := range rates {
				all += r
			}
			scaled := make([]float64, len(rates), len(rates)+1)
			for i, r := range rates {
				scaled[i] = r / all * 10 * float64(slots) / 1.2
			}
			p := pool{slots: slots, unused: Unused, seconds: 60, patience: 5}
			p99, tokens := p.run(1, append(scaled, 0.1)) // of the last, something is in every sample
			t.Logf("%d slots, %s: %.0f of %.0f tokens a second, p99 %.1f s", slots, name, tokens, capacity(slots), p99)
			if tokens < 0.9*capacity(slots) || p99 > 5.3 {
				t.Errorf("%d slots, %s: %.0f tokens a second and p99 %.1f s; want %.0f and at most 5.2 s", slots, name, tokens, p99, 0.9*capacity(slots))
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
		q.Settle(int64(n)*1e6, q.Next(int64(n)*1e6, Places{}, func(*Request) bool { return true }), 50)
	}
}
