package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// world is a gateway with its engines and clients, all in one process and in the time of a synctest bubble.
type world struct {
	t       *testing.T
	g       *Gateway
	door    *place
	client  *http.Client
	mu      sync.Mutex
	engines map[string]*place // by host
	log     strings.Builder   // of accesses
}

// place is where something listens.
type place struct {
	server *http.Server
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *place) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *place) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *place) Addr() net.Addr { return &net.TCPAddr{} }

func (p *place) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
}

func open(h http.Handler) *place {
	p := &place{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.server = &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go p.server.Serve(p)
	return p
}

// inWorld runs a test with a gateway of a configuration, without its endpoints' listen line.
func inWorld(t *testing.T, config string, engines map[string]http.Handler, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, engines: map[string]*place{}}
		for host, h := range engines {
			w.start(host, h)
		}
		c, err := Parse("fleet.yaml", []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		w.g, err = New(&Config{Prefix: c.Prefix, Cache: c.Cache}, Options{Logger: slog.New(slog.DiscardHandler), Seed: 1,
			Access: slog.New(slog.NewJSONHandler(&w.log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		w.g.transport.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
			w.mu.Lock()
			p := w.engines[strings.TrimSuffix(address, ":80")]
			w.mu.Unlock()
			if p == nil {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			c, err := p.dial()
			if err != nil {
				return nil, err
			}
			return newLine(c), nil
		}
		if err := w.g.Apply(c); err != nil {
			t.Fatal(err)
		}
		w.door = open(w.g)
		own := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return w.door.dial() }}
		w.client = &http.Client{Transport: own}
		f(w)
		own.CloseIdleConnections()
		w.door.server.Close()
		if err := w.g.Close(); err != nil {
			t.Error(err)
		}
		for host := range w.engines {
			w.kill(host)
		}
		time.Sleep(time.Minute) // for handlers that have not noticed yet
	})
}

// start lets an engine listen.
func (w *world) start(host string, h http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines[host] = open(h)
}

// kill ends an engine with all its connections.
func (w *world) kill(host string) {
	w.mu.Lock()
	p := w.engines[host]
	delete(w.engines, host)
	w.mu.Unlock()
	if p != nil {
		p.Close()
		p.server.Close()
	}
}

// reply is what a client got.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// ask sends a request. header is of pairs.
func (w *world) ask(ctx context.Context, method, path, body string, header ...string) reply {
	r, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := w.client.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(data), err}
}

func (w *world) chat(body string, header ...string) reply {
	return w.ask(context.Background(), "POST", "/v1/chat/completions", body, header...)
}

// want fails the test if a reply is not of a status, or lacks a text.
func (w *world) want(r reply, status int, text string) {
	w.t.Helper()
	if r.status != status || r.err != nil || !strings.Contains(r.body, text) {
		w.t.Errorf("status %d, error %v, body %q; want %d and %q", r.status, r.err, r.body, status, text)
	}
}

// engine is a well-behaved engine that says its name, word by word in a stream.
type engine struct {
	name string
	hook func(w http.ResponseWriter, r *http.Request) bool // answers instead if it returns true

	mu   sync.Mutex
	seen []seen
}

// seen is a request that an engine got.
type seen struct {
	header http.Header
	path   string
	body   string
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == "GET" {
		if e.hook == nil || !e.hook(w, r) {
			fmt.Fprintln(w, "vllm:num_requests_waiting 0")
		}
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	e.mu.Lock()
	e.seen = append(e.seen, seen{r.Header, r.URL.Path, string(body)})
	e.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body)) // for the hook
	if e.hook != nil && e.hook(w, r) {
		return
	}
	var asked struct{ Stream bool }
	json.Unmarshal(body, &asked)
	if !asked.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"content":%q}}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`, e.name)
		return
	}
	e.begin(w)
	for range 2 {
		e.word(w)
	}
	e.end(w)
}

// posted is the request that a hook gets.
func posted(r *http.Request) seen {
	body, _ := io.ReadAll(r.Body) // which is in memory
	return seen{r.Header, r.URL.Path, string(body)}
}

func (e *engine) begin(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }

func (e *engine) word(w http.ResponseWriter) {
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", e.name)
	http.NewResponseController(w).Flush()
}

func (e *engine) end(w http.ResponseWriter) {
	fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n")
}

// got returns the requests that an engine has seen.
func (e *engine) got() []seen {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]seen(nil), e.seen...)
}

const (
	plain    = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	streamed = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
	two      = "models:\n- name: m\n  endpoints: [http://a, http://b]\n"
)

// posts makes a hook of a host that applies to POST requests.
func posts(f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" {
			return false
		}
		f(w, r)
		return true
	}
}

// hijack takes over a connection and writes bytes as they are.
func hijack(w http.ResponseWriter, raw string) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		io.WriteString(c, raw)
		c.Close()
	}
}

// stream sends a request for a stream, and returns a function that reads its next event; "" is the end.
func (w *world) stream(ctx context.Context, body string) (next func() string, done func()) {
	r, err := http.NewRequestWithContext(ctx, "POST", "http://gateway/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
	}
	res, err := w.client.Do(r)
	if err != nil {
		w.t.Errorf("no stream: %v", err)
		return func() string { return "" }, func() {}
	}
	lines := bufio.NewScanner(res.Body)
	next = func() string {
		for lines.Scan() {
			if lines.Text() != "" {
				return lines.Text()
			}
		}
		if err := lines.Err(); err != nil && !errors.Is(err, context.Canceled) {
			return "error: " + err.Error()
		}
		return ""
	}
	return next, func() { res.Body.Close() }
}
