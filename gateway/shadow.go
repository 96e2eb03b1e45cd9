package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/meter"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/trace"
)

// Shadow copies a share of a model's requests to another model. Nobody gets its answers.
type Shadow struct {
	Model       string  `yaml:"model"`
	Share       float64 `yaml:"share"` // of the requests, up to 1
	MaxInFlight int     `yaml:"max_in_flight"`
}

// shadowKey stands for a key in what was used by copies.
const shadowKey = "(shadow)"

// check refuses a shadow that cannot be meant, of a model.
func (s *Shadow) check(path, of string, names map[string]int) error {
	if *s == (Shadow{}) {
		return nil
	}
	if _, ok := names[s.Model]; !ok || s.Model == of {
		return wrong(path+".model", "%q is no other model's name", s.Model)
	}
	if s.Share == 0 {
		s.Share = 1
	}
	if s.MaxInFlight == 0 {
		s.MaxInFlight = 16
	}
	if !(s.Share > 0 && s.Share <= 1) || s.MaxInFlight < 0 {
		return wrong(path, "the share is %v and max_in_flight %d; want more than 0 up to 1, and at least 1", s.Share, s.MaxInFlight)
	}
	return nil
}

// shadow copies the request, if its model has a shadow and the draw falls on it. The client does not wait for it.
func (x *exchange) shadow(m *model) {
	g := x.g
	g.mu.Lock()
	defer g.mu.Unlock()
	s := m.Shadow
	to := g.setup.Load().models[s.Model]
	if to == nil || g.closed || g.random.Float64() >= s.Share {
		return
	}
	if m.shadows >= s.MaxInFlight {
		g.metrics.shadows.WithLabelValues(to.name, "dropped").Inc()
		return
	}
	m.shadows++
	ctx, cancel := context.WithTimeout(g.life, x.cfg.Timeouts.Total)
	ctx, end := part(trace.With(ctx, x.span), "shadow", trace.Internal)
	y := x.aside(ctx, x.r.URL.Path, x.body)
	y.r.Header, y.model = x.r.Header.Clone(), to.name
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Kvasir-Explain"} { // which are not for the other model
		y.r.Header.Del(name)
	}
	g.watches.Add(1)
	guard.Go(func() error { return y.cast(ctx, to) }, func(err error) {
		if err != nil {
			g.log.Error("a copy of a request failed", "model", to.name, "error", err)
		}
		end(err)
		cancel()
		g.mu.Lock()
		m.shadows--
		g.mu.Unlock()
		g.watches.Done()
	})
}

// cast lets an endpoint of a model answer a copy, and counts what came of it. The copy waits for nothing: it goes if an
// endpoint has room that no request waits for, and else it is dropped.
func (x *exchange) cast(ctx context.Context, to *model) error {
	g, mt := x.g, x.g.metrics
	j := x.job(to)
	g.mu.Lock()
	p := g.seat(to, &j.route)
	x.price = to.Price
	g.mu.Unlock()
	if p == nil {
		mt.shadows.WithLabelValues(x.model, "dropped").Inc()
		return nil
	}
	a := x.begun(ctx, j, p)
	defer a.leave(nil)
	f := a.take(a.open())
	result := strconv.Itoa(x.status)
	if f != nil {
		result = f.reason()
		if ctx.Err() == nil {
			g.failedAt(p.endpoint, f)
		}
	}
	used := x.spent()
	hold, err := g.meter.Reserve(ctx, unique(), x.model, nil, meter.Use{})
	hold.Settle(shadowKey, "", x.model, used)
	mt.shadows.WithLabelValues(x.model, result).Inc()
	mt.shadowTokens.WithLabelValues(x.model, "input").Add(float64(used.Input))
	mt.shadowTokens.WithLabelValues(x.model, "output").Add(float64(used.Output))
	mt.shadowCost.WithLabelValues(x.model).Add(used.Cost())
	if f == nil {
		mt.shadowSeconds.WithLabelValues(x.model).Observe(time.Since(x.began).Seconds())
	}
	return err
}
