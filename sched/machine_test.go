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
	tables   map[[2]int32][]int32 // on the device, by slot and group
	chosen   []int32              // on the device: by the step that it computed last
	live     []*client            // in order of arrival
	plans    []*step              // outstanding, the oldest first
	finished int
	tenants  tenants
	stored   map[kv.Place]content
	reading  []reading // what slow tiers are asked for
	arrived  map[kv.Name][]uint64
	spoil    uint64 // one of so many loads fails; 0: none
	pace     pacing // of steps, if there is a target for them
	arrivals int64

	preemptions, hits, copies, loads, lost, came uint64
	fickle, accepted, rejected, forced, shifted  int
	micros                                       int64 // that steps took
}

// pacing is how many microseconds a step takes, and each of its rows.
type pacing struct{ base, row int64 }

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
	background                  bool
	tenant                      string
	charged                     bool
	passed                      int

	alone   bool  // it is not planned ahead
	paused  bool  // it sits steps out
	draft   Draft // proposed and not planned yet
	drafted bool  // planned and not committed
	forced  []int // positions of forced tokens

	running  bool
	idle     int // steps in which it had something to compute and did not take part
	computed int // planned to be computed since its admission
	pending  int // tokens planned to be sampled, whose values are not known yet
	ended    bool
}

// step is an outstanding plan. When it is begun it is packed: its works are copied, as an engine does.
type step struct {
	plan    *Plan
	clients map[SeqID]*client // whom its works belong to
	decodes bool              // someone computes its last token only
	begun   bool
	packed  []packed
	edits   []kv.Edit
	shifts  []kv.Shift
	copies  []kv.Copy
	moves   []kv.Move
	fetched map[kv.Name][]uint64 // what slow tiers held of these
	outputs [][]int32            // of packed
	paths   [][]int32            // of packed: nil for a list
}

// packed is a work as it was when its plan was begun.
type packed struct {
	Work
	q      *client
	inputs []int32 // -1: chosen by the step before
	draft  Draft   // the last of the inputs
	sure   int     // as many of the inputs are right; the others were planned before Force told what follows
	lost   bool    // the sequence was forced: what is chosen does not count
}

const stop = 7 // the token that ends a sequence

func newMachine(t rapid.TB, cfg Config) *machine {
	s, err := New(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	m := &machine{t: t, s: s, cfg: cfg, maxLen: cfg.MaxLen, memory: map[slot]uint64{}, tables: map[[2]int32][]int32{},
		stored: map[kv.Place]content{}, arrived: map[kv.Name][]uint64{}}
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

// rests reports whether q sits steps out.
func (q *client) rests() bool {
	length := len(q.tokens) + q.pending
	return q.running && q.paused && length-q.computed == 1 && length < q.limit
}

// alone returns the tokens that q ends with when nothing disturbs it.
func alone(q *client) []int32 {
	tokens := slices.Clone(q.tokens[:q.prompt])
	for len(tokens) < q.limit && (len(tokens) == q.prompt || tokens[len(tokens)-1] != stop) {
		if slices.Contains(q.forced, len(tokens)) {
			tokens = append(tokens, q.tokens[len(tokens)])
		} else {
			tokens = append(tokens, sample(digest(q.salt, tokens)))
		}
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
	if outstanding == 1 {
		m.begin()
	}
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
	m.fetch()
	if m.sweep(p); p == nil {
		pausing := slices.ContainsFunc(m.live, func(q *client) bool { return q.paused })
		busy := slices.IndexFunc(m.live, func(q *client) bool { return q.pending == 0 && !pausing })
		if busy >= 0 && outstanding == 0 && len(m.reading) == 0 {
			m.t.Fatalf("nothing to do, but sequence %d is alive", m.live[busy].id)
		}
		return
	}
	for _, id := range p.Preempted {
		q := m.find(id)
		m.verifyVictim(p, q)
		q.running, q.computed, q.draft, q.drafted = false, 0, Draft{}, false
		if m.preemptions++; m.cfg.Allocation == Preallocate && !m.windows() && !q.background {
			m.t.Fatalf("sequence %d is preempted, though all it can need was kept for it:\n%v", id, p)
		}
	}
	st := &step{plan: p, clients: map[SeqID]*client{}, fetched: m.take(p)}
	rows := 0
	for _, w := range p.Seqs {
		q := m.find(w.ID)
		if st.clients[w.ID] != nil {
			m.t.Fatalf("sequence %d is twice in the plan\n%v", w.ID, p)
		}
		st.clients[w.ID] = q
		if q.running && q.rests() {
			m.t.Fatalf("sequence %d is paused and in the plan:\n%v", w.ID, p)
		}
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
	m.plans = append(m.plans, st)
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
	if w.Start != q.computed || w.N < 1 || w.Start+w.N-w.Draft > length || length+w.Draft >= q.limit {
		m.t.Fatalf("%v: want tokens from %d, up to %d, of at most %d", w, q.computed, length, q.limit)
	}
	if m.cfg.MaxChunk > 0 && w.N > m.cfg.MaxChunk {
		m.t.Fatalf("%v: a chunk is at most %d tokens", w, m.cfg.MaxChunk)
	}
	if w.Draft > len(q.draft.Tokens) || q.pending > 0 && (q.alone || q.drafted) {
		m.t.Fatalf("%v: %d tokens are proposed, and it is not to be planned ahead", w, len(q.draft.Tokens))
	}
	if ahead := w.Start+w.N-w.Draft > len(q.tokens); ahead != (w.From >= 0) ||
		ahead && (m.plans[0].packed[w.From].q != q || !m.plans[0].packed[w.From].Sample) {
		m.t.Fatalf("%v: %d tokens are known; the plan before is\n%v", w, len(q.tokens), m.plans[0].plan)
	}
	q.draft, q.drafted = q.draft.Cut(w.Draft), w.Draft > 0
	q.computed += w.N
	if w.Sample != (q.computed == length+w.Draft) {
		m.t.Fatalf("%v: the sequence has %d tokens", w, length)
	}
	if w.Sample {
		q.pending += 1 + w.Draft
	}
	if (w.State >= 0) != (m.cfg.States > 0) || int(w.State) >= m.cfg.States {
		m.t.Fatalf("%v: %d states", w, m.cfg.States)
	}
}

// verifyExclusion checks, with the tables as they are on the device, that no sequence of a step writes into a block of
// another.
func (m *machine) verifyExclusion(st *step) {
	holders, states, slots := map[int32]int{}, map[int32]bool{-1: false}, map[int32]bool{}
	for _, w := range st.packed {
		for g := range m.s.pool.Groups() {
			for _, b := range m.table(w.Work, g) {
				holders[b]++
			}
		}
		if states[w.State] || slots[w.Slot] || w.Slot < 0 || int(w.Slot) >= m.s.cfg.MaxSeqs {
			m.t.Fatalf("sequence %d has another's state or slot, or one that is not there:\n%v", w.ID, st.packed)
		}
		states[w.State], slots[w.Slot] = w.State >= 0, true
	}
	for _, w := range st.packed {
		for g := range m.s.pool.Groups() {
			for _, b := range m.table(w.Work, g)[w.Start/m.cfg.BlockTokens:] {
				if b < 0 || holders[b] > 1 {
					m.t.Fatalf("sequence %d writes block %d, which %d hold:\n%v", w.ID, b, holders[b], st.packed)
				}
			}
		}
	}
}

// table returns the blocks of a work's tokens.
func (m *machine) table(w Work, group int) []int32 {
	table, n := m.tables[[2]int32{w.Slot, int32(group)}], (w.Start+w.N+m.cfg.BlockTokens-1)/m.cfg.BlockTokens
	if n > len(table) {
		m.t.Fatalf("%v: group %d has %d blocks; want %d", w, group, len(table), n)
	}
	return table[:n]
}

// begin begins the newest plan, if it is not, and if nothing that it moves is yet to be stored.
func (m *machine) begin() {
	if len(m.plans) == 0 || m.plans[len(m.plans)-1].begun || m.storing() {
		return
	}
	st := m.plans[len(m.plans)-1]
	m.verifyMoves(st)
	m.s.Begin(st.plan)
	st.begun = true
	st.edits, st.copies, st.shifts = slices.Clone(st.plan.Edits), slices.Clone(st.plan.Copies), slices.Clone(st.plan.Shifts)
	rows := 0
	for _, w := range st.plan.Seqs {
		q := st.clients[w.ID]
		if q.ended {
			m.t.Fatalf("sequence %d has ended but is in the plan to be computed:\n%v", w.ID, st.plan)
		}
		rows += w.N
		x := packed{Work: w, q: q, sure: w.N - w.Draft}
		for i := w.Start; i < w.Start+w.N-w.Draft; i++ {
			if i < len(q.tokens) {
				x.inputs = append(x.inputs, q.tokens[i])
			} else if x.inputs = append(x.inputs, -1); w.From < 0 {
				m.t.Fatalf("%v: only %d tokens are known", w, len(q.tokens))
			}
		}
		if w.Draft > 0 {
			x.draft, q.draft = q.draft.Cut(w.Draft), Draft{}
			x.inputs = append(x.inputs, x.draft.Tokens...)
		}
		st.packed = append(st.packed, x)
	}
	if rows != st.plan.Rows {
		m.t.Fatalf("the rows add up to %d:\n%v", rows, st.plan)
	}
}

// compute runs a packed step on the memory. The sequences that were cancelled meanwhile leave rubbish.
func (m *machine) compute(st *step) {
	for _, e := range st.edits {
		at := [2]int32{e.Slot, e.Group}
		m.tables[at] = append(m.tables[at], make([]int32, max(0, int(e.At)+1-len(m.tables[at])))...)
		m.tables[at][e.At] = e.Block
	}
	m.verifyExclusion(st)
	for _, sh := range st.shifts {
		m.memory[slot{sh.To.Block, int(sh.To.At)}] = m.memory[slot{sh.From.Block, int(sh.From.At)}]
		m.shifted++
	}
	m.store(st)
	for _, c := range st.copies {
		for i := range m.cfg.BlockTokens {
			m.memory[slot{c.To, i}] = m.memory[slot{c.From, i}]
		}
		m.copies++
	}
	m.load(st)
	for _, w := range st.packed {
		out, path := m.choose(w)
		st.outputs, st.paths = append(st.outputs, out), append(st.paths, path)
	}
	m.chosen = m.chosen[:0]
	for _, out := range st.outputs {
		m.chosen = append(m.chosen, out[0])
	}
}

// choose runs one work, and returns the proposed tokens that are right and one more, and of a tree which they are.
func (m *machine) choose(w packed) (out, path []int32) {
	if last := len(w.inputs) - 1; w.inputs[last] < 0 {
		w.inputs[last] = m.chosen[w.From]
	}
	if w.q.ended {
		for g := range m.s.pool.Groups() {
			table := m.table(w.Work, g)
			for p := w.Start; p < w.Start+w.N; p++ {
				m.memory[m.at(table, p)] = 0
			}
		}
		return []int32{0}, nil
	}
	tokens := append(slices.Clone(w.q.tokens[:w.Start]), w.inputs...)
	if right := w.q.tokens[:w.Start+w.sure]; !slices.Equal(right, tokens[:len(right)]) {
		m.t.Fatalf("%v computes %v, and the sequence is %v", w.Work, tokens, w.q.tokens)
	}
	for g := range m.s.pool.Groups() {
		m.computeGroup(w, tokens, g)
	}
	at := -1 // a proposed token
	for {
		next := sample(digest(w.q.salt, w.prefix(tokens, w.Start+w.N-w.Draft+at)))
		out = append(out, next)
		follows := func(i int) bool { return w.draft.Parent(i) == at && w.draft.Tokens[i] == next }
		i := slices.IndexFunc(w.numbers(), follows)
		if next == stop || i < 0 {
			return out, path
		}
		if at = i; w.draft.Parents != nil {
			path = append(path, int32(i))
		}
	}
}

// numbers returns those of the proposed tokens.
func (w *packed) numbers() (all []int) {
	for i := range w.Draft {
		all = append(all, i)
	}
	return all
}

// prefix returns the tokens up to the one in place p, of those that the work has places for: in a tree only those that
// it follows.
func (w *packed) prefix(tokens []int32, p int) []int32 {
	first := w.Start + w.N - w.Draft
	if w.Draft == 0 || p < first {
		return tokens[:p+1]
	}
	before := first - 1
	if i := w.draft.Parent(p - first); i >= 0 {
		before = first + i
	}
	return append(slices.Clone(w.prefix(tokens, before)), tokens[p])
}

func (m *machine) at(table []int32, p int) slot {
	return slot{table[p/m.cfg.BlockTokens], p % m.cfg.BlockTokens}
}

// computeGroup writes one sequence's tokens for one group of layers, and reads what is in its window.
func (m *machine) computeGroup(w packed, tokens []int32, group int) {
	first, table := 0, m.table(w.Work, group)
	if len(m.cfg.Groups) > 0 && m.cfg.Groups[group].Window > 0 {
		first = max(0, w.Start-m.cfg.Groups[group].Window+1)
	}
	for p := first; p < w.Start+w.N; p++ {
		at, want := m.at(table, p), digest(w.q.salt, w.prefix(tokens, p))+uint64(group)
		if p >= w.Start {
			m.memory[at] = want
		} else if m.memory[at] != want {
			m.t.Fatalf("%v: token %d is not in block %d of group %d", w.Work, p, at.block, group)
		}
	}
}

// commit computes the oldest plan and tells the scheduler what it yielded. Of what is accepted it takes as many as it
// likes.
func (m *machine) commit() {
	if len(m.plans) == 0 {
		return
	}
	if len(m.plans) == 1 {
		m.begin()
	}
	st := m.plans[0]
	m.plans = m.plans[1:]
	m.compute(st)
	m.computed(st)
	results := make([]Result, len(st.packed))
	for i, w := range st.packed {
		out := st.outputs[i]
		if m.fickle++; m.fickle%3 == 0 {
			out = out[:1+m.fickle%len(out)]
		}
		path := st.paths[i]
		results[i] = Result{Tokens: out, Path: path[:min(len(path), len(out)-1)], Finished: w.Sample && out[len(out)-1] == stop}
	}
	if m.cfg.StepTarget > 0 {
		took := m.pace.base + m.pace.row*int64(st.plan.Rows)
		m.s.Took(st.plan, took)
		m.micros += took
		m.s.Tick(m.micros)
	}
	m.s.Commit(st.plan, results)
	for i, w := range st.packed {
		q, out := w.q, results[i].Tokens
		if q.ended || !w.Sample {
			continue
		}
		if w.lost {
			if out != nil || results[i].Finished {
				m.t.Fatalf("%v: the sequence was forced, but %v counts", w.Work, results[i])
			}
			continue
		}
		m.accepted += len(out) - 1
		m.rejected += w.Draft + 1 - len(out)
		q.tokens = append(q.tokens, out...)
		q.pending -= 1 + w.Draft
		if q.drafted = false; q.running {
			q.computed -= w.Draft + 1 - len(out)
		}
		m.tenants.served[q.tenant] += 2 * int64(len(out))
		over := out[len(out)-1] == stop || len(q.tokens) == q.limit
		if results[i].Finished != over {
			m.t.Fatalf("%v: finished %v, has %d tokens of %d", w.Work, results[i].Finished, len(q.tokens), q.limit)
		}
		if over {
			m.finish(q)
		}
	}
}

// finish ends a sequence that has its tokens.
func (m *machine) finish(q *client) {
	m.end(q)
	m.finished++
	if want := alone(q); !slices.Equal(q.tokens, want) {
		m.t.Fatalf("sequence %d ends with %v, alone with %v", q.id, q.tokens, want)
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
	if n := len(m.plans); n > 0 && !m.plans[n-1].begun {
		st := m.plans[n-1]
		for _, w := range st.plan.Seqs {
			if st.clients[w.ID].ended {
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
		if steps%3 == 0 {
			m.arrive(steps)
		}
		m.check()
	}
	if s := m.s.Stats(); s.Running+s.Waiting > 0 || s.KV.Used > s.KV.Pinned {
		m.t.Fatalf("nothing is left to run, but\n%v", s)
	}
	if err := m.s.CheckClosed(); err != nil {
		m.t.Fatalf("%v", err)
	}
}

// windows reports whether some layers have a window. What a sequence shares there with others it gives back without
// making room, so that more may be needed than Preallocate kept.
func (m *machine) windows() bool {
	return slices.ContainsFunc(m.cfg.Groups, func(g kv.Group) bool { return g.Window > 0 })
}
