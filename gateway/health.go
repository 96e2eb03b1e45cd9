package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// endpoint is an endpoint of the fleet. Gateway.mu guards what is below the line.
type endpoint struct {
	url  string
	key  string // that it wants, "" for none
	id   int
	stop context.CancelFunc // of its watch
	turn chan struct{}      // holds what who tells it of adapters puts in

	cfg      Endpoint
	gone     bool   // from the configuration
	down     string // why it takes no requests
	requests int    // in flight
	failed   int    // in a row
	ejected  int    // times in a row
	feed     feed
	unfollow func()        // ends its feed
	windowed []int         // groups of layers that attend to a window, as its KV events told
	loans    []*loan       // adapters that it was told to load, since it was down last
	mute     time.Duration // until when it is not asked to render prompts
	broke    bool          // it was down as connections broke, and has not answered well since
	maker    maker         // as it said, since it was down last
	chats    bool          // it has no Messages API, but one for chats
}

// watch probes an endpoint until ctx ends: its health, and what its metrics say of its load.
func (g *Gateway) watch(ctx context.Context, e *endpoint) {
	guard.Go(func() error {
		for {
			h := g.setup.Load().cfg.Health
			g.probe(ctx, e, h)
			g.unloadIdle(ctx, e)
			pause := h.Interval
			g.mu.Lock()
			if e.down != "" {
				pause = min(pause, time.Second)
			}
			g.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
	}, func(err error) {
		if err != nil {
			g.log.Error("an endpoint is not watched any more", "endpoint", e.url, "error", err)
		}
		g.watches.Done()
	})
}

// probe asks an endpoint once.
func (g *Gateway) probe(ctx context.Context, e *endpoint, h Health) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	if h.Path != "" {
		err := g.ask(ctx, e, h.Path)
		if ctx.Err() == context.Canceled {
			return
		}
		g.probed(e, err)
		if err != nil {
			return
		}
	}
	if h.Metrics != "" && !g.foreign(e) {
		g.measure(ctx, e, h.Metrics)
	}
}

// mostPage is the most bytes that are read of an endpoint's page, and of other answers to the gateway itself.
const mostPage = 4 << 20

// ask gets a page of an endpoint, which must not come with a status of 500 or above. A provider that has no such page
// is as good as one that says it is well.
func (g *Gateway) ask(ctx context.Context, e *endpoint, path string) error {
	res, err := g.fetch(ctx, e, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 500 {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, mostPage))
	return err
}

// probed notes the result of a probe. An endpoint that was ejected for what it answered stays so until its time is
// over, since its health page said nothing of it then either.
func (g *Gateway) probed(e *endpoint, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil && e.down == "":
		g.setDown(e, "unhealthy: "+err.Error())
	case err == nil && e.down != "" && e.down != ejected:
		g.setDown(e, "")
	}
}

const ejected = "ejected: it failed too often"

// setDown changes why an endpoint takes no requests. g.mu is held.
func (g *Gateway) setDown(e *endpoint, why string) {
	if e.gone { // another may have its number
		return
	}
	if (e.down == "") != (why == "") {
		g.log.Info("endpoint", "url", e.url, "up", why == "", "why", why)
	}
	if e.down = why; why != "" {
		e.loans, e.maker, e.chats = nil, unmet, false
	}
	g.fleet.SetDown(e.id, why)
	g.metrics.up.WithLabelValues(e.url).Set(one(why == ""))
	if why == "" {
		g.pumpAll()
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// served notes that an endpoint answered well.
func (g *Gateway) served(e *endpoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.failed, e.ejected, e.broke = 0, 0, false
}

// failedAt notes that an endpoint failed. One that cannot be reached, or whose connections break, is down until a probe
// finds it. One that answers badly time after time, or that breaks connections although probes find it well, is ejected
// for a while that doubles.
func (g *Gateway) failedAt(e *endpoint, f *failure) {
	g.metrics.failures.WithLabelValues(e.url, f.reason()).Inc()
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.busy() { // and well
		if !e.gone {
			g.fleet.Refused(e.id)
		}
		return
	}
	if f.blameless {
		return
	}
	h := g.setup.Load().cfg.Health
	e.failed++
	switch {
	case e.down != "":
	case f.unreachable && h.Path != "":
		g.setDown(e, "unreachable: "+f.Error())
	case e.failed < h.EjectAfter && !f.unreachable:
	case f.broken && h.Path != "" && !e.broke:
		e.failed, e.broke = 0, true
		g.setDown(e, "connections break: "+f.Error())
	default:
		e.failed = 0
		pause := h.EjectFor << min(e.ejected, 5)
		e.ejected++
		g.setDown(e, ejected)
		guard.After(pause, func() error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if e.down == ejected {
				g.setDown(e, "")
			}
			return nil
		}, func(err error) {
			if err != nil {
				g.log.Error("an endpoint stays ejected", "endpoint", e.url, "error", err)
			}
		})
	}
}
