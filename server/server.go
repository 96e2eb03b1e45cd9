// Package server puts models behind OpenAI's HTTP API, with the health, metrics and tokenizer endpoints that routers and
// dashboards expect of an inference server. It knows nothing of how an answer is computed. Read Config, then Server.ServeHTTP
// and job, which carries one request from its decoded form to its answer.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/events"
)

// Config says what is served, and to whom. Only Models is required.
type Config struct {
	// Models are what can be asked. A request that names no model gets the only one; with several it must name one.
	Models []Served
	// Version is told by /version and in the header Server.
	Version string
	// APIKeys are the keys of which a request must bring one as a bearer token. None lets everybody in. /health, /ping,
	// /metrics and /version are always open.
	APIKeys []string
	// AllowedOrigins are the web origins (scheme://host[:port]) whose pages may use the server; "*" is all. Requests that a
	// browser sends from other sites are refused, even without API keys, and so are those that come in on a loopback
	// address under a name (the Host) that is neither localhost, nor a loopback address, nor that of an allowed origin.
	AllowedOrigins []string
	// AdapterRoot is the folder that adapters may be loaded from at run time, by whoever may use the server. "" is none: then
	// they are not unloaded either.
	AdapterRoot string
	// MaxBodyBytes bounds a request's body. 0 is 32 MiB.
	MaxBodyBytes int64
	// DrainTimeout is how long Serve waits for answers under way once it is told to end, before it cuts them off. 0 is
	// 30 seconds, less than what Kubernetes gives a pod.
	DrainTimeout time.Duration
	// StepTimeout is how long one step of an engine may take before /health reports it as hanging. 0 is a minute.
	StepTimeout time.Duration
	// Ping is how long a stream may be silent, while its request waits, before a comment is sent to keep the connection.
	// 0 is 15 seconds; a negative value sends none.
	Ping time.Duration
	// WriteTimeout is how long a client may take to accept a piece of an answer before it counts as gone. 0 is a minute.
	WriteTimeout time.Duration
	// Logger hears of every request (at debug level; at info level if it failed by the server's fault). nil is none.
	Logger *slog.Logger
}

// Served is a model with the names it answers to.
type Served struct {
	Model   Model
	Aliases []string // beside its own name
	// Observer is the one that the model's engine reports to. nil leaves its histograms out of /metrics.
	Observer *Observer
	// Events are where the model's engine tells of its KV blocks. nil is nowhere.
	Events *events.Publisher
}

// Server answers HTTP requests. It is an http.Handler, and Serve runs it on a listener.
type Server struct {
	cfg      Config
	models   []Served
	byName   map[string]*Served
	order    []string // of byName, as /v1/models lists them
	keys     [][32]byte
	cross    *http.CrossOriginProtection // nil if every origin is allowed
	origins  map[string]bool
	hosts    map[string]bool // of origins
	routes   map[string]route
	registry *prometheus.Registry
	metrics  *metrics
	draining atomic.Bool
}

// New returns a server for the models.
func New(cfg Config) (*Server, error) {
	if len(cfg.Models) == 0 {
		return nil, errors.New("server: no model to serve")
	}
	cfg.DrainTimeout = cmp.Or(cfg.DrainTimeout, 30*time.Second)
	cfg.StepTimeout = cmp.Or(cfg.StepTimeout, time.Minute)
	cfg.Ping = cmp.Or(cfg.Ping, 15*time.Second)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, time.Minute)
	cfg.MaxBodyBytes = cmp.Or(cfg.MaxBodyBytes, 32<<20)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &Server{cfg: cfg, models: cfg.Models, byName: map[string]*Served{}, registry: prometheus.NewRegistry()}
	for i := range s.models {
		m := &s.models[i]
		for _, name := range append([]string{m.Model.Info().Name}, m.Aliases...) {
			if name == "" || s.byName[name] != nil {
				return nil, fmt.Errorf("server: the model name %q is empty or given twice", name)
			}
			s.byName[name] = m
			s.order = append(s.order, name)
		}
	}
	if err := s.allow(cfg); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s.registry, s.models)
	s.routes = s.table()
	return s, nil
}

// allow sets who may use the server.
func (s *Server) allow(cfg Config) error {
	for _, key := range cfg.APIKeys {
		if strings.TrimSpace(key) != key || key == "" {
			return errors.New("server: an API key is empty or has white space around it")
		}
		s.keys = append(s.keys, digest(key))
	}
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
			s.hosts[hostname(u.Host)] = true
		}
	}
	if s.origins["*"] {
		s.cross = nil
	}
	return nil
}

// Handler returns the server as a handler, for use inside another server.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.ServeHTTP) }

// errShutdown is why answers under way end when the time to drain is over.
var errShutdown = errors.New("the server is shutting down")

// Serve answers requests on ln until ctx is done. Then it takes no more connections, reports itself unhealthy, refuses
// new work and waits for answers under way, at most DrainTimeout, after which they are cut off. It returns nil if all
// of them could end.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	base, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	web := &http.Server{
		Handler:           s,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("server: %w", err)
	case <-ctx.Done():
	}
	s.Drain()
	wait, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	err := web.Shutdown(wait)
	if err == nil {
		return nil
	}
	cut(errShutdown)
	last, cancelLast := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancelLast()
	if web.Shutdown(last) != nil {
		web.Close()
	}
	return fmt.Errorf("server: answers were still under way after %v and were cut off", s.cfg.DrainTimeout)
}

// Drain makes the server refuse new work and report itself unhealthy from now on.
func (s *Server) Drain() { s.draining.Store(true) }
