package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// nullModel answers with the same token for as long as a request lasts, at no cost.
type nullModel struct{ *fakeModel }

func (m nullModel) Generate(_ context.Context, p *text.Prompt) (Generation, error) {
	return &nullGeneration{left: p.Request.MaxTokens, ids: []int32{1}}, nil
}

type nullGeneration struct {
	left int
	ids  []int32
}

func (g *nullGeneration) Next(context.Context) (text.Delta, error) {
	d := text.Delta{Text: " token", IDs: g.ids}
	if g.left--; g.left == 0 {
		d.Finish = "length"
	}
	return d, nil
}

func (g *nullGeneration) Prompt() []text.TokenInfo { return nil }
func (g *nullGeneration) Times() engine.Times      { return engine.Times{} }
func (g *nullGeneration) Close()                   {}

const benchBody = `{"messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":100000}`

func nullServer(tb testing.TB) *Server {
	fake := newFake("null")
	fake.info.Context = 1 << 20
	s, err := New(Config{Models: []Served{{Model: nullModel{fake}, Engine: fake, Vocabulary: fake}}})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// discard is a connection that takes everything.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
func (d discard) Flush()                      {}

func (d discard) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkStream streams tokens into nothing: what the server itself costs.
func BenchmarkStream(b *testing.B) {
	s := nullServer(b)
	b.ReportAllocs()
	for b.Loop() {
		s.ServeHTTP(discard{http.Header{}}, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(benchBody)))
	}
	b.ReportMetric(float64(b.N)*1e5/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkStreamTCP streams tokens to a client over the loopback, one write for each.
func BenchmarkStreamTCP(b *testing.B) {
	web := httptest.NewServer(nullServer(b))
	defer web.Close()
	for b.Loop() {
		resp, err := http.Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(benchBody))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
	b.ReportMetric(float64(b.N)*1e5/b.Elapsed().Seconds(), "tokens/s")
}

// TestStreamAllocatesNothingPerToken holds that the cost of a stream in memory does not grow with its length.
func TestStreamAllocatesNothingPerToken(t *testing.T) {
	s := nullServer(t)
	respond := `{"input":"hi","stream":true,"store":false,"ignore_eos":true,"max_output_tokens":100000}`
	for path, body := range map[string]string{"/v1/chat/completions": benchBody, "/v1/messages": benchBody, "/v1/responses": respond} {
		of := func(tokens string) float64 {
			body := strings.Replace(body, "100000", tokens, 1)
			return testing.AllocsPerRun(5, func() {
				s.ServeHTTP(discard{http.Header{}}, httptest.NewRequest("POST", path, bytes.NewBufferString(body)))
			})
		}
		if short, long := of("10"), of("10010"); long-short > 40 { // the whole text grows a few times
			t.Errorf("%s: a stream of 10 tokens makes %v allocations, one of 10010 makes %v", path, short, long)
		}
	}
}
