package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const counting = "models: [{name: m, endpoints: [http://a, http://b, http://c], resume: true}]\n"

// counter is an engine that counts from one on, and goes on with a count that is the end of its prompt. It dies after
// so many words, if that is not 0.
func counter(id string, words []string, dies int) *engine {
	e := &engine{name: id}
	e.hook = posts(func(w http.ResponseWriter, _ *http.Request) {
		all := e.got()
		var asked struct {
			Messages []struct{ Role, Content string }
			Prompt   string
			Most     int  `json:"max_tokens"`
			GoOn     bool `json:"continue_final_message"`
		}
		if err := json.Unmarshal([]byte(all[len(all)-1].body), &asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		text := strings.TrimPrefix(asked.Prompt, "count: ")
		if n := len(asked.Messages); n > 0 && asked.GoOn && asked.Messages[n-1].Role == "assistant" {
			text = asked.Messages[n-1].Content
		}
		at := len(strings.Fields(text))
		e.begin(w)
		event := func(format string, args ...any) {
			fmt.Fprintf(w, "data: {\"id\":%q,\"created\":%d,\"choices\":["+format+"]}\n\n", append([]any{id, len(id)}, args...)...)
			http.NewResponseController(w).Flush()
		}
		event(`{"index":0,"delta":{"role":"assistant","content":""}}`)
		for i := range words[at:] {
			if asked.Most > 0 && i == asked.Most {
				break
			}
			if dies > 0 && i == dies {
				panic(http.ErrAbortHandler)
			}
			if asked.Prompt != "" {
				event(`{"index":0,"text":%q,"finish_reason":null}`, words[at+i]+" ")
			} else {
				event(`{"index":0,"delta":{"content":%q},"finish_reason":null}`, words[at+i]+" ")
			}
		}
		event(`{"index":0,"delta":{},"finish_reason":"stop"}`)
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", 10+at, len(words)-at)
	})
	return e
}

// TestBrokenStreamsGoOn lets two of three engines die after two words each. The client sees one stream.
func TestBrokenStreamsGoOn(t *testing.T) {
	words := []string{"one", "\"two\"", "três\n", "four", "five", "six", "seven"}
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`, "7"},
		{"/v1/chat/completions", `{ "messages" : [ {"role":"user","content":"count"} ] , "max_tokens":6,"stream":true,"model":"m" } `, "6"},
		{"/v1/completions", `{"model":"m","stream":true,"prompt":"count: "}`, "7"},
	} {
		engines := map[string]http.Handler{"a": counter("a", words, 2), "b": counter("b", words, 2), "c": counter("c", words, 0)}
		inWorld(t, counting, engines, func(w *world) {
			for range 4 {
				r := w.ask(w.t.Context(), "POST", c.path, c.body)
				w.want(r, 200, "data: [DONE]\n\n")
				text, ids, roles := "", map[string]bool{}, 0
				for line := range strings.Lines(r.body) {
					var e struct {
						ID      string
						Choices []struct {
							Text  string
							Delta struct{ Role, Content string }
						}
						Usage *struct {
							Prompt int `json:"prompt_tokens"`
							All    int `json:"completion_tokens"`
						}
						Error any
					}
					if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {"); ok {
						if err := json.Unmarshal([]byte("{"+data), &e); err != nil || e.Error != nil {
							t.Fatalf("%s: %v", line, err)
						}
					}
					for _, x := range e.Choices {
						text += x.Text + x.Delta.Content
						ids[e.ID] = true
						if x.Delta.Role != "" {
							roles++
						}
					}
					if e.Usage != nil && (e.Usage.Prompt != 10 || e.Usage.All != 7) {
						t.Errorf("usage %+v; want 10 and 7", *e.Usage)
					}
				}
				want := words
				if c.want == "6" {
					want = words[:6]
				}
				if text != strings.Join(want, " ")+" " || len(ids) != 1 || roles != 1 {
					t.Errorf("the client got %q with ids %v and %d roles", text, ids, roles)
				}
			}
		})
	}
}

// TestStreamsThatCannotGoOn are told so: with tools, with several answers, without resume, and if the engines refuse.
func TestStreamsThatCannotGoOn(t *testing.T) {
	words := []string{"one", "two", "three"}
	plain := `{"model":"m","stream":true,"messages":[{"role":"user","content":"count"}]}`
	refuses := counter("b", words, 2)
	dies := refuses.hook
	refuses.hook = func(w http.ResponseWriter, r *http.Request) bool {
		all := refuses.got()
		if r.Method == "POST" && strings.Contains(all[len(all)-1].body, "continue_final_message") {
			http.Error(w, "no such parameter", http.StatusBadRequest)
			return true
		}
		return dies(w, r)
	}
	for name, c := range map[string]struct {
		config, body string
		other        *engine
	}{
		"tools":   {counting, strings.Replace(plain, "{", `{"tools":[],`, 1), counter("b", words, 0)},
		"answers": {counting, strings.Replace(plain, "{", `{"n":2,`, 1), counter("b", words, 0)},
		"not set": {strings.Replace(counting, "true", "false", 1), plain, counter("b", words, 0)},
		"refused": {counting, plain, refuses},
	} {
		t.Run(name, func(t *testing.T) {
			first := counter("a", words, 2)
			inWorld(t, strings.Replace(c.config, ", http://c", "", 1), map[string]http.Handler{"a": first, "b": c.other}, func(w *world) {
				broken := 0
				for range 6 {
					r := w.chat(c.body)
					w.want(r, 200, "one")
					if strings.Contains(r.body, `data: {"error"`) {
						broken++
					}
				}
				if broken == 0 {
					t.Error("no stream was told that it broke off")
				}
			})
		})
	}
}

// TestTranscriptsAreBounded holds that what is kept of a stream that an endpoint does not end is bounded, and that it
// is not resumed then.
func TestTranscriptsAreBounded(t *testing.T) {
	for _, event := range []string{
		`data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}`,
		`data: {"choices":[{"text":"` + strings.Repeat("x", 1<<20) + `"}]}`,
		`data: {"choices":[{"delta":{"content":"x"},"token_ids":[1` + strings.Repeat(",1", 1<<19) + `]}]}`,
	} {
		said := &transcript{}
		for range 20 {
			said.add([]byte(event + "\n\n"))
			if said.text.Len() > 2*mostSaid || len(said.ids) > 2*mostSaid/bytesPerToken {
				t.Fatalf("%.60s: %d bytes and %d tokens are kept", event, said.text.Len(), len(said.ids))
			}
		}
		if said.resumable(&body{}) {
			t.Errorf("%.60s: it can be resumed", event)
		}
	}
}
