package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// raw sends bytes as they are on a connection of its own.
func (w *world) raw(text string) (in *bufio.Reader, done func()) {
	c, err := w.door.dial()
	if err != nil {
		w.t.Fatal(err)
	}
	go io.WriteString(c, text)
	return bufio.NewReader(c), func() { c.Close() }
}

// head begins a request of a body that never comes whole.
func head(key string, length int, body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", key, length, body)
}

// TestBodiesThatNeverCome holds that a request with half of a body is answered in time, at once if its key is wrong or
// its path unknown, and that its connection ends.
func TestBodiesThatNeverCome(t *testing.T) {
	key, hash := NewKey()
	a := &engine{name: "a"}
	config := fmt.Sprintf("models: [{name: m, endpoints: [http://a]}]\nkeys: [{name: ann, hash: %q}]\ntimeouts: {body: 20s}", hash)
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		for _, c := range []struct {
			request string
			status  int
			after   time.Duration
		}{
			{head(key, 1000, "{"), 408, 20 * time.Second},
			{head("wrong", 1000, "{"), 401, time.Second},
			{head(key, 1<<30, "{"), 413, time.Second},
			{strings.Replace(head(key, 1000, "{"), "/v1/chat/completions", "/x", 1), 404, time.Second},
			{strings.Replace(head(key, 1000, "{"), "POST /v1/chat/completions", "GET /health", 1), 200, time.Second},
		} {
			began := time.Now()
			in, done := w.raw(c.request)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("%.40q: %v", c.request, err)
				continue
			}
			io.Copy(io.Discard, res.Body)
			if _, err := in.ReadByte(); err != io.EOF || res.StatusCode != c.status || time.Since(began) > c.after+time.Second {
				t.Errorf("%.40q: status %d after %v, then %v; want %d after at most %v, and the end", c.request, res.StatusCode, time.Since(began), err, c.status, c.after)
			}
			done()
		}
		r, err := http.NewRequest("POST", "http://gateway/v1/chat/completions", io.LimitReader(strings.NewReader(plain+strings.Repeat(" ", 1<<20)), 1<<20)) // no length
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		res, err := w.client.Do(r)
		if err != nil || res.StatusCode != 200 {
			t.Errorf("a body without a length: %v, %v", res, err)
		} else {
			res.Body.Close()
		}
		if got := a.got(); len(got) != 1 || len(got[0].body) < 1<<20 {
			t.Errorf("the engine got %d requests", len(got))
		}
	})
}

// TestBodiesTogether holds that what bodies take together is bounded, that one key gets half of it, that small ones are
// let in beside large ones, and that all is given back.
func TestBodiesTogether(t *testing.T) {
	ann, annHash := NewKey()
	bob, bobHash := NewKey()
	config := fmt.Sprintf("models: [{name: m, endpoints: [http://a]}]\nkeys: [{name: ann, hash: %q}, {name: bob, hash: %q}]\n", annHash, bobHash) +
		"max_body: 1000000\nbody_memory: 2000000\ntimeouts: {body: 20s}"
	inWorld(t, config, map[string]http.Handler{"a": &engine{name: "a"}}, func(w *world) {
		large := strings.Repeat(" ", 600_000)
		_, leave := w.raw(head(ann, 900_000, large))
		synctest.Wait()
		if w.g.bodies.all != 900_000 {
			t.Errorf("%d bytes are held; want 900000", w.g.bodies.all)
		}
		w.want(w.chat(plain+large, "X-Api-Key", ann), 503, "too_many_bytes")
		w.want(w.chat(plain, "X-Api-Key", ann), 200, "a")
		w.want(w.chat(plain+large, "X-Api-Key", bob), 200, "a")
		_, leaveToo := w.raw(head(bob, 999_000, large))
		synctest.Wait()
		w.want(w.chat(plain, "X-Api-Key", bob), 200, "a")
		leave()
		leaveToo()
		synctest.Wait()
		if w.g.bodies.all != 0 || len(w.g.bodies.of) != 0 {
			t.Errorf("%d bytes are held by %v, and nobody asks", w.g.bodies.all, w.g.bodies.of)
		}
	})
}
