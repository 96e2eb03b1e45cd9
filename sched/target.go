package sched

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/kv"
)

// leastChunk is how many tokens of prompts a step may compute though it takes longer than the target, so that prompts
// go on: as many of them as keep it within mostTargets, and all where decoding alone takes longer than the target.
const (
	leastChunk  = 16
	mostTargets = 1.75
)

// Took tells how long a step took, in microseconds, before its Commit. It never changes a token, only how many tokens
// of prompts later steps compute (Config.StepTarget) and which requests are refused (Config.MaxQueueTime).
func (s *Scheduler) Took(p *Plan, micros int64) {
	var all, proposed int64
	rows, drafts := 0, 0
	for i := range p.Seqs {
		w := &p.Seqs[i]
		all += pairs(w.Start, w.N)
		if w.Draft > 0 {
			drafts, proposed = drafts+w.Draft, proposed+pairs(w.Start+w.N-w.Draft, w.Draft)
		}
		if w.N-w.Draft > 1 || !w.Sample {
			rows += w.N + w.Cached
		}
	}
	if !slices.ContainsFunc(p.Moves, toDevice) { // they may take longer than what is computed
		s.cost.observe(int64(p.Rows), all, float64(micros))
	}
	if p.Rows > 0 {
		s.usual = usual{float64(p.Rows - drafts), float64(all - proposed)}
	}
	if p.pressed {
		s.pace.observe(s.now, rows, float64(micros))
	}
}

func toDevice(m kv.Move) bool { return m.To.Tier == kv.Device }

// allow decides how long the prompts in a plan may take: what the target leaves beside decoding sequences. Without a
// target, and where none decodes and no crowd's prompts are beside other tenants, it is any time.
//
// Prompts that lead are computed alone where they end in one step within the target. Another step with prompts that
// lead may take two targets, or three if that ends a prompt, and these prompts may take one and a half times as long as
// all decoding sequences. So they take at most 1.7 times as long as alone. Where other tenants came of late, which wait
// for the step under way when they come again, a step with a crowd's prompts takes a quarter of the target or, if that
// is longer, four times as long as all decoding sequences alone; short says how long its steps are beside tenants that
// come often.
func (s *Scheduler) allow(p *Plan) {
	p.left, p.extra, p.savedTime, p.least, p.slack, p.owed = math.Inf(1), 0, 0, 0, 0, 0
	p.filled, p.most = 0, math.MaxInt
	p.lone, p.turns = false, false
	s.follow(p)
	if s.policy.fair && s.cfg.Batch == Mixed && !s.cfg.Whole { // where prompts led, others asked for less than they do now
		p.owed = s.running.n
	}
	if s.cfg.StepTarget == 0 || s.cfg.Whole || s.cfg.Batch != Mixed || !s.cost.known {
		return
	}
	s.cost.fit()
	taken, decoding, prompts := s.cost.base(), 0, 0
	for q := s.running.front; q != nil; q = q.next {
		if q.length-q.computed == 1 && q.prompt < q.length {
			taken += s.cost.more(decoding, q.computed, 1)
			decoding++
		} else if !s.busy(q) {
			prompts++
		}
	}
	if decoding == 0 && (p.crowd == nil || !p.leading && !s.othersAbout(p.crowd)) {
		return
	}
	target := float64(s.cfg.StepTarget)
	p.left, p.least, p.owed, p.filled = target-taken, leastChunk, s.running.n, decoding
	if p.leading || p.crowd != nil && s.othersAbout(p.crowd) {
		p.left = min(target, max(target/4, 4*taken)) - taken
	}
	if p.slack = math.Inf(1); taken < target {
		p.slack = mostTargets*target - taken - p.left
	}
	if p.crowd != nil {
		s.short(p, taken)
	}
	if p.leading {
		p.extra = max(2*target-taken, 1.5*taken) - p.left
		p.savedTime = min(p.left+p.extra+target, s.cost.work(p.found, p.saved))
	}
	if p.leading && !s.lone {
		s.alone(p)
	} else if !p.leading && !p.turns {
		s.level(p, prompts)
	}
}

// level bounds the rows of prompts in a plan to those that are worth their time, of those that there are and that fit
// the target, if the device has stairs. Each of several running prompts has one at any rate.
func (s *Scheduler) level(p *Plan, prompts int) {
	if len(s.cost.stairs) == 0 {
		return
	}
	all := s.prompts(s.waiting.tokens - s.waiting.behindTokens)
	if s.running.n >= s.cfg.MaxSeqs {
		all = s.prompts(0)
	}
	rows := p.filled + max(0, prompts-1)
	if n := min(all, s.cost.afford(p.left, rows, 0, min(all, s.cfg.TokenBudget))); n > 0 {
		p.most = s.cost.stairs.best(rows, n)
	}
}

// chunk returns how many of q's next n tokens a plan has the rows and the time for; at least one, unless it is to be
// admitted.
func (s *Scheduler) chunk(p *Plan, q *sequence, n int) int {
	left, least := p.left, p.least
	switch {
	case p.leading && p.leads(q):
		if left += p.extra; s.cost.work(q.computed, n) <= left+float64(s.cfg.StepTarget) {
			return n
		}
	case p.leading:
		n = min(n, max(1, s.cfg.TokenBudget-p.Rows-p.owed-p.saved))
		left, least = left-p.savedTime, 0
	}
	if n <= 1 || math.IsInf(left, 1) {
		return n
	}
	n = max(1, min(n, p.most))
	afford := func(left float64) int { return s.cost.afford(left, p.filled, q.computed, n) }
	fits := max(afford(left), min(least, afford(left+p.slack)))
	if fits > 0 && fits < n && !p.leading && len(s.cost.stairs) > 0 {
		fits = s.cost.stairs.best(p.filled, fits)
		p.most = fits
	}
	return max(1, min(n, fits))
}

// spend takes what a plan does for a prompt off the time for prompts.
func (s *Scheduler) spend(p *Plan, start, n int) {
	p.left -= s.cost.more(p.filled, start, n)
	p.least, p.most, p.filled = max(0, p.least-n), max(0, p.most-n), p.filled+n
}

// BusyError refuses a sequence since too many wait before it. It is ErrQueueFull.
type BusyError struct {
	Wait int64 // predicted milliseconds until the sequences that wait now are admitted
}

func (e *BusyError) Error() string {
	if e.Wait == 0 {
		return ErrQueueFull.Error()
	}
	return fmt.Sprintf("%v: it would wait for about %d ms", ErrQueueFull, e.Wait)
}

// Is reports that e is ErrQueueFull.
func (e *BusyError) Is(target error) bool { return target == ErrQueueFull }

// pace is how fast prompts are computed, or found in the cache, in steps that leave some of them to later ones: a
// moving average over paceMicros, which ends where none are left for as long. Steps that compute all that there is, and
// those during which more comes, say nothing of it.
type pace struct {
	rows, micros float64
	last         int64 // when a step was observed
}

const paceMicros = 5e6

func (p *pace) observe(now int64, rows int, micros float64) {
	if p.old(now) {
		p.rows, p.micros = 0, 0
	}
	p.rows, p.micros, p.last = p.rows+float64(rows), p.micros+micros, now
	if p.micros > paceMicros {
		p.rows, p.micros = p.rows*paceMicros/p.micros, paceMicros
	}
}

// old reports that none were left for so long that the pace of then says nothing of now.
func (p *pace) old(now int64) bool { return float64(now-p.last)*1000 > paceMicros }

// known reports whether enough steps were observed.
func (p *pace) known(now int64) bool { return p.rows > 0 && p.micros >= paceMicros/5 && !p.old(now) }

// Wait predicts, in milliseconds, when all prompts are computed of those who run and wait now: from the pace of prompts
// lately, or if that is not known, from what steps cost; and from how far earlier predictions were off. 0 if nothing is
// known.
func (s *Scheduler) Wait() int64 { return s.waitFor(s.waiting.tokens - s.waiting.behindTokens) }

// prompts returns how many tokens of prompts are to be computed, with so many of those that wait.
func (s *Scheduler) prompts(tokens int) int {
	for q := s.running.front; q != nil; q = q.next {
		if n := q.length - q.computed; n > 1 && !q.background {
			tokens += n
		}
	}
	return tokens
}

// waitFor is Wait with so many tokens of those that wait.
func (s *Scheduler) waitFor(tokens int) int64 {
	tokens = s.prompts(tokens)
	perToken := 0.0
	switch {
	case s.pace.known(s.now):
		perToken = s.pace.micros / s.pace.rows
	case s.cost.known:
		s.cost.fit()
		perToken = s.cost.coefs[1]
	}
	return int64(min(perToken*float64(tokens)/1000*s.error.factor(), math.MaxInt32))
}

// lateness is how many times as long as predicted it takes to the first token, for all but one of ten sequences: a
// moving estimate that rises while it is exceeded and else falls by a ninth of that. It moves with time, not with each
// sequence, since those that come together are late together.
type lateness struct {
	log  float64
	last int64 // when a first token was observed
}

const (
	latenessFall = 0.02 // of the logarithm in a second
	mostLateness = 1.6  // five times as long
	leastWait    = 100  // milliseconds: shorter predictions say nothing of the pace
)

func (l *lateness) factor() float64 { return math.Exp(l.log) }

// observe takes note of a first token that came after took milliseconds, where predicted were.
func (l *lateness) observe(now, predicted, took int64) {
	if predicted < leastWait {
		return
	}
	fall := latenessFall * min(1, float64(now-l.last)/1000)
	if l.last = now; took > predicted {
		l.log = min(l.log+9*fall, mostLateness)
	} else {
		l.log = max(l.log-fall, 0)
	}
}

// patient is how many sequences may wait though that takes too long, as long as there is patience, unless they say by
// when they want their first token.
const patient = 4

// patience is how many milliseconds of prompts that will be late may be taken: a burst is served late rather than
// refused, but under lasting overload late prompts take a small share of the time, so that the others are in time.
type patience struct {
	spent   float64 // of mostPatience
	last    int64   // when that was
	hopeful int64   // when a prompt came last that can be in time
}

const (
	mostPatience = 10_000
	patientShare = 0.03   // of the time
	hopeTime     = 60_000 // after which, if no prompt came that can be in time, there is patience with all
)

// take takes the time of a prompt, if there is any.
func (p *patience) take(now, millis int64) bool {
	p.spent, p.last = max(0, p.spent-patientShare*float64(now-p.last)), now
	if p.spent >= mostPatience {
		return false
	}
	p.spent += float64(millis)
	return true
}

// late predicts when a request has its first token, in milliseconds, 0 if that does not matter, and returns an error if
// it is too late. A prompt that takes long itself counts as half of the time at most, so that it is not always refused.
func (s *Scheduler) late(r *Request) (predicted int64, err error) {
	most := s.cfg.MaxQueueTime
	switch {
	case r.Parent != 0 || r.Patient || r.Background:
		return 0, nil
	case r.Within > 0:
		most = r.Within
	case most == 0:
		return 0, nil
	}
	count, tokens := s.before(r)
	before := s.waitFor(tokens)
	predicted = s.waitFor(tokens + len(r.Prompt))
	own := predicted - before
	if own <= most {
		s.hopeful = s.now
	}
	soon := before+min(own, most/2) <= most
	switch {
	case r.Within > 0 && soon, before == 0, before+own <= most:
	case r.Within == 0 && (soon || count < patient) && (s.now-s.hopeful > hopeTime || s.patience.take(s.now, own)):
	default:
		return 0, &BusyError{before}
	}
	return predicted, nil
}

// before returns how many waiting sequences are before a new one, and how many tokens they have. Under a fair policy
// these are the tenant's own, of users whose turn is no later, and as many tokens of each other tenant that waits.
func (s *Scheduler) before(r *Request) (count, tokens int) {
	all := s.waiting.tokens - s.waiting.behindTokens
	if !s.policy.fair {
		return s.waiting.n - s.waiting.behind, all
	}
	if t := s.tenants[s.nameOf(r)]; t != nil {
		turn := t.users.due(r.Tenant)
		for _, q := range t.waiting.All() {
			if q.turn <= turn && !q.background {
				count, tokens = count+1, tokens+q.counted
			}
		}
	}
	return count, min(tokens*max(1, s.waiting.tenants.Len()), all)
}
