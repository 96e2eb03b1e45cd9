package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/route"
)

// TestHedge lets one endpoint take its time, fail late or answer at once.
func TestHedge(t *testing.T) {
	const config = "models:\n- name: m\n  hedge: 1s\n  policy: {cost: 1}\n  endpoints: [{url: http://a}, {url: http://b, cost: 9, max_in_flight: 1}]\n"
	sleeps := func(d time.Duration, then func(e *engine, w http.ResponseWriter)) func(e *engine) {
		return func(e *engine) {
			e.hook = posts(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-time.After(d):
					then(e, w)
				case <-r.Context().Done():
				}
			})
		}
	}
	good := func(e *engine, w http.ResponseWriter) { e.begin(w); e.word(w); e.word(w); e.end(w) }
	bad := func(_ *engine, w http.ResponseWriter) { http.Error(w, "oh no", 500) }
	mute := func(e *engine, w http.ResponseWriter) { // it begins, and says nothing for a while
		e.begin(w)
		http.NewResponseController(w).Flush()
		time.Sleep(5 * time.Second)
		good(e, w)
	}
	for name, c := range map[string]struct {
		a, b   func(*engine)
		want   string
		after  time.Duration
		toB    int
		status int
	}{
		"fast":             {sleeps(time.Second/2, good), sleeps(0, good), `"a"`, time.Second / 2, 0, 200},
		"slow":             {sleeps(10*time.Second, good), sleeps(time.Second, good), `"b"`, 2 * time.Second, 1, 200},
		"late":             {sleeps(3*time.Second, good), sleeps(10*time.Second, good), `"a"`, 3 * time.Second, 1, 200},
		"mute":             {sleeps(0, mute), sleeps(0, good), `"b"`, time.Second, 1, 200},
		"the second fails": {sleeps(3*time.Second, good), sleeps(0, bad), `"a"`, 3 * time.Second, 1, 200},
		"the first fails":  {sleeps(2*time.Second, bad), sleeps(3*time.Second, good), `"b"`, 4 * time.Second, 1, 200},
		"both fail":        {sleeps(2*time.Second, bad), sleeps(2*time.Second, bad), "oh no", 3 * time.Second, 1, 500},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := &engine{name: "a"}, &engine{name: "b"}
			c.a(a)
			c.b(b)
			inWorld(t, config, map[string]http.Handler{"a": a, "b": b}, func(w *world) {
				began := time.Now()
				r := w.chat(streamed)
				if w.want(r, c.status, c.want); time.Since(began) != c.after {
					t.Errorf("after %v; want %v", time.Since(began), c.after)
				}
				if strings.Contains(r.body, `"a"`) && strings.Contains(r.body, `"b"`) {
					t.Errorf("two answers are mixed: %s", r.body)
				}
				time.Sleep(20 * time.Second)
				if len(a.got()) != 1 || len(b.got()) != c.toB {
					t.Errorf("%d and %d requests; want 1 and %d", len(a.got()), len(b.got()), c.toB)
				}
				w.g.mu.Lock()
				defer w.g.mu.Unlock()
				for _, e := range w.g.ends {
					if e.requests != 0 || w.g.fleet.View(&route.Request{}, []int{e.id})[0].Requests != 0 {
						t.Errorf("%s has %d requests in flight", e.url, e.requests)
					}
				}
			})
		})
	}
}
