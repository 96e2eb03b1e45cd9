package server

import (
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/sampling"
)

func TestBeamSearchReachesTheModel(t *testing.T) {
	greedy := sampling.Defaults()
	greedy.Temperature = 0
	for _, c := range []struct {
		members string
		want    sampling.BeamParams
	}{
		{`"n":3`, sampling.BeamParams{Width: 3, LengthPenalty: 1, Early: sampling.EarlyHeuristic}},
		{`"best_of":4,"length_penalty":-0.5,"early_stopping":true,"temperature":0`, sampling.BeamParams{Width: 4, LengthPenalty: -0.5, Early: sampling.EarlyAlways}},
		{`"n":2,"best_of":4,"early_stopping":"never","top_p":1,"top_k":-1`, sampling.BeamParams{Width: 4, LengthPenalty: 1, Early: sampling.EarlyNever}},
	} {
		got := ask1(t, "/v1/completions", `{"prompt":[1,2],"use_beam_search":true,`+c.members+`}`)
		want := text.Request{IDs: []int32{1, 2}}
		want.Params = engine.Params{Sampling: greedy, MaxTokens: 16, Logprobs: -1, PromptLogprobs: -1, Search: &c.want}
		if diff := cmp.Diff(want, got[0].Request); len(got) != 1 || diff != "" {
			t.Errorf("%s: %s", c.members, diff)
		}
	}
}

func TestBeamSearchAnswers(t *testing.T) {
	fake := newFake("fake", "x")
	s := build(t, Config{Models: []Served{served(fake)}})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/completions", strings.NewReader(
		`{"prompt":["p","q"],"use_beam_search":true,"n":2,"best_of":3,"return_token_ids":true}`)))
	for i, want := range []string{`"text":"xa"`, `"text":"xb"`, `"text":"xa"`, `"text":"xb"`, `"prompt_tokens":4`, `"completion_tokens":8`, `"token_ids":[120,98]`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d: %s lacks %s", i, w.Body, want)
		}
	}
	if len(fake.asked) != 2 || strings.Count(w.Body.String(), `"index"`) != 4 {
		t.Errorf("%d searches: %s", len(fake.asked), w.Body)
	}
}

// TestBeamSearchIsLikelier compares the best of a search with the greedy answer, whose beginning the search knows too.
func TestBeamSearchIsLikelier(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	params := openai.CompletionNewParams{
		Model: "kvasir-mini", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once upon a time")},
		MaxTokens: openai.Int(12), Temperature: openai.Float(0), Logprobs: openai.Int(1), N: openai.Int(1),
	}
	sum := func(c openai.CompletionChoice) (sum float64) {
		for _, v := range c.Logprobs.TokenLogprobs {
			sum += v
		}
		return sum
	}
	greedy, err := client.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	params.N = openai.Int(4)
	search := func(more ...option.RequestOption) []openai.CompletionChoice {
		got, err := client.Completions.New(t.Context(), params, append(more,
			option.WithJSONSet("use_beam_search", true), option.WithJSONSet("ignore_eos", true), option.WithJSONSet("length_penalty", 0))...)
		if err != nil {
			t.Fatal(err)
		}
		return got.Choices
	}
	found := search()
	var sums []float64
	for _, c := range found {
		sums = append(sums, sum(c))
		if len(c.Logprobs.Tokens) != 12 || strings.Join(c.Logprobs.Tokens, "") != c.Text || c.FinishReason != "length" {
			t.Errorf("%q has the tokens %q and ends with %s", c.Text, c.Logprobs.Tokens, c.FinishReason)
		}
	}
	if len(sums) != 4 || !slices.IsSortedFunc(sums, func(a, b float64) int { return int(math.Copysign(1, b-a+1e-6)) }) || sums[0] < sum(greedy.Choices[0])-1e-6 {
		t.Errorf("log probabilities %v; greedily %v", sums, sum(greedy.Choices[0]))
	}
	chat, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
		Model: "kvasir-mini", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
		MaxTokens: openai.Int(5), N: openai.Int(2),
	}, option.WithJSONSet("use_beam_search", true), option.WithJSONSet("best_of", 3))
	if err != nil || len(chat.Choices) != 2 || chat.Choices[0].Message.Content == chat.Choices[1].Message.Content {
		t.Errorf("a chat: %+v, %v", chat, err)
	}
}
