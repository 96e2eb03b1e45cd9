package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// embedder is an engine whose vectors are the lengths of texts, or of lists of tokens. It takes no text "bad".
func embedder(name string) *engine {
	e := &engine{name: name}
	e.hook = posts(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Input  []json.RawMessage
			First  []string `json:"text_1"`
			Second []string `json:"text_2"`
		}
		last := posted(r).body
		w.Header().Set("Content-Type", "application/json")
		if err := json.Unmarshal([]byte(last), &asked); err != nil || strings.Contains(last, `"bad"`) {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"message":"bad %t %s"}}`, err == nil, strings.ReplaceAll(last, `"`, `'`))
			return
		}
		var data []string
		size := 0
		for n := range asked.Input {
			i := n
			if len(asked.Input) > 2 { // in any order
				i = len(asked.Input) - 1 - n
			}
			data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d]}`, i, len(asked.Input[i])))
			size += len(asked.Input[i])
		}
		for i := range asked.First {
			data = append(data, fmt.Sprintf(`{"index":%d,"score":"%s-%s"}`, i, asked.First[i], asked.Second[i]))
			size += 10
		}
		fmt.Fprintf(w, `{"object":"list","model":%q,"data":[%s],"usage":{"prompt_tokens":%d,"total_tokens":%d,"prompt_tokens_details":null}}`,
			name, strings.Join(data, ","), size, size)
	})
	return e
}

const batched = "share_prefixes: true\nhealth: {path: \"\", metrics: \"\"}\nmodels: [{name: m, endpoints: [http://a], batch: {wait: 20ms, inputs: 4, tokens: 50}, price: {input: 1000000}}]\n"

// TestBatch joins what can be joined, and nothing else.
func TestBatch(t *testing.T) {
	a := embedder("a")
	one, oneHash := NewKey()
	two, twoHash := NewKey()
	config := batched + fmt.Sprintf("keys: [{name: one, hash: %q, admin: true}, {name: two, hash: %q, weight: 2}]", oneHash, twoHash)
	inWorld(t, config, map[string]http.Handler{"a": a}, func(w *world) {
		type asked struct{ key, path, body, want string }
		all := func(upstream int, list ...asked) {
			t.Helper()
			before := len(a.got())
			var group sync.WaitGroup
			for _, q := range list {
				group.Go(func() {
					r := w.ask(w.t.Context(), "POST", q.path, q.body, "X-Api-Key", q.key)
					var said any
					json.Unmarshal([]byte(r.body), &said)
					sorted, _ := json.Marshal(said) // an answer to one client comes as it was
					if got := fmt.Sprint(r.status) + " " + string(sorted); got != q.want || r.err != nil {
						t.Errorf("%s: %s, %v; want %s", q.body, got, r.err, q.want)
					}
				})
				synctest.Wait()
				time.Sleep(time.Millisecond)
			}
			group.Wait()
			if got := a.got()[before:]; len(got) != upstream {
				t.Errorf("%d requests to the engine; want %d: %+v", len(got), upstream, got)
			}
			time.Sleep(time.Second)
		}
		answer := func(tokens int, vectors ...int) string {
			var data []string
			for i, v := range vectors {
				data = append(data, fmt.Sprintf(`{"embedding":[%d],"index":%d,"object":"embedding"}`, v, i))
			}
			return fmt.Sprintf(`200 {"data":[%s],"model":"a","object":"list","usage":{"prompt_tokens":%d,"prompt_tokens_details":null,"total_tokens":%d}}`,
				strings.Join(data, ","), tokens, tokens)
		}
		const embed = "/v1/embeddings"
		all(1, // of two keys, one text and two
			asked{one, embed, `{"model":"m","input":"x","user":"ann"}`, answer(3, 3)},
			asked{two, embed, `{"input":["yy","zzz"],"model":"m"}`, answer(9, 4, 5)})
		all(2, // four inputs go at once, the fifth after a while
			asked{one, embed, `{"model":"m","input":["a","b"]}`, answer(6, 3, 3)},
			asked{one, embed, `{"model":"m","input":["a","b"]}`, answer(6, 3, 3)},
			asked{one, embed, `{"model":"m","input":["other"]}`, answer(7, 7)})
		all(1, // tokens
			asked{one, embed, `{"model":"m","input":[1,2,3]}`, answer(7, 7)},
			asked{two, embed, `{"model":"m","input":[[1,2,3]]}`, answer(7, 7)})
		all(3, // of other kinds, or other parameters
			asked{one, embed, `{"model":"m","input":["a"],"dimensions":2}`, answer(3, 3)},
			asked{one, embed, `{"model":"m","input":[[1]]}`, answer(3, 3)},
			asked{one, embed, `{"model":"m","input":["a"],"dimensions":3}`, answer(3, 3)})
		const bad = `{"error":{"message":"bad true {'model':'m','input':['bad']}"}}`
		all(3, // the good one is not harmed
			asked{one, embed, `{"model":"m","input":["bad"]}`, "400 " + bad},
			asked{two, embed, `{"model":"m","input":["good"]}`,
				answer(6, 6)})
		score := func(pairs ...string) string {
			var data []string
			for i, p := range pairs {
				data = append(data, fmt.Sprintf(`{"index":%d,"score":%q}`, i, p))
			}
			n := 10 * len(pairs)
			return fmt.Sprintf(`200 {"data":[%s],"model":"a","object":"list","usage":{"prompt_tokens":%d,"prompt_tokens_details":null,"total_tokens":%d}}`, strings.Join(data, ","), n, n)
		}
		all(1,
			asked{one, "/v1/score", `{"model":"m","text_1":"q","text_2":["a","b"]}`, score("q-a", "q-b")},
			asked{two, "/v1/score", `{"model":"m","text_1":["c"],"text_2":"d"}`, score("c-d")})
		w.want(w.ask(w.t.Context(), "GET", "/gateway/usage?format=csv", "", "X-Api-Key", one), 200, ",two,,m,4,32,0,0,32")
		w.want(w.ask(w.t.Context(), "GET", "/metrics", ""), 200, `kvasir_gateway_batched_requests_total{model="m"} 8`)
		w.want(w.ask(w.t.Context(), "GET", "/metrics", ""), 200, `kvasir_gateway_batches_total{model="m",result="failed"} 1`)
		if n := w.batches(); n > 0 {
			t.Errorf("%d batches wait", n)
		}
	})
}

// batches returns how many batches wait for more.
func (w *world) batches() int {
	w.g.mu.Lock()
	defer w.g.mu.Unlock()
	return len(w.g.batches)
}

// TestBatchOutlivesAClient lets clients hang up: one while others wait for the same batch, and then all.
func TestBatchOutlivesAClient(t *testing.T) {
	a := embedder("a")
	quick, ended := a.hook, atomic.Int64{}
	a.hook = func(w http.ResponseWriter, r *http.Request) bool {
		select {
		case <-time.After(time.Second):
		case <-r.Context().Done():
			ended.Add(1)
			return true
		}
		return quick(w, r)
	}
	inWorld(t, batched, map[string]http.Handler{"a": a}, func(w *world) {
		ask := func(ctx context.Context, want int) {
			if r := w.ask(ctx, "POST", "/v1/embeddings", `{"model":"m","input":["x"]}`); r.status != want {
				t.Errorf("%+v; want %d", r, want)
			}
		}
		for _, stays := range []bool{true, false} {
			var group sync.WaitGroup
			ctx, cancel := context.WithCancel(w.t.Context())
			group.Go(func() { ask(ctx, 0) })
			if stays {
				group.Go(func() { ask(w.t.Context(), 200) })
			} else {
				group.Go(func() { ask(ctx, 0) })
			}
			time.Sleep(100 * time.Millisecond)
			cancel()
			group.Wait()
			synctest.Wait()
		}
		if n := len(a.got()); n != 2 || ended.Load() != 1 {
			t.Errorf("%d requests, of which %d were cancelled; want 2 and 1", n, ended.Load())
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Millisecond) // before the batch goes
		defer cancel()
		ask(ctx, 0)
		time.Sleep(time.Second)
		if n, waits := len(a.got()), w.batches(); n != 2 || waits > 0 {
			t.Errorf("%d requests and %d batches; want 2 and none", n, waits)
		}
	})
}
