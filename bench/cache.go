package bench

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/kvasir-llm/kvasir/sched"
)

// CacheOptions configures the simulation of a trace: the engine's scheduler and KV cache, and a clock in place of the
// device. Each token stands for TraceOptions.Lengths recorded ones.
type CacheOptions struct {
	BlockTokens, Blocks  int    // of the KV cache
	MaxSeqs, TokenBudget int    // of a step
	MaxPassed            int    // requests that one without enough blocks lets pass
	Evict                string // the eviction policy; "" is the engine's

	Step     time.Duration // the least time of a step
	PerToken time.Duration // the time of each token of a step
}

// CacheReport is the effect of the prefix cache on a trace. Each request counts once, at its first admission.
type CacheReport struct {
	Requests    int
	Prompt      int    // tokens
	Cached      int    // tokens found in the cache
	Ideal       int    // tokens that an unlimited cache would hold if each request were computed before the next came
	Evictions   uint64 // blocks
	Preemptions uint64
	Unfilled    float64       // share of the memory held by running sequences that was not filled, over all steps
	Time        time.Duration // of the simulated machine
}

// HitRate and IdealRate are shares of the prompts' tokens.
func (r CacheReport) HitRate() float64   { return float64(r.Cached) / float64(max(r.Prompt, 1)) }
func (r CacheReport) IdealRate() float64 { return float64(r.Ideal) / float64(max(r.Prompt, 1)) }

// cacheSim is a running simulation.
type cacheSim struct {
	s              *sched.Scheduler
	o              CacheOptions
	rep            CacheReport
	now            time.Duration
	queue          arrivals
	talks          map[sched.SeqID]*talkAt
	next           sched.SeqID
	results        []sched.Result
	held, unfilled float64
}

// talkAt is a conversation whose next turn is due.
type talkAt struct {
	due   time.Duration
	order int
	turns []Turn
	said  []int32
	began bool // the current turn was admitted
}

// SimulateCache runs conversations through the scheduler and its KV cache without a model. Answers are synthetic tokens
// of the wanted length.
func SimulateCache(cs []Conversation, o CacheOptions) (CacheReport, error) {
	s, err := sched.New(sched.Config{
		BlockTokens: o.BlockTokens, Blocks: o.Blocks, MaxSeqs: o.MaxSeqs, TokenBudget: o.TokenBudget, PrefixCache: true,
		MaxPassed: o.MaxPassed, Evict: o.Evict,
	})
	if err != nil {
		return CacheReport{}, err
	}
	if o.Step <= 0 || o.PerToken < 0 {
		return CacheReport{}, fmt.Errorf("bench: a step of %v and %v a token; want above 0 and at least 0", o.Step, o.PerToken)
	}
	sim := &cacheSim{s: s, o: o, talks: map[sched.SeqID]*talkAt{}}
	for i, c := range cs {
		heap.Push(&sim.queue, &talkAt{due: c.At, order: i, turns: c.Turns})
	}
	for len(sim.queue)+len(sim.talks) > 0 {
		if err := sim.arrive(); err != nil {
			return CacheReport{}, err
		}
		if !sim.step() {
			if len(sim.queue) == 0 {
				return CacheReport{}, errors.New("bench: the simulation cannot go on")
			}
			sim.now = max(sim.now, sim.queue[0].due)
		}
	}
	st := s.Stats()
	sim.rep.Evictions, sim.rep.Preemptions, sim.rep.Time = st.KV.Evictions, st.Preemptions, sim.now
	if sim.held > 0 {
		sim.rep.Unfilled = sim.unfilled / sim.held
	}
	sim.rep.Ideal = ideal(cs, o.BlockTokens)
	return sim.rep, nil
}

// arrive adds the requests that are due.
func (sim *cacheSim) arrive() error {
	for len(sim.queue) > 0 && sim.queue[0].due <= sim.now {
		t := heap.Pop(&sim.queue).(*talkAt)
		t.said = appendTurn(t.said, t.turns[0])
		t.began = false
		sim.next++
		if err := sim.s.Add(sched.Request{ID: sim.next, Prompt: t.said, MaxTokens: t.turns[0].Output}); err != nil {
			return err
		}
		sim.talks[sim.next] = t
	}
	return nil
}

// appendTurn appends a client's turn, as tokens.
func appendTurn(said []int32, t Turn) []int32 {
	for _, m := range t.Messages {
		for _, p := range m.Parts {
			said = p.appendIDs(said, 1<<30, func(text string) []int32 {
				ids := make([]int32, 0, len(text))
				for _, c := range []byte(text) {
					ids = append(ids, int32(c))
				}
				return ids
			})
		}
	}
	return said
}

// step runs a step, and reports false if there is none.
func (sim *cacheSim) step() bool {
	p := sim.s.Next()
	if p == nil {
		return false
	}
	st := sim.s.Stats()
	sim.held, sim.unfilled = sim.held+float64(st.Held), sim.unfilled+float64(st.Unfilled)
	sim.now += max(sim.o.Step, time.Duration(p.Rows)*sim.o.PerToken)
	sim.results = sim.results[:0]
	ids := make([]sched.SeqID, len(p.Seqs))
	for i, w := range p.Seqs {
		ids[i] = w.ID
		t := sim.talks[w.ID]
		if !t.began {
			t.began = true
			sim.rep.Requests, sim.rep.Prompt, sim.rep.Cached = sim.rep.Requests+1, sim.rep.Prompt+len(t.said), sim.rep.Cached+w.Cached
		}
		sim.results = append(sim.results, sched.Result{Tokens: []int32{answerToken(t.order, w.Start+w.N)}})
	}
	sim.s.Commit(p, sim.results)
	for i, r := range sim.results {
		if t := sim.talks[ids[i]]; r.Finished {
			delete(sim.talks, ids[i])
			t.answered(sim.now)
			if len(t.turns) > 0 {
				heap.Push(&sim.queue, t)
			}
		}
	}
	return true
}

// answered makes the next turn of a conversation due.
func (t *talkAt) answered(now time.Duration) {
	for range t.turns[0].Output {
		t.said = append(t.said, answerToken(t.order, len(t.said)))
	}
	t.turns, t.due = t.turns[1:], now
}

// answerToken is the token at a position of a conversation's answer. It differs from those of all other conversations.
func answerToken(order, position int) int32 { return -1 - int32(order*8191+position) }

// ideal returns how many of all prompts' tokens an unlimited cache would hold, in whole blocks, if each request were
// answered before the next arrived.
func ideal(cs []Conversation, blockTokens int) int {
	type prefix struct { // a whole block, and all those before it by their number
		before int
		block  string
	}
	seen, names, hits := map[prefix]int{}, 0, 0
	var raw []byte
	for i, c := range cs {
		var said []int32
		for _, turn := range c.Turns {
			said = appendTurn(said, turn)
			asked := len(said)
			for range turn.Output {
				said = append(said, answerToken(i, len(said)))
			}
			at, found := 0, true
			for from := 0; from+blockTokens < len(said); from += blockTokens {
				raw = raw[:0]
				for _, t := range said[from : from+blockTokens] {
					raw = binary.LittleEndian.AppendUint32(raw, uint32(t))
				}
				name := prefix{at, string(raw)}
				if at = seen[name]; at == 0 {
					names++
					at, found, seen[name] = names, false, names
				}
				if found && from+blockTokens < asked {
					hits += blockTokens
				}
			}
		}
	}
	return hits
}

// arrivals is a heap of conversations by the time of their next turn.
type arrivals []*talkAt

func (a arrivals) Len() int { return len(a) }
func (a arrivals) Less(i, j int) bool {
	return a[i].due < a[j].due || a[i].due == a[j].due && a[i].order < a[j].order
}
func (a arrivals) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)   { *a = append(*a, x.(*talkAt)) }
func (a *arrivals) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}
