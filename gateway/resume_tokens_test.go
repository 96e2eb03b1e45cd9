package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// kvasirCounter is a counter that is a kvasir: it tells its tokens if it is asked to, and goes on by tokens. A word's
// token is its place.
func kvasirCounter(id string, words []string, dies int) *engine {
	e := &engine{name: id}
	e.hook = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "GET" {
			fmt.Fprint(w, "kvasir:kv_blocks 0\nvllm:num_requests_waiting 0\n")
			return true
		}
		var asked struct {
			Begun []int `json:"continue_token_ids"`
			Tell  bool  `json:"return_token_ids"`
			Most  int   `json:"max_tokens"`
			GoOn  bool  `json:"continue_final_message"`
		}
		if err := json.Unmarshal([]byte(posted(r).body), &asked); err != nil || !asked.Tell || asked.GoOn {
			http.Error(w, "not what a kvasir should get", http.StatusBadRequest)
			return true
		}
		e.begin(w)
		event := func(format string, args ...any) {
			fmt.Fprintf(w, "data: {\"id\":%q,\"created\":1,\"choices\":["+format+"],\"prompt_token_ids\":[7,8]}\n\n", append([]any{id}, args...)...)
			http.NewResponseController(w).Flush()
		}
		event(`{"index":0,"delta":{"role":"assistant","content":""}}`)
		for at, begun := len(asked.Begun), len(asked.Begun); at < min(asked.Most, len(words)); at++ {
			if dies > 0 && at-begun == dies {
				panic(http.ErrAbortHandler)
			}
			field := "content"
			if words[at] == "hm" {
				field = "reasoning_content"
			}
			event(`{"index":0,"delta":{%q:%q},"finish_reason":null,"token_ids":[%d]}`, field, words[at]+" ", at)
		}
		event(`{"index":0,"delta":{},"finish_reason":"stop"}`)
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", len(words))
		return true
	}
	return e
}

// TestKvasirsGoOnByTokens lets two of three kvasirs die, in the middle of reasoning and of the answer, with parameters
// that depend on where the answer began. The client sees one stream without tokens, with the whole answer's usage.
func TestKvasirsGoOnByTokens(t *testing.T) {
	words := []string{"hm", "hm", "hm", "[\"token_ids\":[1]]", "five", "six", "seven"}
	body := `{"model":"m","stream":true,"max_tokens":7,"seed":3,"frequency_penalty":0.5,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"count"}]}`
	engines := map[string]http.Handler{"a": kvasirCounter("a", words, 2), "b": kvasirCounter("b", words, 2), "c": kvasirCounter("c", words, 0)}
	inWorld(t, counting, engines, func(w *world) {
		for range 4 {
			r := w.chat(body)
			w.want(r, 200, "data: [DONE]\n\n")
			text := ""
			for line := range strings.Lines(r.body) {
				var e struct {
					Choices []struct {
						Delta struct {
							Content   string
							Reasoning string `json:"reasoning_content"`
						}
						IDs json.RawMessage `json:"token_ids"`
					}
					Prompt json.RawMessage `json:"prompt_token_ids"`
					Usage  *tokenUsage
				}
				if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {"); ok {
					if err := json.Unmarshal([]byte("{"+data), &e); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
				}
				for _, c := range e.Choices {
					if text += c.Delta.Reasoning + c.Delta.Content; c.IDs != nil || e.Prompt != nil {
						t.Errorf("the client sees tokens: %s", line)
					}
				}
				if e.Usage != nil && (e.Usage.Prompt != 10 || e.Usage.Completion != 7) {
					t.Errorf("usage %+v; want 10 and 7", *e.Usage)
				}
			}
			if want := strings.Join(words, " ") + " "; text != want {
				t.Errorf("the client got %q; want %q", text, want)
			}
		}
	})
	if a, b := engines["a"].(*engine), engines["b"].(*engine); len(a.got())+len(b.got()) == 0 {
		t.Error("no stream broke off")
	}
}

// TestForeignEnginesDoNotGoOn: engines that would begin a chat anew are not asked to go on with one, but with a text.
func TestForeignEnginesDoNotGoOn(t *testing.T) {
	words := []string{"one", "two", "three", "four"}
	for _, status := range []int{http.StatusNotFound, http.StatusNotImplemented} {
		foreign := func(id string, dies int) *engine {
			e := counter(id, words, dies)
			counts := e.hook
			e.hook = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/metrics" {
					w.WriteHeader(status)
					return true
				}
				return counts(w, r)
			}
			return e
		}
		other := foreign("b", 0)
		inWorld(t, strings.Replace(counting, ", http://c", "", 1), map[string]http.Handler{"a": foreign("a", 2), "b": other}, func(w *world) {
			broken := 0
			for range 6 {
				if r := w.chat(`{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`); strings.Contains(r.body, `data: {"error"`) {
					broken++
				}
				w.want(w.ask(w.t.Context(), "POST", "/v1/completions", `{"model":"m","stream":true,"prompt":"count: "}`), 200, "data: [DONE]\n\n")
			}
			if broken == 0 {
				t.Error("no stream was told that it broke off")
			}
		})
		for _, s := range other.got() {
			if strings.Contains(s.body, "continue_final") {
				t.Errorf("the engine got %s", s.body)
			}
		}
	}
}

// TestOthersDoNotGoOnByTokens: a stream whose parameters depend on where it began breaks off if the engine that is left
// is no kvasir.
func TestOthersDoNotGoOnByTokens(t *testing.T) {
	words := []string{"one", "two", "three", "four"}
	body := `{"model":"m","stream":true,"max_tokens":4,"frequency_penalty":0.5,"messages":[{"role":"user","content":"count"}]}`
	other := counter("b", words, 0)
	inWorld(t, strings.Replace(counting, ", http://c", "", 1), map[string]http.Handler{"a": kvasirCounter("a", words, 2), "b": other}, func(w *world) {
		broken := 0
		for range 6 {
			if r := w.chat(body); strings.Contains(r.body, `data: {"error"`) {
				broken++
				w.want(r, 200, "does not go on with what another one began")
			}
		}
		if broken == 0 {
			t.Error("no stream was told that it broke off")
		}
	})
	for _, s := range other.got() {
		if strings.Contains(s.body, "token_ids") || strings.Contains(s.body, "continue_final") {
			t.Errorf("another engine got %s", s.body)
		}
	}
}

// TestKvasirThatLeaves lets an endpoint end streams with an error, in the middle or at once: another one answers where
// the error says that the kvasir leaves, and the client gets the error where it does not.
func TestKvasirThatLeaves(t *testing.T) {
	words := []string{"one", "two", "three", "four"}
	body := `{"model":"m","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"count"}]}`
	for _, c := range []struct {
		code  string
		after int // words; 0 is a status
		whole bool
	}{{"device_lost", 2, true}, {"shutting_down", 1, true}, {"device_lost", 0, true}, {"internal_error", 2, false}} {
		failing := kvasirCounter("a", words, 0)
		well := failing.hook
		failing.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "GET" {
				return well(w, r)
			}
			problem := fmt.Sprintf(`{"error":{"message":"it is gone","type":"server_error","param":null,"code":%q}}`, c.code)
			if c.after == 0 {
				http.Error(w, problem, http.StatusServiceUnavailable)
				return true
			}
			failing.begin(w)
			for at, word := range words[:c.after] {
				fmt.Fprintf(w, "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"token_ids\":[%d]}]}\n\n", word+" ", at)
			}
			fmt.Fprintf(w, "data: %s\n\n", problem)
			return true
		}
		engines := map[string]http.Handler{"a": failing, "b": kvasirCounter("b", words, 0)}
		inWorld(t, "models: [{name: m, endpoints: [http://a, http://b], resume: true}]\n", engines, func(w *world) {
			broken := 0
			for range 4 {
				r := w.chat(body)
				said := ""
				for _, word := range words {
					said += strings.Repeat(word, strings.Count(r.body, word))
				}
				if !strings.HasSuffix(r.body, "[DONE]\n\n") || strings.Contains(r.body, "error") || said != strings.Join(words, "") {
					broken++
				}
			}
			if asked := len(failing.got()) > 0; !asked || c.whole != (broken == 0) {
				t.Errorf("%s after %d words: %d of 4 streams are broken; whether the endpoint was asked is %v", c.code, c.after, broken, asked)
			}
		})
	}
}
