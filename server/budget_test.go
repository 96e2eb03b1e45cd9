package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kvasir-llm/kvasir/api/openai"
)

// many returns an array of as many elements as come to about a size in bytes.
func many(element string, size int) string {
	n := max(size/(len(element)+1), 1)
	return "[" + strings.Repeat(element+",", n-1) + element + "]"
}

// hostile are bodies of about so many bytes that decode to much, by what they are made of.
func hostile(size int) map[string]string {
	chat := func(members string) string { return `{"messages":` + members + `}` }
	return map[string]string{
		"messages":   chat(many(`{"role":"user","content":""}`, size)),
		"parts":      chat(`[{"role":"user","content":` + many(`{"type":"text","text":""}`, size) + `}]`),
		"calls":      chat(`[{"role":"assistant","tool_calls":` + many(`{"type":"function","function":{"name":"a"}}`, size) + `}]`),
		"kwargs":     `{"chat_template_kwargs":{"a":` + many(`{}`, size) + `},"messages":[{"role":"user","content":""}]}`,
		"escapes":    chat(`[{"role":"user","content":"` + strings.Repeat(`\u00e9`, size/6) + `"}]`),
		"unknown":    `{"zebra":` + many(`{}`, size) + `}`,
		"members":    `{"zebra":[` + strings.Repeat(`{"a":{},"b":{},"c":{}},`, size/23) + `0]}`,
		"stop":       `{"stop":` + many(`"a"`, size) + `}`,
		"logit_bias": `{"logit_bias":{` + strings.Repeat(`"1":0,`, size/6) + `"2":0}}`,
	}
}

// TestDecodingCosts holds that decoding takes no more memory for a byte of a body than decodeFactor, whatever is in it.
func TestDecodingCosts(t *testing.T) {
	const size = 1 << 20
	cost := func(body string, decode func([]byte) error) (bytes float64) {
		var before, after runtime.MemStats
		data := []byte(body)
		runtime.ReadMemStats(&before)
		decode(data)
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(len(data))
	}
	bodies := hostile(size)
	bodies["prompt ids"] = `{"prompt":` + many("1", size) + `}`
	for name, body := range bodies {
		got := cost(body, func(b []byte) error { _, err := decodeChat(b); return err })
		if strings.HasPrefix(name, "prompt") {
			got = cost(body, func(b []byte) error { _, err := decodeCompletion(b); return err })
		}
		if got > decodeFactor {
			t.Errorf("%s: %.1f bytes for a byte; want at most %d", name, got, decodeFactor)
		}
	}
	snippets := `{"input_prefix":"a","input_suffix":"b","input_extra":` + many(`{"filename":"a","text":"b"}`, size) + `}`
	if got := cost(snippets, func(b []byte) error { _, err := decodeLlamaInfill(b); return err }); got > decodeFactor {
		t.Errorf("snippets: %.1f bytes for a byte; want at most %d", got, decodeFactor)
	}
	if got := cost(`{"tokens":`+many("1", size)+`}`, func(b []byte) error { _, err := openai.DecodeDetokenize(b); return err }); got > decodeFactor {
		t.Errorf("detokenize: %.1f bytes for a byte; want at most %d", got, decodeFactor)
	}
}

// TestBodiesInFlight holds that bodies are refused when together they take more than there is for them, that small
// ones are answered meanwhile, and that what an answer held is free afterwards.
func TestBodiesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := newFake("fake", "Hello")
		s := build(t, Config{Models: []Served{served(fake)}, MaxBodyBytes: 1 << 20, RequestMemory: 16 << 20})
		ask := func(body io.Reader) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/completions", body))
			if w.Code == http.StatusServiceUnavailable && (w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too_many_bytes")) {
				t.Errorf("503 says %s", w.Body)
			}
			return w.Code
		}
		large := func() io.Reader { return strings.NewReader(`{"prompt":"` + strings.Repeat("a", 1<<20-100) + `"}`) }
		if status := ask(large()); status != http.StatusBadRequest { // it is longer than the context
			t.Fatalf("one large body: %d", status)
		}
		var open []*io.PipeWriter
		done := make(chan int)
		for range 3 { // which send most of their bodies, and wait
			r, w := io.Pipe()
			go func() { done <- ask(r) }()
			if _, err := io.Copy(w, io.LimitReader(large(), 1<<20-200)); err != nil {
				t.Fatal(err)
			}
			open = append(open, w)
		}
		synctest.Wait() // until each has room for what it waits for
		if status := ask(large()); status != http.StatusServiceUnavailable {
			t.Errorf("a large body beside three others: %d", status)
		}
		if status := ask(strings.NewReader(`{"prompt":"x"}`)); status != http.StatusOK {
			t.Errorf("a small body beside three large ones: %d", status)
		}
		for _, w := range open {
			w.CloseWithError(io.ErrUnexpectedEOF)
			if status := <-done; status != http.StatusBadRequest {
				t.Errorf("half of a body: %d", status)
			}
		}
		if n := s.bodies.read.Used() + s.bodies.decode.Used() + s.ring().nobody.held.Load(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	})
}

// TestShareOfAKey holds that the bodies of one API key leave room for those of others.
func TestShareOfAKey(t *testing.T) {
	fake := newFake("fake", "Hello")
	fake.info.Context = 1 << 22
	fake.hold = make(chan struct{})
	s := build(t, Config{Models: []Served{served(fake)}, MaxBodyBytes: 1 << 20, RequestMemory: 8 << 20, Keys: []Key{{Secret: "a"}, {Secret: "b"}}})
	ask := func(key string) int {
		r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("a", 600_000))))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	done := make(chan int)
	go func() { done <- ask("a") }()
	for fake.live.Load() == 0 { // until it is being answered
		runtime.Gosched()
	}
	if status := ask("a"); status != http.StatusServiceUnavailable {
		t.Errorf("a second large body with a key: %d", status)
	}
	go func() { done <- ask("b") }()
	close(fake.hold)
	for range 2 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
}
