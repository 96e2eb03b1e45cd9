package sched

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCost holds that costs are learned from steps of a machine, whatever it costs there, and that thousands of steps
// that only decode do not make it forget what prompts cost.
func TestCost(t *testing.T) {
	for _, machine := range [][3]float64{{2000, 150, 0.02}, {30000, 2000, 0.5}, {500, 1, 0.0001}, {0, 100, 0}, {9000, 0.1, 0}} {
		r := rand.New(rand.NewPCG(3, 4))
		var c cost
		take := func(rows, mean int64) float64 {
			return machine[0] + machine[1]*float64(rows) + machine[2]*float64(rows*mean)
		}
		see := func(rows, mean int64) {
			c.observe(rows, rows*mean, take(rows, mean)*(0.95+0.1*r.Float64()))
		}
		for range 100 {
			see(1+r.Int64N(512), 1+r.Int64N(4000))
		}
		for range 5000 {
			see(8, 500)
		}
		c.observe(512, 512*1000, 1e9) // the machine slept
		c.fit()
		for _, x := range [][2]int64{{8, 500}, {64, 500}, {256, 2000}, {512, 3000}} {
			want := take(x[0], x[1])
			got := c.base() + c.coefs[1]*float64(x[0]) + c.coefs[2]*float64(x[0]*x[1])
			if math.Abs(got-want) > 0.3*want {
				t.Errorf("machine %v: %d rows at %d take %.0f; want %.0f", machine, x[0], x[1], got, want)
			}
		}
		for i, x := range c.coefs {
			if x < 0 {
				t.Errorf("machine %v: coefficient %d is %g", machine, i, x)
			}
		}
	}
}

func TestCostOfOneKind(t *testing.T) {
	var c cost
	c.fit()
	if c.known || c.coefs != [3]float64{} {
		t.Errorf("nothing measured, and %v", c.coefs)
	}
	c.observe(100, 100*50, 5000)
	c.observe(0, 0, 5)
	c.fit()
	if got := c.base() + c.work(0, 100); math.Abs(got-5000) > 50 {
		t.Errorf("the only step seen takes %g; want 5000", got)
	}
	if n := c.afford(2500, 0, 0, 1000); n < 45 || n > 55 {
		t.Errorf("%d rows are afforded in half of the time of 100", n)
	}
}

// simulated simulates a device whose steps take a time.
type simulated struct {
	s      *Scheduler
	take   func(p *Plan) float64 // microseconds
	arrive func()                // what comes while a step is under way, if not nil
	micros float64
	steps  []float64 // of those in which anyone decoded
	chunks int       // rows of prompts
}

// step runs one step, and reports false if there is none.
func (m *simulated) step() bool {
	p := m.s.Next()
	if p == nil {
		return false
	}
	m.s.Begin(p)
	results := make([]Result, len(p.Seqs))
	decodes := false
	for i, w := range p.Seqs {
		if w.Sample {
			results[i].Tokens = []int32{7}
		}
		if w.N == 1 && w.Sample && w.Start > 0 {
			decodes = true
		} else {
			m.chunks += w.N
		}
	}
	took := m.take(p)
	if m.micros += took; decodes {
		m.steps = append(m.steps, took)
	}
	m.s.Tick(int64(m.micros))
	if m.arrive != nil {
		m.arrive()
	}
	m.s.Took(p, int64(took))
	m.s.Commit(p, results)
	return true
}

func newSimulated(t *testing.T, cfg Config) *simulated {
	t.Helper()
	cfg.BlockTokens, cfg.Blocks, cfg.TokenBudget, cfg.MaxPassed = 16, 1<<14, 512, 16
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &simulated{s: s, take: func(p *Plan) float64 {
		us := 20000.0 // of a model of 1.1B in 8 bits on a small machine
		for _, w := range p.Seqs {
			us += 1500*float64(w.N) + 0.3*float64(pairs(w.Start, w.N))
		}
		return us
	}}
}

// TestStepTarget holds that steps keep to their target while prompts are computed beside sequences that decode, as soon
// as a few steps were measured; that the prompts go on nevertheless; and that without a target, or without anyone who
// decodes, steps are as large as they may be.
func TestStepTarget(t *testing.T) {
	run := func(target int64, decoders int) *simulated {
		m := newSimulated(t, Config{MaxSeqs: 64, StepTarget: target})
		id := SeqID(0)
		add := func(prompt, most int) {
			id++
			tokens := make([]int32, prompt)
			for i := range tokens {
				tokens[i] = int32(id)
			}
			if err := m.s.Add(Request{ID: id, Prompt: tokens, MaxTokens: most}); err != nil {
				t.Fatal(err)
			}
		}
		for range decoders {
			add(20, 2000)
		}
		for range 50 {
			m.step()
		}
		m.steps, m.chunks = nil, 0
		for range 4 {
			add(2000, 1)
		}
		for range 300 {
			m.step()
		}
		return m
	}
	m := run(100_000, 8)
	late := 0
	for _, us := range m.steps {
		if us > 120_000 {
			late++
		}
	}
	if len(m.steps) < 290 || late > 5 {
		t.Errorf("%d of %d steps take longer than the target", late, len(m.steps))
	}
	if m.chunks != 8000 {
		t.Errorf("%d tokens of prompts are computed; want 8000", m.chunks)
	}
	free := run(0, 8)
	worst := 0.0
	for _, us := range free.steps {
		worst = max(worst, us)
	}
	if worst < 500_000 {
		t.Errorf("without a target the longest step takes %.0f us", worst)
	}
	if alone := run(100_000, 0); alone.chunks != 8000 || alone.micros > 0.6*free.micros {
		t.Errorf("where nobody decodes, %d tokens take %.0f us", alone.chunks, alone.micros)
	}
}

// TestImpossibleTarget holds that a target that decoding alone exceeds still lets prompts go on.
func TestImpossibleTarget(t *testing.T) {
	m := newSimulated(t, Config{MaxSeqs: 8, StepTarget: 1})
	for id := range SeqID(3) {
		if err := m.s.Add(Request{ID: id + 1, Prompt: make([]int32, 400), MaxTokens: 200}); err != nil {
			t.Fatal(err)
		}
	}
	for range 400 {
		m.step()
	}
	if st := m.s.Stats(); st.Running+st.Waiting > 0 {
		t.Errorf("still there: %v", st)
	}
}

// goodput offers requests to a simulated machine, whose speed varies, and returns how many a second
// have their first token within 2 s, and how long those were told to wait that were refused.
func goodput(t *testing.T, base, row, rate float64, most int64, prompt int) (good float64, waits []int64) {
	m := newSimulated(t, Config{MaxSeqs: 64, StepTarget: 50_000, MaxQueueTime: most})
	r := rand.New(rand.NewPCG(5, 6))
	arrived, first := map[SeqID]float64{}, map[SeqID]float64{}
	speed := 1.0
	m.take = func(p *Plan) float64 {
		if speed += 0.1 * (1 + 0.2*r.NormFloat64() - speed); r.IntN(100) == 0 {
			speed = 2 // others have the processors
		}
		us := base
		for _, w := range p.Seqs {
			us += row*float64(w.N) + row/5000*float64(pairs(w.Start, w.N))
		}
		us *= max(0.5, speed)
		for _, w := range p.Seqs {
			if w.Sample && first[w.ID] == 0 {
				first[w.ID] = m.micros + us
			}
		}
		return us
	}
	id, next := SeqID(0), 0.0
	until := 100e6 * max(1, row*float64(prompt)/100_000) // of about as many prompts
	for m.micros < until {
		for ; next <= m.micros; next += 1e6 / rate * r.ExpFloat64() {
			id++
			tokens := make([]int32, prompt/2+r.IntN(prompt))
			for i := range tokens {
				tokens[i] = int32(id)
			}
			err := m.s.Add(Request{ID: id, Prompt: tokens, MaxTokens: 20 + r.IntN(40)})
			if busy, ok := err.(*BusyError); ok {
				waits = append(waits, busy.Wait)
			} else if err != nil {
				t.Fatal(err)
			} else {
				arrived[id] = next
			}
		}
		if !m.step() {
			m.micros = next
		}
	}
	for id, at := range arrived {
		if at >= 0.4*until && first[id] > 0 && first[id]-at < 2e6 {
			good++
		}
	}
	return good / (0.6e-6 * until), waits
}

// TestQueueByTime holds that at ten times the best load a machine still has nine tenths of its best goodput, with the
// default bound, also where four prompts take longer than the bound; and that whoever is refused is told for how long.
func TestQueueByTime(t *testing.T) {
	if invariants {
		t.Skip("with all books verified in each call, hours of simulated load take too long")
	}
	for _, c := range []struct {
		base, row float64 // microseconds
		prompt    int
	}{{20000, 1500, 64}, {4000, 240, 256}, {2000, 120, 64}, {2000, 120, 1024}, {20000, 1500, 512}, {60000, 6000, 128}} {
		prompt, best, at := c.prompt, 0.0, 0.0
		for rate := 0.1; rate < 80; rate *= 2 {
			if good, _ := goodput(t, c.base, c.row, rate, 2000, prompt); good > best {
				best, at = good, rate
			}
		}
		over, waits := goodput(t, c.base, c.row, 10*at, 2000, prompt)
		without, _ := goodput(t, c.base, c.row, 10*at, 0, prompt)
		t.Logf("prompts of %d: goodput %.2f/s at %.2f/s, %.2f at 10 times that, %.2f without a bound; %d refused", prompt, best, at, over, without, len(waits))
		if over < 0.9*best || without > best/2 || len(waits) < 100 {
			t.Errorf("prompts of %d: goodput %.2f at best, %.2f at 10 times the load and %.2f without a bound; %d are refused", prompt, best, over, without, len(waits))
		}
		for _, w := range waits {
			if w <= 0 || w > 60_000 {
				t.Fatalf("refused for a wait of %d ms", w)
			}
		}
	}
}

// TestPatience holds that where no prompt can be in time, several wait, time and again; and that where some can, those
// that cannot wait for a while and then are refused, unless no prompt is computed.
func TestPatience(t *testing.T) {
	m := newSimulated(t, Config{MaxSeqs: 1, MaxQueueTime: 2000})
	id := SeqID(0)
	add := func(n int) error {
		id++
		prompt := make([]int32, n)
		for i := range prompt {
			prompt[i] = int32(id)
		}
		return m.s.Add(Request{ID: id, Prompt: prompt, MaxTokens: 1})
	}
	taken := func(long int, short bool) (n int) {
		for range 50 {
			for range 3 {
				if add(long) == nil {
					n++
				}
			}
			if short {
				add(64) // whether it is taken does not matter
			}
			for m.step() {
			}
		}
		return n
	}
	taken(64, false)
	m.micros += 70e6
	m.s.Tick(int64(m.micros))
	if n := taken(3000, false); n != 150 {
		t.Errorf("%d of 150 prompts are taken where none can be in time", n)
	}
	if n := taken(3000, true); n < 50 || n > 70 {
		t.Errorf("%d of 150 prompts are taken that cannot be in time, where others can; want the 50 that wait for nobody and a few", n)
	}
}

// TestWithin holds that a request that says by when is refused by that alone, and that the patient never are.
func TestWithin(t *testing.T) {
	m := newSimulated(t, Config{MaxSeqs: 1, MaxQueueTime: 1})
	add := func(id SeqID, within int64, patient bool) error {
		return m.s.Add(Request{ID: id, Prompt: make([]int32, 1000), MaxTokens: 10, Within: within, Patient: patient})
	}
	for id := range SeqID(4) {
		if err := add(id+1, 0, false); err != nil {
			t.Fatal(err)
		}
		m.step()
	}
	if err := add(5, 10, false); err == nil {
		t.Error("a request that cannot have its token in 10 ms is taken")
	}
	if err := add(6, 60_000, false); err != nil {
		t.Error(err)
	}
	if err := add(7, 0, false); err == nil {
		t.Error("a fifth is taken")
	}
	if err := add(8, 0, true); err != nil {
		t.Error(err)
	}
}

// TestFloodOfOnePayer lets one payer ask for ten times what a machine can do. Another who asks now and then is refused
// without a payer's name, and never with it: the flood is refused in its place.
func TestFloodOfOnePayer(t *testing.T) {
	serve := func(flood, polite string) (refused int, waits []float64) {
		m := newSimulated(t, Config{MaxSeqs: 8, StepTarget: 50_000, MaxQueueTime: 2000})
		r := rand.New(rand.NewPCG(5, 6))
		arrived := map[SeqID]float64{}
		take := m.take
		m.take = func(p *Plan) float64 {
			us := take(p)
			for _, w := range p.Seqs {
				if at, ok := arrived[w.ID]; w.Sample && ok {
					waits = append(waits, m.micros+us-at)
					delete(arrived, w.ID)
				}
			}
			return us
		}
		id := SeqID(0)
		ask := func(payer string) error {
			id++
			prompt := make([]int32, 64)
			for i := range prompt {
				prompt[i] = int32(id)
			}
			r := Request{ID: id, Prompt: prompt, MaxTokens: 40, Payer: payer}
			for {
				err := m.s.Add(r)
				if err == nil || !errors.Is(err, ErrQueueFull) {
					return err
				}
				out, ok := m.s.Expendable(&r)
				if !ok {
					return err
				}
				if arrived[out] > 0 {
					t.Fatal("a polite request makes room")
				}
				m.s.Cancel(out)
			}
		}
		next, later := 0.0, 20e6
		for m.micros < 300e6 {
			for ; next <= m.micros; next += 1e5 * r.ExpFloat64() {
				ask(flood)
			}
			for ; later <= m.micros; later += 5e6 {
				if ask(polite) == nil {
					arrived[id] = later
				} else {
					refused++
				}
			}
			if !m.step() {
				m.micros = next
			}
		}
		return refused, waits
	}
	if refused, _ := serve("", ""); refused < 20 {
		t.Errorf("without names %d are refused: the load shows little", refused)
	}
	refused, waits := serve("flood", "polite")
	if slices.Sort(waits); refused > 0 || len(waits) < 50 || waits[len(waits)-1] > 6e6 {
		t.Errorf("%d are refused, and %d have a first token, after %.0f us at most", refused, len(waits), waits[len(waits)-1])
	}
}

// TestTargetCosts holds that beside 8 sequences that decode and a stream of prompts of 4,000 tokens, 99 of 100 tokens
// come within two targets, and that where a target has time for many rows, prompts keep nine tenths of their speed.
func TestTargetCosts(t *testing.T) {
	for _, c := range []struct {
		base, row float64 // microseconds
		read      float64 // microseconds that a step takes at least
		decoders  int
		keep      float64
	}{{2000, 120, 0, 8, 0.9}, {4000, 500, 0, 8, 0.8}, {20000, 1500, 0, 8, 0.3}, {0, 3300, 37000, 8, 0.55}, {0, 3300, 37000, 2, 0.9}} {
		run := func(target int64) (p99, speed float64) {
			m := newSimulated(t, Config{MaxSeqs: 64, StepTarget: target})
			r := rand.New(rand.NewPCG(3, 4))
			m.take = func(p *Plan) float64 {
				us := c.base
				for _, w := range p.Seqs {
					us += c.row*float64(w.N) + c.row/5000*float64(pairs(w.Start, w.N))
				}
				return max(us, c.read) * (0.95 + 0.1*r.Float64())
			}
			id := SeqID(0)
			add := func(prompt, most int) {
				id++
				tokens := make([]int32, prompt)
				for i := range tokens {
					tokens[i] = int32(id)
				}
				if err := m.s.Add(Request{ID: id, Prompt: tokens, MaxTokens: most}); err != nil {
					t.Fatal(err)
				}
			}
			for range c.decoders {
				add(20, 1<<14)
			}
			for range 50 {
				m.step()
			}
			m.steps, m.chunks = nil, 0
			begin := m.micros
			for m.micros < begin+60e6 {
				for m.s.Stats().Running+m.s.Stats().Waiting < c.decoders+2 {
					add(4000, 1)
				}
				m.step()
			}
			slices.Sort(m.steps)
			return m.steps[len(m.steps)*99/100], float64(m.chunks) / (m.micros - begin) * 1e6
		}
		p99, speed := run(50_000)
		free, most := run(0)
		t.Logf("%.0f us a step, at least %.0f, and %.0f a row beside %d: p99 between tokens %.0f ms, prompts %.0f tokens/s; without a target %.0f ms and %.0f tokens/s; %.0f%%",
			c.base, c.read, c.row, c.decoders, p99/1e3, speed, free/1e3, most, 100*speed/most)
		if p99 > 100_000 || speed < c.keep*most {
			t.Errorf("%.0f us a step and %.0f a row: p99 between tokens %.0f ms, prompts have %.2f of their speed", c.base, c.row, p99/1e3, speed/most)
		}
	}
}
