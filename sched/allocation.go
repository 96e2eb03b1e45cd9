package sched

import (
	"math/bits"

	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/named"
)

// Allocation says how many blocks a sequence must find to be admitted: beyond those for the tokens it has, what is to
// be left for those that it and the running ones will yield.
type Allocation string

const (
	// OnDemand leaves one block for each that runs, and lets those that outgrow them preempt others. It is the default.
	OnDemand Allocation = "on-demand"
	// Preallocate keeps blocks for prompt and longest output together, so that no one is preempted (but, rarely, where
	// layers have windows and prompts share blocks), and fewer run.
	Preallocate Allocation = "preallocate"
	// Learned admits a sequence if, by the lengths that outputs had so far, the blocks suffice at the moment when most
	// of them will be held: see forecast.
	Learned Allocation = "learned"
)

// allocations are all there are.
var allocations = named.Plain(
	named.Value[Allocation]{Is: OnDemand, Help: "for its prompt"},
	named.Value[Allocation]{Is: Preallocate, Help: "for its longest answer too"},
	named.Value[Allocation]{Is: Learned, Help: "as answers so far let expect"},
)

// Allocations returns the names that Config.Allocation takes, the default first.
func Allocations() []string { return allocations.Names() }

// AllocationHelp says what they mean, as part of a sentence.
func AllocationHelp() string { return allocations.Help() }

// buckets is how many ranges of lengths are told apart: each number below 16, then eight to each doubling.
const buckets = 16 + 27*8

// bucketOf returns the bucket of a length.
func bucketOf(n int) int {
	if n < 16 {
		return max(n, 0)
	}
	octave := bits.Len(uint(n)) - 5 // 0 for 16 to 31
	return min(16+8*octave+n>>(octave+1)-8, buckets-1)
}

// longest returns the longest length of a bucket.
func longest(bucket int) int {
	if bucket < 16 {
		return bucket
	}
	octave := (bucket - 16) / 8
	return (bucket-16-8*octave+9)<<(octave+1) - 1
}

// lengths counts how long outputs were. Old ones fade: when there are as many as remembered, all count half.
type lengths struct {
	counts [buckets]int32
	total  int32
	stale  bool
	// expect is how long an output that has a length of this bucket is expected to become: the median of those that
	// became at least as long. A higher quantile would leave room for chance, but the sum of many has little of it.
	expect [buckets]int
}

const (
	remembered = 1024 // outputs
	enough     = 16   // outputs before their lengths are believed
)

func (l *lengths) add(n int) {
	l.counts[bucketOf(n)]++
	l.stale = true
	if l.total++; l.total < remembered {
		return
	}
	l.total = 0
	for i := range l.counts {
		l.counts[i] /= 2
		l.total += l.counts[i]
	}
}

// known reports whether there are enough lengths to go by, and brings expect up to date.
func (l *lengths) known() bool {
	if l.total < enough || !l.stale {
		return l.total >= enough
	}
	l.stale = false
	longer := l.total // outputs at least as long as bucket b
	beyond := l.total // outputs longer than bucket e
	e := -1
	for b := range buckets {
		for ; e < buckets-1 && (e < b || 2*beyond > longer); beyond -= l.counts[e] {
			e++
		}
		l.expect[b] = longest(e)
		if longer == 0 { // it outlives all others: it is taken to be half done
			l.expect[b] = 2 * longest(b)
		}
		longer -= l.counts[b]
	}
	return true
}

// forecast tells how many blocks will be held when, if each running sequence yields a token a step until it has its
// expected length, and gives back its blocks then (after Gong et al., Past-Future Scheduler for LLM Serving under SLA
// Guarantees, ASPLOS 2025). Sequences are told apart by how many tokens they have left.
type forecast struct {
	n, held [buckets]int // sequences, and the blocks that they alone hold
}

// left returns how many tokens q will still yield.
func (s *Scheduler) left(q *sequence) int {
	left := q.limit - q.length
	if s.lengths.known() {
		generated := q.length - q.prompt
		left = min(left, max(s.lengths.expect[bucketOf(generated)]-generated, 1))
	}
	return left
}

// add counts a sequence that will hold so many blocks of its own.
func (f *forecast) add(left, held int) {
	b := bucketOf(left)
	f.n[b]++
	f.held[b] += held
}

// peak returns the most blocks that will be held at once, if used are now and each sequence has groups tables.
func (f *forecast) peak(used, blockTokens, groups int) int {
	running := 0
	for _, n := range f.n {
		running += n
	}
	peak, freed := used, 0
	for b, n := range f.n {
		if n == 0 {
			continue
		}
		grown := running * groups * ((longest(b) + blockTokens - 1) / blockTokens)
		peak = max(peak, used-freed+grown)
		running -= n
		freed += f.held[b]
	}
	return peak
}

// begin readies the scheduler to say who fits in a step.
func (s *Scheduler) begin() {
	s.promised = 0
	if s.cfg.Allocation == Learned {
		s.forecast = forecast{}
	}
	for q := s.running.front; q != nil; q = q.next {
		s.promise(q)
	}
}

// promise counts what is to be left for a running sequence.
func (s *Scheduler) promise(q *sequence) {
	switch s.cfg.Allocation {
	case Preallocate:
		s.promised += s.pool.Most(q.limit-1, s.cfg.MaxChunk) - q.table.Held()
	case Learned:
		s.forecast.add(s.left(q), max(0, q.table.Held()-q.shared))
		s.promised += s.pool.Groups()
	default:
		s.promised += s.pool.Groups()
	}
}

// fits reports whether q can be admitted with what it is offered.
func (s *Scheduler) fits(q *sequence, o *kv.Offer) bool {
	available := s.pool.Available() - o.Unused
	later := s.promised
	switch s.cfg.Allocation {
	case Preallocate:
		later += max(0, s.pool.Most(q.limit-1, s.cfg.MaxChunk)-o.Kept-o.Need)
	case Learned:
		with := s.forecast
		with.add(s.left(q), o.Need)
		if with.peak(s.cfg.Blocks-available+o.Need, s.cfg.BlockTokens, s.pool.Groups()) > s.cfg.Blocks {
			return s.running.n == 0 && available >= o.Need
		}
	}
	return available >= o.Need+later
}
