package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/route"
)

// Adapter is a LoRA adapter of a model's endpoints. Requests ask for it by its name.
type Adapter struct {
	Name string `yaml:"name"`
	Path string `yaml:"path"` // as the engines know it; they are told to load it from there. "" is one they have
}

// AdapterRoom says which adapters an endpoint is told to unload again.
type AdapterRoom struct {
	Most int           `yaml:"most"` // that it is told to have at once; 0 is any number
	Idle time.Duration `yaml:"idle"` // after which one that nobody asks for goes; 0 is never
}

// adapter returns the adapter of a model that the request asks for; its name is "" if it asks for none.
func (m *Model) adapter(name string) Adapter {
	if i := slices.IndexFunc(m.Adapters, func(a Adapter) bool { return a.Name == name }); i >= 0 {
		return m.Adapters[i]
	}
	return Adapter{}
}

// loan is an adapter that an endpoint was told to load. Gateway.mu guards it.
type loan struct {
	Adapter
	uses int           // requests under way
	last time.Duration // when one ended last
}

// adapterError is why an endpoint cannot answer with an adapter. It says nothing of the endpoint's health.
type adapterError struct{ error }

// borrow makes sure that the endpoint has the adapter that the job needs, until the attempt is left.
func (a *attempt) borrow() error {
	e, want := a.placement.endpoint, a.job.adapter
	if want.Path == "" || a.reuse(e, want) {
		return nil
	}
	select { // one at a time is loaded or unloaded
	case e.turn <- struct{}{}:
	case <-a.ctx.Done():
		return context.Cause(a.ctx)
	}
	defer func() { <-e.turn }()
	if a.reuse(e, want) {
		return nil
	}
	if err := a.g.makeRoom(a.ctx, e, want.Name); err != nil {
		return err
	}
	if err := a.g.tellAdapter(a.ctx, e, "/v1/load_lora_adapter", map[string]string{"lora_name": want.Name, "lora_path": want.Path}, "already"); err != nil {
		return adapterError{fmt.Errorf("the adapter %s was not loaded: %w", want.Name, err)}
	}
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	a.loan = &loan{Adapter: want, uses: 1}
	e.loans = append(e.loans, a.loan)
	a.g.fleet.Loaded(e.id, want.Name)
	return nil
}

// reuse takes an adapter that the endpoint has.
func (a *attempt) reuse(e *endpoint, want Adapter) bool {
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	for _, l := range e.loans {
		if l.Adapter == want {
			l.uses++
			a.loan = l
			return true
		}
	}
	return false
}

// giveBack says that an attempt does not need its adapter any more. g.mu is held.
func (g *Gateway) giveBack(l *loan) {
	if l != nil {
		l.uses--
		l.last = g.now()
	}
}

// lost notes that an endpoint does not have an adapter that it was told to load: it was started anew, or somebody else
// told it to unload the adapter.
func (a *attempt) lost() {
	a.g.mu.Lock()
	defer a.g.mu.Unlock()
	e := a.placement.endpoint
	e.loans = slices.DeleteFunc(e.loans, func(l *loan) bool { return l == a.loan })
}

// makeRoom lets an endpoint unload an adapter before it loads one of a name: that of the same name, which has another
// path, or the one that was not asked for longest, if it has as many as it may. The caller has the endpoint's turn.
func (g *Gateway) makeRoom(ctx context.Context, e *endpoint, name string) error {
	g.mu.Lock()
	full := e.cfg.Adapters.Most > 0 && len(e.loans) >= e.cfg.Adapters.Most
	l := e.oldest()
	if i := slices.IndexFunc(e.loans, func(l *loan) bool { return l.Name == name }); i >= 0 {
		full, l = true, e.loans[i]
	}
	g.mu.Unlock()
	switch {
	case !full:
		return nil
	case l == nil:
		return adapterError{fmt.Errorf("all %d adapters that the endpoint may have are in use", e.cfg.Adapters.Most)}
	}
	return g.unload(ctx, e, l)
}

// oldest is the adapter of an endpoint that nobody has used for longest; nil if all are in use. Gateway.mu is held.
func (e *endpoint) oldest() (oldest *loan) {
	for _, l := range e.loans {
		if l.uses == 0 && (oldest == nil || l.last < oldest.last) {
			oldest = l
		}
	}
	return oldest
}

// unload takes an adapter from an endpoint, unless somebody uses it by now. The caller has the endpoint's turn, so that
// who wants the adapter again loads it later.
func (g *Gateway) unload(ctx context.Context, e *endpoint, l *loan) error {
	g.mu.Lock()
	used := l.uses > 0
	if !used {
		e.loans = slices.DeleteFunc(e.loans, func(o *loan) bool { return o == l })
	}
	g.mu.Unlock()
	if used {
		return adapterError{fmt.Errorf("the adapter %s is in use", l.Name)}
	}
	if err := g.tellAdapter(ctx, e, "/v1/unload_lora_adapter", map[string]string{"lora_name": l.Name}, "not"); err != nil {
		return adapterError{fmt.Errorf("the adapter %s was not unloaded: %w", l.Name, err)}
	}
	g.log.Info("adapter unloaded", "endpoint", e.url, "adapter", l.Name)
	return nil
}

// unloadIdle lets an endpoint unload the adapters that nobody has asked for in a while.
func (g *Gateway) unloadIdle(ctx context.Context, e *endpoint) {
	for {
		g.mu.Lock()
		l, idle := e.oldest(), e.cfg.Adapters.Idle
		if idle == 0 || l == nil || g.now()-l.last < idle {
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := g.unload(ctx, e, l)
		<-e.turn
		if err != nil {
			g.log.Info("an adapter that nobody uses", "endpoint", e.url, "error", err)
		}
	}
}

// tellAdapter asks an endpoint to load or unload an adapter. Engines answer 400 or 404 with the word if that is so
// already.
func (g *Gateway) tellAdapter(ctx context.Context, e *endpoint, path string, what map[string]string, already string) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	res, err := g.fetch(ctx, e, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	known := (res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusNotFound && already == "not") && strings.Contains(string(said), already)
	if err == nil && res.StatusCode != http.StatusOK && !known {
		err = fmt.Errorf("status %d: %.200s", res.StatusCode, said)
	}
	return err
}

// hold adds the adapters that an endpoint was told to load to those that it reports, since engines report only those
// that are in use. Gateway.mu is held.
func (e *endpoint) hold(l *route.Load) {
	for _, a := range e.loans {
		if !slices.Contains(l.Adapters, a.Name) {
			l.Adapters = append(l.Adapters, a.Name)
		}
	}
	if most := e.cfg.Adapters.Most; most > 0 {
		l.AdapterRoom = len(e.loans) < most
	}
}
