package sched

import (
	"hash/fnv"
	"slices"

	"pgregory.net/rapid"

	"github.com/kvasir-llm/kvasir/kv"
)

// machine plays the engine and the device for a scheduler. Its cache memory holds, for each slot, a digest of all the
// tokens up to the one that was computed there: reading a slot shows whose context it is. What a sequence samples
// depends on the digest that it reads back, so a sequence that is shown a wrong block also goes astray visibly.
//
// It verifies each plan against what it knows of the sequences.
type machine struct {
	t        rapid.TB
	s        *Scheduler
	cfg      Config
	maxLen   int
	memory   map[slot]uint64
	live     []*client // in order of arrival
	plans    []*step   // outstanding, the oldest first
	finished int
	tenants  tenants
	stored   map[kv.Place]content
	spoil    uint64 // one of so many loads fails; 0: none
	arrivals int64

	preemptions, hits, copies, loads, lost uint64
}

// content is what a lower tier holds.
type content struct {
	name kv.Name
	data []uint64
}

type slot struct {
	block int32
	at    int
}

// client is what the machine knows of a sequence.
type client struct {
	id      SeqID
	salt    string
	parent  SeqID
	adapter uint64
	nocache bool
	tokens  []int32 // known
	prompt  int
	limit   int

	arrival, deadline, interval int64
	priority                    int
	tenant                      string
	charged                     bool
	passed                      int

	running  bool
	idle     int // steps in which it had something to compute and did not take part
	computed int // planned to be computed since its admission
	pending  int // tokens planned to be sampled, whose values are not known yet
	ended    bool
}

// step is an outstanding plan. Once it is the oldest, it is packed: its works are copied, as an engine does.
type step struct {
	plan    *Plan
	clients map[SeqID]*client // whom its works belong to
	decodes bool              // someone computes its last token only
	packed  []Work
	moves   []kv.Move
	owners  []*client // of packed
	outputs []int32
}

const stop = 7 // the token that ends a sequence

func newMachine(t rapid.TB, cfg Config) *machine {
	s, err := New(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	m := &machine{t: t, s: s, cfg: cfg, maxLen: cfg.MaxLen, memory: map[slot]uint64{}, stored: map[kv.Place]content{}}
	m.tenants.served = map[string]int64{}
	if m.maxLen == 0 {
		m.maxLen = s.cfg.MaxLen
	}
	return m
}

// digest stands for the keys and values of the last of tokens, which depend on all of them.
func digest(extra string, tokens []int32) uint64 {
	h := fnv.New64a()
	h.Write([]byte(extra))
	for _, t := range tokens {
		h.Write([]byte{'/', byte(t)})
	}
	return h.Sum64()
}

// sample stands for the model's choice after the token with this digest.
func sample(d uint64) int32 {
	if d>>8%23 == 0 {
		return stop
	}
	return 1 + int32(d>>16%2)
}

// alone returns the tokens that q ends with when nothing disturbs it.
func alone(q *client) []int32 {
	tokens := slices.Clone(q.tokens[:q.prompt])
	for len(tokens) < q.limit && (len(tokens) == q.prompt || tokens[len(tokens)-1] != stop) {
		tokens = append(tokens, sample(digest(q.salt, tokens)))
	}
	return tokens
}

func (m *machine) waiting() int {
	n := 0
	for _, q := range m.live {
		if !q.running {
			n++
		}
	}
	return n
}

func (m *machine) find(id SeqID) *client {
	i := slices.IndexFunc(m.live, func(q *client) bool { return q.id == id })
	if i < 0 {
		m.t.Fatalf("a plan names sequence %d, which is not alive", id)
	}
	return m.live[i]
}

// next asks for a plan and verifies it.
func (m *machine) next() {
	outstanding := len(m.plans)
	p := m.s.Next()
	if at, ok := m.s.Wake(); p == nil && ok && outstanding == 0 {
		m.s.Tick(at - 1)
		if p = m.s.Next(); p == nil {
			m.s.Tick(at)
			p = m.s.Next()
		}
	}
	if outstanding == 2 && p != nil {
		m.t.Fatalf("a third plan:\n%v", p)
	}
	if p == nil {
		if busy := slices.IndexFunc(m.live, func(q *client) bool { return q.pending == 0 }); busy >= 0 && outstanding == 0 {
			m.t.Fatalf("nothing to do, but sequence %d is alive", m.live[busy].id)
		}
		return
	}
	for _, id := range p.Preempted {
		q := m.find(id)
		m.verifyVictim(p, q)
		q.running, q.computed = false, 0
		if m.preemptions++; m.cfg.Allocation == Preallocate && !m.windows() {
			m.t.Fatalf("sequence %d is preempted, though all it can need was kept for it:\n%v", id, p)
		}
	}
	st := &step{plan: p, clients: map[SeqID]*client{}}
	rows := 0
	for _, w := range p.Seqs {
		q := m.find(w.ID)
		if st.clients[w.ID] != nil {
			m.t.Fatalf("sequence %d is twice in the plan\n%v", w.ID, p)
		}
		st.clients[w.ID] = q
		if !q.running {
			m.verifyAdmission(p, w, q)
		} else if len(q.tokens)+q.pending-q.computed == 1 {
			st.decodes = true
		}
		m.verify(p, w, q)
		rows += w.N
	}
	if rows != p.Rows || (rows == 0 && len(p.Preempted) == 0 && len(p.Moves) == 0) || rows > m.cfg.TokenBudget {
		m.t.Fatalf("the rows add up to %d, the budget is %d:\n%v", rows, m.cfg.TokenBudget, p)
	}
	m.verifyShares(p, st)
	m.verifyHead(p, st)
	m.verifyExclusion(p)
	m.plans = append(m.plans, st)
	if outstanding == 0 {
		m.pack(st)
	}
}

// verify checks one work: the tokens follow those planned before, and the blocks are as many as they need.
func (m *machine) verify(p *Plan, w Work, q *client) {
	if !q.running {
		if len(p.Preempted) > 0 {
			m.t.Fatalf("sequence %d is admitted by a plan that preempts:\n%v", w.ID, p)
		}
		if w.Cached > 0 && (!m.cfg.PrefixCache && q.parent == 0 || q.nocache || m.cfg.States > 0) {
			m.t.Fatalf("%v: no prefix should be looked for", w)
		}
		q.computed = w.Cached
		m.hits += uint64(w.Cached)
		q.running = true
		m.tenants.leave(m, q)
	} else if w.Cached != 0 {
		m.t.Fatalf("sequence %d runs already but is said to find %d tokens", w.ID, w.Cached)
	}
	length := len(q.tokens) + q.pending
	if w.Start != q.computed || w.N < 1 || w.Start+w.N > length || length >= q.limit {
		m.t.Fatalf("%v: want tokens from %d, up to %d, of at most %d", w, q.computed, length, q.limit)
	}
	if m.cfg.MaxChunk > 0 && w.N > m.cfg.MaxChunk {
		m.t.Fatalf("%v: a chunk is at most %d tokens", w, m.cfg.MaxChunk)
	}
	q.computed += w.N
	if w.Sample != (q.computed == length) {
		m.t.Fatalf("%v: the sequence has %d tokens", w, length)
	}
	if w.Sample {
		q.pending++
	}
	if len(w.Tables) != max(1, len(m.cfg.Groups)) || (w.State >= 0) != (m.cfg.States > 0) || int(w.State) >= m.cfg.States {
		m.t.Fatalf("%v: %d groups, %d states", w, len(m.cfg.Groups), m.cfg.States)
	}
	for _, table := range w.Tables {
		if want := (q.computed + m.cfg.BlockTokens - 1) / m.cfg.BlockTokens; len(table) != want {
			m.t.Fatalf("%v: want %d blocks", w, want)
		}
	}
}

// verifyExclusion checks that no sequence of a step writes into a block of another.
func (m *machine) verifyExclusion(p *Plan) {
	holders, states := map[int32]int{}, map[int32]bool{-1: false}
	for _, w := range p.Seqs {
		for _, table := range w.Tables {
			for _, b := range table {
				holders[b]++
			}
		}
		if states[w.State] {
			m.t.Fatalf("sequence %d has another's state:\n%v", w.ID, p)
		}
		states[w.State] = w.State >= 0
	}
	for _, w := range p.Seqs {
		for _, table := range w.Tables {
			for _, b := range table[w.Start/m.cfg.BlockTokens:] {
				if b < 0 || holders[b] > 1 {
					m.t.Fatalf("sequence %d writes block %d, which %d hold:\n%v", w.ID, b, holders[b], p)
				}
			}
		}
	}
}

// pack copies a plan, as it is once the one before it is committed, for it to be computed.
func (m *machine) pack(st *step) {
	m.verifyMoves(st)
	rows := 0
	for _, w := range st.plan.Seqs {
		if st.clients[w.ID].ended {
			m.t.Fatalf("sequence %d has ended but is in the plan to be computed:\n%v", w.ID, st.plan)
		}
		rows += w.N
		w.Tables = slices.Clone(w.Tables)
		for g, table := range w.Tables {
			w.Tables[g] = slices.Clone(table)
		}
		st.packed = append(st.packed, w)
		st.owners = append(st.owners, st.clients[w.ID])
	}
	if rows != st.plan.Rows {
		m.t.Fatalf("the rows add up to %d:\n%v", rows, st.plan)
	}
}

// compute runs a packed step on the memory. The sequences that were cancelled meanwhile leave rubbish.
func (m *machine) compute(st *step) {
	m.store(st)
	for _, c := range st.plan.Copies {
		for i := range m.cfg.BlockTokens {
			m.memory[slot{c.To, i}] = m.memory[slot{c.From, i}]
		}
		m.copies++
	}
	m.load(st)
	for i, w := range st.packed {
		q := st.owners[i]
		if q.ended {
			for _, table := range w.Tables {
				for p := w.Start; p < w.Start+w.N; p++ {
					m.memory[m.at(table, p)] = 0
				}
			}
			st.outputs = append(st.outputs, 0)
			continue
		}
		for g := range w.Tables {
			m.computeGroup(w, q, g)
		}
		st.outputs = append(st.outputs, sample(digest(q.salt, q.tokens[:w.Start+w.N])))
	}
}

func (m *machine) at(table []int32, p int) slot {
	return slot{table[p/m.cfg.BlockTokens], p % m.cfg.BlockTokens}
}

// computeGroup writes one sequence's tokens for one group of layers, and reads what is in its window.
func (m *machine) computeGroup(w Work, q *client, group int) {
	first := 0
	if len(m.cfg.Groups) > 0 && m.cfg.Groups[group].Window > 0 {
		first = max(0, w.Start-m.cfg.Groups[group].Window+1)
	}
	for p := first; p < w.Start+w.N; p++ {
		at, want := m.at(w.Tables[group], p), digest(q.salt, q.tokens[:p+1])+uint64(group)
		if p >= w.Start {
			m.memory[at] = want
		} else if m.memory[at] != want {
			m.t.Fatalf("%v: token %d is not in block %d of group %d", w, p, at.block, group)
		}
	}
}

// commit computes the oldest plan and tells the scheduler what it yielded.
func (m *machine) commit() {
	if len(m.plans) == 0 {
		return
	}
	st := m.plans[0]
	m.plans = m.plans[1:]
	m.compute(st)
	results := make([]Result, len(st.packed))
	for i, w := range st.packed {
		results[i] = Result{Token: st.outputs[i], Finished: w.Sample && st.outputs[i] == stop}
	}
	m.s.Commit(st.plan, results)
	for i, w := range st.packed {
		q := st.owners[i]
		if q.ended || !w.Sample {
			continue
		}
		q.tokens = append(q.tokens, st.outputs[i])
		q.pending--
		m.tenants.served[q.tenant] += 2
		over := st.outputs[i] == stop || len(q.tokens) == q.limit
		if results[i].Finished != over {
			m.t.Fatalf("%v: finished %v, has %d tokens of %d", w, results[i].Finished, len(q.tokens), q.limit)
		}
		if over {
			m.end(q)
			m.finished++
			if want := alone(q); !slices.Equal(q.tokens, want) {
				m.t.Fatalf("sequence %d ends with %v, alone with %v", q.id, q.tokens, want)
			}
		}
	}
	if len(m.plans) > 0 {
		m.pack(m.plans[0])
	}
}

func (m *machine) end(q *client) {
	q.ended = true
	m.live = slices.DeleteFunc(m.live, func(o *client) bool { return o == q })
	if !q.running {
		m.tenants.leave(m, q)
	}
}

func (m *machine) cancel(id SeqID) {
	m.end(m.find(id))
	if !m.s.Cancel(id) || m.s.Cancel(id) {
		m.t.Fatalf("sequence %d cannot be cancelled exactly once", id)
	}
	m.check()
}

// check compares the counters, and that the second plan has nothing of the dead.
func (m *machine) check() {
	if err := m.s.Check(); err != nil {
		m.t.Fatalf("%v", err)
	}
	stats := m.s.Stats()
	if stats.Running+stats.Waiting != len(m.live) || stats.Waiting != m.waiting() ||
		stats.Preemptions != m.preemptions || stats.KV.Hits != m.hits {
		m.t.Fatalf("%v\nwant %d waiting of %d, %d preemptions, %d hits", stats, m.waiting(), len(m.live), m.preemptions, m.hits)
	}
	if len(m.plans) == 2 {
		for _, w := range m.plans[1].plan.Seqs {
			if m.plans[1].clients[w.ID].ended {
				m.t.Fatalf("sequence %d has ended but is in the prepared plan", w.ID)
			}
		}
	}
}

// drain runs what is left to its end.
func (m *machine) drain() {
	for steps := 0; len(m.live) > 0 || len(m.plans) > 0; steps++ {
		if steps > 100000 {
			m.t.Fatalf("no end:\n%v", m.s.Stats())
		}
		m.next()
		if steps%2 == 0 || len(m.plans) == 2 {
			m.commit()
		}
		m.check()
	}
	if s := m.s.Stats(); s.Running+s.Waiting > 0 || s.KV.Used > s.KV.Pinned {
		m.t.Fatalf("nothing is left to run, but\n%v", s)
	}
}

// windows reports whether some layers have a window. What a sequence shares there with others it gives back without making
// room, so that more may be needed than Preallocate kept.
func (m *machine) windows() bool {
	return slices.ContainsFunc(m.cfg.Groups, func(g kv.Group) bool { return g.Window > 0 })
}
