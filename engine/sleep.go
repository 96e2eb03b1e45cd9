package engine

import (
	"context"
	"errors"
)

// SleepLevel says where weights are while an engine sleeps.
type SleepLevel int

const (
	SleepOnHost SleepLevel = 1 // in the host's memory
	SleepOnDisk SleepLevel = 2 // in the files that they came from
)

// SleepMode says what becomes of requests that were taken before an engine sleeps. Those that come later wait until it
// is awake.
type SleepMode string

const (
	SleepAbort SleepMode = "abort" // they end with ErrAsleep
	SleepWait  SleepMode = "wait"  // they are completed first
	SleepKeep  SleepMode = "keep"  // they stop, and go on when the engine is awake
)

// Errors of sleep.
var (
	ErrAsleep    = errors.New("engine: the model was put to sleep")
	ErrSleepless = errors.New("engine: this model cannot sleep")
	ErrTurning   = errors.New("engine: the model is falling asleep, or waking")
)

// change is a sleep or a waking that was asked for.
type change struct {
	sleep           bool
	level           SleepLevel
	mode            SleepMode
	weights, runner bool       // what wakes
	answer          chan error // [1]
}

// asleep is what sleeps.
type asleep struct{ weights, runner bool }

// Sleep frees the memory that the model takes of its device, all KV blocks among it, until Wake. An engine that sleeps
// already stays as it is.
func (e *Engine) Sleep(ctx context.Context, level SleepLevel, mode SleepMode) error {
	return e.turnTo(ctx, &change{sleep: true, level: level, mode: mode})
}

// Wake brings back the weights, or the KV cache, or both. Requests run once both are there.
func (e *Engine) Wake(ctx context.Context, weights, cache bool) error {
	return e.turnTo(ctx, &change{weights: weights, runner: cache})
}

// Asleep reports whether anything of the model sleeps.
func (e *Engine) Asleep() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sleeps
}

// turnTo lets the loop make a change, and waits for it.
func (e *Engine) turnTo(ctx context.Context, c *change) error {
	if e.cfg.Base == nil {
		return ErrSleepless
	}
	c.answer = make(chan error, 1)
	if err := e.inbox.post(message{ask: func() { e.begin(c) }}); err != nil {
		return err
	}
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin takes a change on, to be made when no step is under way.
func (e *Engine) begin(c *change) {
	slept := e.slept != asleep{}
	switch {
	case e.dead != nil:
		c.answer <- e.dead
	case e.change != nil || e.ailment != nil:
		c.answer <- ErrTurning
	case c.sleep == slept && c.sleep, !c.sleep && !slept:
		c.answer <- nil // it is so
	default:
		e.change = c
		if c.sleep && c.mode == SleepAbort {
			for _, q := range e.ordered() {
				e.fail(q, ErrAsleep)
			}
		}
	}
}

// halted reports whether no step may begin, since the model sleeps or is about to.
func (e *Engine) halted() bool {
	return e.slept != asleep{} || e.change != nil && !(e.change.sleep && e.change.mode == SleepWait)
}

// makeChange makes the change that was asked for, once it can be made.
func (e *Engine) makeChange() {
	c := e.change
	if c == nil || e.steps.n > 0 || c.sleep && c.mode == SleepWait && len(e.seqs) > 0 {
		return
	}
	var err error
	if c.sleep {
		err = e.fallAsleep(c.level)
	} else {
		err = e.wake(c)
	}
	e.change = nil
	c.answer <- err
	held := e.held
	e.held = nil
	for _, q := range held {
		e.handle(message{seq: q})
	}
}

// fallAsleep frees what the model has of the device.
func (e *Engine) fallAsleep(level SleepLevel) error {
	e.adapters.leave()
	e.renew()
	e.requeue()
	e.setAsleep(asleep{weights: true, runner: true})
	err := e.aside(func() error { return e.cfg.Base.Sleep(level) })
	if err == nil {
		e.cfg.Logger.Info("the model sleeps", "level", int(level))
		return nil
	}
	if e := e.wake(&change{weights: true, runner: true}); e != nil {
		return errors.Join(err, e)
	}
	return err
}

// wake brings back what sleeps.
func (e *Engine) wake(c *change) error {
	if c.weights && e.slept.weights {
		if err := e.aside(e.cfg.Base.WakeWeights); err != nil {
			return err
		}
		e.setAsleep(asleep{runner: true})
	}
	if c.runner && e.slept.runner {
		if e.slept.weights {
			return errors.New("engine: the KV cache can wake once the weights have")
		}
		if err := e.install(e.cfg.Base.WakeRunner); err != nil {
			return err
		}
		e.setAsleep(asleep{})
		e.cfg.Logger.Info("the model is awake")
	}
	return nil
}

func (e *Engine) setAsleep(s asleep) {
	e.slept = s
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sleeps = s != asleep{}
}

// refuseHeld answers requests and changes that wait for a sleep.
func (e *Engine) refuseHeld(err error) {
	for _, q := range e.held {
		e.refuse(q, err)
	}
	e.held = nil
	if e.change != nil {
		e.change.answer <- err
		e.change = nil
	}
}
