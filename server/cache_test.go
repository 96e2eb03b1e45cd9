package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestManagement holds that who may reach a server without keys over a network may not manage its cache.
func TestManagement(t *testing.T) {
	ask := func(cfg Config, local, method, path string) int {
		r := httptest.NewRequest(method, "http://localhost"+path, nil)
		r.Header.Set("Authorization", "Bearer key")
		ip, _, _ := net.SplitHostPort(local)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 8000}))
		w := httptest.NewRecorder()
		build(t, cfg).ServeHTTP(w, r)
		return w.Code
	}
	open := Config{Models: []Served{{Model: newFake("fake")}}}
	closed := open
	closed.APIKeys = []string{"key"}
	for _, c := range []struct{ method, path string }{{"GET", "/kv/blocks"}, {"POST", "/reset_prefix_cache"}} {
		for _, want := range []struct {
			cfg    Config
			local  string
			status int
		}{{open, "127.0.0.1:1", 200}, {open, "192.168.1.2:1", 403}, {closed, "192.168.1.2:1", 200}} {
			if got := ask(want.cfg, want.local, c.method, c.path); got != want.status {
				t.Errorf("%s on %s, %d keys: %d; want %d", c.path, want.local, len(want.cfg.APIKeys), got, want.status)
			}
		}
	}
	if got := ask(open, "192.168.1.2:1", "GET", "/version"); got != 200 {
		t.Errorf("/version: %d", got)
	}
}
