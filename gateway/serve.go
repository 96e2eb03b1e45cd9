package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/gateway/panel"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/route"
)

// forwarded are the paths whose requests go to endpoints. All take JSON that names a model.
var forwarded = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/responses", "/v1/messages",
	"/v1/messages/count_tokens", "/v1/chat/completions/render", "/v1/completions/render", "/rerank", "/score", "/tokenize",
	"/detokenize",
}

// explainPath is where a request's decision is shown.
const explainPath = "/gateway/explain"

// page is what browsers get.
var page = panel.Handler()

// ServeHTTP answers a request, or forwards it.
func (g *Gateway) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	path, w := r.URL.Path, guard.NewAnswer(writer, r, g.setup.Load().cfg.Timeouts.Idle)
	defer w.End()
	if r.Method != http.MethodPost || !slices.Contains(forwarded, path) {
		guard.Dismiss(w, r)
	}
	switch {
	case slices.Contains(forwarded, path):
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			(&refusal{status: http.StatusMethodNotAllowed, kind: "invalid_request_error", message: "want POST"}).write(w)
			return
		}
		g.forward(w, r)
	case path == explainPath && r.Method == http.MethodPost:
		g.explain(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		noPath(r).write(w)
	case path == "/health" || path == "/ping":
		if g.draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	case path == "/metrics":
		g.countFlights()
		g.metrics.page.ServeHTTP(w, r)
	case path == "/v1/models" || strings.HasPrefix(path, "/v1/models/"):
		g.listModels(w, r)
	case path == "/gateway/fleet":
		g.showFleet(w, r)
	case path == "/gateway/usage":
		g.showUsage(w, r)
	case path == "/": // a person, who was told an address
		http.Redirect(w, r, panel.Prefix, http.StatusSeeOther)
	case strings.HasPrefix(path, panel.Prefix):
		page.ServeHTTP(w, r)
	default:
		noPath(r).write(w)
	}
}

func noPath(r *http.Request) *refusal {
	return &refusal{status: http.StatusNotFound, kind: "invalid_request_error", code: "not_found",
		message: "there is no " + r.Method + " " + r.URL.Path}
}

// countFlights brings the gauges of requests up to date.
func (g *Gateway) countFlights() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.metrics.flying.Reset()
	g.metrics.blocks.Reset()
	g.metrics.waiting.Reset()
	for name, m := range g.setup.Load().models {
		g.metrics.waiting.WithLabelValues(name).Set(float64(m.queue.Waiting()))
	}
	for _, e := range g.ends {
		g.metrics.flying.WithLabelValues(e.url).Set(float64(e.requests))
		g.metrics.blocks.WithLabelValues(e.url).Set(float64(g.fleet.Held(e.id)))
	}
}

type listedModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	OwnedBy string `json:"owned_by"`
}

// listModels lists the names that the request's key may use, or shows one of them.
func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) {
	a, refused := g.admit(r)
	if refused != nil {
		refused.write(w)
		return
	}
	g.mu.Lock()
	list := []listedModel{}
	for name, m := range g.setup.Load().names {
		if a.may(m, name) {
			list = append(list, listedModel{name, "model", "kvasir"})
		}
	}
	g.mu.Unlock()
	slices.SortFunc(list, func(a, b listedModel) int { return strings.Compare(a.ID, b.ID) })
	w.Header().Set("Content-Type", "application/json")
	name, one := strings.CutPrefix(r.URL.Path, "/v1/models/")
	if !one {
		json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": list})
		return
	}
	if i := slices.IndexFunc(list, func(m listedModel) bool { return m.ID == name }); i >= 0 {
		json.NewEncoder(w).Encode(list[i])
		return
	}
	noModel(name).write(w)
}

// shownEndpoint is an endpoint on the debug page.
type shownEndpoint struct {
	URL            string   `json:"url"`
	Up             bool     `json:"up"`
	Why            string   `json:"why,omitempty"`
	InFlight       int      `json:"in_flight"`
	Limit          int      `json:"limit"` // of those in flight, as learned
	TokensInFlight int      `json:"tokens_in_flight"`
	Waiting        int      `json:"engine_waiting"`
	Running        int      `json:"engine_running"`
	KVUse          float64  `json:"kv_use"`
	Adapters       []string `json:"adapters,omitempty"`
	Blocks         int      `json:"kv_blocks"` // that its KV events told of
}

type shownModel struct {
	Name      string          `json:"name"`
	Waiting   int             `json:"waiting"`
	Endpoints []shownEndpoint `json:"endpoints"`
}

func notAdmin() *refusal {
	return &refusal{status: http.StatusForbidden, kind: "invalid_request_error", code: "not_admin", message: "this needs an admin's key"}
}

// showFleet shows the state of all models and endpoints, for an admin's key if there are keys.
func (g *Gateway) showFleet(w http.ResponseWriter, r *http.Request) {
	a, refused := g.admit(r)
	if refused != nil {
		refused.write(w)
		return
	}
	if a != nil && !a.key.Admin {
		notAdmin().write(w)
		return
	}
	g.mu.Lock()
	list := []shownModel{}
	for _, m := range g.setup.Load().models {
		shown := shownModel{Name: m.Name, Waiting: m.queue.Waiting(), Endpoints: []shownEndpoint{}}
		for _, c := range g.fleet.View(&route.Request{}, m.ids) {
			shown.Endpoints = append(shown.Endpoints, shownEndpoint{
				URL: c.Name, Up: c.Down == "", Why: c.Down, InFlight: c.Requests, Limit: c.MaxRequests, TokensInFlight: c.TokensInFlight,
				Waiting: c.Waiting, Running: c.Running, KVUse: c.KVUse, Adapters: c.Adapters,
				Blocks: g.fleet.Held(c.ID),
			})
		}
		list = append(list, shown)
	}
	g.mu.Unlock()
	slices.SortFunc(list, func(a, b shownModel) int { return strings.Compare(a.Name, b.Name) })
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"models": list})
}
