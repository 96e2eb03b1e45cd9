package sched

import "github.com/kvasir-llm/kvasir/kv"

// sequence is what the scheduler knows of one. Its tokens fall into
//
//	computed ≤ those planned to be computed, in an outstanding plan or an earlier one
//	known    ≤ those whose value is known: the prompt, and what Commit told
//	length     those and one for each outstanding plan that samples for it
//
// where known and computed are in no order: a prompt is known before it is computed, and a decoding sequence may be
// planned one token ahead of what is known.
type sequence struct {
	id      SeqID
	arrival uint64
	since   int64 // when it came, as Tick told
	prompt  int   // tokens
	limit   int   // the length at which it ends
	keys    kv.Keys
	adapter uint64
	parent  SeqID
	keep    kv.Retention
	lookup  bool // looks for its prefix in the cache
	hold    bool // is held once it has its tokens
	held    bool // is
	heir    bool // ends its parent when it starts

	priority           int
	deadline, interval int64
	tenant             *tenant
	rank               int64 // as of when the policy was last asked
	charged            bool  // its prompt is paid for: it ran before
	passed             int   // how often it did not fit and a later one was admitted

	length, known, computed int
	done                    int // of those, computed by steps that are committed

	tokens []int32   // the known ones; without a prefix cache, those of the prompt
	names  []kv.Hash // of the full blocks of these, if there is a prefix cache

	prefix kv.Prefix // what it found in the cache when it was last tried
	table  kv.Table  // the blocks of tokens [0, computed) and more, with room for all there can be; empty while waiting
	shared int       // how many of table's blocks were found in the cache
	ended  bool

	stowed int // how many tokens it had when the last block of these was stored under the name tail; 0: it was not
	tail   kv.Hash

	at         int // its place among those of its tenant that wait; -1: it runs
	prev, next *sequence
}

// before reports whether q comes before r in the order of the policy.
func (q *sequence) before(r *sequence) bool {
	switch {
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
func (q *sequence) running() bool { return q.table.Blocks != nil }

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
