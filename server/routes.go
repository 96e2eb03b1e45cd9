package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvasir-llm/kvasir/api/openai"
)

// route is what a path answers.
type route struct {
	method  string // GET, which HEAD goes with, or POST
	handler func(http.ResponseWriter, *http.Request)
	open    bool // without an API key
	about   string
	manages bool // where there are no API keys, only for those on this machine
}

// modelPath precedes the id in the path of a single model. Ids may hold slashes.
const modelPath = "/v1/models/"

func (s *Server) table() map[string]route {
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
	rerank, score := pooled(s, openai.DecodeRerank, s.rerank), pooled(s, openai.DecodeScore, s.score)
	return map[string]route{
		"/":                       {"GET", s.index, true, "this page", false},
		"/v1/chat/completions":    {"POST", s.chat, false, "the next message of a conversation", false},
		"/v1/completions":         {"POST", s.completions, false, "the continuation of a text", false},
		"/v1/embeddings":          {"POST", pooled(s, openai.DecodeEmbedding, s.embeddings), false, "the vectors of texts", false},
		"/v1/rerank":              {"POST", rerank, false, "documents, by how well they fit a query", false},
		"/rerank":                 {"POST", rerank, false, "the same", false},
		"/v1/score":               {"POST", score, false, "how well texts fit each other", false},
		"/score":                  {"POST", score, false, "the same", false},
		"/v1/models":              {"GET", s.list, false, "the models served", false},
		modelPath:                 {"GET", s.model, false, "one of them, by its id", false},
		"/v1/load_lora_adapter":   {"POST", s.loadAdapter, false, "load a LoRA adapter", false},
		"/v1/unload_lora_adapter": {"POST", s.unloadAdapter, false, "unload one", false},
		"/tokenize":               {"POST", s.tokenize, false, "the tokens of a text or a conversation", false},
		"/detokenize":             {"POST", s.detokenize, false, "the text of tokens", false},
		"/reset_prefix_cache":     {"POST", s.resetCache, false, "forget cached prefixes", true},
		"/kv/pin":                 {"POST", s.pin, false, "keep the KV blocks of a prompt", true},
		"/kv/unpin":               {"POST", s.unpin, false, "let them go", true},
		"/kv/blocks":              {"GET", s.inspect, false, "what the prefix cache holds", true},
		"/kv/events/snapshot":     {"GET", s.snapshot, false, "the same for those who hear of KV events late", true},
		"/health":                 {"GET", s.health, true, "200 while every engine steps, else 503", false},
		"/ping":                   {"GET", s.health, true, "the same", false},
		"/metrics":                {"GET", metrics.ServeHTTP, true, "Prometheus metrics", false},
		"/version":                {"GET", s.version, true, "the program's version", false},
	}
}

// find returns the route of a path.
func (s *Server) find(path string) (route, bool) {
	if strings.HasPrefix(path, modelPath) && len(path) > len(modelPath) {
		path = modelPath
	} else if path == modelPath {
		path = strings.TrimSuffix(modelPath, "/")
	}
	r, ok := s.routes[path]
	return r, ok
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "kvasir %s\n\nmodels: %s\n\n", s.cfg.Version, strings.Join(s.names(), ", "))
	for _, path := range slices.Sorted(maps.Keys(s.routes)) {
		fmt.Fprintf(w, "%-5s%-25s%s\n", s.routes[path].method, path, s.routes[path].about)
	}
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, map[string]string{"version": s.cfg.Version})
}

// health says whether every engine steps and new requests are taken.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	type report struct {
		Status string            `json:"status"`
		Models map[string]string `json:"models"`
	}
	out, status := report{"ok", map[string]string{}}, http.StatusOK
	for _, m := range s.models {
		out.Models[m.Model.Info().Name] = "ok"
		if err := m.Model.Health(s.cfg.StepTimeout); err != nil {
			out.Status, status = "unhealthy", http.StatusServiceUnavailable
			out.Models[m.Model.Info().Name] = err.Error()
		}
	}
	if s.draining.Load() {
		out.Status, status = "draining", http.StatusServiceUnavailable
	}
	s.write(w, status, out)
}

func (s *Server) describe(name string) openai.Model {
	info := s.byName[name].Model.Info()
	return openai.Model{ID: name, Object: openai.ObjectModel, Created: info.Opened.Unix(), OwnedBy: "kvasir",
		Root: info.Name, MaxModelLen: info.Context}
}

func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	out := openai.ModelList{Object: openai.ObjectList}
	for _, name := range s.order {
		out.Data = append(out.Data, s.describe(name))
	}
	for i := range s.models {
		for _, a := range s.models[i].Model.Adapters() {
			out.Data = append(out.Data, describeAdapter(&s.models[i], a))
		}
	}
	s.write(w, http.StatusOK, out)
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, modelPath)
	if s.byName[name] != nil {
		s.write(w, http.StatusOK, s.describe(name))
	} else if m, a := s.adapterOf(name); m != nil {
		s.write(w, http.StatusOK, describeAdapter(m, a))
	} else {
		s.fail(w, r, s.noModel(name))
	}
}

// lookup returns the model that a request names, and the adapter, if it names one.
func (s *Server) lookup(name string) (m *Served, adapter string, err error) {
	if name == "" && len(s.models) == 1 {
		return &s.models[0], "", nil
	}
	if name == "" {
		return nil, "", openai.NewError(openai.TypeInvalidRequest, "model", openai.CodeMissing,
			"model: required, since several are served: "+strings.Join(s.order, ", "))
	}
	if m := s.byName[name]; m != nil {
		return m, "", nil
	}
	if m, _ := s.adapterOf(name); m != nil {
		return m, name, nil
	}
	return nil, "", s.noModel(name)
}
