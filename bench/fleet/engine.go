package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
)

// Model says what an engine is like. The zero Model answers at once and has no cache.
type Model struct {
	TTFT    time.Duration // until the first word of an answer whose prompt is computed
	TPOT    time.Duration // between words; with 0, all come at once
	Prefill float64       // prompt tokens a second, of one prompt after another; 0 is any number
	Slots   int           // requests that run at once, while others wait; 0 is any number

	Blocks      int // of the prefix cache; 0 is none
	BlockTokens int

	Role  string        // "prefill" answers with one word, and says where the prompt's blocks are
	Fault Fault         // what goes wrong,
	Share float64       // of requests, from 0 to 1
	Down  time.Duration // for which an engine that died is
}

// Check refuses what cannot be meant.
func (m Model) Check() error {
	switch {
	case m.TTFT < 0 || m.TPOT < 0 || m.Prefill < 0 || m.Slots < 0 || m.Blocks < 0 || m.Down < 0:
		return fmt.Errorf("times %v and %v, %v tokens a second, %d slots, %d blocks, down for %v; want at least 0",
			m.TTFT, m.TPOT, m.Prefill, m.Slots, m.Blocks, m.Down)
	case m.Blocks > 0 && m.BlockTokens < 1:
		return fmt.Errorf("blocks have %d tokens; want at least 1", m.BlockTokens)
	case m.Role != "" && m.Role != "prefill" && m.Role != "decode":
		return fmt.Errorf("the role is %q; want prefill, decode or nothing", m.Role)
	case !(m.Share >= 0 && m.Share <= 1):
		return fmt.Errorf("the share of faults is %v; want 0 to 1", m.Share)
	}
	return nil
}

// maxTokens bounds an answer.
const maxTokens = 1 << 20

// Engine is a modelled engine, an http.Handler.
type Engine struct {
	model Model
	slots chan struct{} // nil is any number

	mu       sync.Mutex // guards all below
	cache    *cache     // nil is none
	random   *rand.Rand
	free     time.Time // when all prompts that came are computed
	dead     time.Time // until when it is down
	waiting  int
	running  int
	requests int
	prompts  int // tokens of prompts, and those of them that were cached
	cached   int
	words    int
}

// New makes an engine. publish, if it is not nil, gets what happens to its cache. Equal seeds draw equal faults.
func New(m Model, publish func([]kv.Event), seed uint64) *Engine {
	e := &Engine{model: m, random: rand.New(rand.NewPCG(seed, 1))}
	if m.Slots > 0 {
		e.slots = make(chan struct{}, m.Slots)
	}
	if m.Blocks > 0 {
		e.cache = newCache(m.Blocks, m.BlockTokens, publish)
		e.cache.lies = m.Fault == Contradicts
	}
	return e
}

// ServeHTTP answers /v1/chat/completions and /v1/completions, both also with /render behind them, /v1/models, /health
// and /metrics.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.isDead() {
		panic(http.ErrAbortHandler)
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/models":
		fmt.Fprintln(w, `{"object":"list","data":[{"id":"null","object":"model"}]}`)
	case "GET /health":
		fmt.Fprintln(w, "ok")
	case "GET /metrics":
		e.showMetrics(w)
	case "POST /v1/chat/completions", "POST /v1/completions":
		e.answer(w, r)
	case "POST /v1/chat/completions/render", "POST /v1/completions/render":
		if q := read(w, r); q != nil {
			json.NewEncoder(w).Encode(map[string]any{"token_ids": q.tokens()})
		}
	default:
		http.NotFound(w, r)
	}
}

// request is what an engine reads of a request.
type request struct {
	Max      int             `json:"max_tokens"`
	Most     int             `json:"max_completion_tokens"` // the same, by its newer name
	Stream   bool            `json:"stream"`
	Messages json.RawMessage `json:"messages"`
	Prompt   json.RawMessage `json:"prompt"`
	Transfer *transfer       `json:"kv_transfer_params"`
}

// transfer says where KV blocks come from or go to, as vLLM's NIXL connector has it.
type transfer struct {
	RemoteDecode  bool `json:"do_remote_decode"`
	RemotePrefill bool `json:"do_remote_prefill"`
}

// read reads a request, or refuses it and returns nil.
func read(w http.ResponseWriter, r *http.Request) *request {
	q := &request{Max: 16}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<26)).Decode(q)
	if q.Most != 0 {
		q.Max = q.Most
	}
	if err != nil || q.Max < 1 || q.Max > maxTokens {
		http.Error(w, fmt.Sprintf("want a request for 1 to %d max_tokens (%v)", maxTokens, err), http.StatusBadRequest)
		return nil
	}
	return q
}

// tokens are the prompt's: those that it came as, or else one for each four bytes of its JSON.
func (q *request) tokens() []int32 {
	var given []int32
	if json.Unmarshal(q.Prompt, &given) == nil && len(given) > 0 {
		return given
	}
	text := append(q.Messages, q.Prompt...)
	tokens := make([]int32, 0, len(text)/4+1)
	for ; len(text) > 3; text = text[4:] {
		tokens = append(tokens, int32(text[0])|int32(text[1])<<8|int32(text[2])<<16|int32(text[3]&0x7f)<<24)
	}
	return append(tokens, int32(len(text)))
}

func (e *Engine) answer(w http.ResponseWriter, r *http.Request) {
	q := read(w, r)
	if q == nil {
		return
	}
	if e.model.Role == "prefill" && q.Max > 1 {
		http.Error(w, "a prefill engine generates one token", http.StatusBadRequest)
		return
	}
	a := &answered{engine: e, w: w, r: r, q: q, chat: r.URL.Path == "/v1/chat/completions", fault: e.draw()}
	if a.fault.before(a) || !e.enter(r.Context()) {
		return
	}
	defer e.leave()
	if wait := e.compute(a); wait > 0 && !sleep(r.Context(), wait) {
		return
	}
	if a.q.Stream {
		a.stream()
	} else {
		a.whole()
	}
}

// enter waits for a slot. It returns false if the client goes first.
func (e *Engine) enter(ctx context.Context) bool {
	e.count(&e.waiting, 1)
	defer e.count(&e.waiting, -1)
	if e.slots != nil {
		select {
		case e.slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	e.count(&e.running, 1)
	return true
}

func (e *Engine) leave() {
	if e.slots != nil {
		<-e.slots
	}
	e.count(&e.running, -1)
}

func (e *Engine) count(what *int, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*what += n
}

// compute notes a request's prompt, and returns how long the first word takes: prompts are computed one after another,
// less what is cached or was computed elsewhere.
func (e *Engine) compute(a *answered) time.Duration {
	if e.cache == nil && e.model.Prefill == 0 && a.q.Prompt == nil { // as fast as can be
		a.prompt = (len(a.q.Messages) + 3) / 4
		return e.model.TTFT
	}
	tokens := a.q.tokens()
	e.mu.Lock()
	defer e.mu.Unlock()
	a.prompt = len(tokens)
	if e.cache != nil {
		a.cached = e.cache.use(tokens)
	}
	e.requests++
	e.prompts += a.prompt
	e.cached += a.cached
	uncached := a.prompt - a.cached
	if a.q.Transfer != nil && a.q.Transfer.RemotePrefill {
		uncached = 1
	}
	if e.model.Prefill == 0 {
		return e.model.TTFT
	}
	if now := time.Now(); e.free.Before(now) {
		e.free = now
	}
	e.free = e.free.Add(time.Duration(float64(uncached) / e.model.Prefill * float64(time.Second)))
	return time.Until(e.free) + e.model.TTFT
}

// showMetrics shows the load under vLLM's names.
func (e *Engine) showMetrics(w http.ResponseWriter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	use := 0.0
	if e.cache != nil {
		use = float64(e.cache.order.Len()) / float64(e.model.Blocks)
	}
	for _, m := range []struct {
		name, kind string
		value      float64
	}{
		{"num_requests_waiting", "gauge", float64(e.waiting)}, {"num_requests_running", "gauge", float64(e.running)},
		{"kv_cache_usage_perc", "gauge", use}, {"prompt_tokens_total", "counter", float64(e.prompts)},
		{"prefix_cache_queries_total", "counter", float64(e.prompts)}, {"prefix_cache_hits_total", "counter", float64(e.cached)},
		{"generation_tokens_total", "counter", float64(e.words)}, {"request_success_total", "counter", float64(e.requests)},
	} {
		fmt.Fprintf(w, "# TYPE vllm:%s %s\nvllm:%s{model_name=\"null\"} %s\n", m.name, m.kind, m.name, strconv.FormatFloat(m.value, 'g', -1, 64))
	}
	fmt.Fprintf(w, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"%d\"} 1\n", e.model.BlockTokens, e.model.Blocks)
}

// sleep returns false if ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
