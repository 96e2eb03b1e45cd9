package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
)

// requestID is the header that carries a request's id in both directions.
const requestID = "X-Request-Id"

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// ServeHTTP answers a request: it checks who asks, finds the route and, whatever happens, answers in JSON and logs.
func (s *Server) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	w, began := &recorder{ResponseWriter: writer}, time.Now()
	id := r.Header.Get(requestID)
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		id = rand.Text()
	}
	w.Header().Set(requestID, id)
	w.Header().Set("Server", "kvasir/"+s.cfg.Version)
	defer func() {
		if v := recover(); v != nil {
			s.panicked(w, r, v)
		}
		level := slog.LevelDebug
		if w.status >= 500 {
			level = slog.LevelInfo
		}
		s.cfg.Logger.Log(r.Context(), level, "request", "method", r.Method, "path", r.URL.Path, "status", w.status,
			"duration", time.Since(began), "id", id, "remote", r.RemoteAddr)
	}()
	if s.preflight(w, r) {
		return
	}
	if err := s.admit(w, r); err != nil {
		s.fail(w, r, err)
		return
	}
	found, _ := s.find(r.URL.Path)
	r.Body = http.MaxBytesReader(writer, r.Body, s.cfg.MaxBodyBytes)
	found.handler(w, r)
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
	s.fail(w, r, fail(http.StatusInternalServerError, openai.TypeServer, "", "internal_error", "The server made a mistake."))
}

// admit finds what is wrong with a request before its body is read.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) error {
	found, ok := s.find(r.URL.Path)
	if !s.rightHost(r) {
		return fail(http.StatusForbidden, openai.TypeInvalidRequest, "", "host_not_allowed",
			"This server listens on a loopback address and may not be used as %q.", r.Host)
	}
	if s.cross != nil {
		if err := s.cross.Check(r); err != nil {
			return fail(http.StatusForbidden, openai.TypeInvalidRequest, "", "origin_not_allowed",
				"Pages of %s may not use this server.", r.Header.Get("Origin"))
		}
	}
	if !(ok && found.open) && !s.authorized(r) {
		return fail(http.StatusUnauthorized, openai.TypeInvalidRequest, "", "invalid_api_key",
			"Incorrect or missing API key. It belongs in the header \"Authorization: Bearer KEY\".")
	}
	if ok && found.manages && len(s.keys) == 0 && !onThisMachine(r) {
		return fail(http.StatusForbidden, openai.TypeInvalidRequest, "", "needs_api_key",
			"%s is only for those on this machine, or with an API key, and this server has none (--api-key).", r.URL.Path)
	}
	if !ok {
		return fail(http.StatusNotFound, openai.TypeInvalidRequest, "", "unknown_url", "Unknown URL: %s %s.", r.Method, r.URL.Path)
	}
	if r.Method != found.method && !(r.Method == http.MethodHead && found.method == http.MethodGet) {
		w.Header().Set("Allow", found.method)
		return fail(http.StatusMethodNotAllowed, openai.TypeInvalidRequest, "", "method_not_allowed",
			"%s takes %s, not %s.", r.URL.Path, found.method, r.Method)
	}
	if found.method == http.MethodPost && s.draining.Load() {
		return errShutdown
	}
	return nil
}

// rightHost reports whether a request that came in on a loopback address is meant for it. A web page can make its own name
// resolve to 127.0.0.1, and then the browser takes this server for the page's own origin; only the Host tells.
func (s *Server) rightHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(local.String()) || s.origins["*"] {
		return true
	}
	switch r.URL.Path {
	case "/health", "/ping", "/metrics": // what probes ask
		return true
	}
	return loopback(r.Host) || s.hosts[hostname(r.Host)]
}

// onThisMachine reports whether a request came in on a loopback address, or not over a network.
func onThisMachine(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return !ok || loopback(local.String())
}

// loopback reports whether a host, with or without a port, is this machine for sure.
func loopback(host string) bool {
	host = hostname(host)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// hostname returns a host without its port, in lower case.
func hostname(host string) string {
	u := url.URL{Host: host}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// digest makes keys of one length, so that comparing them takes one time.
func digest(key string) [32]byte { return sha256.Sum256([]byte(key)) }

// authorized reports whether a request brings one of the keys, if there are any. How long it takes tells nothing of them.
func (s *Server) authorized(r *http.Request) bool {
	if len(s.keys) == 0 {
		return true
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given, found := digest(strings.TrimSpace(key)), 0
	for i := range s.keys {
		found |= subtle.ConstantTimeCompare(given[:], s.keys[i][:])
	}
	return found == 1 && strings.EqualFold(scheme, "Bearer")
}

// preflight sets the headers that let pages of allowed origins use an answer, and answers the question whether they may.
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
	if allowed {
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		h.Set("Access-Control-Max-Age", "600")
		if ask := r.Header.Get("Access-Control-Request-Headers"); ask != "" {
			h.Set("Access-Control-Allow-Headers", ask)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
