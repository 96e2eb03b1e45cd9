package text

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
)

// TestAnswersGoOn breaks answers off after each of their tokens. What another request makes of the beginning is what
// the first one made: its text, its end and its usage.
func TestAnswersGoOn(t *testing.T) {
	m := openMini(t, Options{})
	for i, seed := range []uint64{0, 7, 8} {
		r := request()
		r.Chat = &chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{{Role: "user", Content: "Tell me a story of a fox — and ünïcode."}}}
		r.MaxTokens, r.IgnoreEOS, r.Stop = 40, true, []string{"never said"}
		r.Sampling.Seed, r.Sampling.Temperature = seed, float32(min(seed, 1))
		r.Sampling.TopP, r.Sampling.RepetitionPenalty, r.Sampling.FrequencyPenalty = 1, 1, float32(i)/10
		if i == 2 {
			text, _, _ := answer(t, m, r)
			r.Stop = append(r.Stop, text[len(text)/2:len(text)/2+9]) // which the cut goes through
		}
		want, ids, last := answer(t, m, r)
		shown := shownAfter(t, m, r)
		for n := 1; n < len(ids); n++ {
			r.Begun = ids[:n]
			text, more, end := answer(t, m, r)
			before, known := shown[n]
			got := before + text
			if known && got != want || !known && !strings.HasSuffix(want, text) || !slices.Equal(slices.Concat(r.Begun, more), ids) || end.Finish != last.Finish ||
				end.Stop != last.Stop || end.Usage.Generated != last.Usage.Generated || end.Usage.Prompt != last.Usage.Prompt ||
				end.Usage.Cached > end.Usage.Prompt {
				t.Fatalf("seed %d, after %d of %d tokens: %q (%+v); want the end of %q (%+v)", seed, n, len(ids), text, end, want, last)
			}
		}
	}
	r := request()
	r.IDs, r.MaxTokens = []int32{1, 2, 3}, 4
	for name, begun := range map[string][]int32{"more than max_tokens": {1, 2, 3, 4}, "no token": {-1}} {
		r.Begun = begun
		if _, err := m.Prepare(t.Context(), r); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// shownAfter returns the texts that an answer has shown with its pieces, by how many tokens they are of.
func shownAfter(t *testing.T, m *Model, r Request) map[int]string {
	t.Helper()
	p, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Generate(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	all, text, n := map[int]string{}, "", 0
	for {
		d, err := g.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, n = text+d.Text, n+len(d.IDs)
		all[n] = text
	}
}
