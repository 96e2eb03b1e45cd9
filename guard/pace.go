package guard

import (
	"sync"
	"sync/atomic"
	"time"
)

var start = time.Now()

// Computing is whether this process's processors compute steps of models.
var Computing computing

type computing struct{ steps, last atomic.Int64 } // under way; when one ended, in nanoseconds since the start

// Begin counts a step in.
func (c *computing) Begin() { c.steps.Add(1) }

// End counts it out.
func (c *computing) End() {
	c.last.Store(int64(time.Since(start)))
	c.steps.Add(-1)
}

// lately reports whether there is a step, or was one of late.
func (c *computing) lately(now time.Time) bool {
	ago := int64(now.Sub(start)) - c.last.Load()
	return c.steps.Load() > 0 || 0 <= ago && ago < int64(computeLately)
}

// While a model computes, the large claims (Budget) of one client together get a tenth of the processors that large
// claims may have (AtOnce), once they have taken paceBurst. So a flood of requests that are much work before a model
// has them does not take the model's processors.
const (
	paceShare = 10
	paceBurst = 250 * time.Millisecond
	paceLook  = 10 * time.Millisecond // between two looks at who may go on

	computeLately = 50 * time.Millisecond
)

// pace is how much time each client owes for work on large claims. Its clock runs as fast as a debt is paid.
type pace struct {
	mu    sync.Mutex
	last  time.Time
	clock time.Duration
	paid  map[string]time.Duration // when on the clock all is paid; those who owe nothing are left out
}

var work = pace{last: time.Now(), paid: map[string]time.Duration{}}

// now moves the clock and returns its time. The caller holds mu.
func (p *pace) now() time.Duration {
	t := time.Now()
	d := max(0, t.Sub(p.last)) * time.Duration(AtOnce)
	if p.last = t; Computing.lately(t) {
		d /= paceShare
	}
	p.clock += d
	return p.clock
}

// ready reports whether who may work.
func (p *pace) ready(who string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, owes := p.paid[who]
	return !owes || at-p.now() <= paceBurst
}

// worked adds the time that a claim of who took.
func (p *pace) worked(who string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for w, at := range p.paid {
		if at <= now {
			delete(p.paid, w)
		}
	}
	p.paid[who] = max(p.paid[who], now) + d
}
