package server

import (
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
	err   error // of Open

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

func (c *fakeCatalog) Open(o shelf.Offer, _ int64, progress func(done, total int64)) (*Loaded, error) {
	progress(25, 100)
	time.Sleep(10 * time.Second)
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

func say(s *Server, method, path, body string) string {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

func complete(s *Server, model string) string {
	return say(s, "POST", "/v1/completions", `{"prompt":"x","model":"`+model+`"}`)
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
			"/v1/models/huge-model": `{"id":"huge-model","object":"model","created":1600000000,"owned_by":"kvasir","root":"huge-model",` +
				`"status":{"value":"unloaded"}}`,
			"/v1/models/abc": `{"id":"abc","object":"model","created":1700000000,"owned_by":"kvasir","root":"abc","max_model_len":64,` +
				`"status":{"value":"loaded"}}`,
		} {
			if got := say(s, "GET", path, ""); got != "200 "+want {
				t.Errorf("%s:\n got %s\nwant 200 %s", path, got, want)
			}
		}
		if got := say(s, "GET", "/v1/models", ""); strings.Count(got, `"id"`) != 4 {
			t.Errorf("/v1/models lists %s", got)
		}
		if got := say(s, "GET", "/metrics", ""); !strings.Contains(got, `vllm:num_requests_running{engine="0",model_name="abc"} 0`) {
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
			if got := say(s, "POST", one[0], one[1]); !strings.HasPrefix(got, one[2]) {
				t.Errorf("%s %s: %s; want %s", one[0], one[1], got, one[2])
			}
		}
		synctest.Wait()
		if got := say(s, "GET", "/models", ""); strings.Contains(got, `"abc"`) || !strings.Contains(got, `"de"`) {
			t.Errorf("after unloading: %s", got)
		}
		if got := say(s, "GET", "/metrics", ""); strings.Contains(got, `vllm:num_requests_running{engine="0",model_name="abc"}`) {
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
		if got := say(s, "GET", "/v1/models", ""); !strings.Contains(got, `"status":{"value":"loading","progress":0.25}`) {
			t.Errorf("/v1/models: %s", got)
		}
		if got := say(s, "GET", "/models", ""); !strings.Contains(got, `"id":"abc","state":"loading","progress":0.25,"size":3145728,"running":0,"waiting":1`) {
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
