package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestManagement holds that the cache is managed with the admin key, or from this machine where there are no keys.
func TestManagement(t *testing.T) {
	ask := func(cfg Config, local, key, method, path, proxy string) int {
		r := httptest.NewRequest(method, "http://localhost"+path, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		if proxy != "" {
			r.Header.Set(proxy, "10.0.0.1")
		}
		ip, _, _ := net.SplitHostPort(local)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 8000}))
		w := httptest.NewRecorder()
		build(t, cfg).ServeHTTP(w, r)
		return w.Code
	}
	open := Config{Models: []Served{served(newFake("fake"))}}
	keyed, admin := open, open
	keyed.Keys = []Key{{Secret: "key"}}
	admin.AdminKeys = []string{"root"}
	both := keyed
	both.AdminKeys = admin.AdminKeys
	here, away := "127.0.0.1:1", "192.168.1.2:1"
	for _, c := range []struct{ method, path string }{
		{"GET", "/kv/blocks"}, {"GET", "/kv/blocks?tokens=true"}, {"POST", "/reset_prefix_cache"},
		{"POST", "/sleep?level=2&mode=keep"}, {"POST", "/wake_up?tags=weights&tags=kv_cache"}, {"GET", "/is_sleeping"},
	} {
		for _, want := range []struct {
			cfg               Config
			local, key, proxy string
			status            int
		}{
			{open, here, "", "", 200}, {open, away, "", "", 403},
			{open, here, "", "Forwarded", 403}, {open, here, "", "X-Forwarded-For", 403}, {open, here, "", "Via", 403},
			{open, here, "", "X-Real-IP", 403}, {open, here, "", "X-Forwarded-Host", 403},
			{keyed, here, "key", "", 403}, {keyed, here, "", "", 403},
			{both, here, "key", "", 401}, {both, here, "", "", 401}, {both, away, "root", "", 200},
			{both, here, "root", "Via", 200}, {admin, here, "", "", 401}, {admin, away, "root", "", 200},
		} {
			if got := ask(want.cfg, want.local, want.key, c.method, c.path, want.proxy); got != want.status {
				t.Errorf("%s on %s with key %q and header %q: %d; want %d", c.path, want.local, want.key, want.proxy, got,
					want.status)
			}
		}
	}
	r := httptest.NewRequest("GET", "http://localhost/kv/blocks", nil)
	w := httptest.NewRecorder()
	build(t, open).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/kvasir.sock", Net: "unix"})))
	if w.Code != 200 {
		t.Errorf("/kv/blocks over a Unix socket: %d", w.Code)
	}
	if got := ask(open, away, "", "GET", "/version", ""); got != 200 {
		t.Errorf("/version: %d", got)
	}
}
