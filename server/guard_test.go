package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// clumsy is a fake that panics wherever it computes.
type clumsy struct{ *fakeModel }

func (m clumsy) Generate(context.Context, *text.Prompt) (Generation, error) { return m, nil }
func (m clumsy) Next(context.Context) (text.Delta, error)                   { panic("boom") }
func (m clumsy) Prompt() []text.TokenInfo                                   { return nil }
func (m clumsy) Times() engine.Times                                        { return engine.Times{} }
func (m clumsy) Close()                                                     {}

func (m clumsy) Search(context.Context, *text.Prompt) ([]text.Delta, error) { panic("boom") }
func (m clumsy) Embed(context.Context, text.EmbedRequest) ([]float32, int, error) {
	panic("boom")
}

// TestPanicsOfARequest holds that a panic is an error of its request, whatever goroutine it is on.
func TestPanicsOfARequest(t *testing.T) {
	fake := newFake("fake")
	var log strings.Builder
	s := build(t, Config{Models: []Served{{Model: clumsy{fake}, Engine: fake, Vocabulary: fake}},
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, c := range []struct{ path, body string }{
		{"/v1/completions", `{"prompt":"x"}`},
		{"/v1/completions", `{"prompt":"x","n":2}`},
		{"/v1/completions", `{"prompt":["x","y"],"stream":true}`},
		{"/v1/completions", `{"prompt":["x","y"],"use_beam_search":true,"temperature":0,"top_p":1,"top_k":0}`},
		{"/v1/embeddings", `{"input":"x"}`},
		{"/v1/rerank", `{"query":"x","documents":["a","b"]}`},
		{"/v1/score", `{"text_1":"x","text_2":"y"}`},
	} {
		log.Reset()
		code, body := post(s, "", c.path, c.body)
		if code != 500 || strings.Contains(body, "boom") || !strings.Contains(log.String(), "guard_test.go") {
			t.Errorf("%s %s: %d %s; log %s", c.path, c.body, code, body, log.String())
		}
	}
}
