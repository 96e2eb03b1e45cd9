package server

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/store"
)

// FuzzHTTP sends any body to every path that takes one: the answer is never a failure of the server, and nothing is
// held afterwards.
func FuzzHTTP(f *testing.F) {
	fake := newFake("fake", "Hel", "lo")
	kept, err := store.Open("", store.Limits{Responses: 9, FileBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	defer kept.Close()
	s, err := New(Config{Models: []Served{served(fake)}, AdminKeys: []string{"admin"}, State: kept})
	if err != nil {
		f.Fatal(err)
	}
	defer s.Close()
	var paths []string
	for path, r := range s.routes {
		if r.method == "POST" {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for i := range paths {
		for _, body := range hostile(200) {
			f.Add(uint8(i), body)
		}
		f.Add(uint8(i), `{"prompt":["a",[1,2]],"stream":true,"n":2,"logprobs":2,"echo":true}`)
		f.Add(uint8(i), `{"messages":[{"role":"user","content":"hi"}],"tools":[],"stop":"a","logit_bias":{"1":2}}`)
		f.Add(uint8(i), `{"input":"a","background":true,"previous_response_id":"resp_1","tools":[]}`)
		f.Add(uint8(i), `{"input":["a"],"query":"a","documents":["b",{"text":"c"}],"text_1":"a","text_2":["b"],"tokens":[1]}`)
	}
	f.Fuzz(func(t *testing.T, path uint8, body string) {
		r := httptest.NewRequest("POST", paths[int(path)%len(paths)], strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer admin")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != 503 {
			t.Errorf("%s %q: %d %s", r.URL.Path, body, w.Code, w.Body)
		}
		if n := s.bodies.read.Used() + s.bodies.decode.Used() + fake.live.Load(); n != 0 {
			t.Errorf("%s %q: %d bytes and answers are still held", r.URL.Path, body, n)
		}
	})
}
