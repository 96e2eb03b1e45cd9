package sched

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// twoTenants simulates a device, with one step planned ahead as the engine does, that serves a polite tenant, which has
// one request at a time and asks again at any moment, beside a greedy one, which always has as many requests.
type twoTenants struct {
	simulated
	t        *testing.T
	r        *rand.Rand
	under    *Plan // the step that is computed
	prompt   int
	long     int // tokens of the greedy one's prompts, if they are others
	most     int // and those of its answers then
	id       SeqID
	polite   SeqID
	asked    float64 // when it was, -1: it has its first token
	firsts   []float64
	yielded  map[string]int // tokens
	computed int            // of greedy prompts
	owner    map[SeqID]string
	left     map[SeqID]int
	greedy   int  // requests of the greedy tenant to be made
	same     bool // the polite tenant's prompts are, so that the cache has all but their last token
	think    float64
	hasty    bool    // it is heard while a step is computed, not only after it
	due      float64 // when the polite one asks next, -1: it has an answer to wait for
}

func newTwoTenants(t *testing.T, cfg Config, base, row float64, prompt int) *twoTenants {
	m := &twoTenants{simulated: *newSimulated(t, cfg), t: t, r: rand.New(rand.NewPCG(1, 2)), prompt: prompt, asked: -1,
		yielded: map[string]int{}, owner: map[SeqID]string{}, left: map[SeqID]int{}, due: -1}
	m.take = func(p *Plan) float64 {
		us := base
		for _, w := range p.Seqs {
			us += row*float64(w.N) + row/5000*float64(pairs(w.Start, w.N))
		}
		return us
	}
	return m
}

func (m *twoTenants) add(tenant string, most int) SeqID {
	m.id++
	prompt := make([]int32, m.prompt)
	if tenant == "greedy" && m.long > 0 {
		prompt, most = make([]int32, m.long), m.most
	}
	for i := range prompt {
		if prompt[i] = int32(m.id); m.same && tenant == "polite" {
			prompt[i] = 0
		}
	}
	if err := m.s.Add(Request{ID: m.id, Prompt: prompt, MaxTokens: most, Tenant: tenant, Keys: kv.Keys{Salt: tenant}}); err != nil {
		m.t.Fatal(err)
	}
	m.owner[m.id], m.left[m.id] = tenant, most
	return m.id
}

// step plans a step and sees the one before to its end.
func (m *twoTenants) step() {
	next := m.s.Next()
	if next != nil {
		m.s.Begin(next)
	}
	p := m.under
	if m.under = next; p == nil && next == nil {
		at, ok := m.s.Wake()
		if m.due >= 0 {
			m.micros = m.due
		}
		if ok {
			m.micros = min(m.micros, float64(at))
		}
		m.s.Tick(int64(m.micros))
	} else if p != nil {
		if m.hasty {
			m.ask(m.micros + m.take(p))
		}
		m.done(p)
	}
	for ; m.greedy > 0; m.greedy-- {
		m.add("greedy", 200)
	}
	m.ask(m.micros)
}

// ask lets the polite tenant ask if that is due by then.
func (m *twoTenants) ask(by float64) {
	if m.due >= 0 && m.due <= by {
		m.s.Tick(int64(m.due))
		m.polite, m.asked, m.due = m.add("polite", 5), m.due, -1
	}
}

func (m *twoTenants) done(p *Plan) {
	took := m.take(p)
	m.micros += took
	results := make([]Result, len(p.Seqs))
	for i, w := range p.Seqs {
		if m.owner[w.ID] == "greedy" && (w.N > 1 || !w.Sample) {
			m.computed += w.N
		}
		if !w.Sample {
			continue
		}
		results[i].Tokens = []int32{7}
		m.yielded[m.owner[w.ID]]++
		if w.ID == m.polite && m.asked >= 0 {
			m.firsts, m.asked = append(m.firsts, m.micros-m.asked), -1
		}
		if m.left[w.ID]--; m.left[w.ID] == 0 {
			if w.ID == m.polite {
				m.due = m.micros + m.think*2*m.r.Float64()
			} else {
				m.greedy++
			}
		}
	}
	m.s.Tick(int64(m.micros))
	m.s.Took(p, int64(took))
	m.s.Commit(p, results)
}

// worst returns the 99th percentile of the polite tenant's times to the first token, in microseconds.
func (m *twoTenants) worst() float64 {
	slices.Sort(m.firsts)
	return m.firsts[len(m.firsts)*99/100]
}

// TestPoliteTenant holds that under vtc the first token of a tenant with one request at a time takes about twice as
// long at most beside one that always has 30 requests, or two and a half times where all of its prompt but a token is
// cached, or a fifth longer if all that it asks takes little and it asks again at once; and that the other makes good
// use of the time that is left.
func TestPoliteTenant(t *testing.T) {
	for _, c := range []struct {
		name         string
		base, row    float64 // microseconds
		prompt, seqs int
		least        float64 // that the other gets, of the time that is left
		micros       float64 // that are simulated
		same         bool
		most         float64 // times that the first token may take what it takes alone
		think        float64 // microseconds until the next request, in the mean; 0: three times what the prompt takes
	}{
		{"1.1B, short prompts", 20000, 1500, 64, 16, 0.85, 120e6, false, 2.15, 0},
		{"1.1B", 20000, 1500, 512, 16, 0.85, 120e6, false, 2.15, 0},
		{"1.1B, places for all", 20000, 1500, 512, 64, 0.85, 120e6, false, 2.15, 0},
		{"small", 2000, 120, 256, 16, 0.85, 120e6, false, 2.15, 0},
		{"small, places for all", 2000, 120, 256, 64, 0.85, 120e6, false, 2.15, 0},
		{"small, long prompts", 2000, 120, 2000, 64, 0.82, 120e6, false, 2.15, 0},
		{"tiny, words for prompts", 2500, 270, 6, 16, 0.4, 20e6, false, 2.15, 0},
		{"1.1B, words for prompts", 20000, 1500, 6, 16, 0.4, 120e6, false, 2.15, 0},
		{"1.1B, cached prompts", 20000, 1500, 64, 16, 0.35, 120e6, true, 2.5, 0},
		{"1.1B on four cores, cached", 28000, 1700, 12, 16, 0.35, 120e6, true, 2.5, 0},
		{"small, cached", 2000, 120, 256, 16, 0.35, 120e6, true, 2.5, 0},
		{"tiny, cached", 1000, 100, 13, 16, 0.35, 20e6, true, 2.7, 0},
		{"tiny, asks again at once", 2500, 270, 6, 16, 0.4, 20e6, false, 1.2, 500},
		{"small, asks again at once", 2000, 120, 256, 16, 0.85, 20e6, false, 2, 500},
		{"1.1B, asks again at once", 20000, 1500, 64, 16, 0.85, 120e6, false, 2, 1000},
		{"1.1B, cached, asks again at once", 20000, 1500, 64, 16, 0.35, 120e6, true, 1.2, 1000},
	} {
		run := func(policy string, greedy int, polite bool) *twoTenants {
			m := newTwoTenants(t, Config{MaxSeqs: c.seqs, StepTarget: 50_000, Policy: policy, PrefixCache: c.same}, c.base, c.row, c.prompt)
			m.think, m.greedy, m.same = cmp.Or(c.think, 3*c.row*float64(c.prompt)), greedy, c.same
			for range 1000 * min(greedy, 1) {
				m.step()
			}
			if m.hasty = c.think > 0; polite {
				m.due = m.micros
			}
			m.yielded, m.computed = map[string]int{}, 0
			for end := m.micros + c.micros; m.micros < end; {
				m.step()
			}
			return m
		}
		alone, beside, only, fcfs := run("vtc", 0, true), run("vtc", 30, true), run("vtc", 30, false), run("fcfs", 30, true)
		// In the time that the polite one's prompts take, the other gets nothing.
		rest := 1 - float64(len(beside.firsts)*c.prompt)*c.row/c.micros
		got := float64(beside.computed+beside.yielded["greedy"]) / float64(only.computed+only.yielded["greedy"])
		t.Logf("%s: first token p99 %.0f ms alone, %.0f beside (%.2f times), %.0f under fcfs; the other gets %.2f of what it has alone, and %.2f of the time",
			c.name, alone.worst()/1e3, beside.worst()/1e3, beside.worst()/alone.worst(), fcfs.worst()/1e3, got, rest)
		if beside.worst() > c.most*alone.worst() {
			t.Errorf("%s: the first token takes %.2f times as long as alone", c.name, beside.worst()/alone.worst())
		}
		if got < c.least*rest {
			t.Errorf("%s: the other tenant gets %.2f of what it has alone; %.2f of the time is left to it", c.name, got, rest)
		}
	}
}

// TestFreeRows holds that the polite tenant's prompts are computed where rows seem to cost nothing: the time that is
// planned for them then is none.
func TestFreeRows(t *testing.T) {
	m := newTwoTenants(t, Config{MaxSeqs: 16, StepTarget: 50_000, Policy: "vtc"}, 1000, 0, 6)
	m.greedy, m.think = 30, 3000
	for range 100 {
		m.step()
	}
	m.due = m.micros
	for range 1000 {
		m.step()
		if p := m.under; p != nil && slices.ContainsFunc(p.Seqs, func(w Work) bool { return w.N < 1 }) {
			t.Fatalf("a plan computes nothing of a sequence:\n%v", p)
		}
	}
	if len(m.firsts) < 10 {
		t.Fatalf("%d first tokens in 1,000 steps", len(m.firsts))
	}
}

// TestPoliteBesidePrompts holds the same beside a tenant whose requests are long prompts of which nothing is decoded.
func TestPoliteBesidePrompts(t *testing.T) {
	run := func(greedy int) *twoTenants {
		m := newTwoTenants(t, Config{MaxSeqs: 16, StepTarget: 50_000, Policy: "vtc"}, 2000, 120, 64)
		m.greedy, m.think, m.hasty = greedy, 500, true
		m.long, m.most = 2000, 1
		m.due = 0
		for m.micros < 20e6 {
			m.step()
		}
		m.firsts = m.firsts[len(m.firsts)/5:] // what steps cost is learned
		return m
	}
	alone, beside := run(0), run(30)
	t.Logf("first token p99 %.1f ms alone, %.1f beside; %d of the other's tokens are computed", alone.worst()/1e3,
		beside.worst()/1e3, beside.computed)
	if beside.worst() > 2*alone.worst() {
		t.Errorf("the first token takes %.2f times as long as alone", beside.worst()/alone.worst())
	}
}
