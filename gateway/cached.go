package gateway

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/cache"
)

// cacheable are the paths whose answers are kept.
var cacheable = []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank", "/v1/score", "/rerank", "/score"}

// flight is a request that is under way, while others wait for its answer. done is closed at its end.
type flight struct{ done chan struct{} }

// keeping is what becomes of an answer that is to be kept.
type keeping struct {
	name   string
	keep   time.Duration
	flight *flight // nil if nobody waits for it
	body   []byte
	kind   string
	whole  bool // the answer came to its end

	group  string    // of questions that differ from this one in wording alone
	vector []float32 // of what it means; nil if that is not known
}

// recall answers a request from the cache, or waits for one that is under way with the same. It returns false if the
// request has to go to an endpoint.
func (x *exchange) recall(m *model) bool {
	control := x.r.Header.Get("Cache-Control")
	x.g.mu.Lock()
	keep, similar := m.Cache, m.Semantic
	x.g.mu.Unlock()
	if keep == 0 || !slices.Contains(cacheable, x.r.URL.Path) || strings.Contains(control, "no-store") {
		return false
	}
	who := []string{x.r.URL.Path, m.name, x.tenant, ""}
	if x.account == nil {
		who[3] = x.r.Header.Get("Authorization")
	}
	name, err := x.nameOfAnswer(who)
	if err != nil {
		return false // the endpoint tells what is wrong with it
	}
	x.kept = &keeping{name: name, keep: keep}
	if strings.Contains(control, "no-cache") {
		return false
	}
	if a, ok := x.g.answers.Get(x.r.Context(), name); ok {
		x.replay(m, a, "hit")
		return true
	}
	if similar.Model != "" && x.recallSimilar(m, similar, who) {
		return true
	}
	x.g.mu.Lock()
	f := x.g.asked[name]
	if f == nil {
		x.kept.flight = &flight{make(chan struct{})}
		x.g.asked[name] = x.kept.flight
		x.g.mu.Unlock()
		x.g.metrics.cache.WithLabelValues(m.name, "miss").Inc()
		return false
	}
	x.g.mu.Unlock()
	select {
	case <-f.done:
	case <-x.r.Context().Done():
		return true
	}
	if a, ok := x.g.answers.Get(x.r.Context(), name); ok {
		x.replay(m, a, "shared")
		return true
	}
	x.g.metrics.cache.WithLabelValues(m.name, "miss").Inc()
	return false // the other one failed; this one goes by itself
}

// nameOfAnswer names the request's answer: of a body that is too much to take apart by its bytes as they are.
func (x *exchange) nameOfAnswer(who []string) (string, error) {
	if !x.body.light(mostTaken) {
		sum := sha256.Sum256(x.body.raw)
		return cache.Name([]byte("0"), append(who, string(sum[:]))...)
	}
	done, err := x.work(x.r.Context(), costPerByte)
	if err != nil {
		return "", err
	}
	defer done()
	return cache.Name(x.body.raw, who...)
}

// replay sends an answer that was kept, a stream as a stream.
func (x *exchange) replay(m *model, a cache.Answer, how string) {
	x.model, x.status, x.endpoint, x.kept = m.name, http.StatusOK, "cache", nil
	h := x.w.Header()
	h.Set("Content-Type", a.Type)
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	h.Set("Age", strconv.Itoa(int(time.Since(a.At).Seconds())))
	h.Set("X-Kvasir-Cache", how)
	x.stream = strings.HasPrefix(a.Type, "text/event-stream")
	x.ttft = time.Since(x.began)
	x.w.WriteHeader(http.StatusOK)
	x.write(a.Body) // if the client has gone, nobody is left to tell
	x.g.metrics.cache.WithLabelValues(m.name, how).Inc()
}

// note keeps a piece of an answer that is sent.
func (k *keeping) note(piece []byte) {
	if k == nil {
		return
	}
	if len(k.body)+len(piece) > keptWhole {
		k.body, k.keep = nil, 0
		return
	}
	k.body = append(k.body, piece...)
}

// remember keeps the answer, and lets those go on who wait for it.
func (x *exchange) remember() {
	k := x.kept
	if k == nil {
		return
	}
	if k.whole && k.keep > 0 && x.status == http.StatusOK && len(k.body) > 0 {
		ctx := context.WithoutCancel(x.r.Context())
		x.g.answers.Put(ctx, k.name, cache.Answer{Type: k.kind, Body: k.body, At: time.Now()}, k.keep)
		if k.vector != nil {
			x.g.vectors.Add(k.group, k.vector, k.name, k.keep)
		}
	}
	if k.flight != nil {
		x.g.mu.Lock()
		delete(x.g.asked, k.name)
		x.g.mu.Unlock()
		close(k.flight.done)
	}
}
