package engine

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// compute runs the steps that the loop hands out. It has a thread of its own: what else there is to do between two steps does not come
// before the next one.
func (e *Engine) compute() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b := range e.work {
		e.done <- e.forward(b)
	}
}

// forward runs one step. A panic is the step's error.
func (e *Engine) forward(b *compute.Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			e.cfg.Logger.Error("a step panicked while computing", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("engine: the step panicked: %v", v)
		}
	}()
	e.tiers.carry(b)
	begin := e.cfg.Now()
	defer func() { e.tiers.computed(b, e.cfg.Now().Sub(begin)) }()
	return e.cfg.Runner.Forward(b)
}

// loop takes turns until the engine is closed. Its books are verified outside of turn, which recovers from panics.
func (e *Engine) loop() {
	for e.turn() {
		verify(e.sched)
		if e.idle {
			e.rest()
		}
	}
	verify(e.sched)
	close(e.work)
	e.tiers.flush(e.sched)
	if err := e.tiers.close(); err != nil {
		e.cfg.Logger.Error("storing KV blocks failed", "error", err)
	}
	close(e.stopped)
}

// turn runs one step from plan to tokens; idle says that there is nothing to run. It returns false when the engine is
// closing. While step N is computed it plans step N+1 and hands out the tokens of step N-1.
func (e *Engine) turn() (more bool) {
	defer e.rescue(&more)
	if !e.receive() {
		e.abandon(ErrClosed)
		return false
	}
	e.vacate()
	if e.plan == nil {
		e.plan = e.sched.Next()
	}
	if e.idle = e.plan == nil; e.idle {
		e.flush()
		return true
	}
	if e.pack() {
		e.launch()
		e.next = e.sched.Next()
		e.flush()
		if err := e.await(); err != nil {
			e.isolate(err)
		} else {
			e.sample()
		}
	} else {
		e.tiers.carry(&e.batch)
	}
	e.counts.Rates = e.tiers.settle(e.sched, e.plan)
	e.commit()
	return true
}

// rest waits for a message, or until the scheduler has something to run though none comes.
func (e *Engine) rest() {
	e.enter(phaseIdle)
	var due <-chan time.Time
	if at, ok := e.sched.Wake(); ok {
		due = time.After(time.Duration(at)*time.Millisecond - e.cfg.Now().Sub(e.epoch))
	}
	select {
	case <-e.notify:
	case <-due:
	}
	e.enter(phasePlanning)
}

// tick tells the scheduler the time.
func (e *Engine) tick() { e.sched.Tick(e.cfg.Now().Sub(e.epoch).Milliseconds()) }

// launch hands the batch to the compute goroutine.
func (e *Engine) launch() {
	e.started = e.cfg.Now()
	e.enter(phaseComputing)
	e.work <- &e.batch
	e.computing = true
}

// await waits for the step being computed. Arrivals and cancellations do not wait for it.
func (e *Engine) await() error {
	for {
		select {
		case err := <-e.done:
			e.computing = false
			e.enter(phaseSampling)
			return err
		case <-e.notify:
			e.receive()
			e.flush()
		}
	}
}

// receive handles what is in the inbox. It returns false if the engine is closing.
func (e *Engine) receive() bool {
	e.tick()
	e.mu.Lock()
	e.todo = append(e.todo, e.inbox...)
	clear(e.inbox)
	e.inbox = e.inbox[:0]
	closing := e.closing
	e.mu.Unlock()
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
	case m.reason == "":
		e.seqs[q.id] = q
		err := e.add(q)
		if errors.Is(err, sched.ErrQueueFull) && e.shed(q.req.Priority) {
			err = e.add(q)
		}
		if err != nil {
			delete(e.seqs, q.id)
			e.refuse(q, err)
			return
		}
		q.reply(nil)
	case e.seqs[q.id] == nil:
		q.ended, q.cause = true, m.err
	default:
		e.end(q, Token{ID: -1, Finish: m.reason, Err: m.err})
	}
}

// add queues what is left to do of a sequence.
func (e *Engine) add(q *sequence) error {
	r := &q.req
	due := q.arrived.Sub(e.epoch) + r.FirstToken + time.Duration(q.generated())*r.PerToken
	parent, most := q.parent, r.MaxTokens-q.generated()
	if r.Parent != nil && parent == 0 {
		parent = r.Parent.seq.id
	}
	if q.search != nil {
		most = 1
	}
	return e.sched.Add(sched.Request{
		ID: q.id, Parent: parent, Hold: q.search != nil, Heir: q.heir, Prompt: q.ids, MaxTokens: most, Keys: q.keys(), Keep: r.Keep,
		NoCache: q.scores != nil || q.req.Pool.all(),
		Adapter: q.turn(), Priority: r.Priority, Tenant: r.Tenant, Deadline: max(1, due.Milliseconds()), Interval: r.PerToken.Milliseconds(),
	})
}

// shed makes room in the queue for a request of a priority, at the cost of one less urgent. It returns false if there is
// none.
func (e *Engine) shed(priority int) bool {
	id, ok := e.sched.Expendable(priority)
	if ok {
		e.fail(e.seqs[id], sched.ErrQueueFull)
	}
	return ok
}

// refuse answers a request that was not taken.
func (e *Engine) refuse(q *sequence, err error) {
	q.ended = true
	q.unhook()
	q.release()
	q.reply(err)
	e.mu.Lock()
	e.left(1)
	e.mu.Unlock()
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
	e.sched.Cancel(q.id)
	q.unhook()
	q.release()
	q.reply(nil) // if it is still being taken, its Stream tells
	e.outbox = append(e.outbox, delivery{q, t})
	e.observeEnd(q, t.Finish)
}

// fail ends a sequence with an error.
func (e *Engine) fail(q *sequence, err error) { e.end(q, Token{ID: -1, Finish: FinishError, Err: err}) }

// abandon ends everything.
func (e *Engine) abandon(err error) {
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

// rescue recovers from a panic of the loop. The scheduler may be anywhere between two states, so it is replaced by a new
// one. The requests of the step in hand end with an error and the others are queued again; if no step was in hand, all
// end, for whatever went wrong would again.
func (e *Engine) rescue(more *bool) {
	v := recover()
	if v == nil {
		return
	}
	e.cfg.Logger.Error("the engine's loop panicked", "panic", v, "stack", string(debug.Stack()))
	*more = true
	if e.computing {
		<-e.done
		e.computing = false
	}
	fresh, err := sched.New(e.cfg.Sched)
	if err != nil {
		panic(err) // the same configuration was fine before
	}
	e.sched, e.plan, e.next = fresh, nil, nil
	e.tiers.adopt(fresh)
	if e.cfg.Events != nil {
		e.cfg.Events([]kv.Event{{Kind: kv.Cleared}})
	}
	failure := fmt.Errorf("engine: the step panicked: %v", v)
	inHand := len(e.entries) > 0
	for _, x := range e.entries {
		if x.seq != nil && !x.seq.ended {
			e.fail(x.seq, failure)
		}
	}
	clear(e.entries)
	e.entries = e.entries[:0]
	for _, q := range e.ordered() {
		if q.ended || q.search != nil && !q.search.pending(q) {
			continue
		}
		if !inHand {
			e.fail(q, failure)
		} else if err := e.add(q); err != nil {
			e.fail(q, err)
		} else {
			q.reply(nil)
		}
	}
}
