package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/shelf"
	"github.com/kvasir-llm/kvasir/web"
)

// route is what a path answers. In tables of routes it stands under its path or, if that has another route too, under
// its method and the path: "DELETE /v1/responses/{id}".
type route struct {
	method  string // GET, which HEAD goes with, POST or DELETE
	handler func(http.ResponseWriter, *http.Request)
	access  access
	about   string
}

// access is which requests a route answers.
type access int

const (
	clients access = iota // with an API key, if there are any
	anyone
	admins // with an admin key; keyring.admin
)

// modelPath precedes the id in the path of a single model. Ids may hold slashes.
const modelPath = "/v1/models/"

// ownRoutes are the paths of no API.
func (s *Server) ownRoutes() map[string]route {
	metrics, page := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}), web.Handler()
	return map[string]route{
		"/":                   {"GET", s.root(page), anyone, "this table; a page to chat on for browsers"},
		web.Prefix:            {"GET", page.ServeHTTP, anyone, "the files of the page"},
		"/reset_prefix_cache": {"POST", s.resetCache, admins, "forget cached prefixes"},
		"/kv/pin":             {"POST", s.pin, admins, "keep the KV blocks of a prompt"},
		"/kv/unpin":           {"POST", s.unpin, admins, "let pinned KV blocks go"},
		"/kv/blocks":          {"GET", s.inspect, admins, "what the prefix cache holds"},
		"/kv/events/snapshot": {"GET", s.snapshot, admins, "what the prefix cache holds, for those who hear of KV events late"},
		transfersPath:         {"GET", s.giveBlocks, anyone, "the KV blocks of a prompt, for the server that goes on with it"},
		"/sleep":              {"POST", s.sleep, admins, "free what models take of their devices: ?level=1 or 2, ?mode=abort, wait or keep"},
		"/wake_up":            {"POST", s.wakeUp, admins, "bring back what sleeps: ?tags=weights, ?tags=kv_cache, or both"},
		"/is_sleeping":        {"GET", s.isSleeping, admins, "whether a model sleeps"},
		"/health":             {"GET", s.health, anyone, "200 while every engine steps, else 503"},
		"/ping":               {"GET", s.health, anyone, "what /health answers"},
		"/load":               {"GET", s.load, anyone, "how many sequences there are, computed and waiting"},
		"/metrics":            {"GET", metrics.ServeHTTP, anyone, "Prometheus metrics"},
		"/docs":               {"GET", page.ServeHTTP, anyone, "the API of this server as a page"},
		"/openapi.json":       {"GET", s.openapi, clients, "this table as an OpenAPI description"},
		"/version":            {"GET", s.version, anyone, "the program's version"},
		"/models":             {"GET", s.ps, clients, "the models in memory, and what they do"},
		"/models/load":        {"POST", s.loadModel, admins, "load a model before it is asked for"},
		"/models/unload":      {"POST", s.unloadModel, admins, "take a model out of memory"},
	}
}

// add serves an API.
func (s *Server) add(api *dialect) {
	for path, r := range api.routes(s) {
		s.routes[path] = r
		s.apis[strings.TrimPrefix(path, r.method+" ")] = api
	}
	if api.twins == nil {
		return
	}
	for path, r := range api.twins(s) {
		s.twins[path] = twin{r, api}
	}
}

// twin is the second API's route of a path that two have.
type twin struct {
	route
	api *dialect
}

// twin returns the route that a request means by a mark in its header.
func (s *Server) twin(r *http.Request) (twin, bool) {
	t, ok := s.twins[canonical(r.URL.Path)]
	return t, ok && r.Header.Get(t.api.mark) != ""
}

// dialectOf returns the API that a request belongs to.
func (s *Server) dialectOf(r *http.Request) *dialect {
	if t, ok := s.twin(r); ok {
		return t.api
	}
	if api := s.apis[canonical(r.URL.Path)]; api != nil {
		return api
	}
	return s.fallback
}

// openaiRoutes are paths of OpenAI's API, vLLM's and others that belong with it, that do not generate.
func (s *Server) openaiRoutes() map[string]route {
	rerank, score := pooled(s, openai.DecodeRerank, s.rerank), pooled(s, openai.DecodeScore, s.score)
	return map[string]route{
		"/v1/embeddings":          {"POST", s.pooledVectors(openai.DecodeEmbedding, embeddingsOf), clients, "the vectors of texts"},
		"/pooling":                {"POST", s.pooledVectors(openai.DecodePooling, pooledOf), clients, "what a model makes of texts: vectors or classes"},
		"/classify":               {"POST", pooled(s, openai.DecodeClassify, s.classify), clients, "the classes of texts"},
		"/v1/rerank":              {"POST", rerank, clients, "documents, by how well they fit a query"},
		"/rerank":                 {"POST", rerank, clients, "what /v1/rerank answers"},
		"/v1/score":               {"POST", score, clients, "how well texts fit each other"},
		"/score":                  {"POST", score, clients, "what /v1/score answers"},
		"/v1/models":              {"GET", s.list, clients, "the models served"},
		modelPath:                 {"GET", s.model, clients, "a model served, by its id"},
		"/v1/load_lora_adapter":   {"POST", s.loadAdapter, admins, "load a LoRA adapter"},
		"/v1/unload_lora_adapter": {"POST", s.unloadAdapter, admins, "unload a LoRA adapter"},
		"/tokenize":               {"POST", s.tokenize, clients, "the tokens of a text or a conversation"},
		"/detokenize":             {"POST", s.detokenize, clients, "the text of tokens"},
	}
}

// canonical returns the path by which the table knows a path.
func canonical(path string) string {
	if strings.HasPrefix(path, modelPath) && len(path) > len(modelPath) {
		return modelPath
	}
	if path == modelPath {
		return strings.TrimSuffix(modelPath, "/")
	}
	if strings.HasPrefix(path, web.Prefix) {
		return web.Prefix
	}
	if rest, ok := strings.CutPrefix(path, blobsPath); ok && rest != "" {
		return blobPath
	}
	for _, kind := range []string{"/v1/responses/", "/v1/files/", "/v1/batches/"} {
		if rest, ok := strings.CutPrefix(path, kind); ok && rest != "" {
			_, tail, more := strings.Cut(rest, "/")
			if more {
				tail = "/" + tail
			}
			return kind + "{id}" + tail
		}
	}
	return path
}

// pathID returns what stands for {id} in a request's path.
func pathID(r *http.Request) string {
	parts := strings.SplitN(r.URL.Path, "/", 5) // "", "v1", "responses", the id, and what may follow
	return parts[3]
}

// find returns the route of a request: that of its path under its method, if there is one, or else the path's first.
func (s *Server) find(r *http.Request) (route, bool) {
	if t, ok := s.twin(r); ok {
		return t.route, true
	}
	path := canonical(r.URL.Path)
	if found, ok := s.routes[r.Method+" "+path]; ok {
		return found, true
	}
	found, ok := s.routes[path]
	return found, ok
}

// meant says which path there is instead of one that there is not, where a client's base URL has /v1 once too often, or
// lacks it.
func (s *Server) meant(r *http.Request) string {
	path, why := "/v1"+r.URL.Path, "lacks /v1"
	if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/"); ok {
		path, why = "/"+rest, "has /v1 once too often"
	}
	_, all := s.routes[canonical(path)]
	if _, one := s.routes[r.Method+" "+canonical(path)]; path == "/" || !all && !one {
		return ""
	}
	return fmt.Sprintf(" There is %s: the client's base URL %s.", path, why)
}

// handlerOf names the route of a request for metrics: "none" is for all paths that there are not.
func (s *Server) handlerOf(r *http.Request) string {
	path := canonical(r.URL.Path)
	if _, ok := s.routes[path]; !ok {
		return "none"
	}
	return path
}

// methods returns the methods that a path takes.
func (s *Server) methods(path string) []string {
	path = canonical(path)
	all := []string{s.routes[path].method}
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodDelete} {
		if _, ok := s.routes[m+" "+path]; ok {
			all = append(all, m)
		}
	}
	return all
}

// root answers browsers with the page, which needs no key since it says nothing of this server, and others with the
// table of paths.
func (s *Server) root(page http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if web.Wanted(r) && s.cfg.RootPath != "" && r.RequestURI == s.cfg.RootPath {
			http.Redirect(w, r, s.cfg.RootPath+"/", http.StatusPermanentRedirect) // the page's own paths are relative
		} else if web.Wanted(r) {
			page.ServeHTTP(w, r)
		} else if err := s.authorize(r, clients); err != nil {
			s.fail(w, r, err)
		} else {
			s.index(w, r)
		}
	}
}

func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store") // it depends on the key
	fmt.Fprintf(w, "kvasir %s\n\nmodels: %s\n\n", s.cfg.Version, strings.Join(s.names(tenantOf(r.Context())), ", "))
	path := func(key string) string { return strings.TrimPrefix(key, s.routes[key].method+" ") }
	byPath := func(a, b string) int { return cmp.Or(cmp.Compare(path(a), path(b)), cmp.Compare(b, a)) }
	for _, key := range slices.SortedFunc(maps.Keys(s.routes), byPath) {
		fmt.Fprintf(w, "%-7s%-32s%s\n", s.routes[key].method, path(key), s.routes[key].about)
	}
}

// versionReport is the answer of /version.
type versionReport struct {
	Version string `json:"version"`
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	s.write(w, http.StatusOK, versionReport{s.cfg.Version})
}

// healthReport is the answer of /health.
type healthReport struct {
	Status string            `json:"status"` // "ok", or why not
	Models map[string]string `json:"models"` // the same of each
}

// health says whether every engine steps and new requests are taken.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	out, status := healthReport{"ok", map[string]string{}}, http.StatusOK
	for _, m := range s.present() {
		out.Models[m.Model.Info().Name] = "ok"
		if err := m.Engine.Health(s.cfg.StepTimeout); err != nil && !(m.onDemand && errors.Is(err, engine.ErrClosed)) {
			out.Status, status = "unhealthy", http.StatusServiceUnavailable
			out.Models[m.Model.Info().Name] = err.Error()
		} else if m.Engine.Asleep() {
			out.Models[m.Model.Info().Name] = "asleep"
		}
	}
	if s.draining.Load() {
		out.Status, status = "draining", http.StatusServiceUnavailable
	}
	s.write(w, status, out)
}

func (s *Server) describe(name string) openai.Model {
	return describeServed(name, s.byName[name])
}

func describeServed(name string, m *Served) openai.Model {
	info := m.Model.Info()
	return openai.Model{ID: name, Object: openai.ObjectModel, Created: info.Opened.Unix(), OwnedBy: "kvasir",
		Root: rootOf(cmp.Or(m.Root, info.Name)), MaxModelLen: info.Context}
}

// rootOf is what clients see of where a model or an adapter is from: of a path its last element.
func rootOf(source string) string {
	if strings.HasPrefix(source, "/") || filepath.IsAbs(source) {
		return filepath.Base(source)
	}
	return source
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.write(w, http.StatusOK, openai.ModelList{Object: openai.ObjectList, Data: s.catalogue(tenantOf(r.Context()))})
}

// catalogue returns the models and adapters that a tenant may ask for.
func (s *Server) catalogue(t *tenant) (all []openai.Model) {
	for _, name := range s.order {
		if t.may(name) {
			all = append(all, s.describe(name))
		}
	}
	for _, m := range s.offers() {
		if t.may(m.Offer.Name) {
			all = append(all, describeOffer(m))
		}
	}
	for _, m := range s.present() {
		for _, a := range m.Engine.Adapters() {
			if t.may(a.Name) && a.Name != m.Model.Info().Name { // a model's own is no other model
				all = append(all, describeAdapter(m, a))
			}
		}
	}
	return all
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	m, err := s.findModel(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, m)
}

// findModel returns the model or adapter that a path names.
func (s *Server) findModel(r *http.Request) (*openai.Model, error) {
	t, name := tenantOf(r.Context()), strings.TrimPrefix(r.URL.Path, modelPath)
	for _, m := range s.catalogue(t) {
		if m.ID == name {
			return &m, nil
		}
	}
	return nil, s.noModel(t, name)
}

// lookup returns the model that a tenant's request names, and the adapter, if it names one. What the tenant may not ask
// for does not exist. A model on demand is loaded, and stays until the request ends.
func (s *Server) lookup(ctx context.Context, name string) (m *Served, adapter string, err error) {
	t := tenantOf(ctx)
	if name == "" && len(s.models) == 1 {
		name = s.models[0].Model.Info().Name
	}
	if name == "" {
		return nil, "", wire.Invalid("model", wire.CodeMissing,
			"required, since several are served: %s", strings.Join(s.names(t), ", "))
	}
	if !t.may(name) {
		return nil, "", s.noModel(t, name)
	}
	if m := s.byName[name]; m != nil {
		return m, "", nil
	}
	if m, _ := s.adapterOf(name); m != nil {
		if m.onDemand {
			m, err = s.demand(ctx, m.Model.Info().Name)
		}
		return m, name, err
	}
	if m, err = s.demand(ctx, name); errors.Is(err, shelf.ErrNotFound) {
		err = s.noModel(t, name)
	}
	return m, "", err
}
