package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// Opening answers on a listener before there is a Server: /health and /ping with 503 and the status "loading". Other
// requests wait for the Server.
type Opening struct {
	rootPath string
	door     guard.Door
	web      *http.Server
	base     context.Context // of all requests
	cut      context.CancelCauseFunc
	failed   chan error
	server   *Server
	ready    chan struct{} // closed once there is server
	held     atomic.Int64  // requests that wait for that
}

// Open begins to answer on ln, for a Server of cfg, which needs no models yet.
func Open(ln net.Listener, cfg Config) *Opening {
	o := &Opening{rootPath: cfg.RootPath, failed: make(chan error, 1), ready: make(chan struct{})}
	o.base, o.cut = context.WithCancelCause(context.Background())
	known := len(cfg.Keys) > 0 || cfg.TLS != nil && cfg.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	o.door = guard.Door{Most: cfg.MaxConns, MostEach: cfg.MaxConnsEach, TLS: cfg.TLS, Known: known,
		Accept: cmp.Or(cfg.WriteTimeout, time.Minute), Log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))}
	ln = o.door.Listen(ln)
	o.web = o.door.Server(o)
	o.web.BaseContext = func(net.Listener) context.Context { return o.base }
	guard.Go(func() error { return o.web.Serve(ln) }, func(err error) { o.failed <- err })
	return o
}

// ServeHTTP answers a request, once that can be done.
func (o *Opening) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-o.ready:
	default:
		if path := strings.TrimPrefix(r.URL.Path, o.rootPath); path == "/health" || path == "/ping" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"status":"loading","models":{}}`)
			return
		}
		o.held.Add(1)
		defer o.held.Add(-1)
		select {
		case <-o.ready:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	o.server.ServeHTTP(w, r)
}

// Close ends all connections, of an Opening that no Server has taken over too.
func (o *Opening) Close() {
	o.cut(errShutdown)
	o.web.Close()
}
