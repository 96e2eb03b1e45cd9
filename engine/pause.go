package engine

import (
	"slices"
	"time"
)

// A sequence whose constraint has taken the loop slowConstraint or longer for a token sits out pauseShare times as
// long, after others of its payer: so the slow constraints of one payer take at most a fifth of the loop's time, in
// which all others wait. It is paused for mostPause at most, and never while nothing else can run.
const (
	slowConstraint = 2 * time.Millisecond
	pauseShare     = 4
	mostPause      = 10 * time.Second
)

// pauses are the sequences that sit steps out.
type pauses struct {
	all   []*sequence
	until map[string]time.Time // the end of the last pause of each payer
}

// slow pauses a sequence if its constraint has taken long for its last token.
func (e *Engine) slow(q *sequence) {
	took := q.asking
	if q.asking = 0; took < slowConstraint || q.ended {
		return
	}
	now, payer := e.cfg.Now(), q.req.Payer
	at := e.pauses.until[payer]
	if at.Before(now) {
		at = now
	}
	if at = at.Add(pauseShare * took); at.Sub(now) > mostPause {
		at = now.Add(mostPause)
	}
	if e.pauses.until == nil {
		e.pauses.until = map[string]time.Time{}
	}
	e.pauses.until[payer], q.paused = at, at
	e.pauses.all = append(e.pauses.all, q)
	e.sched.Pause(q.id, true)
}

// resume ends the pauses that are over.
func (e *Engine) resume() {
	if len(e.pauses.all) == 0 {
		return
	}
	now := e.cfg.Now()
	e.pauses.all = slices.DeleteFunc(e.pauses.all, func(q *sequence) bool {
		over := q.ended || !q.paused.After(now)
		if over {
			e.sched.Pause(q.id, false)
		}
		return over
	})
	for payer, at := range e.pauses.until {
		if !at.After(now) {
			delete(e.pauses.until, payer)
		}
	}
}

// resumeNext ends the pause that would be over first. It returns false if there is none.
func (e *Engine) resumeNext() bool {
	if len(e.pauses.all) == 0 {
		return false
	}
	q := slices.MinFunc(e.pauses.all, func(a, b *sequence) int { return a.paused.Compare(b.paused) })
	q.paused = time.Time{}
	e.resume()
	return true
}
