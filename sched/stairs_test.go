package sched

import (
	"slices"
	"testing"
)

func TestStairs(t *testing.T) {
	s, err := newStairs([]Stair{{256, 9}, {512, 15}, {768, 16}, {1024, 40}})
	if err != nil {
		t.Fatal(err)
	}
	unit := 40.0 / 1024
	for rows, want := range map[int]float64{0: 0, 1: 9 / unit, 256: 9 / unit, 257: 15 / unit, 1024: 1024, 2000: 2000} {
		if got := s.of(rows); got != want {
			t.Errorf("%d rows are as many as %g; want %g", rows, got, want)
		}
	}
	for _, c := range [][3]int{
		{250, 500, 500}, {250, 518, 518}, {250, 519, 518}, {250, 700, 518}, {250, 1500, 1500}, {600, 160, 160}, {600, 300, 168},
		{0, 10, 10}, {2000, 70, 70}, {700, 400, 400},
	} {
		if n := s.best(c[0], c[1]); n != c[2] {
			t.Errorf("beside %d rows %d of %d are computed; want %d", c[0], n, c[1], c[2])
		}
	}
	if n := (stairs)(nil).best(5, 100); n != 100 || (stairs)(nil).of(7) != 7 {
		t.Errorf("without stairs %d of 100 rows are computed", n)
	}
	for _, bad := range [][]Stair{{{0, 1}}, {{1, 0}}, {{2, 1}, {2, 2}}, {{1, 2}, {2, 2}}} {
		if _, err := New(Config{BlockTokens: 1, Blocks: 9, MaxSeqs: 1, TokenBudget: 1, Stairs: bad}); err == nil {
			t.Errorf("stairs %v are taken", bad)
		}
	}
}

// gpuSteps is what steps take on a GPU, in milliseconds: products of so many rows, and decoding rows' attention; and
// what the device says of the products.
type gpuSteps struct {
	name           string
	products, said []Stair
}

// blocks256 and blocks160 are what a device says of products with blocks of 128 and 256 rows, and with others between
// besides: in milliseconds, of an 8B model in BF16 on an H100.
var (
	blocks256 = []Stair{{32, 2.7}, {64, 3.2}, {128, 4.6}, {256, 6.5}, {384, 11.4}, {512, 11.5}, {640, 17}, {768, 18}, {1024, 19.5}, {1280, 28.4},
		{1536, 32.7}, {1792, 35.4}, {2048, 38.3}, {8192, 152}}
	blocks160 = []Stair{{32, 2.7}, {64, 3.2}, {128, 4.6}, {192, 5.9}, {256, 6.5}, {320, 9.5}, {384, 10.1}, {448, 10.7}, {512, 11.5}, {576, 13.7},
		{640, 14.1}, {672, 15.4}, {768, 15.9}, {800, 17.3}, {896, 17.7}, {960, 19.3}, {1024, 19.5}, {1120, 24.2}, {1280, 25.8}, {1536, 30.2},
		{1792, 33.7}, {2048, 38.3}, {8192, 152}}
)

// gpus have what steps take: as measured with the first, and estimated with the others, a third more than said.
var gpus = []gpuSteps{
	{"blocks of 128 and 256 rows", []Stair{{1, 5.8}, {64, 6.3}, {128, 7}, {256, 8.8}, {512, 14.9}, {768, 21.6}, {1024, 25.7}, {1280, 32.4}, {1536, 38.2},
		{1792, 44.3}, {2048, 50}, {8192, 197}}, blocks256},
	{"and of 160 to 224", times(blocks160, 1.33), blocks160},
}

// times returns stairs that take so many times as long, and as long as reading weights takes.
func times(said []Stair, n float64) []Stair {
	out := slices.Clone(said)
	for i := range out {
		out[i].Work = max(n*out[i].Work, 5.7+0.0125*float64(min(out[i].Rows, 256)))
	}
	return out
}

// take returns how long a step takes, in microseconds.
func (g *gpuSteps) take(p *Plan) float64 {
	i := slices.IndexFunc(g.products, func(s Stair) bool { return s.Rows >= p.Rows })
	ms := g.products[i].Work
	for _, w := range p.Seqs {
		if w.N == 1 {
			ms += 44e-6 * float64(w.Start+1)
		} else {
			ms += 2.3e-6 * float64(pairs(w.Start, w.N))
		}
	}
	return 1e3 * ms
}

// serve simulates clients that send a prompt of 512 tokens, wait for its 256 tokens, and send the next, n in all. Two
// steps are under way at a time. It returns output tokens a second, and milliseconds of steps and until first tokens.
func (g *gpuSteps) serve(t *testing.T, clients, n int, target int64, stairs []Stair) (rate, p99, first float64) {
	const host, turnaround = 1000, 1500 // microseconds from the end of a step to the next plan, and to the next prompt
	s, err := New(Config{BlockTokens: 16, Blocks: 26000, TokenBudget: 8192, MaxPassed: 16, MaxSeqs: 256, StepTarget: target, Stairs: stairs})
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		plan       *Plan
		begin, end float64
	}
	var steps []step
	var begins, gaps, firsts []float64 // of prompts to come; of steps, weighted; of first tokens
	now, free, from, to := 0.0, 0.0, 0.0, 0.0
	arrived := map[SeqID]float64{}
	ended, tokens, added := 0, 0, 0
	begins = make([]float64, clients)
	arrive := func() {
		for len(begins) > 0 && begins[0] <= now && added < n {
			prompt := make([]int32, 512)
			for i := range prompt {
				prompt[i] = int32(added)
			}
			arrived[SeqID(added)] = begins[0]
			if err := s.Add(Request{ID: SeqID(added), Prompt: prompt, MaxTokens: 256}); err != nil {
				t.Fatal(err)
			}
			begins, added = begins[1:], added+1
		}
	}
	for ended < n {
		s.Tick(int64(now))
		arrive()
		for len(steps) < 2 {
			p := s.Next()
			if p == nil {
				break
			}
			s.Begin(p)
			begin := max(now, free)
			free = begin + g.take(p)
			steps = append(steps, step{p, begin, free})
		}
		if len(steps) == 0 {
			now = begins[0]
			continue
		}
		st := steps[0]
		steps, now = steps[1:], st.end
		arrive()
		results := make([]Result, len(st.plan.Seqs))
		for i, w := range st.plan.Seqs {
			if !w.Sample {
				continue
			}
			results[i].Tokens = []int32{7}
			if from == 0 || to > 0 {
				continue
			}
			if tokens++; w.Start+w.N > 512 {
				gaps = append(gaps, st.end-st.begin)
			} else {
				firsts = append(firsts, now-arrived[w.ID])
			}
		}
		s.Tick(int64(now))
		s.Took(st.plan, int64(st.end-st.begin))
		s.Commit(st.plan, results)
		for _, r := range results {
			if r.Finished {
				ended++
				begins = append(begins, now+turnaround)
			}
		}
		if from == 0 && ended >= n/4 {
			from = now
		}
		if to == 0 && ended >= n*3/4 {
			to = now
		}
		now += host
	}
	slices.Sort(gaps)
	slices.Sort(firsts)
	return float64(tokens) / (to - from) * 1e6, gaps[len(gaps)*99/100] / 1e3, firsts[len(firsts)/2] / 1e3
}

// TestChunksFillStairs holds that a scheduler that knows the stairs of a device gives more tokens than one that takes
// rows to be equal, and steps that are no longer.
func TestChunksFillStairs(t *testing.T) {
	for _, c := range []struct {
		gpu        gpuSteps
		clients, n int
		target     int64
		gain       float64
	}{
		{gpus[0], 256, 1024, 30_000, 1.04}, {gpus[0], 64, 384, 30_000, 1}, {gpus[0], 8, 64, 30_000, 0.99},
		{gpus[1], 256, 1024, 30_000, 1.02}, {gpus[1], 256, 1024, 40_000, 1.06}, {gpus[1], 64, 384, 40_000, 1.03}, {gpus[1], 8, 64, 40_000, 0.99},
	} {
		plain, p99, first := c.gpu.serve(t, c.clients, c.n, c.target, nil)
		rate, p99With, firstWith := c.gpu.serve(t, c.clients, c.n, c.target, c.gpu.said)
		t.Logf("%s, %d clients, target %d ms: %.0f tokens/s, p99 %.1f ms, first tokens %.0f ms; without stairs %.0f, %.1f and %.0f",
			c.gpu.name, c.clients, c.target/1000, rate, p99With, firstWith, plain, p99, first)
		if rate < c.gain*plain || p99With > 1.05*p99 || firstWith > 1.25*first {
			t.Errorf("%s, %d clients: want %.2f times as many tokens", c.gpu.name, c.clients, c.gain)
		}
	}
}
