package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// restart ends an engine as SIGTERM does: it takes no connections, ends what is under way, and comes back.
func (w *world) restart(host string, h http.Handler, away time.Duration) {
	w.mu.Lock()
	p := w.engines[host]
	w.mu.Unlock()
	p.Close()
	p.server.Shutdown(context.Background())
	time.Sleep(away)
	w.start(host, h)
}

// TestRollingRestart restarts all engines one by one under load. No request may fail.
func TestRollingRestart(t *testing.T) {
	engines := map[string]http.Handler{}
	for _, name := range []string{"a", "b", "c"} {
		e := &engine{name: name}
		e.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
			e.begin(w)
			for range 10 {
				time.Sleep(100 * time.Millisecond)
				e.word(w)
			}
			e.end(w)
		})
		engines[name] = e
	}
	inWorld(t, "models: [{name: m, endpoints: [http://a, http://b, http://c]}]", engines, func(w *world) {
		var wait sync.WaitGroup
		var mu sync.Mutex
		failed, by := 0, map[string]int{}
		stop := make(chan struct{})
		for i := range 20 {
			wait.Go(func() {
				time.Sleep(time.Duration(i) * 51 * time.Millisecond)
				for {
					select {
					case <-stop:
						return
					default:
					}
					r := w.chat(streamed)
					mu.Lock()
					words := 0
					for name := range engines {
						n := strings.Count(r.body, fmt.Sprintf("%q", name))
						words += n
						by[name] += n
					}
					if r.status != 200 || r.err != nil || words != 10 || !strings.Contains(r.body, "[DONE]") {
						failed++
						t.Errorf("status %d, error %v, %d words: %s", r.status, r.err, words, r.body)
					}
					mu.Unlock()
				}
			})
		}
		for _, name := range []string{"a", "b", "c"} {
			time.Sleep(3 * time.Second)
			w.restart(name, engines[name], 5*time.Second)
		}
		time.Sleep(3 * time.Second)
		close(stop)
		wait.Wait()
		if failed > 0 || by["a"] == 0 || by["b"] == 0 || by["c"] == 0 {
			t.Errorf("%d requests failed; words by engine %v", failed, by)
		}
	})
}
