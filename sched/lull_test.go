package sched

import (
	"math"
	"testing"
)

// lulls is a scheduler with a crowd that decodes in steps of a fixed time, beside a guest.
type lulls struct {
	t   *testing.T
	s   *Scheduler
	now int64 // microseconds
	id  SeqID
}

const lullStep = 8000 // microseconds

func newLulls(t *testing.T, policy string) *lulls {
	s, err := New(Config{Blocks: 1000, BlockTokens: 16, MaxSeqs: 8, TokenBudget: 64, Policy: policy, StepTarget: 50_000})
	if err != nil {
		t.Fatal(err)
	}
	l := &lulls{t: t, s: s, now: 1}
	for range 6 {
		l.add("crowd", 2000)
	}
	for range 20 {
		l.step()
	}
	return l
}

func (l *lulls) add(tenant string, most int) SeqID {
	l.id++
	if err := l.s.Add(Request{ID: l.id, Prompt: make([]int32, 4), MaxTokens: most, Tenant: tenant}); err != nil {
		l.t.Fatal(err)
	}
	return l.id
}

// step computes a step, and reports whether there was one.
func (l *lulls) step() bool {
	l.s.Tick(l.now)
	p := l.s.Next()
	if p == nil {
		return false
	}
	l.s.Begin(p)
	l.now += lullStep
	results := make([]Result, len(p.Seqs))
	for i, w := range p.Seqs {
		if w.Sample {
			results[i].Tokens = []int32{1}
		}
	}
	l.s.Tick(l.now)
	l.s.Took(p, lullStep)
	l.s.Commit(p, results)
	return true
}

// ask lets a tenant have an answer, so many microseconds from now.
func (l *lulls) ask(tenant string, after int64) {
	l.now += after
	l.s.Tick(l.now)
	for id := l.add(tenant, 2); l.s.byID[id] != nil; {
		if !l.step() {
			l.t.Fatal("nothing is computed while a guest waits")
		}
	}
}

// TestLull holds the device for a guest that usually asks again at once.
func TestLull(t *testing.T) {
	l := newLulls(t, "vtc")
	l.ask("guest", 0)
	if _, ok := l.s.Wake(); ok {
		t.Error("the device is held for a guest of whom nothing is known")
	}
	for range 3 {
		l.ask("guest", 500)
	}
	at, ok := l.s.Wake()
	if p := l.s.Next(); p != nil || !ok || at != l.now+lullTimes*500 {
		t.Errorf("once it has asked again after 500 µs thrice: held %v until %d, %v; want six times as long from %d on", p == nil, at, ok, l.now)
	}
	if l.add("crowd", 10); l.s.Next() != nil {
		t.Error("another of the crowd ends it")
	}
	if l.now = at; !l.step() {
		t.Error("it does not end in time")
	}
	if _, ok := l.s.Wake(); ok {
		t.Error("there is a time though it has ended")
	}
	for range 3 {
		l.ask("guest", 500)
	}
	if l.s.Next() != nil {
		t.Error("the device is not held again")
	}
	l.add("another", 2)
	if p := l.s.Next(); p == nil {
		t.Error("it is held though another guest waits")
	} else {
		l.s.Begin(p)
		l.s.Commit(p, []Result{{Tokens: []int32{1}}})
	}
}

// TestLullNot lets the crowd go on where a guest takes long, or no policy is fair, or there is no other.
func TestLullNot(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		after        int64
	}{{"slow", "vtc", 3 * lullStep}, {"unfair", "fcfs", 500}} {
		l := newLulls(t, c.policy)
		for range 10 {
			l.ask("guest", c.after)
			if !l.step() {
				t.Errorf("%s: the device is held", c.name)
			}
		}
	}
}

// TestLullShare bounds what guests that are always late cost the crowd.
func TestLullShare(t *testing.T) {
	l := newLulls(t, "vtc")
	l.ask("guest", 0)
	l.ask("guest", 1900)
	held, began := int64(0), l.now
	for range 800 {
		l.ask("guest", 1900)
		if at, ok := l.s.Wake(); ok { // it does not come
			held += at - l.now
			l.now = at
		}
		l.step()
		l.s.tenants["guest"].habit.left = 0 // nor is that learned
	}
	most := int64(lullShare*float64(l.now-began)) + mostLull + lullTimes*1900
	if held > most || held < most/2 {
		t.Errorf("the device is held for %d µs of %d; want at most %d", held, l.now-began, most)
	}
}

func TestHabit(t *testing.T) {
	var h habit
	for i := range 1000 {
		took := 1000.0
		if i%3 == 0 {
			took = 1e6
		}
		h.came(took)
	}
	if math.Abs(math.Log(h.median/1000)) > 0.2 {
		t.Errorf("two of three times are 1000, and the median is %v", h.median)
	}
}
