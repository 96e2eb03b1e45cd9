package server

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
)

// parrot is an API that no one speaks, in one value and one type: what a second API has to bring, and all of it.
func parrot() *dialect {
	return &dialect{
		names:      map[fault.Field]string{engine.FieldMaxTokens: "words", text.FieldMessages: "say", engine.FieldTimeout: "patience"},
		fail:       func(f *failure) any { return map[string]string{"squawk": f.message, "at": f.param} },
		failEvent:  func(dst []byte, f *failure) []byte { return fmt.Appendf(dst, "SQUAWK %s\n", f.message) },
		keyHeader:  "X-Cracker",
		streamType: "application/x-parrot",
		routes: func(s *Server) map[string]route {
			return map[string]route{"/parrot": {"POST", s.asks(decodeParrot), clients, "what it says"}}
		},
	}
}

// parroting is a request to the parrot and its answer.
type parroting struct {
	params given
	say    string
	*job
}

var parrotParams = parameters{
	"words": param(integer(1, 99), func(r *text.Request, n int) { r.MaxTokens = n }),
}

func decodeParrot(body []byte) (*ask, error) {
	p := &parroting{params: given{known: parrotParams}}
	a := &ask{made: 1, given: 1, answer: p, prompts: p.prompts}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "say":
			p.say, err = c.Text()
		case "bird":
			a.model, err = c.Text()
		case "aloud":
			a.stream, err = c.Bool()
		default:
			if known, err := p.params.read(c, key); known || err != nil {
				return err
			}
			err = c.Unsupported()
		}
		return err
	})
	return a, err
}

func (p *parroting) prompts(info text.Info) ([]text.Request, error) {
	r := p.params.request(info)
	r.Chat = &chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{{Role: "user", Content: p.say}}}
	return []text.Request{r}, nil
}

func (p *parroting) begin(j *job) { p.job = j }

func (p *parroting) piece(dst []byte, c *choice, d *text.Delta) []byte {
	if c.first {
		dst = fmt.Appendf(dst, "%s opens its beak\n", p.title())
	}
	return fmt.Appendf(dst, "%q\n", d.Text)
}

func (p *parroting) end(dst []byte) []byte {
	return fmt.Appendf(dst, "%d sounds\n", p.usage().Generated)
}

func (p *parroting) whole() any {
	return map[string]any{"said": p.choices[0].text.String(), "because": p.choices[0].finish}
}

// TestSecondAPI holds that an API is served by what it brings alone: streamed and whole, with its own words for errors,
// wherever they are found.
func TestSecondAPI(t *testing.T) {
	fake := newFake("polly", "Hel", "lo")
	s := build(t, Config{Models: []Served{served(fake)}, Keys: []Key{{Secret: "nut"}}})
	s.add(parrot())
	ask := func(method, body string) (int, string, string) {
		r := httptest.NewRequest(method, "/parrot", strings.NewReader(body))
		r.Header.Set("X-Cracker", "nut")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Header().Get("Content-Type"), w.Body.String()
	}
	for _, c := range []struct {
		method, body string
		refuse, fail error
		status       int
		kind, want   string
	}{
		{"POST", `{"say":"hi","words":3}`, nil, nil, 200, "application/json", `{"because":"stop","said":"Hello"}` + "\n"},
		{"POST", `{"say":"hi","aloud":true}`, nil, nil, 200, "application/x-parrot",
			"polly opens its beak\n\"Hel\"\n\"lo\"\n2 sounds\n"},
		{"POST", `{"say":"hi","aloud":true}`, nil, engine.ErrTimeout, 200, "application/x-parrot",
			"polly opens its beak\n\"Hel\"\nSQUAWK The answer took longer than patience.\n"},
		{"POST", `{"say":5}`, nil, nil, 400, "application/json", `{"at":"say","squawk":"say: expected a string, found 5"}` + "\n"},
		{"POST", `{"temperature":1}`, nil, nil, 400, "application/json",
			`{"at":"temperature","squawk":"temperature: this parameter is not supported"}` + "\n"},
		{"POST", `{"say":"` + strings.Repeat("a", 99) + `"}`, nil, nil, 400, "application/json",
			`{"at":"say","squawk":"prompt: has 101 tokens; with 1 for the answer they are more than the context of 64"}` + "\n"},
		{"POST", `{"say":"hi"}`, fault.New(engine.FieldMaxTokens, "is 9; want 1 to 3"), nil, 400, "application/json",
			`{"at":"words","squawk":"words: is 9; want 1 to 3"}` + "\n"},
		{"POST", `{"say":"hi"}`, engine.ErrQueueFull, nil, 429, "application/json",
			`{"at":"","squawk":"Too many requests are waiting. Please try again shortly."}` + "\n"},
		{"POST", `{"say":"hi","bird":"crow"}`, nil, nil, 404, "application/json",
			"{\"at\":\"model\",\"squawk\":\"The model `crow` does not exist or is not served here; there are polly.\"}\n"},
		{"GET", ``, nil, nil, 405, "application/json", `{"at":"","squawk":"/parrot takes POST, not GET."}` + "\n"},
	} {
		fake.refuse, fake.fail = c.refuse, c.fail
		if status, kind, got := ask(c.method, c.body); status != c.status || kind != c.kind || got != c.want {
			t.Errorf("%s %s:\n got %d %s %s\nwant %d %s %s", c.method, c.body, status, kind, got, c.status, c.kind, c.want)
		}
	}
	if n := fake.live.Load(); n != 0 {
		t.Errorf("%d generations are not closed", n)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/parrot", nil))
	if w.Code != 401 || !strings.Contains(w.Body.String(), `"squawk"`) {
		t.Errorf("without a key: %d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest("GET", "/v1/models", nil)
	r.Header.Set("X-Cracker", "nut")
	w = httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 401 || !strings.Contains(w.Body.String(), `"error"`) {
		t.Errorf("another API's key: %d %s", w.Code, w.Body)
	}
}

// TestPathsDiffer holds that no two APIs, nor an API and the server, claim a path.
func TestPathsDiffer(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake"))}})
	claimed := len(s.ownRoutes())
	for _, api := range dialects() {
		claimed += len(api.routes(s))
	}
	if claimed != len(s.routes) {
		t.Errorf("%d routes share %d paths", claimed, len(s.routes))
	}
}
