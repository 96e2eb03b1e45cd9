package server

import (
	"cmp"
	"slices"
	"testing"

	"github.com/openai/openai-go/v3"
)

// TestBestOf asks for the best two of five answers, and finds them by the log probabilities of all five.
func TestBestOf(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	params := openai.CompletionNewParams{
		Model: "kvasir-mini", Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"Once upon a time", "The"}},
		MaxTokens: openai.Int(12), Seed: openai.Int(3), Temperature: openai.Float(1.2), N: openai.Int(5), Logprobs: openai.Int(0),
	}
	all, err := client.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for group := range slices.Chunk(all.Choices, 5) {
		mean := func(c openai.CompletionChoice) float64 {
			sum := 0.0
			for _, v := range c.Logprobs.TokenLogprobs {
				sum += v
			}
			return sum / float64(len(c.Logprobs.TokenLogprobs))
		}
		slices.SortFunc(group, func(a, b openai.CompletionChoice) int { return cmp.Compare(mean(b), mean(a)) })
		want = append(want, group[0].Text, group[1].Text)
	}
	for _, echo := range []bool{false, true} {
		params.N, params.BestOf, params.Echo = openai.Int(2), openai.Int(5), openai.Bool(echo)
		params.Logprobs.Value = 0
		best, err := client.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, c := range best.Choices {
			text := c.Text
			if prompt := params.Prompt.OfArrayOfStrings[i/2]; echo {
				text = text[len(prompt):]
			}
			if got = append(got, text); c.Index != int64(i) {
				t.Errorf("answer %d has index %d", i, c.Index)
			}
		}
		if !slices.Equal(got, want) || best.Usage.CompletionTokens != all.Usage.CompletionTokens || best.Usage.PromptTokens != all.Usage.PromptTokens {
			t.Errorf("echo %v: the best are %q, %+v\nwant %q, %+v", echo, got, best.Usage, want, all.Usage)
		}
	}
}
