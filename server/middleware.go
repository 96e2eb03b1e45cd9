package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/trace"
)

// requestID is the header that carries a request's id in both directions.
const requestID = "X-Request-Id"

// ServeHTTP answers a request. A stream of HTTP/2 that its client has ended before it is looked at is only counted:
// nobody reads an answer, and a flood of them would fill the log.
func (s *Server) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	w := &recorder{Answer: guard.NewAnswer(writer, r, s.cfg.WriteTimeout)}
	defer w.End()
	if r.ProtoMajor == 2 && context.Cause(r.Context()) == context.Canceled {
		s.metrics.answered(s.handlerOf(r), r.Method, statusGone, 0)
		return
	}
	s.handle(w, writer, r)
}

// handle checks the client, finds the route, and logs. Panics are answered too.
func (s *Server) handle(w *recorder, writer http.ResponseWriter, r *http.Request) {
	began := time.Now()
	if mayCome(r) && r.Context().Err() == nil { // a stream of HTTP/2 that has ended would stay for its deadline
		http.NewResponseController(w).SetReadDeadline(began.Add(s.cfg.BodyTimeout)) // not of a writer in a test
	}
	id := r.Header.Get(requestID)
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		id = rand.Text()
	}
	w.Header().Set(requestID, id)
	w.Header().Set("Server", "kvasir/"+s.cfg.Version)
	var span *trace.Span
	defer func() {
		if v := recover(); v != nil {
			s.panicked(w, r, v)
		}
		s.metrics.answered(s.handlerOf(r), r.Method, w.status, time.Since(began))
		level := slog.LevelInfo
		if r.Method == http.MethodGet && w.status < 500 { // probes, the page and its files
			level = slog.LevelDebug
		}
		about := []any{"method", r.Method, "path", r.URL.Path, "status", w.status, "duration", time.Since(began), "id", id,
			"remote", r.RemoteAddr}
		if id := traceID(r, span); id != "" {
			about = append(about, "trace", id)
		}
		endTrace(span, w.status)
		s.cfg.Logger.Log(r.Context(), level, "request", about...)
		s.refusals.hold(r.Context(), w.status)
	}()
	if s.preflight(w, r) {
		return
	}
	r = s.routed(r)
	if own := s.dialectOf(r).idHeader; own != "" {
		w.Header().Set(own, id)
	}
	if err := s.admit(w, r); err != nil {
		guard.Dismiss(w, r)
		s.fail(w, r, err)
		return
	}
	found, _ := s.find(r)
	span = s.traced(r, found, id, began)
	r = r.WithContext(withTrace(r.Context(), span, id))
	t := cmp.Or(s.ring().client(r, s.dialectOf(r).keyHeader), s.ring().nobody)
	if found.access == clients {
		if err := t.enter(); err != nil {
			guard.Dismiss(w, r)
			s.fail(w, r, err)
			return
		}
		defer t.running.Add(-1)
	}
	ctx, letGo := s.holding(from(r.Context(), t))
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && t.owner == "" { // nobody is known
		ctx = guard.As(ctx, host)
	}
	defer letGo()
	r = r.WithContext(ctx)
	if found.method == http.MethodGet {
		guard.Dismiss(w, r)
	}
	if found.method == http.MethodPost && r.URL.Path == filesPath {
		r.Body = http.MaxBytesReader(writer, r.Body, maxUpload) // which goes to the store as it comes
	} else if found.method == http.MethodPost && strings.HasPrefix(r.URL.Path, blobsPath) {
		r.Body = http.MaxBytesReader(writer, r.Body, maxBlob) // likewise
	} else {
		in := &body{of: s.bodies, tenant: t}
		defer in.release()
		if err := in.open(writer, r, s.cfg.MaxBodyBytes); err != nil {
			guard.Dismiss(w, r)
			s.fail(w, r, err)
			return
		}
		r.Body = in
	}
	found.handler(w, r)
}

// mayCome reports whether a request may have a body. On HTTP/2 one whose length is said to be 0, or is no number, need
// not have ended.
func mayCome(r *http.Request) bool {
	return r.ContentLength != 0 || r.ProtoMajor == 2 && r.Header.Get("Content-Length") != ""
}

// routed returns the request with its path as routes have it: without the root path, and without a slash at the end.
func (s *Server) routed(r *http.Request) *http.Request {
	at := r.URL.Path
	if rest, ok := strings.CutPrefix(at, s.cfg.RootPath); ok && (rest == "" || rest[0] == '/') {
		at = rest
	}
	if at = strings.TrimRight(at, "/"); at == "" {
		at = "/"
	}
	if at == r.URL.Path {
		return r
	}
	inner := *r.URL
	inner.Path = at
	routed := r.WithContext(r.Context())
	routed.URL = &inner
	return routed
}

// panicked answers a request whose handler panicked, which is a bug, or cuts off its answer if that has begun.
func (s *Server) panicked(w *recorder, r *http.Request, v any) {
	if v == http.ErrAbortHandler {
		panic(v)
	}
	s.cfg.Logger.Error("a handler panicked", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	s.fail(w, r, refuse(http.StatusInternalServerError, "", "internal_error", "The server made a mistake."))
}

// admit finds what is wrong with a request before its body is read.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) error {
	found, ok := s.find(r)
	if !s.rightHost(r) {
		return refuse(http.StatusForbidden, "", "host_not_allowed",
			"This server listens on a loopback address and may not be used as %q.", r.Host)
	}
	if s.cross != nil {
		if err := s.cross.Check(r); err != nil {
			return refuse(http.StatusForbidden, "", "origin_not_allowed",
				"Pages of %s may not use this server.", r.Header.Get("Origin"))
		}
	}
	if err := s.authorize(r, found.access); err != nil {
		return err
	}
	if !ok {
		return refuse(http.StatusNotFound, "", "unknown_url", "Unknown URL: %s %s.%s", quoted(r.Method), quoted(r.URL.Path), s.meant(r))
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // what cannot be read would be left out
		return refuse(http.StatusBadRequest, "", wire.CodeInvalidValue, "The parameters of the URL cannot be read: %s.", quoted(err.Error()))
	}
	if r.Method != found.method && !(r.Method == http.MethodHead && found.method == http.MethodGet) {
		allowed := strings.Join(s.methods(r.URL.Path), ", ")
		w.Header().Set("Allow", allowed)
		return refuse(http.StatusMethodNotAllowed, "", "method_not_allowed",
			"%s takes %s, not %s.", r.URL.Path, allowed, quoted(r.Method))
	}
	if found.method != http.MethodGet && s.draining.Load() {
		return errShutdown
	}
	return nil
}

// authorize refuses a request whose key does not give it access.
func (s *Server) authorize(r *http.Request, to access) error {
	own, keys := s.dialectOf(r).keyHeader, s.ring()
	switch {
	case to == clients && keys.client(r, own) == nil:
		return refuse(http.StatusUnauthorized, "", "invalid_api_key",
			"Incorrect or missing API key. It belongs in the header \"Authorization: Bearer KEY\".")
	case to == admins && len(keys.admins) > 0 && !keys.admin(r, own):
		return refuse(http.StatusUnauthorized, "", "invalid_admin_key",
			"%s needs the admin key, in the header \"Authorization: Bearer KEY\".", r.URL.Path)
	case to == admins && !keys.admin(r, own):
		return refuse(http.StatusForbidden, "", "needs_admin_key",
			"%s needs an admin key, and this server has none (--admin-key).", r.URL.Path)
	}
	return nil
}

// rightHost reports whether a request that came in on a loopback address is meant for it.
func (s *Server) rightHost(r *http.Request) bool {
	switch r.URL.Path {
	case "/health", "/ping", "/metrics": // what probes ask
		return true
	}
	return !guard.Rebound(r) || s.origins["*"] || s.hosts[guard.Hostname(r.Host)]
}

// onThisMachine reports whether a request came in on a loopback address or a Unix socket, and through no proxy,
// whose clients may be anywhere.
func onThisMachine(r *http.Request) bool {
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"):
			return false
		}
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || local.Network() == "unix" || guard.Loopback(local.String())
}

// preflight sets the headers that let pages of allowed origins use an answer, and answers the question whether they
// may.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) bool {
	origin, h := r.Header.Get("Origin"), w.Header()
	if len(s.origins) > 0 {
		h.Add("Vary", "Origin")
	}
	allowed := origin != "" && (s.origins[origin] || s.origins["*"])
	if allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", requestID+", Retry-After")
	}
	if r.Method != http.MethodOptions {
		return false
	}
	guard.Dismiss(w, r)
	if allowed {
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		h.Set("Access-Control-Max-Age", "600")
		if ask := r.Header.Get("Access-Control-Request-Headers"); ask != "" {
			h.Set("Access-Control-Allow-Headers", ask)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
