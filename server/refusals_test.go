package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRefusalsAreHeld holds that a refusal comes late while its client waits, and at once beyond mostSlowRefused; what
// is refused for other reasons and what is answered come at once.
func TestRefusalsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := build(t, Config{Models: []Served{served(newFake("fake", "Hello"))}, Keys: []Key{{Secret: "right"}, {Secret: "none", Models: []string{"other"}}}})
		ask := func(ctx context.Context, key, body string) (status int, took time.Duration) {
			w, began := httptest.NewRecorder(), time.Now()
			s.ServeHTTP(w, request(key, body).WithContext(ctx))
			return w.Code, time.Since(began)
		}
		check := func(ctx context.Context, key, body string, status int, took time.Duration) {
			t.Helper()
			if got, time := ask(ctx, key, body); got != status || time != took {
				t.Errorf("key %s, %s: %d after %v; want %d after %v", key, body, got, time, status, took)
			}
		}
		const good = `{"model":"fake","prompt":"x"}`
		check(t.Context(), "wrong", good, 401, refusalTime)
		check(t.Context(), "right", `{`, 400, 0)
		check(t.Context(), "right", `{"model":"other","prompt":"x"}`, 404, 0)
		check(t.Context(), "right", good, 200, 0)
		gone, leave := context.WithTimeout(t.Context(), refusalTime/4)
		defer leave()
		check(gone, "wrong", good, 401, refusalTime/4)

		for range mostSlowRefused {
			go ask(t.Context(), "wrong", good)
		}
		synctest.Wait()
		check(t.Context(), "wrong", good, 401, 0)
		time.Sleep(refusalTime)
		synctest.Wait() // all of them are answered
		check(t.Context(), "wrong", good, 401, refusalTime)
	})
}

// TestRefusalHoldsNothing holds that a request that is refused for want of places has left them when its refusal waits.
func TestRefusalHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake("fake", "Hello")
		s := build(t, Config{Models: []Served{served(fake)}, Keys: []Key{{Secret: "key", MaxRequests: 1}}})
		ring := s.ring()
		over := ring.client(request("key", `{"prompt":"x"}`), "")
		over.running.Add(1) // one is under way
		done := make(chan int)
		go func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, request("key", `{"prompt":"x"}`))
			done <- w.Code
		}()
		synctest.Wait()
		if n := over.running.Load(); n != 1 {
			t.Errorf("%d requests are counted while one is refused; want 1", n)
		}
		if n := s.bodies.read.Used() + over.held.Load(); n != 0 {
			t.Errorf("%d bytes are held", n)
		}
		if status := <-done; status != 429 {
			t.Errorf("status %d", status)
		}
	})
}

func request(key, body string) *http.Request {
	r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}
