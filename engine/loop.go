package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/sched"
)

// loop takes turns until the engine is closed. Its books are verified outside of turn, which recovers from panics.
func (e *Engine) loop() error {
	for e.turn() {
		verify(e.sched)
		if e.idle {
			e.rest()
		}
	}
	verify(e.sched)
	e.tiers.flush(e.sched, e.cfg.Runner)
	if err := e.tiers.close(); err != nil {
		e.cfg.Logger.Error("storing KV blocks failed", "error", err)
	}
	return nil
}

// over sees to the end of the loop. If that panicked outside of turn, all requests end, and new ones are refused.
func (e *Engine) over(err error) {
	if err != nil && verifying {
		panic(err)
	}
	if err != nil {
		e.cfg.Logger.Error("the engine's loop panicked, and has ended", "error", err)
		e.inbox.close()
		for _, f := range []func(){func() { e.steps.drop() }, func() { e.receive() }, func() { e.abandon(ErrClosed) }} {
			if err := guard.Try(func() error { f(); return nil }); err != nil {
				e.cfg.Logger.Error("ending the requests failed", "error", err)
			}
		}
	}
	e.outbox.close()
	close(e.stopped)
}

// turn starts steps until two are under way or nothing more can run, and sees the oldest to its end; idle says that
// there is nothing to run. It returns false when the engine is closing.
func (e *Engine) turn() (more bool) {
	defer e.rescue(&more)
	if !e.receive() {
		e.abandon(ErrClosed)
		for e.steps.n > 0 {
			e.finish()
		}
		return false
	}
	e.makeChange()
	e.adapters.vacate()
	e.resume()
	if e.steps.n == 0 && e.pending == nil {
		e.calm()
	}
	e.fill()
	for e.steps.n == 0 && e.resumeNext() {
		e.fill()
	}
	e.flush()
	if e.idle = e.steps.n == 0; !e.idle {
		e.finish()
	}
	return true
}

// fill plans and starts steps until two are under way or nothing more can run. A plan that needs what a step under way
// stores in a lower tier waits for that step, as does one whose loads are to be measured. No plan is made while
// anything waits until no step is under way.
func (e *Engine) fill() {
	for e.steps.n < len(e.steps.ring) && !e.halted() {
		if s := e.steps.newest(); s != nil && s.fault != nil {
			return // it is computed again first
		}
		p := e.pending
		if p == nil && len(e.quiet) > 0 {
			return
		}
		if p == nil {
			p = e.sched.Next()
			if e.tiers.ask(e.sched, e.steps.newest()) && p == nil {
				continue
			}
		}
		if p == nil {
			e.tiers.sweep(e.sched)
			return
		}
		if e.pending = p; e.steps.n > 0 && (e.steps.storing(p) || e.tiers.curious(p)) {
			return
		}
		e.pending = nil
		e.adapters.settle(p, e.steps.of, e.fail)
		e.tiers.fetch(e.sched, p, e.steps)
		e.tiers.sweep(e.sched)
		e.sched.Begin(p)
		e.steps.push(p)
	}
}

// calm does what waited until no step is under way and no plan waits.
func (e *Engine) calm() {
	for len(e.quiet) > 0 {
		f := e.quiet[0]
		e.quiet = slices.Delete(e.quiet, 0, 1)
		f()
	}
}

// rest waits for a message, or until the scheduler has something to run though none comes.
func (e *Engine) rest() {
	e.enter(phaseIdle)
	defer func() { e.busy, e.spent = e.cfg.Now(), 0 }()
	var due <-chan time.Time
	if at, ok := e.sched.Wake(); ok && !e.halted() {
		due = time.After(time.Duration(at)*time.Microsecond - e.cfg.Now().Sub(e.epoch))
	}
	select {
	case <-e.inbox.notify:
	case <-due:
	}
	e.enter(phasePlanning)
}

// tick tells the scheduler the time.
func (e *Engine) tick() { e.sched.Tick(e.cfg.Now().Sub(e.epoch).Microseconds()) }

// await waits for a step. Arrivals and cancellations do not wait for it.
func (e *Engine) await(s *step) error {
	if s.handle == nil {
		return s.fault
	}
	e.enter(phaseComputing)
	e.spent += e.cfg.Now().Sub(e.busy)
	defer func() { e.busy = e.cfg.Now() }()
	for {
		select {
		case <-s.handle.Done():
			err := s.handle.Wait()
			e.enter(phasePlanning)
			return err
		case <-e.inbox.notify:
			e.receive()
			e.flush()
		}
	}
}

// receive handles what is in the inbox. It returns false if the engine is closing.
func (e *Engine) receive() bool {
	e.tick()
	var closing bool
	e.todo, closing = e.inbox.take(e.todo)
	for e.handled < len(e.todo) {
		m := e.todo[e.handled]
		e.handled++
		e.handle(m)
	}
	clear(e.todo)
	e.todo, e.handled = e.todo[:0], 0
	return !closing
}

func (e *Engine) handle(m message) {
	q := m.seq
	switch {
	case m.ask != nil:
		m.ask()
	case m.reason == "" && q.ended: // cancelled before it came
		e.refuse(q, q.cause)
	case m.reason == "" && e.change != nil && e.change.sleep && e.change.mode == SleepWait && e.slept == asleep{}:
		e.hold(q)
	case m.reason == "":
		e.arrive(q)
	case e.seqs[q.id] == nil:
		q.ended, q.cause = true, m.err
	default:
		e.end(q, Token{ID: -1, Finish: m.reason, Err: m.err})
	}
}

// hold keeps a request until the model sleeps.
func (e *Engine) hold(q *sequence) {
	if most := e.cfg.Sched.MaxWaiting; most > 0 && len(e.held) >= most {
		e.refuse(q, sched.ErrQueueFull)
		return
	}
	e.held = append(e.held, q)
}

// arrive queues a request, at the cost of others if the queue is full: less urgent ones, or those of a payer that has
// more.
func (e *Engine) arrive(q *sequence) {
	e.seqs[q.id] = q
	err := e.dead
	if err == nil {
		err = e.add(q)
	}
	for errors.Is(err, sched.ErrQueueFull) && e.shed(q, err) {
		err = e.add(q)
	}
	if err != nil {
		delete(e.seqs, q.id)
		e.refuse(q, err)
		return
	}
	q.reply(nil)
}

// add queues what is left to do of a sequence.
func (e *Engine) add(q *sequence) error {
	r := e.asked(q)
	if err := e.sched.Add(r); err != nil {
		return err
	}
	q.tokens = e.sched.Tokens(q.id)
	if q.drafting != nil {
		e.sched.PlanAhead(q.id, !q.drafting.alone)
	}
	return nil
}

// asked is what the scheduler is asked for: what is left to do of a sequence.
func (e *Engine) asked(q *sequence) sched.Request {
	r := &q.req
	due := q.arrived.Sub(e.epoch) + r.FirstToken + time.Duration(q.generated())*r.PerToken
	parent, most := q.parent, r.MaxTokens-q.generated()
	if r.Parent != nil && parent == 0 {
		parent = r.Parent.seq.id
	}
	if q.search != nil {
		most = 1
	}
	return sched.Request{
		ID: q.id, Parent: parent, Hold: q.search != nil, Heir: q.heir, Prompt: q.known(), MaxTokens: most, Keys: e.keysOf(q.adapter, r.Salt, q.long), Keep: r.Keep,
		NoCache: q.scores != nil || q.req.Pool.all(),
		Adapter: q.turn(), Priority: r.Priority, Tenant: r.Tenant, Payer: r.Payer, Deadline: max(1, due.Milliseconds()), Interval: r.PerToken.Milliseconds(),
		Within: q.within.Milliseconds(), Patient: r.Pool != "" || q.generated() > 0,
		Background: r.Background,
	}
}

// shed makes room in the queue for a sequence that was refused, at the cost of another, which is refused likewise. It
// returns false if none should.
func (e *Engine) shed(q *sequence, refusal error) bool {
	r := e.asked(q)
	id, ok := e.sched.Expendable(&r)
	if ok {
		e.fail(e.seqs[id], refusal)
	}
	return ok
}

// refuse answers a request that was not taken.
func (e *Engine) refuse(q *sequence, err error) {
	q.ended = true
	q.unhook()
	q.release()
	q.reply(err)
	e.inbox.over(1)
}

// end frees what a sequence holds, at once, and makes t its last token.
func (e *Engine) end(q *sequence, t Token) {
	if q.ended {
		return
	}
	if q.search != nil {
		e.forget(q.search)
		q = q.search.root
	}
	q.ended = true
	delete(e.seqs, q.id)
	e.steps.disown(q)
	e.sched.Cancel(q.id)
	if e.cfg.Drafts.Drafter != nil && q.drafting != nil {
		e.cfg.Drafts.Drafter.Forget(uint64(q.id))
	}
	q.unhook()
	q.release()
	q.reply(nil) // if it is still being taken, its Stream tells
	q.stream.tell(q.cached, q.scores, q.vector, e.times(q))
	e.out = append(e.out, delivery{q.stream, briefOf(t)})
	e.observeEnd(q, t.Finish)
}

// fail ends a sequence with an error.
func (e *Engine) fail(q *sequence, err error) { e.end(q, Token{ID: -1, Finish: FinishError, Err: err}) }

// abandon ends everything.
func (e *Engine) abandon(err error) {
	e.refuseHeld(err)
	for _, q := range e.ordered() {
		e.fail(q, err)
	}
	e.flush()
}

// ordered returns the live sequences in order of arrival.
func (e *Engine) ordered() []*sequence {
	var all []*sequence
	for _, q := range e.seqs {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *sequence) int { return int(a.id) - int(b.id) })
	return all
}

// rescue recovers from a panic of the loop. The scheduler may be anywhere between two states, so it is replaced by a
// new one. The requests of the steps in hand end with an error and the others are queued again; if no step was in
// hand, all end, for whatever went wrong would again.
func (e *Engine) rescue(more *bool) {
	v := recover()
	if v == nil {
		return
	}
	e.cfg.Logger.Error("the engine's loop panicked", "panic", v, "stack", string(debug.Stack()))
	*more = true
	failure := fmt.Errorf("engine: the step panicked: %v", v)
	inHand := e.steps.drop()
	e.renew()
	for _, q := range inHand {
		if !q.ended {
			e.fail(q, failure)
		}
	}
	if len(inHand) == 0 {
		for _, q := range e.ordered() {
			if !q.ended && (q.search == nil || q.search.pending(q)) {
				e.fail(q, failure)
			}
		}
	}
	e.requeue()
}
