package server

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// runTLS serves over TLS, and returns a client of HTTP/2.
func runTLS(t *testing.T, cfg Config) (*running, *http.Client) {
	t.Helper()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.StartTLS() // for its certificate
	web.Close()
	cfg.TLS = &tls.Config{Certificates: web.TLS.Certificates}
	r := run(t, cfg)
	r.url = strings.Replace(r.url, "http:", "https:", 1)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(client.CloseIdleConnections)
	return r, client
}

// TestHTTP2 holds that requests share a connection of HTTP/2, whole and streamed.
func TestHTTP2(t *testing.T) {
	r, client := runTLS(t, Config{Models: []Served{served(newFake("fake", "Hel", "lo"))}})
	for body, want := range map[string]string{`{"prompt":"x"}`: `"text":"Hello"`, `{"prompt":"x","stream":true}`: "data: [DONE]"} {
		resp, err := client.Post(r.url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.ProtoMajor != 2 || !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, %q, %v", body, resp.Proto, answer, err)
		}
	}
}

// TestHTTP2WithoutTLS holds the same for clients that begin with HTTP/2, and that others still speak HTTP/1.1.
func TestHTTP2WithoutTLS(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake", "Hel", "lo"))}})
	for want := 1; want <= 2; want++ {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(want == 1)
		protocols.SetUnencryptedHTTP2(want == 2)
		client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{Protocols: protocols}}
		resp, err := client.Post(r.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.ProtoMajor != want || !strings.Contains(string(answer), "data: [DONE]") {
			t.Errorf("HTTP/%d: %s, %q, %v", want, resp.Proto, answer, err)
		}
		client.CloseIdleConnections()
	}
}

// TestHTTP2BodyThatNeverComes holds that a body has a deadline of its own, and that other requests on its connection go
// on.
func TestHTTP2BodyThatNeverComes(t *testing.T) {
	r, client := runTLS(t, Config{Models: []Served{served(newFake("fake", "Hello"))}, BodyTimeout: time.Millisecond})
	slow, w := io.Pipe()
	defer w.Close()
	resp, err := client.Post(r.url+"/v1/completions", "application/json", slow)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if resp, err = client.Get(r.url + "/version"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("the next request: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// TestHTTP2AnswerThatNobodyReads holds that a stream that takes nothing is ended, and that others on its connection are
// answered meanwhile.
func TestHTTP2AnswerThatNobodyReads(t *testing.T) {
	ended := make(chan error, 1)
	s := build(t, Config{Models: []Served{served(newFake("fake"))}, WriteTimeout: time.Second})
	s.routes["/large"] = route{"GET", func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		ended <- err
	}, anyone, ""}
	web := httptest.NewUnstartedServer(s)
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	if resp, err := web.Client().Get(web.URL + "/large"); err == nil { // on a busy machine it may be ended already
		defer resp.Body.Close()
	}
	if other, err := web.Client().Get(web.URL + "/version"); err != nil || other.ProtoMajor != 2 || other.StatusCode != http.StatusOK {
		t.Errorf("beside it: %v, %v", other, err)
	} else {
		other.Body.Close()
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

// frame is a frame of HTTP/2, and headerField a field of a header.
func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	return string(head) + payload
}

func headerField(name, value string) string {
	return "\x00" + string([]byte{byte(len(name))}) + name + string([]byte{byte(len(value))}) + value
}

// askRaw sends the header of a request on a connection of HTTP/2 that begins with it, without the stream's end, and
// returns the first frame that the server answers with on the stream.
func askRaw(t *testing.T, at string, fields ...string) (kind byte, payload string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	header := ""
	for i := 0; i < len(fields); i += 2 {
		header += headerField(fields[i], fields[i+1])
	}
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4, 0, 0, "")+frame(1, 4, 1, header))
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatalf("%q: no answer: %v", fields, err)
		}
		body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		io.ReadFull(c, body)
		if binary.BigEndian.Uint32(head[5:]) == 1 {
			return head[3], string(body)
		}
	}
}

// TestHTTP2EmptyBodyThatDoesNotEnd holds that a body has a deadline also where its length is said to be 0.
func TestHTTP2EmptyBodyThatDoesNotEnd(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake", "Hello"))}, BodyTimeout: time.Millisecond})
	for _, length := range []string{"0", "many"} {
		kind, _ := askRaw(t, r.url, ":method", "POST", ":scheme", "http", ":authority", "localhost", ":path", "/v1/completions",
			"content-length", length)
		if kind != 1 && kind != 3 {
			t.Errorf("length %s: a frame of type %d; want a header or a reset", length, kind)
		}
	}
}

// TestHTTP2Forged holds that a request whose pseudo-headers contradict each other, or name a path in another way, opens
// nothing that needs a key.
func TestHTTP2Forged(t *testing.T) {
	r := run(t, Config{Models: []Served{served(newFake("fake", "Hello"))}, Keys: []Key{{Secret: "secret"}}, AdminKeys: []string{"admin"}})
	good := []string{":method", "GET", ":scheme", "http", ":authority", "localhost", ":path", "/v1/models"}
	for _, c := range []struct {
		what string
		edit func([]string) []string
	}{
		{"nothing", func(f []string) []string { return f }},
		{"an absolute path", func(f []string) []string { f[7] = "http://localhost/is_sleeping"; return f }},
		{"a path after another host", func(f []string) []string { f[7] = "//localhost/is_sleeping"; return f }},
		{"a path with two slashes", func(f []string) []string { f[7] = "//is_sleeping"; return f }},
		{"an escaped path", func(f []string) []string { f[7] = "/%69s_sleeping"; return f }},
		{"a slash at its end", func(f []string) []string { f[7] = "/is_sleeping//"; return f }},
		{"a path through one without a key", func(f []string) []string { f[7] = "/health/../is_sleeping"; return f }},
		{"a fragment", func(f []string) []string { f[7] = "/is_sleeping#/health"; return f }},
		{"a parameter", func(f []string) []string { f[7] = "/is_sleeping;/health"; return f }},
		{"an asterisk", func(f []string) []string { f[7] = "*"; return f }},
		{"no path", func(f []string) []string { return f[:6] }},
		{"an empty path", func(f []string) []string { f[7] = ""; return f }},
		{"two paths", func(f []string) []string { f[7] = "/health"; return append(f, ":path", "/is_sleeping") }},
		{"a path after the header", func(f []string) []string { f[7] = "/health"; return append(f, "x-y", "z", ":path", "/is_sleeping") }},
		{"two methods", func(f []string) []string { return append(f, ":method", "OPTIONS") }},
		{"a method in small letters", func(f []string) []string { f[1] = "get"; return f }},
		{"a method with spaces", func(f []string) []string { f[1] = "OPTIONS /x"; return f }},
		{"another method in a header", func(f []string) []string { return append(f, "x-http-method-override", "OPTIONS") }},
		{"CONNECT", func(f []string) []string { return []string{":method", "CONNECT", ":authority", "localhost:8000"} }},
		{"extended CONNECT", func(f []string) []string { f[1] = "CONNECT"; return append(f, ":protocol", "websocket") }},
		{"a transfer encoding", func(f []string) []string { return append(f, "transfer-encoding", "chunked") }},
		{"a connection header", func(f []string) []string { return append(f, "connection", "authorization") }},
		{"an upgrade", func(f []string) []string { return append(f, "upgrade", "h2c") }},
		{"a large letter", func(f []string) []string { return append(f, "Authorization", "Bearer admin") }},
		{"a line break", func(f []string) []string { return append(f, "x-y", "z\r\nauthorization: Bearer admin") }},
		{"another scheme", func(f []string) []string { f[3] = "file"; return f }},
		{"another host in a header", func(f []string) []string { return append(f, "host", "localhost") }},
	} {
		fields := c.edit(append([]string{}, good...))
		kind, header := askRaw(t, r.url, fields...)
		if kind == 1 && (header[0] == 0x88 || header[0] == 0x89) { // 200, 204
			t.Errorf("%s: it is answered", c.what)
		}
	}
}
