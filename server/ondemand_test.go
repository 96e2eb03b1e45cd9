package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-llm/kvasir/shelf"
)

// fakeCatalog has models that take ten seconds to load, each of a memory of its own name's length.
type fakeCatalog struct {
	names []string
	takes time.Duration // in place of ten seconds
	err   error         // of Open
	made  string        // by Create

	mu     sync.Mutex
	opened []string
	fakes  map[string]*fakeModel
}

func (c *fakeCatalog) List() (all []shelf.Offer, err error) {
	for _, name := range c.names {
		all = append(all, shelf.Offer{Name: name, Bytes: 100, Modified: time.Unix(1600000000, 0)})
	}
	return all, nil
}

func (c *fakeCatalog) Find(_ context.Context, name string) (shelf.Offer, error) {
	if !slices.Contains(c.names, name) {
		return shelf.Offer{}, shelf.ErrNotFound
	}
	return shelf.Offer{Name: name}, nil
}

func (c *fakeCatalog) Need(o shelf.Offer) (int64, error) { return int64(len(o.Name)) << 20, nil }

func (c *fakeCatalog) About(o shelf.Offer) (About, error) {
	return About{Format: "gguf", Family: "fake", Parameters: int64(len(o.Name))}, nil
}

func (c *fakeCatalog) Create(name string, r Recipe) error {
	if r.Template == "{{ .Prompt }}" {
		return &RecipeError{"templates are Jinja"}
	}
	c.names = append(c.names, name)
	c.made = fmt.Sprint(r)
	return nil
}

func (c *fakeCatalog) Delete(name string) error {
	c.names = slices.DeleteFunc(c.names, func(n string) bool { return n == name })
	return nil
}

func (c *fakeCatalog) Pull(_ context.Context, name string, progress func(string, int64, int64)) error {
	if name == "no/such" {
		return shelf.ErrNotFound
	}
	progress("config.json", 10, 10)
	progress("model.gguf", 50, 100)
	if name == "owner/cut" {
		return errors.New("the connection broke")
	}
	progress("model.gguf", 100, 100)
	c.names = append(c.names, name)
	return nil
}

func (c *fakeCatalog) Open(o shelf.Offer, _ int64, progress func(done, total int64)) (*Loaded, error) {
	progress(25, 100)
	time.Sleep(cmp.Or(c.takes, 10*time.Second))
	if c.err != nil {
		return nil, c.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = append(c.opened, o.Name)
	fake := newFake(o.Name, o.Name, " answers")
	c.fakes[o.Name] = fake
	m := served(fake)
	m.Size, m.Device = int64(len(o.Name))<<20, "fake:0"
	return &Loaded{Served: m, Free: func() error { return nil }}, nil
}

// onDemand runs f with a server of a static model and of models on demand that together may take 5 bytes.
func onDemand(t *testing.T, c *fakeCatalog, f func(s *Server)) {
	synctest.Test(t, func(t *testing.T) {
		c.fakes = map[string]*fakeModel{}
		cfg := Config{OnDemand: &OnDemand{Catalog: c, Memory: 5 << 20, Keep: -1, Wait: time.Minute}}
		cfg.Models = []Served{served(newFake("static", "Hello"))}
		s := build(t, cfg)
		defer s.Close()
		f(s)
	})
}

func sent(s *Server, method, path, body string) string {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

func complete(s *Server, model string) string {
	return sent(s, "POST", "/v1/completions", `{"prompt":"x","model":"`+model+`"}`)
}

// TestModelsOnDemand asks for models that are loaded for it, beside one that is always there.
func TestModelsOnDemand(t *testing.T) {
	c := &fakeCatalog{names: []string{"abc", "de", "huge-model", "static"}}
	onDemand(t, c, func(s *Server) {
		for model, want := range map[string]string{"static": "Hello", "": "Hello", "abc": "abc answers", "de": "de answers"} {
			if got := complete(s, model); !strings.Contains(got, `"text":"`+want+`"`) || !strings.HasPrefix(got, "200") {
				t.Errorf("%q: %s", model, got)
			}
		}
		for model, want := range map[string]string{"no": "404", "huge-model": "400"} {
			if got := complete(s, model); !strings.HasPrefix(got, want) {
				t.Errorf("%q: %s; want %s", model, got, want)
			}
		}
		for path, want := range map[string]string{
			"/models": `{"data":[` +
				`{"id":"static","state":"loaded","size":0,"context":64,"running":0,"waiting":0,"pinned":true},` +
				`{"id":"abc","state":"loaded","size":3145728,"device":"fake:0","context":64,"running":0,"waiting":0,"pinned":false},` +
				`{"id":"de","state":"loaded","size":2097152,"device":"fake:0","context":64,"running":0,"waiting":0,"pinned":false}]}`,
			"/health": `{"status":"ok","models":{"abc":"ok","de":"ok","static":"ok"}}`,
			"/v1/models/huge-model": `{"id":"huge-model","object":"model","created":1600000000,"owned_by":"kvasir","root":"huge-model","parent":null,` +
				`"status":{"value":"unloaded"}}`,
			"/v1/models/abc": `{"id":"abc","object":"model","created":1700000000,"owned_by":"kvasir","root":"abc","parent":null,"max_model_len":64,` +
				`"status":{"value":"loaded"}}`,
		} {
			if got := sent(s, "GET", path, ""); got != "200 "+want {
				t.Errorf("%s:\n got %s\nwant 200 %s", path, got, want)
			}
		}
		if got := sent(s, "GET", "/v1/models", ""); strings.Count(got, `"id"`) != 4 {
			t.Errorf("/v1/models lists %s", got)
		}
		if got := sent(s, "GET", "/metrics", ""); !strings.Contains(got, `vllm:num_requests_running{engine="0",model_name="abc"} 0`) {
			t.Error("/metrics lacks a model on demand")
		}
		for _, one := range [][3]string{
			{"/models/unload", `{"model":"abc"}`, `200 {"success":true}`},
			{"/models/unload", `{"model":"static"}`, "409"},
			{"/models/unload", `{"model":"no"}`, "404"},
			{"/models/unload", `{}`, "400"},
			{"/models/load", `{"model":"de","more":1}`, "400"},
			{"/models/load", `{"model":"de"}`, `200 {"success":true}`},
		} {
			if got := sent(s, "POST", one[0], one[1]); !strings.HasPrefix(got, one[2]) {
				t.Errorf("%s %s: %s; want %s", one[0], one[1], got, one[2])
			}
		}
		synctest.Wait()
		if got := sent(s, "GET", "/models", ""); strings.Contains(got, `"abc"`) || !strings.Contains(got, `"de"`) {
			t.Errorf("after unloading: %s", got)
		}
		if got := sent(s, "GET", "/metrics", ""); strings.Contains(got, `vllm:num_requests_running{engine="0",model_name="abc"}`) {
			t.Error("/metrics has a model that is not in memory")
		}
		if got := complete(s, "abc"); !strings.HasPrefix(got, "200") {
			t.Errorf("loaded again: %s", got)
		}
	})
}

// TestLoadingIsSeen holds that a load in progress is told of, and that a request does not wait for it without end.
func TestLoadingIsSeen(t *testing.T) {
	c := &fakeCatalog{names: []string{"abc"}}
	onDemand(t, c, func(s *Server) {
		answer := make(chan string)
		go func() { answer <- complete(s, "abc") }()
		time.Sleep(time.Second)
		if got := sent(s, "GET", "/v1/models", ""); !strings.Contains(got, `"status":{"value":"loading","progress":0.25}`) {
			t.Errorf("/v1/models: %s", got)
		}
		if got := sent(s, "GET", "/models", ""); !strings.Contains(got, `"id":"abc","state":"loading","progress":0.25,"size":3145728,"running":0,"waiting":1`) {
			t.Errorf("/models: %s", got)
		}
		if got := <-answer; !strings.HasPrefix(got, "200") {
			t.Error(got)
		}
	})
}

// TestModelsInTurn asks for two models that do not fit together, while the answers of one take longer than requests for
// the other wait.
func TestModelsInTurn(t *testing.T) {
	c := &fakeCatalog{names: []string{"abc", "wxyz"}}
	onDemand(t, c, func(s *Server) {
		complete(s, "abc")
		fake := c.fakes["abc"]
		fake.hold = make(chan struct{})
		slow, other := make(chan string), make(chan string)
		go func() { slow <- complete(s, "abc") }()
		synctest.Wait()
		got := complete(s, "wxyz")
		if !strings.HasPrefix(got, "503") || !strings.Contains(got, "waits for memory that other models use") {
			t.Error(got)
		}
		go func() { other <- complete(s, "wxyz") }()
		synctest.Wait()
		close(fake.hold)
		if got := <-slow; !strings.HasPrefix(got, "200") {
			t.Error(got)
		}
		if got := <-other; !strings.Contains(got, "wxyz answers") {
			t.Error(got)
		}
		if got := complete(s, "abc"); !strings.Contains(got, "abc answers") {
			t.Error(got)
		}
		if want := []string{"abc", "wxyz", "abc"}; !slices.Equal(c.opened, want) {
			t.Errorf("loaded %v; want %v", c.opened, want)
		}
	})
}

func TestModelThatCannotBeLoaded(t *testing.T) {
	c := &fakeCatalog{names: []string{"abc"}, err: errors.New("secret/path is cut off")}
	onDemand(t, c, func(s *Server) {
		if got := complete(s, "abc"); !strings.HasPrefix(got, "500") || !strings.Contains(got, "model_not_loaded") || strings.Contains(got, "secret") {
			t.Error(got)
		}
	})
}

// TestOllamaAdministration changes models as Ollama's clients do.
func TestOllamaAdministration(t *testing.T) {
	c := &fakeCatalog{names: []string{"abc"}}
	onDemand(t, c, func(s *Server) {
		for _, one := range [][4]string{
			{"POST", "/api/pull", `{"model":"owner/new:latest"}`, `200 {"status":"pulling manifest"}
{"status":"pulling config.json","digest":"config.json","total":10,"completed":10}
{"status":"pulling model.gguf","digest":"model.gguf","total":100,"completed":50}
{"status":"pulling model.gguf","digest":"model.gguf","total":100,"completed":100}
{"status":"success"}`},
			{"POST", "/api/pull", `{"model":"owner/second","stream":false}`, `200 {"status":"success"}`},
			{"POST", "/api/pull", `{"model":"no/such","stream":false}`, "404 {\"error\":\"The hub has no model `no/such` that can be served.\"}"},
			{"POST", "/api/pull", `{"model":"owner/cut"}`, `200 {"status":"pulling manifest"}
{"status":"pulling config.json","digest":"config.json","total":10,"completed":10}
{"status":"pulling model.gguf","digest":"model.gguf","total":100,"completed":50}
{"error":"internal error; the server's log has the details"}`},
			{"POST", "/api/pull", `{"model":"a","insecure":true}`, `400 {"error":"insecure: not supported, except as false; found true"}`},
			{"POST", "/api/create", `{"model":"pirate","from":"abc","system":"Arr.","parameters":{"temperature":0.5},"stream":false}`,
				`200 {"status":"success"}`},
			{"POST", "/api/create", `{"model":"x","from":"none"}`,
				"404 {\"error\":\"The model `none` does not exist or is not served here; there are static, abc, owner/new, owner/second, pirate.\"}"},
			{"POST", "/api/create", `{"model":"x","from":"abc","parameters":{"heat":1}}`, `400 {"error":"heat: this parameter is not supported"}`},
			{"POST", "/api/create", `{"model":"x","from":"abc","template":"{{ .Prompt }}"}`, `400 {"error":"templates are Jinja"}`},
			{"POST", "/api/create", `{"model":"x","from":"abc","files":{"a.gguf":"sha256:0"}}`,
				`400 {"error":"files: not allowed with from: a model is made of one or the other"}`},
			{"POST", "/api/create", `{"model":"x","files":{"a.gguf":"sha256:0"}}`,
				`404 {"error":"This server keeps no files of models: it was started without --state."}`},
			{"POST", "/api/blobs/sha256:0", "x", `404 {"error":"This server keeps no files of models: it was started without --state."}`},
			{"HEAD", "/api/blobs/sha256:0", "", `404 {"error":"This server keeps no files of models: it was started without --state."}`},
			{"DELETE", "/api/blobs/sha256:0", "", `405 {"error":"/api/blobs/sha256:0 takes POST, HEAD, not DELETE."}`},
			{"POST", "/api/create", `{"model":"static","from":"abc"}`, "409 {\"error\":\"The model `static` was named when the server was started.\"}"},
			{"POST", "/api/create", `{"from":"abc"}`, `400 {"error":"model: required, and not given; expected the name of the model to make"}`},
			{"POST", "/api/copy", `{"source":"abc","destination":"copy"}`, `200 {"success":true}`},
			{"POST", "/api/copy", `{"source":"abc"}`, `400 {"error":"source: required, and not given; expected two names, in source and destination"}`},
			{"DELETE", "/api/delete", `{"model":"abc"}`, `200 {"success":true}`},
			{"DELETE", "/api/delete", `{"model":"abc"}`,
				"404 {\"error\":\"The model `abc` does not exist or is not served here; there are static, copy, owner/new, owner/second, pirate.\"}"},
			{"POST", "/api/delete", `{"model":"pirate"}`, `405 {"error":"/api/delete takes DELETE, not POST."}`},
		} {
			if got := sent(s, one[0], one[1], one[2]); got != one[3] {
				t.Errorf("%s %s %s:\n got %s\nwant %s", one[0], one[1], one[2], got, one[3])
			}
		}
		if want := "{abc [] []   0 map[]}"; c.made != want {
			t.Errorf("made of %s; want %s", c.made, want)
		}
		if got := sent(s, "POST", "/api/generate", `{"model":"copy","prompt":"x","stream":false,"keep_alive":0}`); !strings.Contains(got, `"response":"copy answers"`) {
			t.Error(got)
		}
		synctest.Wait()
		if got := sent(s, "GET", "/api/ps", ""); strings.Contains(got, `"copy"`) {
			t.Errorf("kept for no time: %s", got)
		}
		for _, one := range [][2]string{{`{"model":"copy","keep_alive":"1h"}`, "load"}, {`{"model":"copy","keep_alive":0}`, "unload"}} {
			if got := sent(s, "POST", "/api/generate", one[0]); !strings.HasSuffix(got, `"done":true,"done_reason":"`+one[1]+`"}`) {
				t.Error(got)
			}
		}
	})
	s := build(t, Config{Models: []Served{served(newFake("static"))}, Keys: []Key{{Secret: "k"}}, AdminKeys: []string{"root"}})
	for key, want := range map[string]string{"k": "401", "root": "403"} {
		r := httptest.NewRequest("POST", "/api/pull", strings.NewReader(`{"model":"a/b"}`))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); fmt.Sprint(w.Code) != want {
			t.Errorf("with the key %s: %d %s; want %s", key, w.Code, w.Body, want)
		}
	}
}

// TestPingsWhileLoading holds that streams are kept alive while their model loads, and end in their own way if that
// fails.
func TestPingsWhileLoading(t *testing.T) {
	c := &fakeCatalog{names: []string{"a", "bb", "cc"}}
	onDemand(t, c, func(s *Server) {
		s.cfg.Ping = 3 * time.Second
		chat := `{"model":"a","messages":[{"role":"user","content":"x"}],"stream":true}`
		got := sent(s, "POST", "/v1/chat/completions", chat)
		if !strings.HasPrefix(got, "200 : ping\n\n: ping\n\n: ping\n\ndata: {") || !strings.HasSuffix(got, "[DONE]") {
			t.Errorf("a stream whose model was loaded: %s", got)
		}
		got = sent(s, "POST", "/api/chat", `{"model":"cc","messages":[{"role":"user","content":"x"}]}`)
		if lines := strings.Split(got, "\n"); len(lines) != 6 || strings.Count(got, `"content":""},"done":false}`) != 3 || !strings.Contains(lines[5], `"done":true`) {
			t.Errorf("lines of a model that was loaded: %s", got)
		}
		if got := sent(s, "POST", "/v1/chat/completions", chat); strings.Contains(got, "ping") {
			t.Errorf("a stream whose model was there: %s", got)
		}
		c.err = errors.New("the file is cut")
		for path, want := range map[string]string{
			"/v1/chat/completions": `data: {"error":{"message":"The model ` + "`bb`" + ` could not be loaded; the server's log says why."`,
			"/v1/responses":        "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"model_not_loaded\"",
			"/v1/messages":         `event: error`,
		} {
			time.Sleep(time.Hour) // a failure is remembered for a moment
			got := sent(s, "POST", path, `{"model":"bb","messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":5}`)
			if path == "/v1/responses" {
				got = sent(s, "POST", path, `{"model":"bb","input":"x","stream":true}`)
			}
			if !strings.HasPrefix(got, "200 ") || !strings.Contains(got, want) || strings.Count(got, "ping") < 3 {
				t.Errorf("%s: %s; want %s", path, got, want)
			}
		}
		if got := sent(s, "POST", "/v1/chat/completions", strings.Replace(chat, "true", "false", 1)); !strings.HasPrefix(got, "200 {") {
			t.Errorf("an answer that is not streamed: %s", got)
		}
	})
}
