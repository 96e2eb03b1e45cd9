package gateway

import (
	"context"
	"net/http"

	"github.com/kvasir-llm/kvasir/gateway/provider"
)

// messagesPath is that of Anthropic's Messages API.
const messagesPath = "/v1/messages"

// foreign reports whether an endpoint has an API of its own.
func (g *Gateway) foreign(e *endpoint) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return e.cfg.API != ""
}

// speak sends an attempt's request to its endpoint, in the endpoint's own API. Requests of the Messages API are
// translated for those that do not know it: providers but Anthropic, and engines that turned out not to.
func (a *attempt) speak(r *http.Request) (*http.Response, error) {
	g, e := a.g, a.placement.endpoint
	work := func(ctx context.Context) (func(), error) { return a.work(ctx, costPerByte) }
	g.mu.Lock()
	var next http.RoundTripper = g.transport
	if e.cfg.API != "" {
		next = &provider.Transport{Next: next, API: e.cfg.API, Key: e.key, Region: e.cfg.Region, Version: e.cfg.Version, Work: work}
	}
	ask := a.exchange.r.URL.Path == messagesPath && e.cfg.API == "" && !e.chats
	chats := a.exchange.r.URL.Path == messagesPath && e.cfg.API != "anthropic" && !ask
	g.mu.Unlock()
	if chats {
		return (&provider.Messages{Next: next, Work: work}).RoundTrip(r)
	}
	res, err := next.RoundTrip(r)
	if err != nil || !ask || a.loan != nil || res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusMethodNotAllowed {
		return res, err
	}
	if r, err = a.request(); err != nil {
		return res, nil // which says more
	}
	chat, err := (&provider.Messages{Next: next, Work: work}).RoundTrip(r)
	if err != nil || chat.StatusCode >= http.StatusBadRequest && chat.StatusCode != http.StatusBadRequest {
		if err == nil {
			chat.Body.Close()
		}
		return res, nil
	}
	res.Body.Close()
	g.mu.Lock()
	e.chats = true
	g.mu.Unlock()
	return chat, nil
}
