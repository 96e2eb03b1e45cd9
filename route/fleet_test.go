package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLatencyIsLearned lets two kinds of hardware answer, one three times as fast, and asks for predictions of requests
// that were never sent.
func TestLatencyIsLearned(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, speed := range []float64{1, 3} {
		var l latency
		if got, _, _ := l.predict(1, 1, 1, 1); got != 0 {
			t.Errorf("without a sample: %v; want 0, unknown", got)
		}
		first := func(uncached, inFlight float64) float64 { return (0.02 + uncached/4000 + inFlight/8000) / speed }
		next := func(requests int) float64 { return (0.01 + 0.001*float64(requests)) / speed }
		for range 500 {
			u, f, r := float64(random.IntN(5000)), float64(random.IntN(20000)), 1+random.IntN(30)
			noise := 0.95 + 0.1*random.Float64()
			l.learn(u, f, first(u, f)*noise)
			l.learnNext(r, next(r)*noise)
		}
		want := first(2000, 6000) + 100*next(10)
		if got, _, _ := l.predict(2000, 6000, 9, 100); math.Abs(got/want-1) > 0.1 {
			t.Errorf("speed %v: predicted %v s; want about %v", speed, got, want)
		}
	}
}

// TestLatencyForgets lets an endpoint become four times as slow.
func TestLatencyForgets(t *testing.T) {
	var l latency
	for i := range 2000 {
		u := float64(i % 7 * 1000)
		slow := 1.0
		if i > 1000 {
			slow = 4
		}
		l.learn(u, 0, slow*(0.1+u/1000))
	}
	if got, _, _ := l.predict(2000, 0, 0, 0); math.Abs(got/8.4-1) > 0.1 {
		t.Errorf("predicted %v s; want about 8.4", got)
	}
	for i, row := range l.first.cov { // the tokens in flight were 0 all the time
		for _, x := range row {
			if math.IsNaN(x) || math.Abs(x) > 2*mostCov {
				t.Errorf("covariance %d: %v", i, row)
			}
		}
	}
}

// TestLatencyDecides sends what it can to the faster of two endpoints.
func TestLatencyDecides(t *testing.T) {
	f := NewFleet(Options{Seed: 1, Blocks: 100})
	slow, _ := f.Join(Endpoint{Name: "slow"})
	fast, _ := f.Join(Endpoint{Name: "fast"})
	p, err := NewPolicy("latency", nil)
	if err != nil {
		t.Fatal(err)
	}
	q := &Request{Tokens: 1000, Output: 10}
	for range 20 {
		for id, seconds := range map[int]float64{slow: 3, fast: 1} {
			flight := f.Send(id, q)
			flight.First(seconds)
			flight.End(10, seconds)
		}
	}
	if d := f.Choose(p, q, []int{slow, fast}); d.Chosen != 1 {
		t.Error(d)
	}
}

// TestNoHerd counts how many of many equal endpoints a burst of requests reaches through gateways that do not know of
// each other: with the same facts, each draws for itself.
func TestNoHerd(t *testing.T) {
	const endpoints, gateways = 16, 64
	p, err := NewPolicy("balanced", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]int{}
	for g := range uint64(gateways) {
		f := NewFleet(Options{Seed: g, Blocks: 100})
		var all []int
		for range endpoints {
			id, err := f.Join(Endpoint{Name: "e"})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, id)
		}
		d := f.Choose(p, &Request{Tokens: 100}, all)
		got[d.Rated[d.Chosen].ID]++
	}
	most := 0
	for _, n := range got {
		most = max(most, n)
	}
	if len(got) < endpoints*3/4 || most > gateways/4 {
		t.Errorf("%d gateways chose %v", gateways, got)
	}
}

// TestFlightsEnd takes and gives the counts of a random history, which must be zero when all has ended.
func TestFlightsEnd(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	f := NewFleet(Options{Blocks: 100})
	a, _ := f.Join(Endpoint{Name: "a"})
	var flights []*Flight
	for range 1000 {
		if q := (&Request{Blocks: prompt(random.Uint64N(9), random.IntN(30)), Tokens: random.IntN(5000), Output: random.IntN(500)}); random.IntN(2) == 0 {
			flights = append(flights, f.Send(a, q))
		} else if n := len(flights); n > 0 {
			if i := random.IntN(n); random.IntN(3) > 0 {
				flights[i].First(random.Float64())
			} else {
				flights[i].End(random.IntN(100), random.Float64())
				flights[i] = flights[n-1]
				flights = flights[:n-1]
			}
		}
		if c := f.View(&Request{}, []int{a})[0]; c.Requests != len(flights) || c.TokensInFlight < 0 {
			t.Fatalf("%d requests and %d tokens in flight; want %d requests", c.Requests, c.TokensInFlight, len(flights))
		}
	}
	for _, x := range flights {
		x.End(0, 0)
	}
	if c := f.View(&Request{}, []int{a})[0]; c.Requests != 0 || c.TokensInFlight != 0 {
		t.Errorf("%d requests and %d tokens in flight at the end", c.Requests, c.TokensInFlight)
	}
}

// TestManyJoin fills a fleet, more than once what a set's first words hold.
func TestManyJoin(t *testing.T) {
	f := NewFleet(Options{Blocks: 100})
	for i := range MaxEndpoints {
		id, err := f.Join(Endpoint{Name: "e"})
		if err != nil || id != i {
			t.Fatalf("endpoint %d: number %d, %v", i, id, err)
		}
		q := &Request{Blocks: prompt(uint64(i), 3), Tokens: 30}
		f.Send(id, q).End(0, 0)
		if c := f.View(q, []int{id})[0]; c.HeldBlocks != 3 {
			t.Fatalf("endpoint %d holds %d blocks", i, c.HeldBlocks)
		}
	}
	if _, err := f.Join(Endpoint{}); err == nil || !strings.Contains(err.Error(), "256") {
		t.Error(err)
	}
	f.Leave(77)
	if id, err := f.Join(Endpoint{}); id != 77 || err != nil {
		t.Errorf("number %d, %v; want the one that is free", id, err)
	}
}

// BenchmarkChoose chooses among 8 and 256 endpoints for a prompt of 1,600 blocks that an endpoint holds half of.
func BenchmarkChoose(b *testing.B) {
	p, err := NewPolicy("balanced", nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{8, 256} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			f := NewFleet(Options{Blocks: 50_000})
			var all []int
			for i := range n {
				id, _ := f.Join(Endpoint{Name: "e"})
				all = append(all, id)
				f.Send(id, &Request{Blocks: prompt(uint64(i), 800), Tokens: 800}).End(0, 0)
			}
			q := &Request{Blocks: prompt(1, 1600), Tokens: 1600, Output: 100}
			b.ReportAllocs()
			for b.Loop() {
				f.Choose(p, q, all)
			}
		})
	}
}

// TestSLO holds that the slo policy takes the cheap endpoint as long as it is fast enough, and that an endpoint which
// turned requests away is full earlier.
func TestSLO(t *testing.T) {
	f := NewFleet(Options{Seed: 1, Blocks: 100})
	cheap, _ := f.Join(Endpoint{Name: "cheap", Cost: 1, Limit: 16})
	dear, _ := f.Join(Endpoint{Name: "dear", Cost: 4, Limit: 16})
	for i := range 40 { // 1 ms and 0.1 ms a token of a prompt, and as much again for each request beside it
		for id, speed := range map[int]float64{cheap: 0.001, dear: 0.0001} {
			tokens := 100 + 10*i
			flight := f.Send(id, &Request{Tokens: tokens, Output: 10})
			flight.First(0.001 + speed*float64(tokens))
			flight.End(10, 10*speed)
		}
	}
	p, err := NewPolicy("slo", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		slo    SLO
		tokens int
		want   int
	}{
		{SLO{}, 2000, cheap}, {SLO{TTFT: 1}, 500, cheap}, {SLO{TTFT: 1}, 4000, dear}, {SLO{TPOT: 0.0005}, 10, dear},
		{SLO{TTFT: 5, TPOT: 0.01}, 2000, cheap},
	} {
		d := f.Choose(p, &Request{Tokens: c.tokens, Output: 10, SLO: c.slo}, []int{cheap, dear})
		if d.Rated[d.Chosen].ID != c.want {
			t.Errorf("%+v: %s", c, d)
		}
	}
	for range 10 {
		f.Send(cheap, &Request{})
	}
	if f.Refused(cheap); f.Most(cheap) != 9 || f.Most(dear) != 16 {
		t.Errorf("limits %d and %d; want 9 and 16", f.Most(cheap), f.Most(dear))
	}
	if d := f.Choose(p, &Request{}, []int{cheap}); d.Chosen >= 0 {
		t.Errorf("an endpoint that is full was chosen: %s", d)
	}
}
