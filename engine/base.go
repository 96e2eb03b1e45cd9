package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// Base is what a Runner stands on: a device with the weights of a model, which can be made again after a fault and can
// sleep. Calls do not overlap. No step is under way meanwhile, and the Runner from before is of no use afterwards.
type Base interface {
	// Rebuild gives up what is left of a lost device, and returns a Runner like the one before. Its cache is empty.
	Rebuild() (Runner, error)
	// Sleep frees the Runner's memory and what the weights take, as the level says.
	Sleep(l SleepLevel) error
	// WakeWeights brings the weights back, and WakeRunner returns a Runner with an empty cache once they are there.
	// After an error they sleep on.
	WakeWeights() error
	WakeRunner() (Runner, error)
}

// mostRebuilds is how often a device is made again within rebuildSpan. One that fails more often is lost.
const (
	mostRebuilds = 3
	rebuildSpan  = 10 * time.Minute
)

// mostFaults is how many faults that took the device a request may be part of. One that is part of more ends, so that
// what makes kernels fail does not take the engine with it.
const mostFaults = 2

// rebuild makes the device again after a fault that took it, and queues again what was running. It reports whether that
// can be tried: then the step is over, and the device is lost only if it failed.
func (e *Engine) rebuild(s *step, fault error) bool {
	now := e.cfg.Now()
	e.rebuilt = slices.DeleteFunc(e.rebuilt, func(at time.Time) bool { return now.Sub(at) > rebuildSpan })
	if e.cfg.Base == nil || len(e.rebuilt) >= mostRebuilds {
		return false
	}
	e.rebuilt = append(e.rebuilt, now)
	e.counts.Rebuilds++
	e.cfg.Logger.Error("the device failed, and is set up again", "error", fault, "requests", len(e.seqs),
		"times", len(e.rebuilt), "within", rebuildSpan)
	e.ail(fmt.Errorf("engine: the device failed, and is being set up again: %w", fault))
	for i := range s.entries {
		if q := s.entries[i].seq; q != nil && !q.ended {
			if o := q.owner(); o.blame() {
				e.fail(o, fmt.Errorf("engine: the device failed %d times in steps of this request: %w", mostFaults, fault))
			}
		}
	}
	e.steps.drop()
	e.renew()
	e.requeue()
	err := e.install(e.cfg.Base.Rebuild)
	if err != nil {
		e.lose(errors.Join(fmt.Errorf("it could not be set up again: %w", err), fault))
		return true
	}
	e.ail(nil)
	e.cfg.Logger.Info("the device is set up again", "took", e.cfg.Now().Sub(now))
	return true
}

// blame notes that a sequence was part of a step that took the device, and reports whether that was once too often.
func (q *sequence) blame() bool {
	q.faults++
	return q.faults >= mostFaults
}

// ail says what Health reports meanwhile; nil is nothing.
func (e *Engine) ail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ailment = err
}

// renew begins again with an empty cache and an empty scheduler, which knows of what lower tiers hold. No step is under
// way.
func (e *Engine) renew() {
	fresh, err := sched.New(e.cfg.Sched)
	if err != nil {
		panic(err) // the same configuration was fine before
	}
	e.sched, e.pending = fresh, nil
	e.tick()
	e.tiers.adopt(fresh)
	if e.cfg.Events != nil {
		e.cfg.Events([]kv.Event{{Kind: kv.Cleared}})
	}
}

// requeue queues what is live in a new scheduler: each request goes on from the tokens that it has.
func (e *Engine) requeue() {
	for _, q := range e.ordered() {
		if q.ended || q.search != nil && !q.search.pending(q) {
			continue
		}
		if err := e.add(q); err != nil {
			e.fail(q, err)
		} else {
			q.reply(nil)
		}
	}
}

// install makes a Runner, and takes it in place of the one before.
func (e *Engine) install(made func() (Runner, error)) error {
	e.adapters.leave()
	var r Runner
	if err := e.aside(func() (err error) { r, err = made(); return err }); err != nil {
		return err
	}
	e.cfg.Runner = r
	e.steps.use(r)
	return e.adapters.enter()
}

// aside does what takes long while the loop goes on to take requests and to end them.
func (e *Engine) aside(f func() error) error {
	e.flush()
	e.enter(phaseIdle)
	defer e.enter(phasePlanning)
	defer e.inbox.wake() // for what was received here and not acted on
	done := make(chan error, 1)
	guard.Go(f, func(err error) { done <- err })
	for {
		select {
		case err := <-done:
			return err
		case <-e.inbox.notify:
			e.receive()
			e.flush()
		}
	}
}

// leave empties all slots, whose weights went with the device. Pinned adapters keep theirs for enter.
func (r *adapters) leave() {
	clear(r.places)
	r.places = r.places[:0]
	for slot, a := range r.slots {
		if a != nil {
			a.slot.Store(0)
			if !a.Pinned {
				r.slots[slot] = nil
			}
		}
	}
}

// enter places the pinned adapters again.
func (r *adapters) enter() error {
	for slot, a := range r.slots {
		if a == nil {
			continue
		}
		if err := r.put(slot, a); err != nil {
			r.slots[slot] = a
			return fmt.Errorf("engine: adapter %q: %w", a.Name, err)
		}
	}
	return nil
}
