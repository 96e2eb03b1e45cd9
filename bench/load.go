package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// Target answers the requests of a load.
type Target interface {
	// Answer sends a conversation and returns its answer, of about output tokens. It calls piece for each piece of the
	// answer as it arrives. Many goroutines may call Answer at once.
	Answer(ctx context.Context, conversation []Message, output int, piece func()) (Answer, error)
}

// Answer is a Target's result of a request.
type Answer struct {
	Said              Part // the answer, for the next turn of the conversation
	Prompt, Generated int  // tokens; 0 if unknown
	Cached            int  // tokens of the prompt found in a prefix cache
}

// LoadOptions configures how a workload is put on a target.
type LoadOptions struct {
	// Clients is the number of concurrent conversations; each client begins its next one when one ends: a closed loop.
	// 0 is an open loop: conversations begin at their time, whatever the number running.
	Clients int
	// Duration ends the load. Requests that are still running are cut off.
	Duration time.Duration
	SLO      SLO
	// Steps, if not nil, receives the steps of the engine that answers, in this process.
	Steps *Steps
	// Progress, if not nil, is called with the state every Every, and once when the load is over.
	Progress func(Progress)
	Every    time.Duration
}

// Progress is the state of a running load.
type Progress struct {
	Elapsed               time.Duration
	Sent, Running, Ended  int // requests
	Failed, Conversations int
	Pieces                int // of answers
	Over                  bool
}

// load is a running load.
type load struct {
	target Target
	start  time.Time

	sent, failed, ended, pieces atomic.Int64

	mu      sync.Mutex
	results []Result
	cutOff  int
}

// Load puts a workload on a target and reports. It returns when every conversation has ended, when the time is over, or
// with ctx's error when ctx is done. A failed request ends its conversation.
func Load(ctx context.Context, t Target, cs []Conversation, o LoadOptions) (Report, error) {
	if o.Clients < 0 || o.Duration <= 0 || o.Progress != nil && o.Every <= 0 {
		return Report{}, fmt.Errorf("bench: a load by %d clients for %v with progress every %v; want at least 0 clients and some time", o.Clients, o.Duration, o.Every)
	}
	l := &load{target: t, start: time.Now()}
	cpu := cpuTime()
	before, known := kvHeld(ctx, t)
	collections := garbageCollections()
	timed, cancel := context.WithTimeoutCause(ctx, o.Duration, errOver)
	defer cancel()
	stop := l.report(o, len(cs))
	if o.Clients > 0 {
		l.closed(timed, cs, o.Clients)
	} else {
		l.open(timed, cs)
	}
	stop()
	if ctx.Err() != nil {
		return Report{}, context.Cause(ctx)
	}
	rep := Summarize(l.results, o.SLO)
	rep.CutOff, rep.Unfilled = l.cutOff, -1
	if o.Steps != nil {
		steps := o.Steps.report()
		steps.Collections = garbageCollections() - collections
		rep.Steps = &steps
	} else if _, outside := t.(*OpenAI); outside {
		rep.CPU = cpuTime() - cpu
	}
	if after, _ := kvHeld(ctx, t); known && after.held > before.held {
		rep.Unfilled = (after.unfilled - before.unfilled) / (after.held - before.held)
	}
	return rep, nil
}

// kv is the number of tokens that the blocks of running sequences had room for, summed over steps, and how many of
// these were not filled.
type kv struct{ held, unfilled float64 }

// kvHeld returns these numbers if the target reports them.
func kvHeld(ctx context.Context, t Target) (kv, bool) {
	if k, ok := t.(interface {
		kv(context.Context) (kv, bool)
	}); ok {
		return k.kv(ctx)
	}
	return kv{}, false
}

// errOver ends requests when the time of a load is over.
var errOver = errors.New("bench: the time of the load is over")

// closed runs the conversations in a closed loop.
func (l *load) closed(ctx context.Context, cs []Conversation, clients int) {
	var next atomic.Int64
	var all guard.Group
	defer waitFor(&all)
	for range min(clients, len(cs)) {
		all.Start(func() error {
			for {
				i := int(next.Add(1) - 1)
				if i >= len(cs) || ctx.Err() != nil {
					return nil
				}
				l.converse(ctx, cs[i], time.Since(l.start))
			}
		})
	}
}

// waitFor waits for goroutines, and panics if one of them has.
func waitFor(all *guard.Group) {
	if err := all.Wait(); err != nil {
		panic(err)
	}
}

// open begins each conversation at its time.
func (l *load) open(ctx context.Context, cs []Conversation) {
	var all guard.Group
	defer waitFor(&all)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for _, c := range cs {
		if wait := c.At - time.Since(l.start); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		all.Start(func() error { l.converse(ctx, c, c.At); return nil })
	}
}

// converse runs a conversation whose first turn is due at the given time; each later turn is due when the answer before
// it has ended.
func (l *load) converse(ctx context.Context, c Conversation, due time.Duration) {
	var said []Message
	for _, turn := range c.Turns {
		said = append(said, turn.Messages...)
		r, answer := l.request(ctx, said, turn.Output, due)
		if context.Cause(ctx) != nil && r.Err != nil {
			l.mu.Lock()
			l.cutOff++
			l.mu.Unlock()
			return
		}
		l.mu.Lock()
		l.results = append(l.results, r)
		l.mu.Unlock()
		l.ended.Add(1)
		if r.Err != nil {
			l.failed.Add(1)
			return
		}
		said = append(said, Message{Role: "assistant", Parts: []Part{answer.Said}})
		due = r.End
	}
}

// request sends one request and measures its answer.
func (l *load) request(ctx context.Context, said []Message, output int, due time.Duration) (Result, Answer) {
	r := Result{Due: due, Sent: time.Since(l.start)}
	l.sent.Add(1)
	pieces := 0
	answer, err := l.target.Answer(ctx, said, output, func() {
		now := time.Since(l.start)
		if pieces == 0 {
			r.First = now
		} else {
			r.Gaps = append(r.Gaps, now-r.Last)
		}
		r.Last = now
		pieces++
		l.pieces.Add(1)
	})
	r.End, r.Err = time.Since(l.start), err
	if pieces == 0 { // an empty answer arrives when it ends
		r.First, r.Last = r.End, r.End
	}
	r.Prompt, r.Cached, r.Generated = answer.Prompt, answer.Cached, answer.Generated
	if r.Generated == 0 {
		r.Generated = pieces
	}
	if r.Prompt == 0 {
		for _, m := range said {
			for _, p := range m.Parts {
				r.Prompt += p.size()
			}
		}
	}
	return r, answer
}

// report calls Progress regularly until the returned function is called.
func (l *load) report(o LoadOptions, conversations int) (stop func()) {
	if o.Progress == nil {
		return func() {}
	}
	tell := func(over bool) {
		sent, ended := int(l.sent.Load()), int(l.ended.Load())
		o.Progress(Progress{
			Elapsed: time.Since(l.start), Sent: sent, Running: sent - ended, Ended: ended, Failed: int(l.failed.Load()),
			Conversations: conversations, Pieces: int(l.pieces.Load()), Over: over,
		})
	}
	ticker, quit := time.NewTicker(o.Every), make(chan struct{})
	var all guard.Group
	all.Start(func() error {
		for {
			select {
			case <-ticker.C:
				tell(false)
			case <-quit:
				tell(true)
				return nil
			}
		}
	})
	return func() {
		ticker.Stop()
		close(quit)
		waitFor(&all)
	}
}
