// Package server puts models behind HTTP APIs, with the health, metrics and tokenizer endpoints that routers and
// dashboards expect of an inference server. It knows nothing of how an answer is computed. Read Config, then dialect,
// which is an API, and job, which carries one request from its decoded form to its answer.
package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/shelf"
	"github.com/kvasir-llm/kvasir/store"
	"github.com/kvasir-llm/kvasir/trace"
)

// Config configures a Server. Only Models or OnDemand is required.
type Config struct {
	// Models are the served models. A request may leave out its model if there is only one.
	Models []Served
	// OnDemand, if not nil, has models that are loaded when a request names them, beside Models.
	OnDemand *OnDemand
	// Version is what /version and the header Server say.
	Version string
	// Keys are the API keys: a request must carry one as a bearer token, or in the header that its API has for it.
	// Without keys every request is accepted. /health, /ping, /load, /metrics and /version never need one.
	Keys []Key
	// AdminKeys are the keys for routes that show or change what is everybody's. Without any, these routes answer
	// requests from this machine if there are no Keys either, and no others.
	AdminKeys []string
	// SharePrefixes lets requests with any key find the cached prefixes of all others.
	SharePrefixes bool
	// Secret, with a key, decides where the key's cached prefixes are. nil is a random one: what tiers on disk hold of
	// requests with keys is then not found after a restart.
	Secret []byte
	// AllowedOrigins are the web origins (scheme://host[:port]) whose pages may use the server; "*" allows all.
	// Requests from pages of other origins are refused, even without API keys. On a loopback address, so are requests
	// whose Host is neither localhost, nor a loopback address, nor the host of an allowed origin.
	AllowedOrigins []string
	// RootPath precedes every path, such as "/llm", where a proxy passes paths on as they came. "" is nothing.
	RootPath string
	// AdapterRoot is the folder from which administrators may load adapters at run time. "" forbids loading and
	// unloading.
	AdapterRoot string
	// MaxBodyBytes bounds a request's body. 0 is 4 MiB, and 32 bytes for each token of the largest context of a model.
	MaxBodyBytes int64
	// RequestMemory bounds the bytes that the bodies of all requests take, and what is decoded of them; at least 8
	// times MaxBodyBytes. 0 is that, or 256 MiB if it is less.
	RequestMemory int64
	// DrainTimeout is how long Serve lets answers finish after its context ends, before it cuts them off. 0 is 20
	// seconds: Kubernetes gives a pod 30, in which tiers are written too.
	DrainTimeout time.Duration
	// StepTimeout is how long an engine's step may take before /health reports it as hanging. 0 is a minute.
	StepTimeout time.Duration
	// Ping is how long a stream may be silent before a ping is sent to keep the connection. 0 is 15 seconds; a negative
	// value sends none.
	Ping time.Duration
	// BodyTimeout is how long a client may take to send the body of a request. 0 is a minute.
	BodyTimeout time.Duration
	// MaxConns bounds the connections that are open at once, and MaxConnsEach those of one address that is not a
	// loopback address, or of one /64 network of IPv6. More are closed. 0 is any number.
	MaxConns, MaxConnsEach int
	// TLS, if not nil, is what connections speak. The protocols, with and without it, are HTTP/2 and HTTP/1.1.
	TLS *tls.Config
	// WriteTimeout is how long a client may take to accept 256 KiB of an answer, or a piece of a stream, before it is
	// disconnected. 0 is a minute.
	WriteTimeout time.Duration
	// State keeps responses, files and batches. nil is a store in memory for responses alone, at most 4096 of them and
	// 64 MiB. The server does not close it.
	State *store.Store
	// Blobs keeps files that models are made of. nil takes none.
	Blobs *store.Blobs
	// Traces records what happens to requests. nil records nothing. The server does not close it.
	Traces *trace.Exporter
	// GiveKV lets whoever knows the id of a transfer fetch the KV blocks of a prompt whose request asked for a remote
	// decode. It is not for servers with TLS.
	GiveKV bool
	// TakeKVFrom are the servers from which KV blocks may be fetched: a host, host:port, or a network such as
	// 10.0.0.0/16. Without any, requests that name such a server are refused.
	TakeKVFrom []string
	// Restarts is how often the program was started anew since a device was lost.
	Restarts int
	// Logger logs every request, at debug level, or at info level if the server failed. nil logs nothing.
	Logger *slog.Logger
}

// Served is a model with what it runs on and the names it answers to. FromText makes one.
type Served struct {
	Model      Model
	Engine     Engine
	Vocabulary Vocabulary
	Aliases    []string // beside its own name
	Size       int64    // bytes of memory that it takes
	Device     string   // that it runs on
	About      About    // what it is made of
	Root       string   // where it is from, as it was asked for; "" is its name
	// Observer receives the engine's reports. nil leaves the histograms out of /metrics.
	Observer *Observer
	// Snapshot returns a batch of KV events that says all that the model's prefix cache holds, and the number of the
	// first batch after it. nil if the server publishes none.
	Snapshot func(context.Context) (payload []byte, next uint64, err error)
	// Blocks returns the KV blocks that a prompt fills, for other servers or from them. nil has none.
	Blocks func(*text.Prompt) Blocks

	onDemand bool
}

// About says what a model is made of. What is not known is the zero value.
type About struct {
	Format       string // such as "gguf"
	Family       string
	Quantization string // of its weights, such as "Q8_0"
	Parameters   int64
	Context      int // tokens that it was made for
	Hidden       int // elements of an embedding
	Layers       int
	Template     string // the chat template
	Tools        bool   // how it calls tools is known
	Reasons      bool
	Generates    bool
}

// Server answers HTTP requests. It is an http.Handler, and Serve runs it on a listener.
type Server struct {
	cfg      Config
	models   []Served
	byName   map[string]*Served
	order    []string              // of byName, as /v1/models lists them
	shelf    *shelf.Shelf[*Loaded] // nil without models on demand
	keys     atomic.Pointer[keyring]
	cross    *http.CrossOriginProtection // nil if every origin is allowed
	origins  map[string]bool
	hosts    map[string]bool // of origins
	routes   map[string]route
	apis     map[string]*dialect // by path
	twins    map[string]twin     // by path
	fallback *dialect            // whose words answer paths of no API
	registry *prometheus.Registry
	metrics  *metrics
	bodies   *bodies
	context  int // the largest of a model
	draining atomic.Bool
	closing  sync.Once
	later    *later
	refusals refusals

	transfers *transfers
}

// New returns a server for the models.
func New(cfg Config) (*Server, error) {
	if len(cfg.Models) == 0 && cfg.OnDemand == nil {
		return nil, errors.New("server: no model to serve")
	}
	if p := cfg.RootPath; p != "" && (p[0] != '/' || p != path.Clean(p) || p == "/") {
		return nil, fmt.Errorf("server: the root path %q is not like /llm", p)
	}
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, 20*time.Second)
	cfg.StepTimeout = cmp.Or(cfg.StepTimeout, time.Minute)
	cfg.Ping = cmp.Or(cfg.Ping, 15*time.Second)
	cfg.BodyTimeout = cmp.Or(cfg.BodyTimeout, time.Minute)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, time.Minute)
	if len(cfg.Secret) == 0 {
		cfg.Secret = make([]byte, 32)
		rand.Read(cfg.Secret)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, byName: map[string]*Served{}, registry: prometheus.NewRegistry(), refusals: newRefusals()}
	s.models = slices.Clone(cfg.Models)
	for i := range s.models {
		m := &s.models[i]
		if m.Model == nil || m.Engine == nil || m.Vocabulary == nil {
			return nil, fmt.Errorf("server: model %d of %d has no engine or no vocabulary", i+1, len(s.models))
		}
		s.context = max(s.context, m.Model.Info().Context)
		m.Model = apart{m.Model}
		for _, name := range append([]string{m.Model.Info().Name}, m.Aliases...) {
			if name == "" || s.byName[name] != nil {
				return nil, fmt.Errorf("server: the model name %q is empty or given twice", name)
			}
			s.byName[name] = m
			s.order = append(s.order, name)
		}
	}
	keys, err := newKeyring(&s.cfg, cfg.Keys, nil)
	if err != nil {
		return nil, err
	}
	s.keys.Store(keys)
	if err := s.allow(cfg); err != nil {
		return nil, err
	}
	if cfg.OnDemand != nil {
		s.context = max(s.context, usualContext)
		s.shelf = s.newShelf(*cfg.OnDemand)
	}
	if err := s.boundBodies(); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s.registry, s.models, s.context)
	countTraces(s.registry, cfg.Traces)
	s.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "kvasir:device_restarts_total",
		Help: "Times that the program was started anew since a device was lost."}, func() float64 { return float64(cfg.Restarts) }))
	if s.later, err = newLater(cfg.State); err != nil {
		return nil, err
	}
	if s.transfers, err = newTransfers(&s.cfg, s.registry); err != nil {
		return nil, err
	}
	s.routes, s.apis, s.twins = s.ownRoutes(), map[string]*dialect{}, map[string]twin{}
	for _, api := range dialects() {
		s.add(api)
	}
	s.fallback = dialects()[0]
	return s, s.resume()
}

// allow sets whose pages may use the server.
func (s *Server) allow(cfg Config) error {
	s.cross, s.origins, s.hosts = http.NewCrossOriginProtection(), map[string]bool{}, map[string]bool{}
	for _, origin := range cfg.AllowedOrigins {
		s.origins[origin] = true
		if origin == "*" {
			continue
		}
		if err := s.cross.AddTrustedOrigin(origin); err != nil {
			return fmt.Errorf("server: allowed origin %q: %w", origin, err)
		}
		if u, err := url.Parse(origin); err == nil {
			s.hosts[guard.Hostname(u.Host)] = true
		}
	}
	if s.origins["*"] {
		s.cross = nil
	}
	return nil
}

// Handler returns the server as a handler, for use inside another server.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.ServeHTTP) }

// errShutdown ends answers that are not complete when DrainTimeout is over.
var errShutdown = errors.New("the server is shutting down")

// Serve is ServeOpened on a listener that nobody answers on yet.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return s.ServeOpened(ctx, Open(ln, s.cfg), func() {})
}

// ServeOpened answers requests until ctx is done, and calls ready once it does. Then it refuses connections and new
// requests, reports itself unhealthy, and lets answers finish for at most DrainTimeout before it cuts them off. It
// returns nil if all of them finished.
func (s *Server) ServeOpened(ctx context.Context, o *Opening, ready func()) error {
	defer s.Close()
	defer o.cut(nil)
	o.server = s
	close(o.ready)
	ready()
	s.preload(o.base)
	select {
	case err := <-o.failed:
		return fmt.Errorf("server: %w", err)
	case <-ctx.Done():
	}
	s.Drain()
	wait, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	err := o.door.Shutdown(wait)
	if err == nil {
		return nil
	}
	o.cut(errShutdown)
	last, cancelLast := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancelLast()
	if o.door.Shutdown(last) != nil {
		o.web.Close()
	}
	return fmt.Errorf("server: answers were still under way after %v and were cut off", s.cfg.DrainTimeout)
}

// Drain makes the server refuse new requests and report itself unhealthy.
func (s *Server) Drain() { s.draining.Store(true) }

// Close ends what the server does in the background, and takes the models on demand out of memory. Config.Models are
// their owner's to close, and so is one that takes too long to load. Serve calls it when it ends.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.later.close()
		if s.shelf != nil {
			ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
			defer cancel()
			s.shelf.Close(ctx)
		}
	})
}

// loadTimeout is how long a model that is being loaded when the server ends is waited for. Loading only reads, so that
// nothing is lost with it.
const loadTimeout = 5 * time.Second
