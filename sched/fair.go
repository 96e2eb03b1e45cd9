package sched

import "math"

// Under a fair policy it is not enough that a tenant's sequence is the next to be admitted: beside a crowd, which is
// one tenant's many sequences, it would wait for a place, for the crowd's prompts, and for steps that are as long as
// the crowd's sequences make them. So a few places are kept (crowded), prompts of others lead (Plan.leads), and steps
// stay short where others are about.

// crowdSize is how many sequences, running or waiting, make a crowd, if more than half of all that run are among them.
const crowdSize = 4

// aboutTime is how many milliseconds after its last request a tenant is expected to come again.
const aboutTime = 60_000

// crowded reports whether a tenant has more than half of the places for running sequences, and no more are free than a
// fair policy keeps for other tenants: an eighth of all, and at least one.
func (s *Scheduler) crowded(t *tenant) bool {
	if !s.policy.fair || s.cfg.MaxSeqs < 4 || s.running.n < s.cfg.MaxSeqs-max(1, s.cfg.MaxSeqs/8) {
		return false
	}
	return 2*s.seats(t) > s.cfg.MaxSeqs
}

// seats returns how many sequences of a tenant run.
func (s *Scheduler) seats(t *tenant) (n int) {
	for q := s.running.front; q != nil; q = q.next {
		if q.tenant == t {
			n++
		}
	}
	return n
}

// crowd returns the tenant of more than half of the running sequences, if it has a few and the policy is fair; else
// nil. If there is one, it is what remains when sequences of different tenants leave in pairs (Boyer and Moore, MJRTY).
func (s *Scheduler) crowd() *tenant {
	if !s.policy.fair || s.cfg.Whole || s.cfg.Batch != Mixed || s.running.n == 0 {
		return nil
	}
	var t *tenant
	left := 0
	for q := s.running.front; q != nil; q = q.next {
		if left == 0 {
			t = q.tenant
		}
		if left--; q.tenant == t {
			left += 2
		}
	}
	if t.live < crowdSize || 2*s.seats(t) <= s.running.n {
		return nil
	}
	return t
}

// leads reports whether a sequence's prompt is computed before those of the crowd: it is another tenant's, which had no
// more service when it was admitted than the crowd has now or will have with its next prompt, for which it is charged
// at once and which it may get long after. So no tenant stays ahead for longer than one prompt of each.
func (p *Plan) leads(q *sequence) bool {
	return p.crowd != nil && q.tenant != p.crowd && q.paid <= p.crowd.due()
}

// due is the service that a tenant has got, with its next prompt if one waits.
func (t *tenant) due() int64 {
	if t.waiting.Len() == 0 {
		return t.served
	}
	return t.served + weightIn*int64(t.waiting.First().counted)
}

// follow decides who leads in a plan. Of those that wait, the first that would is expected to be admitted, and rows and
// time are kept for it; not if that was tried before, since it may lack blocks.
func (s *Scheduler) follow(p *Plan) {
	p.crowd, p.leading, p.guest, p.found, p.saved = s.crowd(), false, nil, 0, 0
	if p.crowd == nil {
		return
	}
	for q := s.running.front; q != nil && !p.leading; q = q.next {
		p.leading = q.length-q.computed > 1 && !s.busy(q) && p.leads(q)
	}
	if s.running.n >= s.cfg.MaxSeqs || s.waiting.n == 0 {
		return
	}
	var first *tenant
	all := s.waiting.tenants.All()
	for _, t := range all[:min(3, len(all))] { // the first two of a heap are among the first three
		if t != p.crowd && t.served <= p.crowd.due() && (first == nil || t.before(first)) {
			first = t
		}
	}
	if first != nil && !first.waiting.First().unfit {
		p.leading, p.guest = true, first.waiting.First()
		p.found = s.finds(p, p.guest)
		p.saved = min(p.guest.length-p.found, s.cfg.MaxChunk)
	}
}

// finds returns how many tokens of a waiting sequence need not be computed if it is admitted now.
func (s *Scheduler) finds(p *Plan, q *sequence) int {
	parent, common := s.parentOf(q)
	s.pool.Offer(&q.offer, s.want(p, q, parent, common))
	return q.offer.Found
}

// came notes that a tenant has a new sequence, which has so many tokens to compute.
func (s *Scheduler) came(t *tenant, tokens int) {
	if s.latest[0].tenant != t {
		s.latest[1] = s.latest[0]
	}
	s.latest[0] = visit{t, s.now, tokens}
}

// visit is when a sequence of a tenant was last admitted for the first time, and how many tokens it had to compute.
type visit struct {
	tenant *tenant
	at     int64
	tokens int
}

// othersAbout reports whether another tenant than t came of late.
func (s *Scheduler) othersAbout(t *tenant) bool { return s.visitBeside(t, aboutTime) != nil }

// visitBeside returns the last visit of another tenant than t, if it was less than so many milliseconds ago.
func (s *Scheduler) visitBeside(t *tenant, within int64) *visit {
	for i := range s.latest {
		if v := &s.latest[i]; v.tenant != nil && v.tenant != t && s.now-v.at < within {
			return v
		}
	}
	return nil
}

// short keeps a crowd's steps short for tenants that come often and with little, since these wait for the step under
// way: a step takes no more of the crowd's prompts once it is as long as what the last such tenant's prompt had to
// compute takes alone, or by half longer than one without any rows. If the decoding sequences take more than half of
// that time for rows, two halves of them take turns, and prompts have a turn of their own.
func (s *Scheduler) short(p *Plan, taken float64) {
	v := s.visitBeside(p.crowd, oftenTime)
	if v == nil {
		return
	}
	rows := max(s.cost.work(0, v.tokens), s.cost.base()/2)
	p.left, p.slack = min(p.left, max(0, s.cost.base()+rows-taken)), 0
	if p.turns = !p.leading && taken-s.cost.base() > rows/2; p.turns {
		s.takeTurn(p)
		p.left = rows
	}
}

// takeTurn makes a plan that of the next turn. Only that of prompts has time for them.
func (s *Scheduler) takeTurn(p *Plan) {
	s.turn = (s.turn + 1) % crowdTurns
	p.least = 0
	if s.turn == 0 {
		p.least = 1
	}
}

// crowdTurns are those of prompts, of sequences in odd slots, and of those in even ones.
const crowdTurns = 3

// rests reports whether it is not a sequence's turn.
func (s *Scheduler) rests(p *Plan, q *sequence) bool {
	if !p.turns || q.tenant != p.crowd {
		return false
	}
	if q.length-q.computed > 1 || s.turn == 0 {
		return (q.length-q.computed > 1) != (s.turn == 0)
	}
	return int(q.slot)%2 != s.turn%2
}

// oftenTime is within how many milliseconds of its last request a tenant comes often.
const oftenTime = 1000

// alone decides whether a plan computes the prompts that lead, and nothing else: if they end in one step that is no
// longer than the target, and the decoding sequences were in the plan before.
func (s *Scheduler) alone(p *Plan) {
	micros := s.cost.base()
	rows := 0
	if p.guest != nil {
		rows = p.guest.length - p.found
		micros += s.cost.work(p.found, rows)
	}
	for q := s.running.front; q != nil; q = q.next {
		if n := q.length - q.computed; n > 1 && p.leads(q) {
			if s.busy(q) {
				return
			}
			rows, micros = rows+n, micros+s.cost.work(q.computed, n)
		}
	}
	if rows > min(s.cfg.TokenBudget-p.kept, s.cfg.MaxChunk) || micros > float64(s.cfg.StepTarget) {
		return
	}
	p.lone = true // they fit: nothing bounds them any more
	p.left, p.extra, p.savedTime, p.least, p.slack, p.owed, p.saved = math.Inf(1), 0, 0, 0, 0, 0, 0
}

// planLone plans the prompts that lead, and reports whether there is something to compute. There is not if the one that
// waits lacks blocks.
func (s *Scheduler) planLone(p *Plan) bool {
	s.planLeading(p)
	s.begin()
	if q := p.guest; q != nil && len(p.Preempted) == 0 && s.roomy() {
		if s.waiting.remove(q); !s.start(p, q) {
			q.unfit = true
			s.waiting.push(q)
		}
	}
	return len(p.Seqs) > 0
}

// expectant reports whether no step is to be planned ahead: a crowd runs, and tenants that came of late would wait for
// it.
func (s *Scheduler) expectant() bool {
	t := s.crowd()
	return t != nil && s.othersAbout(t)
}
