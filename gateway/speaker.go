package gateway

import (
	"net/http"

	"github.com/kvasir-llm/kvasir/gateway/provider"
)

// foreign reports whether an endpoint has an API of its own.
func (g *Gateway) foreign(e *endpoint) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return e.cfg.API != ""
}

// speaker is what speaks with an endpoint, in its own API.
func (g *Gateway) speaker(e *endpoint) http.RoundTripper {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.cfg.API == "" {
		return g.transport
	}
	return &provider.Transport{Next: g.transport, API: e.cfg.API, Key: e.key, Region: e.cfg.Region, Version: e.cfg.Version}
}
