package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/sched"
)

// Drafts say what guesses which tokens follow those of a sequence, for one step to verify several of them. Good guesses
// make decoding faster. None changes a token.
type Drafts struct {
	// Lookup guesses that what came before comes again: in the prompt, the output and Params.Prediction. A sequence
	// with a Prediction is looked up without it, too.
	Lookup bool
	// Drafter, if not nil, guesses for sequences in which nothing is found.
	Drafter Drafter
	// Most is how many tokens are proposed to a sequence at once; 0 is MostDraft.
	Most int
	// Always verifies all that is guessed. Otherwise a token is verified if it is likely enough to be worth the time by
	// which it makes steps on this device longer; sequences without such a token are planned ahead.
	Always bool
}

// MostDraft is how many tokens are proposed to a sequence at once, and MaxDraft the largest Drafts.Most.
const (
	MostDraft = 16
	MaxDraft  = 64
)

// Drafter guesses what follows, such as a smaller model does. The loop calls it, and waits.
type Drafter interface {
	// Draft sets the Draft of each of asks, empty if it has none: a list, or a tree, of which a Runner without Trees
	// takes the Chain.
	Draft(asks []Ask)
	// Forget frees what it has of a sequence, if it has anything.
	Forget(sequence uint64)
}

// Ask asks a Drafter for what follows.
type Ask struct {
	Sequence uint64  // its number
	Tokens   []int32 // all of them; they are those of earlier calls, and more
	Most     int     // tokens to propose
	Draft    sched.Draft
}

// DraftStats count what became of guesses.
type DraftStats struct {
	Drafts   uint64 // steps of a sequence that verified some
	Proposed uint64 // tokens that were verified
	Accepted uint64
	// ByPlace are the accepted ones, by how many tokens of their draft come before them.
	ByPlace [MaxDraft]uint64
}

// add counts what became of a draft.
func (d *DraftStats) add(proposed, accepted int) {
	d.Drafts++
	d.Proposed += uint64(proposed)
	d.Accepted += uint64(accepted)
	for i := range min(accepted, len(d.ByPlace)) {
		d.ByPlace[i]++
	}
}

// drafting is what the loop knows of a sequence to which tokens are proposed.
type drafting struct {
	sched.Draft         // that was proposed last
	lookup      *lookup // nil: it did not look yet
	alone       bool    // it is not planned ahead
	linger      int     // tokens until it is again, if nothing is guessed
	model       rate    // of the Drafter's guesses
	byModel     bool    // the last Draft is one
}

// lingers is for how many tokens without a guess a sequence is not planned ahead: where something was found, more is
// likely to be soon.
const lingers = 3

// drafts reports whether tokens may be proposed to a sequence.
func (e *Engine) drafts(q *sequence) bool {
	d := &e.cfg.Drafts
	return (d.Lookup || d.Drafter != nil || len(q.req.Prediction) > 0) && e.cfg.Sched.States == 0 &&
		q.search == nil && !q.pools && q.constraint == nil && !q.wide
}

// newDrafting returns what the loop is to know of such a sequence.
func (e *Engine) newDrafting(r *Request) *drafting {
	return &drafting{alone: e.cfg.Drafts.Always || len(r.Prediction) > 0, linger: lingers, model: newRate(0.5)}
}

// draft proposes what is guessed to follow the tokens of a sequence, if that is worth its time. What a Drafter is to be
// asked for waits for ask.
func (e *Engine) draft(q *sequence) {
	d := q.drafting
	price := e.sched.Prices()
	at := q.tokens.Len()
	if !e.cfg.Drafts.Always && price.Chance(at) >= 1 {
		e.pause(q)
		return
	}
	if e.cfg.Drafts.Lookup || len(q.req.Prediction) > 0 {
		if d.lookup == nil {
			d.lookup = newLookup(q.req.Prediction, q.req.Prompt, e.usual)
		}
		d.lookup.learn(q.known())
		var ids []int32
		gain, chance := 0.0, 1.0
		for i := range e.mostDraft(q) {
			id, c, ok := d.lookup.guess(i)
			chance *= c
			cost := price.Chance(at + i)
			if !ok || !e.cfg.Drafts.Always && chance <= cost {
				break
			}
			gain += chance - cost
			ids = append(ids, id)
		}
		if len(ids) > 0 && (e.cfg.Drafts.Always || e.pays(gain, &price)) {
			d.byModel = false
			e.propose(q, sched.Draft{Tokens: ids})
			return
		}
	}
	if most := e.modelled(q, &price, at); most > 0 {
		if d.linger = lingers; !d.alone {
			d.alone = true
			e.sched.PlanAhead(q.id, false)
		}
		e.asks = append(e.asks, Ask{Sequence: uint64(q.id), Tokens: q.known(), Most: most})
		return
	}
	e.pause(q)
}

// modelled returns how many tokens a Drafter is to guess for a sequence: as many as are worth their rows and the time
// to guess them, of which each sequence that it guesses for takes a part.
func (e *Engine) modelled(q *sequence, p *sched.Prices, at int) int {
	most := e.mostDraft(q)
	if e.cfg.Drafts.Drafter == nil {
		return 0
	}
	if e.cfg.Drafts.Always {
		return most
	}
	own := 0.0 // to guess a token, in tokens that the time is worth
	if p.Step > 0 {
		own = float64(e.guessing.Microseconds()) * float64(p.Rows) / p.Step
	}
	gain, chance := 0.0, 1.0
	for i := range most {
		chance *= q.drafting.model.chance()
		cost := p.Chance(at+i) + own
		if chance <= cost {
			most = i
			break
		}
		gain += chance - cost
	}
	if most < 1 || !e.pays(gain, p) {
		return 0
	}
	return most
}

// pays reports whether a draft gains more tokens, beside those that the time for its rows is worth, than are lost since
// the device waits for the host before steps that are not planned ahead: its own, and those for which it lingers.
func (e *Engine) pays(gain float64, p *sched.Prices) bool {
	return gain*p.Step > (1+lingers)*float64(e.host.Microseconds())*float64(p.Rows)
}

// mostDraft is how many tokens may be proposed to a sequence.
func (e *Engine) mostDraft(q *sequence) int {
	return min(cmp.Or(e.cfg.Drafts.Most, MostDraft), q.req.MaxTokens-q.generated()-1)
}

// pause notes that there is nothing to propose to a sequence.
func (e *Engine) pause(q *sequence) {
	d := q.drafting
	if !d.alone || e.cfg.Drafts.Always {
		return
	}
	if d.linger--; d.linger < 0 {
		d.alone = false
		e.sched.PlanAhead(q.id, true)
	}
}

// propose proposes tokens to a sequence. One that is planned ahead is not from now on, and has them proposed when the
// step under way is done.
func (e *Engine) propose(q *sequence, d sched.Draft) {
	own := q.drafting
	if own.linger = lingers; !own.alone {
		own.alone = true
		e.sched.PlanAhead(q.id, false)
		if e.steps.n > 1 {
			return
		}
	}
	if e.sched.Propose(q.id, d) == nil {
		own.Tokens, own.Parents = append(own.Tokens[:0], d.Tokens...), slices.Clone(d.Parents)
	}
}

// ask asks the Drafter for what follows the sequences that wait for it, and proposes that.
func (e *Engine) ask() {
	asks := e.asks
	e.asks = e.asks[:0]
	defer clear(asks)
	if len(asks) == 0 || e.steps.n > 1 { // the Drafter's device may be the one that computes the step under way
		return
	}
	begin, tokens := e.cfg.Now(), 0
	e.cfg.Drafts.Drafter.Draft(asks)
	for i := range asks {
		tokens += len(asks[i].Draft.Tokens)
	}
	if tokens > 0 {
		e.guessing += (e.cfg.Now().Sub(begin)/time.Duration(tokens) - e.guessing) / 8
	}
	for i := range asks {
		a := &asks[i]
		q := e.seqs[sched.SeqID(a.Sequence)]
		d := e.sound(a.Draft, a.Most)
		if q == nil || q.ended {
			continue
		}
		if len(d.Tokens) == 0 {
			e.pause(q)
			continue
		}
		q.drafting.byModel = true
		e.propose(q, d)
	}
}

// sound returns as much of a draft as can be verified, at most so many tokens.
func (e *Engine) sound(d sched.Draft, most int) sched.Draft {
	if d.Check() != nil {
		return sched.Draft{}
	}
	if !e.cfg.Runner.Trees() {
		d = d.Chain()
	}
	d = d.Cut(min(len(d.Tokens), max(most, 0)))
	if i := slices.IndexFunc(d.Tokens, func(id int32) bool { return id < 0 || int(id) >= e.cfg.Vocab }); i >= 0 {
		d = d.Cut(i)
	}
	return d
}

// verified counts what became of the tokens that were proposed to a sequence.
func (e *Engine) verified(q *sequence, x *entry, tokens []brief) {
	if x.draft == 0 || len(tokens) == 0 {
		return
	}
	accepted := 0
	for i := range tokens {
		if tokens[i].origin == originGuessed {
			accepted++
		}
	}
	if d := q.drafting; d.byModel {
		for i := range min(int(x.draft), accepted+1) {
			d.model.learn(i < accepted)
		}
	}
	e.counts.Drafts.add(int(x.draft), accepted)
	q.stream.verified(int(x.draft), accepted)
}

// worked notes how long the host worked for a step.
func (e *Engine) worked(d time.Duration) { e.host += (d - e.host) / 8 }
