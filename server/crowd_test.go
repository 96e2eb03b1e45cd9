package server

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"
)

// TestCrowd lets 64 clients ask the built-in model at once, of which every other one hangs up after its first words.
// The rest get the answers they get alone, and afterwards nothing is held: no sequence, no KV block, no goroutine.
func TestCrowd(t *testing.T) {
	m, web := serveMini(t)
	before := goleak.IgnoreCurrent()
	prompts := []string{"Once upon a time", "The KV cache", "What is", "A robot named"}
	complete := func(ctx context.Context, prompt string, seed int64, hangUp bool) string {
		client := sdk(web, "key")
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream := client.Completions.NewStreaming(ctx, openai.CompletionNewParams{Model: "kvasir-mini",
			Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)}, Seed: openai.Int(seed),
			Temperature: openai.Float(1), MaxTokens: openai.Int(32)}, option.WithJSONSet("ignore_eos", true))
		defer stream.Close()
		var text strings.Builder
		for stream.Next() {
			for _, c := range stream.Current().Choices {
				text.WriteString(c.Text)
			}
			if hangUp {
				return ""
			}
		}
		if err := stream.Err(); err != nil {
			t.Errorf("%q: %v", prompt, err)
		}
		return text.String()
	}
	alone := make([]string, len(prompts))
	for i, p := range prompts {
		alone[i] = complete(t.Context(), p, int64(i), false)
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			k, hangUp := i/2%len(prompts), i%2 == 1
			if got := complete(t.Context(), prompts[k], int64(k), hangUp); !hangUp && got != alone[k] {
				t.Errorf("in company %q became %q, alone it was %q", prompts[k], got, alone[k])
			}
		})
	}
	wg.Wait()
	eventually(t, "the engine holds nothing", func() bool {
		s := m.Engine.Report()
		return s.Running == 0 && s.Waiting == 0 && s.Cache.Used == 0
	})
	web.Client().CloseIdleConnections()
	web.CloseClientConnections()
	goleak.VerifyNone(t, before)

	w := httptest.NewRecorder()
	web.Config.Handler.ServeHTTP(w, httptest.NewRequest("GET", "/health", nil))
	if w.Code != 200 {
		t.Errorf("/health: %d %s", w.Code, w.Body)
	}
}
