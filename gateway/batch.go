package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/trace"
)

// Batch says how clients' requests for embeddings and scores become one.
type Batch struct {
	Wait   time.Duration `yaml:"wait"` // for more requests, from the first one on; 0 joins none
	Inputs int           `yaml:"inputs"`
	Tokens int           `yaml:"tokens"` // as estimated
}

func (b *Batch) check(path string) error {
	if b.Wait == 0 && *b != (Batch{}) {
		return wrong(path+".wait", "it is missing; nothing would be joined")
	}
	if b.Wait > 0 && b.Inputs == 0 {
		b.Inputs = 64
	}
	if b.Wait > 0 && b.Tokens == 0 {
		b.Tokens = 8192
	}
	if b.Wait < 0 || b.Wait > time.Second || b.Inputs < 0 || b.Tokens < 0 {
		return wrong(path, "wait is %v, inputs %d and tokens %d; want at most 1s, and at least 1 of each", b.Wait, b.Inputs, b.Tokens)
	}
	return nil
}

// batch is what several clients' requests become. Gateway.mu guards it until it goes.
type batch struct {
	model  *model
	shares []*share
	inputs int
	tokens int
	timer  *time.Timer
	ctx    context.Context // ends when no client waits any more
	cancel context.CancelFunc
	waits  int // clients
}

// join lets a request wait for others that it can go with. It returns false if the request has to go by itself: nothing
// was sent to the client.
func (x *exchange) join(ctx context.Context, m *model) (ok bool, refused *refusal) {
	x.g.mu.Lock()
	most := m.Batch
	x.g.mu.Unlock()
	if most.Wait == 0 {
		return false, nil
	}
	if !x.body.light(firstPiece + 4*bytesPerToken*most.Tokens) { // of which no batch has room for all
		return false, nil
	}
	done, err := x.work(ctx, costPerByte)
	if err != nil {
		return false, nil
	}
	s, err := x.share(m)
	done()
	if err != nil || s.count() > most.Inputs || s.tokens > most.Tokens {
		return false, nil
	}
	b := x.g.enter(s, m, most)
	select {
	case <-s.done:
	case <-ctx.Done():
		x.g.mu.Lock()
		if b.waits--; b.waits == 0 {
			b.cancel()
			if x.g.batches[s.name] == b {
				delete(x.g.batches, s.name)
				b.timer.Stop()
			}
		}
		x.g.mu.Unlock()
		return true, (&failure{err: context.Cause(ctx)}).refusal()
	}
	if s.answer == nil {
		return false, nil
	}
	x.model, x.price, x.attempts, x.endpoint, x.api = s.by.model, s.by.price, s.by.attempts, s.by.endpoint, s.by.api
	x.queued, x.used, x.status = s.by.queued, s.used, http.StatusOK
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(s.answer)))
	h.Set("X-Kvasir-Batch", strconv.Itoa(len(b.shares)))
	if x.kept != nil {
		x.kept.kind, x.kept.whole = "application/json", true
		h.Set("X-Kvasir-Cache", "miss")
	}
	x.w.WriteHeader(http.StatusOK)
	x.write(s.answer) // if the client has gone, nobody is left to tell
	return true, nil
}

// enter puts a share into the batch that waits for such, or into a new one. A batch that is full goes.
func (g *Gateway) enter(s *share, m *model, most Batch) *batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.batches[s.name]
	if b != nil && (b.inputs+s.count() > most.Inputs || b.tokens+s.tokens > most.Tokens) {
		g.start(s.name, b)
		b = nil
	}
	if b == nil {
		b = &batch{model: m}
		b.ctx, b.cancel = context.WithTimeout(g.life, s.x.cfg.Timeouts.Total)
		b.timer = guard.After(most.Wait, func() error {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.start(s.name, b)
			return nil
		}, func(err error) {
			if err != nil {
				g.log.Error("a batch was not sent", "error", err)
			}
		})
		g.batches[s.name] = b
	}
	b.shares, b.inputs, b.tokens, b.waits = append(b.shares, s), b.inputs+s.count(), b.tokens+s.tokens, b.waits+1
	if b.inputs == most.Inputs || b.tokens == most.Tokens {
		g.start(s.name, b)
	}
	return b
}

// start lets a batch go, if it has not. g.mu is held.
func (g *Gateway) start(name string, b *batch) {
	if g.batches[name] != b {
		return
	}
	delete(g.batches, name)
	b.timer.Stop()
	guard.Go(func() error {
		b.run(g)
		return nil
	}, func(err error) {
		if err != nil {
			g.log.Error("a batch failed", "error", err)
		}
		b.cancel()
		for _, s := range b.shares {
			close(s.done)
		}
	})
}

// run asks for a batch. Unless that goes well, each of its requests goes by itself: what is wrong with one harms no
// other.
func (b *batch) run(g *Gateway) {
	if len(b.shares) == 1 {
		return
	}
	first := b.shares[0].x
	path := first.r.URL.Path
	body, err := scan(joined(path, first.body.model, b.shares))
	if err != nil {
		return
	}
	y := first.aside(b.ctx, path, body)
	y.r.Header = first.r.Header.Clone()
	y.demotion = nil
	for _, s := range b.shares {
		s.by = y
	}
	ctx, end := part(trace.With(b.ctx, first.span), "batch", trace.Internal, trace.Attr{Key: "kvasir.batch.requests", Value: len(b.shares)})
	refused := y.try(ctx, b.model)
	end(asError(refused))
	n := y.w.(*note)
	result := "failed"
	if refused == nil && y.status == http.StatusOK && !n.long && divide(n.body, b.shares) {
		result = "answered"
		b.charge(g)
		g.metrics.batched.WithLabelValues(b.model.name).Add(float64(len(b.shares)))
	}
	g.metrics.batches.WithLabelValues(b.model.name, result).Inc()
}

// charge divides what a batch cost, which the first request's tenant was charged for, among the tenants.
func (b *batch) charge(g *Gateway) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := b.shares[0].x
	for _, s := range b.shares[1:] {
		cost := float64(s.used.in())
		weight := func(x *exchange) float64 {
			if x.account == nil {
				return 1
			}
			return x.account.key.Weight
		}
		b.model.queue.Charge(s.x.tenant, weight(s.x), s.x.priority, cost)
		b.model.queue.Charge(first.tenant, weight(first), first.priority, -cost)
	}
}
