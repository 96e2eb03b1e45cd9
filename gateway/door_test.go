package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestDoorOfConfig holds that the bounds of connections and the files of TLS are read, and that half of them is
// refused.
func TestDoorOfConfig(t *testing.T) {
	const models = "models: [{name: m, endpoints: [http://a]}]\n"
	c, err := Parse("fleet.yaml", []byte(models))
	if err != nil {
		t.Fatal(err)
	}
	if c.MaxConnections != 4096 || c.MaxConnectionsEach != 512 || c.TLS != (TLS{}) {
		t.Errorf("by default %d connections, %d of an address, %+v", c.MaxConnections, c.MaxConnectionsEach, c.TLS)
	}
	for text, want := range map[string]string{
		"tls: {cert: a}":                       "tls: cert and key need each other",
		"tls: {client_ca: a}":                  "client_ca needs both",
		"max_connections: -1":                  "max_connections",
		"max_connections_per_address: -1":      "max_connections_per_address",
		"tls: {cert: a, key: b, x: c}":         "unknown key",
		"tls: {cert: a, key: b}":               "",
		"max_connections: 0":                   "",
		"max_connections_per_address: 10":      "",
		"tls: {cert: a, key: b, client_ca: c}": "",
	} {
		d, err := Parse("fleet.yaml", []byte(models+text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
		if err == nil && d.sameDoor(c) {
			t.Errorf("%s takes connections as without it", text)
		}
	}
}

// TestWhatNeedsANewStart holds that what a gateway opens at its start is not changed without a word.
func TestWhatNeedsANewStart(t *testing.T) {
	const models = "models: [{name: m, endpoints: [http://a]}]\n"
	before, err := Parse("fleet.yaml", []byte(models))
	if err != nil {
		t.Fatal(err)
	}
	for text, same := range map[string]bool{
		"": true, "retries: 3": true, "prefix: {block_bytes: 512}": true, "ext_proc: {}": true,
		"listen: 127.0.0.1:1": false, "access_log: a": false, "prefix: {blocks: 5}": false, "cache: {bytes: 5}": false,
		"state: {timeout: 5s}": false, "ext_proc: {listen: ':1'}": false,
	} {
		c, err := Parse("fleet.yaml", []byte(strings.Replace(models, "http://a", "http://127.0.0.1:1", 1)+text))
		if err != nil || c.SameStart(before) != same {
			t.Errorf("%s: %v; want %v", text, err, same)
		}
	}
}

// TestPagesNobodyReads holds that also the gateway's own answers are given up if nobody takes them.
func TestPagesNobodyReads(t *testing.T) {
	inWorld(t, "models: [{name: m, endpoints: [http://a]}]\ntimeouts: {idle: 20s}", map[string]http.Handler{"a": &engine{name: "a"}}, func(w *world) {
		in, done := w.raw("GET /metrics HTTP/1.1\r\nHost: gateway\r\n\r\n")
		defer done()
		time.Sleep(time.Minute)
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("after a minute: %v; want the end", err)
		}
	})
}

// TestPagesOfOthers holds that without keys a web page of another origin can ask nothing, nor one that makes its own
// name resolve to this machine; with keys it would need one.
func TestPagesOfOthers(t *testing.T) {
	const models = "models: [{name: m, endpoints: [http://a]}]\n"
	_, hash := NewKey()
	for _, c := range []struct {
		keys, method, path, host, origin string
		want                             int
	}{
		{"", "GET", "/v1/models", "localhost:9000", "", http.StatusOK},
		{"", "GET", "/v1/models", "127.0.0.1:9000", "", http.StatusOK},
		{"", "GET", "/v1/models", "evil.example:9000", "", http.StatusForbidden},
		{"", "GET", "/gateway/fleet", "evil.example", "", http.StatusForbidden},
		{"", "GET", "/gateway/usage", "evil.example", "", http.StatusForbidden},
		{"", "GET", "/health", "10.0.0.1:9000", "", http.StatusOK},
		{"", "POST", "/v1/completions", "localhost:9000", "http://evil.example", http.StatusForbidden},
		{"", "POST", "/gateway/explain", "localhost:9000", "http://evil.example", http.StatusForbidden},
		{"", "POST", "/v1/completions", "localhost:9000", "http://localhost:9000", http.StatusOK},
		{"keys: [{name: k, hash: '" + hash + "'}]", "GET", "/v1/models", "evil.example", "", http.StatusUnauthorized},
	} {
		inWorld(t, models+c.keys, map[string]http.Handler{"a": &engine{name: "a"}}, func(w *world) {
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(`{"model": "m", "prompt": "x"}`))
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9000}
			out := httptest.NewRecorder()
			w.g.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local)))
			if out.Code != c.want {
				t.Errorf("%s %s at %s from %q: status %d; want %d", c.method, c.path, c.host, c.origin, out.Code, c.want)
			}
		})
	}
}
