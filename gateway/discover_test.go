package gateway

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// nameServer is a DNS server with addresses and services that a test changes.
type nameServer struct {
	mu        sync.Mutex
	addresses map[string][]string // of names
	services  map[string][]string // host:port of names
}

func (s *nameServer) set(addresses, services map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses, s.services = addresses, services
}

// resolver starts the server and returns what asks it.
func (s *nameServer) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			conn.WriteTo(s.answer(buf[:n]), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answer answers a question (RFC 1035, 4.1).
func (s *nameServer) answer(question []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, labels := 12, []string(nil)
	for question[end] != 0 {
		n := int(question[end])
		labels = append(labels, string(question[end+1:end+1+n]))
		end += 1 + n
	}
	name, kind := strings.Join(labels, "."), binary.BigEndian.Uint16(question[end+1:])
	out := append([]byte(nil), question[:end+5]...)
	out[2], out[3] = 0x84, 0
	copy(out[4:12], []byte{0, 1, 0, 0, 0, 0, 0, 0})
	add := func(data []byte) {
		out = append(out, 0xc0, 12)
		out = binary.BigEndian.AppendUint16(out, kind)
		out = append(out, 0, 1, 0, 0, 0, 0)
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(data))), data...)
		out[7]++
	}
	switch {
	case kind == 1:
		for _, a := range s.addresses[name] {
			add(net.ParseIP(a).To4())
		}
	case kind == 33:
		for _, hostPort := range s.services[name] {
			host, port, _ := net.SplitHostPort(hostPort)
			var n uint16
			fmt.Sscan(port, &n)
			data := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 1}, n)
			for label := range strings.SplitSeq(host, ".") {
				data = append(append(data, byte(len(label))), label...)
			}
			add(append(data, 0))
		}
	}
	if len(s.addresses[name])+len(s.services[name]) == 0 {
		out[3] = 3 // there is no such name
	}
	return out
}

// TestDiscovery changes what DNS and a file say, under requests that must not fail.
func TestDiscovery(t *testing.T) {
	var ports, seen []string
	var mu sync.Mutex
	for range 2 {
		e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				mu.Lock()
				seen = append(seen, r.Host)
				mu.Unlock()
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{}`)
			}
		}))
		t.Cleanup(e.Close)
		u, _ := url.Parse(e.URL)
		ports = append(ports, u.Port())
	}
	var dns nameServer
	names := dns.resolver(t)
	file := filepath.Join(t.TempDir(), "endpoints")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	write(first + " # the first\n\n")
	dns.set(map[string][]string{"engines.test": {"127.0.0.1"}, "localhost.test": {"127.0.0.1"}},
		map[string][]string{"_http._tcp.engines.test": {"localhost.test:" + ports[0]}})
	c, err := Parse("fleet.yaml", fmt.Appendf(nil, `health: {interval: 50ms}
models:
- name: dns
  endpoints: [{url: "dns+http://engines.test:%s", max_in_flight: 7, events: "tcp://*:1"}]
- name: srv
  endpoints: ["srv+http://_http._tcp.engines.test"]
- name: file
  endpoints: [{url: "file:%s", max_in_flight: 7, events: "tcp://*:1"}]
- name: none
  endpoints: ["dns+http://nobody.test:1"]
queue: {down_wait: 10ms}
`, ports[0], file))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler), Seed: 1, Names: names})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	pool := func(model string) string {
		g.mu.Lock()
		defer g.mu.Unlock()
		var all []string
		for _, e := range g.setup.Load().models[model].pool {
			all = append(all, fmt.Sprint(e.url, " ", e.cfg.MaxInFlight, " ", e.cfg.Events))
		}
		return strings.Join(all, ", ")
	}
	want := func(model, want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); pool(model) != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s has %s; want %s", model, pool(model), want)
			}
		}
	}
	ask := func(model string, status int) {
		t.Helper()
		w := httptest.NewRecorder()
		body := strings.NewReader(fmt.Sprintf(`{"model":%q,"messages":[]}`, model))
		if g.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", body)); w.Code != status {
			t.Errorf("%s: status %d, %s", model, w.Code, w.Body)
		}
	}
	want("dns", first+" 7 tcp://127.0.0.1:1")
	want("file", first+" 7 tcp://127.0.0.1:1")
	want("srv", "http://localhost.test:"+ports[0]+" 256 ")
	want("none", "")
	ask("dns", 200)
	ask("file", 200)
	ask("none", 503)
	write(second)
	dns.set(map[string][]string{"localhost.test": {"127.0.0.1"}},
		map[string][]string{"_http._tcp.engines.test": {"localhost.test:" + ports[1], "other.test:80"}})
	for pool("file") != second+" 7 tcp://127.0.0.1:1" || pool("dns") != "" {
		ask("file", 200)
		time.Sleep(10 * time.Millisecond)
	}
	want("srv", "http://localhost.test:"+ports[1]+" 256 , http://other.test:80 256 ")
	ask("dns", 503)
	os.Remove(file) // what was found stays, and so it does while the file is wrong
	time.Sleep(lookAgain + lookAgain/2)
	write("ftp://x")
	time.Sleep(lookAgain + lookAgain/2)
	want("file", second+" 7 tcp://127.0.0.1:1")
	ask("file", 200)
	if mu.Lock(); !strings.Contains(strings.Join(seen, " "), ports[1]) {
		t.Errorf("requests went to %v", seen)
	}
	mu.Unlock()
}

func TestSources(t *testing.T) {
	e, err := Endpoint{Events: "tcp://*:5557", EventsReplay: "tcp://*:5558"}.at("http://[fd00::1]:8000")
	if err != nil || e.Events != "tcp://[fd00::1]:5557" || e.EventsReplay != "tcp://[fd00::1]:5558" {
		t.Errorf("%+v, %v", e, err)
	}
	for text, want := range map[string]string{
		"http://a:1": "", "https://a": "", "dns+http://a:80": "{dns http a 80}", "srv+https://_h._tcp.a": "{srv https _h._tcp.a }",
		"file:/etc/x": "{file  /etc/x }", "file:///etc/x": "{file  /etc/x }", "file:x": "error", "dns+http://a": "error",
		"dns+https://a:1": "error", "srv+http://a:1": "error", "dns+ftp://a:1": "error", "dns+http://a:1/v1": "error", "tcp+http://a:1": "error",
	} {
		s, many, err := parseSource(text)
		got := fmt.Sprint(s)
		if err != nil {
			got = "error"
		} else if !many {
			got = ""
		}
		if got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}
