package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/store"
)

// get asks with a key and returns the status and the body.
func get(s *Server, key, path string) (int, string) {
	r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer "+key)
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// noneHeld fails if memory stays held for requests, when those that go on in the background have ended.
func noneHeld(t *testing.T, s *Server) {
	t.Helper()
	eventually(t, "no bytes are held", func() bool {
		return s.bodies.read.Used()+s.bodies.decode.Used()+s.bodies.lines.Used() == 0
	})
}

// TestNobodyUnloadsForOthers holds that with an API key no request makes a model leave that others use.
func TestNobodyUnloadsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCatalog{names: []string{"abc"}, fakes: map[string]*fakeModel{}}
		s := build(t, Config{Models: []Served{served(newFake("static", "Hello"))}, Keys: []Key{{Secret: "a"}, {Secret: "b"}},
			AdminKeys: []string{"root"}, OnDemand: &OnDemand{Catalog: c, Memory: 5 << 20, Keep: time.Minute, Wait: time.Minute}})
		defer s.Close()
		ask := func(key, body string) (int, http.Header, string) {
			r, w := httptest.NewRequest("POST", "/api/generate", strings.NewReader(body)), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer "+key)
			s.ServeHTTP(w, r)
			return w.Code, w.Header(), w.Body.String()
		}
		ask("a", `{"model":"abc","prompt":"x","stream":false}`)
		if code, h, body := ask("b", `{"model":"abc","prompt":"x","stream":false,"keep_alive":0}`); code != 200 || h.Get(ignoredHeader) != "keep_alive" {
			t.Errorf("%d %v %s", code, h, body)
		}
		if code, _, body := ask("b", `{"model":"abc","keep_alive":0}`); code != 403 || !strings.Contains(body, "/models/unload") {
			t.Errorf("unloading with an API key: %d %s", code, body)
		}
		synctest.Wait()
		if _, body := get(s, "a", "/models"); !strings.Contains(body, `"id":"abc","state":"loaded"`) {
			t.Errorf("the model has left: %s", body)
		}
		if code, h, _ := ask("b", `{"model":"abc","prompt":"x","stream":false,"keep_alive":"1h"}`); code != 200 || h.Get(ignoredHeader) != "" {
			t.Errorf("keeping it for longer: %d %v", code, h)
		}
		if code, body := post(s, "root", "/models/unload", `{"model":"abc"}`); code != 200 {
			t.Errorf("the admin: %d %s", code, body)
		}
	})
}

// TestSealedForOneKey holds that what one key was given sealed, another one cannot have opened.
func TestSealedForOneKey(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake", "a"))}, Keys: []Key{{Secret: "a"}, {Secret: "b"}}})
	sealed := s.seal(s.ring().tenants[0].owner, "a thought")
	for key, want := range map[string]int{"a": 200, "b": 400} {
		body := fmt.Sprintf(`{"store":false,"input":[{"type":"reasoning","summary":[],"encrypted_content":%q},{"role":"user","content":"x"}]}`, sealed)
		if code, answer := post(s, key, "/v1/responses", body); code != want || code == 400 && !strings.Contains(answer, "API key") {
			t.Errorf("key %s: %d %s", key, code, answer)
		}
	}
}

// TestStoredIsOnesOwn holds that no key finds the responses, files and batches of another, by any path.
func TestStoredIsOnesOwn(t *testing.T) {
	_, s, _ := serveBatches(t, t.TempDir())
	owner := s.ring().tenants[0].owner
	kept := s.cfg.State
	err := errors.Join(
		kept.PutResponse(t.Context(), &store.Response{ID: "resp_1", Owner: owner, Status: openai.ResponseCompleted,
			Body: []byte(`{"background":true,"output":[]}`), Input: []byte(`{"data":[{"type":"message","id":"msg_1_i1","role":"user","content":"a secret"}]}`)}),
		kept.PutBatch(t.Context(), &store.Batch{ID: "batch_1", Owner: owner, Body: []byte(`{"id":"batch_1"}`)}))
	f := kept.NewFile(store.File{ID: "file-1", Owner: owner, Purpose: "batch"})
	f.Write([]byte(lines("a")))
	if _, failed := f.Commit(t.Context()); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	type try struct{ method, path, body string }
	for _, c := range []try{
		{"GET", "/v1/responses/resp_1", ""}, {"GET", "/v1/responses/resp_1/input_items", ""}, {"GET", "/v1/responses/resp_1?stream=true", ""},
		{"POST", "/v1/responses/resp_1/cancel", ""}, {"DELETE", "/v1/responses/resp_1", ""},
		{"POST", "/v1/responses", `{"input":"x","previous_response_id":"resp_1"}`},
		{"POST", "/v1/responses", `{"input":[{"type":"item_reference","id":"msg_1_i1"}]}`},
		{"GET", "/v1/files/file-1", ""}, {"GET", "/v1/files/file-1/content", ""}, {"DELETE", "/v1/files/file-1", ""},
		{"POST", "/v1/batches", `{"input_file_id":"file-1","endpoint":"/v1/chat/completions","completion_window":"24h"}`},
		{"GET", "/v1/batches/batch_1", ""}, {"POST", "/v1/batches/batch_1/cancel", ""},
		{"GET", "/v1/files", ""}, {"GET", "/v1/batches", ""},
	} {
		for _, key := range []string{"other", "key"} { // the owner after the other, who changes nothing
			r, w := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer "+key)
			if c.method == "DELETE" && key == "key" || strings.HasSuffix(c.path, "batch_1/cancel") && key == "key" {
				continue
			}
			s.ServeHTTP(w, r)
			list := c.path == "/v1/files" || c.path == "/v1/batches" && c.method == "GET"
			refused := w.Code == 404 || w.Code == 400 && strings.Contains(w.Body.String(), "not found") ||
				c.path == "/v1/batches" && w.Code == 400 || list && strings.Contains(w.Body.String(), `"data":[]`)
			if key == "other" && !refused || key == "key" && w.Code == 404 {
				t.Errorf("%s %s %s with the key %s: %d %s", c.method, c.path, c.body, key, w.Code, w.Body)
			}
		}
	}
	noneHeld(t, s)
}

// TestRecallIsBounded holds that what a small request brings back from the store takes no more memory than a large
// request, and is read once.
func TestRecallIsBounded(t *testing.T) {
	kept, err := store.Open("", store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	s := build(t, Config{Models: []Served{served(newFake("fake", "a"))}, State: kept, MaxBodyBytes: 1 << 20, RequestMemory: 16 << 20})
	defer s.Close()
	item := fmt.Sprintf(`{"type":"message","id":"msg_1_i1","role":"user","content":%q}`, strings.Repeat("a", 900<<10))
	err = kept.PutResponse(t.Context(), &store.Response{ID: "resp_1", Status: openai.ResponseCompleted, Body: []byte(`{"output":[]}`),
		Input: []byte(`{"data":[` + item + `]}`)})
	if err != nil {
		t.Fatal(err)
	}
	refs := strings.TrimSuffix(strings.Repeat(`{"type":"item_reference","id":"msg_1_i1"},`, 4000), ",")
	began := time.Now()
	if code, body := post(s, "", "/v1/responses", `{"input":[`+refs+`]}`); code != 400 || !strings.Contains(body, "the most of a request") {
		t.Errorf("%d %.300s", code, body)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	held, err := s.bodies.read.Acquire(t.Context(), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{"/v1/responses": `{"input":"x","previous_response_id":"resp_1"}`, "/v1/responses/resp_1/input_items": ""} {
		code, answer := get(s, "", path)
		if body != "" {
			code, answer = post(s, "", path, body)
		}
		if code != http.StatusServiceUnavailable {
			t.Errorf("%s takes memory that is not there: %d %.300s", path, code, answer)
		}
	}
	held()
	noneHeld(t, s)
}

// TestLaterHoldsMemory holds that a response in the background keeps the memory of its request until it is made, and
// that no key takes all places.
func TestLaterHoldsMemory(t *testing.T) {
	fake := newFake("fake", "a")
	fake.hold = make(chan struct{})
	s := build(t, Config{Models: []Served{served(fake)}, Keys: []Key{{Secret: "a"}, {Secret: "b"}}})
	defer s.Close()
	code, body := post(s, "a", "/v1/responses", `{"input":"x","background":true,"metadata":{"k":"`+strings.Repeat("v", 500)+`"}}`)
	if code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	if n := s.bodies.read.Used(); n < 500 {
		t.Errorf("%d bytes are held for a response that is being made", n)
	}
	fake.hold <- struct{}{}
	eventually(t, "the bytes are given back", func() bool { return s.bodies.read.Used() == 0 })

	l := s.later
	for i := 0; ; i++ {
		if _, err := l.begin(fmt.Sprint("a", i), "a", func(error) {}); err != nil {
			if i != maxLater/2 {
				t.Errorf("one key has %d places of %d", i, maxLater)
			}
			break
		}
	}
	if _, err := l.begin("b0", "b", func(error) {}); err != nil {
		t.Errorf("another key: %v", err)
	}
	clear(l.running)
}

// TestBatchesOfOneKey holds that few of a key's batches are read at once, beside which others have their turns, and
// that lines of batches take a bounded part of the memory.
func TestBatchesOfOneKey(t *testing.T) {
	fake, s, web := serveBatches(t, t.TempDir())
	s.cfg.MaxBodyBytes, s.bodies = 1<<20, newBodies(16<<20)
	fake.info.Context = 1 << 20
	fake.hold = make(chan struct{})
	var ended []func()
	for range batchesAtOnce {
		done, err := s.later.turn(t.Context(), s.ring().tenants[1].owner)
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, done)
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.later.turn(late, s.ring().tenants[1].owner); err == nil {
		t.Error("one batch more of the key has a turn")
	}
	var all strings.Builder
	for i := range 20 {
		fmt.Fprintf(&all, `{"custom_id":"%d","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":%q}]}}`+"\n",
			i, strings.Repeat("x", 100_000))
	}
	b := startBatch(t, sdk(web, "key"), all.String())
	eventually(t, "answers are made", func() bool { return fake.live.Load() > 0 })
	for range 40 {
		if n := fake.live.Load(); n > 4 {
			t.Errorf("%d requests of 100 kB are answered at once, of 2 MB for all", n)
		}
		fake.hold <- struct{}{}
	}
	b = waitFor(t, sdk(web, "key"), b.ID, "completed")
	if b.RequestCounts.Completed != 20 {
		t.Errorf("%s", b.RawJSON())
	}
	for _, done := range ended {
		done()
	}
	noneHeld(t, s)
}
