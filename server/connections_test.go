package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// dial connects to a server. Whatever the test then waits for ends after a minute.
func dial(t *testing.T, r *running) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// TestBodiesNobodyReads holds that a request is answered, and its connection closed, without its body if that is not
// wanted.
func TestBodiesNobodyReads(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake"))}, Keys: []Key{{Secret: "a"}}, BodyTimeout: time.Hour})
	var all sync.WaitGroup
	for request, want := range map[string]string{
		"POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer wrong": "401",
		"POST /v1/nothing HTTP/1.1\r\nAuthorization: Bearer a":         "404",
		"POST /v1/nothing HTTP/1.1":                                    "401",
		"GET /v1/completions HTTP/1.1\r\nAuthorization: Bearer a":      "405",
		"GET /health HTTP/1.1":                                         "200",
		"GET /metrics HTTP/1.1":                                        "200",
		"OPTIONS /v1/completions HTTP/1.1":                             "204",
	} {
		for _, body := range []string{"Content-Length: 1000\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"} {
			c := dial(t, r)
			fmt.Fprintf(c, "%s\r\nHost: localhost\r\n%s", request, body)
			all.Go(func() { // each connection is kept for a moment in which the rest may come
				answer, err := io.ReadAll(c)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
					t.Errorf("%s: %.60s, %v", request, answer, err)
				}
			})
		}
	}
	all.Wait()
}

// TestBodyTooLargeToSend holds that a client that asks first is not told to send a body that is too large.
func TestBodyTooLargeToSend(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake"))}})
	c := dial(t, r)
	fmt.Fprint(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100000000000\r\n\r\n")
	if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 413") {
		t.Errorf("%.60s, %v", answer, err)
	}
}

// TestBodyThatNeverComes holds that a body has a deadline.
func TestBodyThatNeverComes(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake"))}, BodyTimeout: time.Millisecond})
	for _, path := range []string{"/v1/completions", "/reset_prefix_cache", "/v1/nothing"} {
		c := dial(t, r)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nx", path)
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
			t.Errorf("%s: %.60s, %v", path, answer, err)
		}
	}
}

func TestLargeHeaders(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake"))}})
	for size, want := range map[int]string{32 << 10: "200", 80 << 10: "431"} {
		c := dial(t, r)
		go fmt.Fprintf(c, "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: %s\r\n\r\n", strings.Repeat("x", size))
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, want) {
			t.Errorf("headers of %d bytes: %q, %v", size, line, err)
		}
	}
}

// TestAnswerThatNobodyReads holds that answers that are not streamed have a deadline too.
func TestAnswerThatNobodyReads(t *testing.T) {
	ended := make(chan error, 1)
	s := build(t, Config{Models: []Served{served(newFake("fake"))}, WriteTimeout: 10 * time.Millisecond})
	s.routes["/large"] = route{"GET", func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		ended <- err
	}, anyone, ""}
	web := httptest.NewServer(s)
	defer web.Close()
	if resp, err := web.Client().Get(web.URL + "/large"); err == nil { // on a busy machine it may be ended already
		defer resp.Body.Close()
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("64 MiB were written to a client that reads nothing")
		}
	case <-time.After(time.Minute):
		t.Error("the answer is still being written")
	}
}

// TestManyConnections holds that connections beyond the bound are closed, and that others' ends make room.
func TestManyConnections(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake"))}, MaxConns: 2, MaxConnsEach: 1})
	ask := func(c net.Conn) bool {
		fmt.Fprint(c, "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
		line, err := bufio.NewReader(c).ReadString('\n')
		return err == nil && strings.Contains(line, "200")
	}
	a, b := dial(t, r), dial(t, r)
	if !ask(a) || !ask(b) {
		t.Fatal("two connections are not served, of which loopback has any number")
	}
	if c := dial(t, r); ask(c) {
		t.Error("a third connection is served")
	}
	a.Close()
	eventually(t, "a closed connection makes room", func() bool { return ask(dial(t, r)) })
}

// TestOpenToAll holds that the log tells of a server that anyone may use.
func TestOpenToAll(t *testing.T) {
	for _, c := range []struct {
		host string
		keys []Key
		want bool
	}{{"0.0.0.0", nil, true}, {"127.0.0.1", nil, false}, {"0.0.0.0", []Key{{Secret: "a"}}, false}} {
		ln, err := net.Listen("tcp", c.host+":0")
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		s := build(t, Config{Models: []Served{served(newFake("fake"))}, Keys: c.keys, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, stop := context.WithCancel(t.Context())
		stop()
		s.Serve(ctx, ln)
		if strings.Contains(log.String(), "no API keys") != c.want {
			t.Errorf("on %s with %d keys: %s", c.host, len(c.keys), log.String())
		}
	}
}

// TestTraceInLog holds that the log names the trace of a request, if its header is one of W3C's.
func TestTraceInLog(t *testing.T) {
	var log strings.Builder
	s := build(t, Config{Models: []Served{served(newFake("fake"))}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for header, want := range map[string]string{"": "", "00-" + trace + "-00f067aa0ba902b7-01": trace,
		"cc-" + trace + "-00f067aa0ba902b7-01-more": trace, "ff-" + trace + "-00f067aa0ba902b7-01": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "", "00-" + strings.ToUpper(trace) + "-00f067aa0ba902b7-01": ""} {
		log.Reset()
		r := httptest.NewRequest("POST", "/tokenize", strings.NewReader(`{"prompt":"a"}`))
		r.Header.Set("Traceparent", header)
		s.ServeHTTP(httptest.NewRecorder(), r)
		_, got, _ := strings.Cut(strings.TrimSpace(log.String()), " trace=")
		if got != want {
			t.Errorf("%q: the log has trace %q; want %q", header, got, want)
		}
	}
}

// TestTLS holds that a server with a certificate speaks TLS, and counts a connection that never agrees on it.
func TestTLS(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // for its certificate, which its client trusts
	web.Close()
	r := run(t, Config{Models: []Served{served(newFake("fake", "a"))}, MaxConns: 2,
		TLS: &tls.Config{Certificates: web.TLS.Certificates, NextProtos: []string{"http/1.1"}}})
	dial(t, r)
	resp, err := web.Client().Get(strings.Replace(r.url, "http:", "https:", 1) + "/version")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.TLS == nil || resp.ProtoMajor != 1 || resp.StatusCode != 200 {
		t.Errorf("%d, HTTP/%d, TLS %v", resp.StatusCode, resp.ProtoMajor, resp.TLS != nil)
	}
	if _, err := io.ReadAll(dial(t, r)); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a third connection, beside one that has sent nothing: %v; want it closed", err)
	}
}
