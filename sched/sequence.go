package sched

import "github.com/kvasir-llm/kvasir/kv"

// sequence is what the scheduler knows of one. Its tokens fall into
//
//	computed ≤ those planned to be computed, in an outstanding plan or an earlier one
//	known    ≤ those whose value is known: the prompt, and what Commit told
//	length     those and, for each outstanding plan that samples for it, one and as many as are proposed
//
// where known and computed are in no order: a prompt is known before it is computed, and a decoding sequence may be
// planned ahead of what is known, by one token for each plan or by those that are proposed.
//
// What a step reads and writes of each sequence that decodes is here, in three cache lines; the rest is apart.
type sequence struct {
	Tokens // the known ones

	next   *sequence // in the list of those that run, or are held
	id     SeqID
	tenant *tenant
	*rest
	place  int32 // in the plan that it was put into last
	slot   int32 // as long as it runs
	forced int32 // tokens known when Force told the last ones, if it ran
	draft  int32 // tokens that are proposed and not planned yet

	length, computed int
	done             int  // of those, computed by steps that are committed
	limit            int  // the length at which it ends
	drafted          bool // an outstanding plan computes proposed tokens
	when             timing
	hold             bool // is held once it has its tokens
	held             bool // is
	ended            bool
	background       bool
	predicted        bool     // due is the time of its first token, which has not come
	turns            bool     // user is set
	table            kv.Table // the blocks of tokens [0, computed) and more, with room for all there can be; empty while waiting
}

// timing is when a sequence may be planned, beside what always holds.
type timing uint8

const (
	solo   timing = 1 << iota // PlanAhead(false)
	paused                    // Pause(true)
)

// set sets one of them, or not.
func (t *timing) set(which timing, on bool) {
	if *t &^= which; on {
		*t |= which
	}
}

// rest is what a step reads of a sequence only if more happens to it than a token.
type rest struct {
	prev    *sequence // in the list of those that run, or are held
	names   []kv.Hash // of the full blocks of tokens, as far as name was called
	arrival uint64
	since   int64 // when it came, as Tick told
	prompt  int   // tokens
	due     int64 // when its first token was predicted, in milliseconds after since
	keys    kv.Keys
	adapter uint64
	parent  SeqID
	keep    kv.Retention
	lookup  bool // looks for its prefix in the cache
	heir    bool // ends its parent when it starts

	priority           int
	payer              string
	user               string // of its tenant, if that is a payer
	turn               int64  // among those
	deadline, interval int64
	rank               int64 // as of when the policy was last asked
	charged            bool  // its prompt is paid for: it ran before
	paid               int64 // the service of its tenant when it was admitted
	unfit              bool  // it was tried in vain since it waits
	passed             int   // how often it did not fit and a later one was admitted

	counted int // in queue.tokens
	fresh   int // in queue.fresh; 0: it is not there

	offer  kv.Offer    // what it was offered when it was last tried
	awaits kv.Arrivals // blocks of slow tiers that it waits for
	shared int         // how many of table's blocks were found in the cache

	swapped int // how many tokens it had when the last block of these was stored under the name tail; 0: it was not
	tail    kv.Hash

	at int // its place among those of its tenant that wait; -1: it runs
}

// touch reads from each cache line that a step needs of a sequence. Over many sequences, before anything is done with
// the first, it takes a fraction of the time of reading each when it is needed: none of these reads waits for another.
func (q *sequence) touch() int { return int(q.recent[0]) + q.known + q.length }

// touchNames is touch for what it takes to name a block.
func (q *sequence) touchNames() (n int) {
	if last := len(q.names) - 1; last >= 0 {
		n = int(q.names[last][0])
	}
	if last := len(*q.older) - 1; last >= 0 {
		n += int((*q.older)[last])
	}
	return n
}

// before reports whether q comes before r in the order of the policy.
func (q *sequence) before(r *sequence) bool {
	switch {
	case q.background != r.background:
		return r.background
	case q.tenant.served != r.tenant.served:
		return q.tenant.served < r.tenant.served
	case q.rank != r.rank:
		return q.rank < r.rank
	case q.arrival != r.arrival:
		return q.arrival < r.arrival
	}
	return q.id < r.id // of two that go on from held ones
}

func (q *sequence) placed(at int) { q.at = at }

// running reports whether q runs, or is held and has blocks; else it waits, or is held and has none.
func (q *sequence) running() bool { return !q.table.Empty() }

// list is a doubly linked list of sequences, so that one can leave from the middle.
type list struct {
	front, back *sequence
	n           int
}

func (l *list) pushBack(q *sequence) {
	q.prev, q.next = l.back, nil
	if l.back == nil {
		l.front = q
	} else {
		l.back.next = q
	}
	l.back = q
	l.n++
}

func (l *list) remove(q *sequence) {
	if q.prev == nil {
		l.front = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.back = q.prev
	} else {
		q.next.prev = q.prev
	}
	q.prev, q.next = nil, nil
	l.n--
}
