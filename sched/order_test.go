package sched

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// tenants are the virtual token counters as the paper defines them, kept in the plainest way.
type tenants struct {
	served map[string]int64
	left   string // the tenant that waited last, when nobody does
}

// join lifts the tenant of a new sequence, if it has nobody waiting.
func (c *tenants) join(m *machine, tenant string) {
	front := int64(math.MaxInt64) // the least of those in the background, and of the others
	behind := front
	for _, q := range m.live {
		if q.running {
			continue
		}
		if q.tenant == tenant {
			return
		}
		if q.background {
			behind = min(behind, c.served[q.tenant])
		} else {
			front = min(front, c.served[q.tenant])
		}
	}
	least := front
	if front == math.MaxInt64 {
		least = behind
	}
	if m.waiting() == 0 {
		least = c.served[c.left]
	}
	c.served[tenant] = max(c.served[tenant], least)
}

// leave notes that q waits no more.
func (c *tenants) leave(m *machine, q *client) {
	if m.waiting() == 0 {
		c.left = q.tenant
	}
}

// before is the order of the policy.
func (m *machine) before(a, b *client) bool {
	if a.background != b.background {
		return b.background
	}
	rank := func(q *client) int64 {
		switch m.cfg.Policy {
		case "priority":
			return int64(q.priority)
		case "shortest-prompt":
			return int64(q.prompt) + 16*q.arrival
		case "vtc":
			return m.tenants.served[q.tenant]
		case "edf":
			if q.deadline == 0 {
				return math.MaxInt64
			}
			return q.deadline + int64(len(q.tokens)+q.pending-q.prompt)*q.interval
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.arrival, b.arrival)) < 0
}

// last reports whether no one who runs comes after q.
func (m *machine) last(q *client) bool {
	return !slices.ContainsFunc(m.live, func(o *client) bool { return o.running && m.before(q, o) })
}

// add mirrors what Add must accept and refuse. If only the queue is full, someone less urgent may have to go.
func (m *machine) add(r Request) {
	err := m.s.Add(r)
	limit := min(len(r.Prompt)+r.MaxTokens, m.maxLen)
	full := m.cfg.MaxWaiting > 0 && m.waiting() >= m.cfg.MaxWaiting
	taken := slices.ContainsFunc(m.live, func(q *client) bool { return q.id == r.ID })
	fits := len(r.Prompt) < m.maxLen && m.s.pool.Most(limit-1, m.s.cfg.MaxChunk) <= m.cfg.Blocks
	if ok := fits && !taken && !full; ok != (err == nil) || errors.Is(err, ErrQueueFull) != (fits && !taken && full) {
		m.t.Fatalf("Add of %d tokens, at most %d more: %v; fits %v, taken %v, full %v",
			len(r.Prompt), r.MaxTokens, err, fits, taken, full)
	}
	if errors.Is(err, ErrQueueFull) && m.displace(r.Priority) {
		m.add(r)
	}
	if err != nil {
		return
	}
	if m.cfg.Policy != "vtc" {
		r.Tenant = ""
	}
	m.tenants.join(m, r.Tenant)
	if r.Background {
		r.Priority = math.MaxInt
	}
	m.live = append(m.live, &client{
		id: r.ID, salt: r.Keys.Salt, parent: r.Parent, nocache: r.NoCache, adapter: r.Adapter, tokens: slices.Clone(r.Prompt), prompt: len(r.Prompt), limit: limit,
		arrival: m.arrivals, background: r.Background, priority: r.Priority, tenant: r.Tenant, deadline: r.Deadline, interval: r.Interval,
	})
	m.arrivals++
}

// displace cancels the sequence that should make room for one of a priority, if there is one.
func (m *machine) displace(priority int) bool {
	var want *client
	for _, q := range m.live { // in order of arrival
		if m.waiting() == m.cfg.MaxWaiting && !q.running && !q.charged && q.priority > priority && (want == nil || q.priority >= want.priority) {
			want = q
		}
	}
	id, ok := m.s.Expendable(&Request{Priority: priority})
	if ok != (want != nil) || ok && id != want.id {
		m.t.Fatalf("%d is expendable for priority %d (%v); want %+v", id, priority, ok, want)
	}
	if ok {
		m.cancel(id)
	}
	return ok
}

// verifyVictim checks that who is preempted is the last of those who run.
func (m *machine) verifyVictim(p *Plan, q *client) {
	if !q.running || !m.last(q) {
		m.t.Fatalf("sequence %d is preempted but does not come last:\n%v", q.id, p)
	}
}

// verifyAdmission checks that no one who comes before q is passed more often than may be, but for a crowd's.
func (m *machine) verifyAdmission(p *Plan, w Work, q *client) {
	for _, o := range m.live {
		if o.running || o == q || !m.before(o, q) || m.crowded(o) {
			continue
		}
		if o.passed++; o.passed > m.cfg.MaxPassed && m.cfg.StepTarget == 0 {
			m.t.Fatalf("sequence %d is admitted before %d, which let %d pass before:\n%v", q.id, o.id, o.passed-1, p)
		}
	}
	if !q.charged {
		q.charged = true
		m.tenants.served[q.tenant] += int64(len(q.tokens) - w.Cached)
	}
}

// verifyShares checks that all who run and have something to compute take part, but for the last of them if there is no
// block, for those that decode while prompts come first, and for prompts whose turn it is not.
func (m *machine) verifyShares(p *Plan, st *step) {
	running := 0
	for _, q := range m.live {
		if q.running {
			running++
		}
		length := len(q.tokens) + q.pending
		switch {
		case !q.running || st.clients[q.id] != nil || q.rests() || length == q.limit || q.pending > 0 && (q.alone || q.drafted):
		case q.background && p.Rows == m.cfg.TokenBudget:
		case m.cfg.StepTarget > 0: // it is not its turn, or there is no time
		case m.s.pool.Available() < m.s.pool.Groups() && (m.cfg.Policy == "edf" || m.last(q)):
			// A row may need a block of each group. Deadlines are later now for those that the plan lets yield a token.
		case m.cfg.Interval > 1 && (st.decodes || p.Rows == 0) && length-q.computed > 1 && q.idle < m.cfg.Interval:
			q.idle++
			continue
		case (m.cfg.Batch == PrefillFirst || m.cfg.Batch == Static) && p.Rows > 0 && !st.decodes &&
			(length-q.computed == 1 || p.Rows == m.cfg.TokenBudget):
		default:
			m.t.Fatalf("sequence %d runs but is not in the plan:\n%v", q.id, p)
		}
		q.idle = 0
	}
	if running > m.cfg.MaxSeqs {
		m.t.Fatalf("%d run, at most %d may:\n%v", running, m.cfg.MaxSeqs, p)
	}
}

// verifyHead checks that the first who waits could not have run.
func (m *machine) verifyHead(p *Plan, st *step) {
	var head *client
	running, busy := 0, 0
	for _, q := range m.live {
		if q.running {
			running++
			if st.clients[q.id] == nil && (q.pending > 0 && (q.alone && len(q.tokens)+q.pending < q.limit || q.drafted) || q.rests()) {
				busy++
			}
		} else if head == nil || m.before(q, head) {
			head = q
		}
	}
	switch {
	case head == nil || head.pending > 0 || running == min(m.cfg.MaxSeqs, m.cfg.TokenBudget):
	case m.cfg.StepTarget > 0: // there may be no time for it
	case head.background && running >= min(m.cfg.MaxSeqs, m.cfg.TokenBudget)*7/8:
	case p.Rows+busy >= m.cfg.TokenBudget || len(p.Preempted) > 0:
	case m.cfg.Batch == DecodeFirst && p.samples(), m.cfg.Batch == Static, m.cfg.Interval > 1 && st.decodes:
	case m.awaits(head.id):
	case m.crowded(head): // the last places are kept for other tenants
	case m.cfg.MaxAdapters > 0 && head.adapter != 0: // others may hold the places
	case m.cfg.Allocation != OnDemand: // which looks at what others will need
	case m.cfg.Policy == "vtc" && m.cfg.MaxPassed > 0: // it may be in front only since another was admitted
	case m.s.pool.AvailableStates() == 0:
	case slices.ContainsFunc(m.live, func(q *client) bool { return q.running && q.id == head.parent }): // it may wait for it
	case m.s.pool.Available() >= (m.s.pool.BlocksFor(len(head.tokens))+running)*m.s.pool.Groups():
		m.t.Fatalf("sequence %d could run, %d blocks are available, but it waits:\n%v", head.id, m.s.pool.Available(), p)
	}
}

// crowded reports whether q's tenant must leave the places that remain to others: an eighth of four or more, at least
// one, if it has more than half of all.
func (m *machine) crowded(q *client) bool {
	places := min(m.cfg.MaxSeqs, m.cfg.TokenBudget)
	running, own := 0, 0
	for _, o := range m.live {
		if o.running {
			running++
			if o.tenant == q.tenant {
				own++
			}
		}
	}
	return m.cfg.Policy == "vtc" && places >= 4 && places-running <= max(1, places/8) && own > places/2
}

// awaits reports whether a sequence waits for blocks of slow tiers.
func (m *machine) awaits(id SeqID) bool { return m.s.byID[id].awaits.Pending() }
