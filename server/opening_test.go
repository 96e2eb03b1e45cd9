package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestOpening asks a server before its models are there: /health says so, and other requests wait for them.
func TestOpening(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	cfg := Config{RootPath: "/llm"}
	o := Open(ln, cfg)
	defer o.Close()
	get := func(path string) (int, string) {
		t.Helper()
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	for _, path := range []string{"/health", "/ping", "/llm/health"} {
		if status, body := get(path); status != http.StatusServiceUnavailable || body != `{"status":"loading","models":{}}` {
			t.Errorf("%s: %d, %s", path, status, body)
		}
	}
	gone, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	r, err := http.NewRequestWithContext(gone, http.MethodGet, url+"/version", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultClient.Do(r); err == nil {
		t.Errorf("a request got %s from nobody", res.Status)
	}
	waiting := make(chan string, 1)
	go func() {
		res, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x"}`))
		if err != nil {
			waiting <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		waiting <- res.Status + string(body)
	}()
	eventually(t, "the server has the request", func() bool { status, _ := get("/health"); return status == 503 && o.held.Load() == 1 })
	cfg.Models = []Served{served(newFake("fake", "Hello"))}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- build(t, cfg).ServeOpened(ctx, o, func() {}) }()
	if got := <-waiting; !strings.HasPrefix(got, "200 OK") || !strings.Contains(got, "Hello") {
		t.Errorf("a request that waited got %s", got)
	}
	if status, _ := get("/health"); status != http.StatusOK {
		t.Errorf("the health of the server is %d", status)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// slowListener hands out a connection some time after it was accepted, when the listener is closed already, as happens
// on a busy machine.
type slowListener struct {
	net.Listener
	accepted, closed chan struct{}
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		close(l.accepted)
		<-l.closed
		time.Sleep(20 * time.Millisecond)
	}
	return c, err
}

func (l *slowListener) Close() error {
	err := l.Listener.Close()
	close(l.closed)
	return err
}

// TestAcceptedIsAnswered ends a server while a connection is on its way to it. It is answered.
func TestAcceptedIsAnswered(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowListener{ln, make(chan struct{}), make(chan struct{})}
	s := build(t, Config{Models: []Served{served(newFake("fake", "Hello"))}})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended, answered := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, slow) }()
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + ln.Addr().String() + "/version")
		if err == nil {
			err = res.Body.Close()
		}
		answered <- err
	}()
	<-slow.accepted
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("the request that was accepted got no answer: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the server ended before it had the connection")
	}
}

// TestOpeningClosed closes an opening whose models never came: requests that wait end.
func TestOpeningClosed(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Open(ln, Config{})
	failed := make(chan error, 1)
	go func() { _, err := http.Get("http://" + ln.Addr().String() + "/version"); failed <- err }()
	eventually(t, "a request waits", func() bool { return o.held.Load() == 1 })
	o.Close()
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}
