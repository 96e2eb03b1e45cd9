package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// question is a greedy question to the built-in model.
func question() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:       "kvasir-mini",
		Messages:    []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is a KV cache?")},
		Temperature: openai.Float(0),
		MaxTokens:   openai.Int(24),
	}
}

func TestSDKChat(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	r, err := client.Chat.Completions.New(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	answer := r.Choices[0].Message.Content
	if len(answer) < 20 || r.Choices[0].FinishReason != "length" || r.Usage.CompletionTokens != 24 || r.Model != "kvasir-mini" {
		t.Errorf("answer %q, finish %s, usage %+v", answer, r.Choices[0].FinishReason, r.Usage)
	}

	params := question()
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	sum := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !sum.AddChunk(stream.Current()) {
			t.Errorf("the client cannot place %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := sum.Choices[0]; got.Message.Content != answer || got.FinishReason != "length" || string(got.Message.Role) != "assistant" {
		t.Errorf("streamed %q (%s), whole %q", got.Message.Content, got.FinishReason, answer)
	}
	if sum.Usage.CompletionTokens != 24 || sum.Usage.PromptTokens != r.Usage.PromptTokens {
		t.Errorf("streamed usage %+v, whole %+v", sum.Usage, r.Usage)
	}

	words := strings.Fields(answer)
	stop := words[len(words)/2]
	params = question()
	params.Stop.OfStringArray = []string{"no such text", stop}
	r, err = client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := strings.Cut(answer, stop)
	if got := r.Choices[0]; got.Message.Content != want || got.FinishReason != "stop" {
		t.Errorf("stopped at %q: %q (%s), want %q", stop, got.Message.Content, got.FinishReason, want)
	}
}

func TestSDKSeedsAndChoices(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	draw := func(n, seed int64) []string {
		params := question()
		params.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Tell me a story.")}
		params.Temperature, params.TopP = openai.Float(2), openai.Float(1)
		params.N, params.Seed = openai.Int(n), openai.Int(seed)
		r, err := client.Chat.Completions.New(t.Context(), params, option.WithJSONSet("top_k", -1), option.WithJSONSet("ignore_eos", true))
		if err != nil {
			t.Fatal(err)
		}
		out := make([]string, len(r.Choices))
		for i, c := range r.Choices {
			if int(c.Index) != i || c.FinishReason != "length" {
				t.Errorf("choice %d has index %d and finish %s", i, c.Index, c.FinishReason)
			}
			out[i] = c.Message.Content
		}
		if want := 24 * n; r.Usage.CompletionTokens != want {
			t.Errorf("%d completion tokens, want %d", r.Usage.CompletionTokens, want)
		}
		return out
	}
	three, again, next := draw(3, 7), draw(3, 7), draw(1, 8)
	if three[0] == three[1] || three[1] == three[2] {
		t.Errorf("choices do not differ: %q", three)
	}
	if strings.Join(three, "|") != strings.Join(again, "|") {
		t.Errorf("the same seed gave %q, then %q", three, again)
	}
	if next[0] != three[1] {
		t.Errorf("choice 1 of seed 7 is %q, seed 8 gives %q; want the same", three[1], next[0])
	}
}

func TestSDKLogprobs(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	params := question()
	params.Logprobs, params.TopLogprobs = openai.Bool(true), openai.Int(3)
	r, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for i, l := range r.Choices[0].Logprobs.Content {
		for _, b := range l.Bytes {
			text = append(text, byte(b))
		}
		if len(l.TopLogprobs) != 3 || l.TopLogprobs[0].Token != l.Token || l.TopLogprobs[0].Logprob != l.Logprob ||
			l.Logprob > 0 || l.TopLogprobs[1].Logprob > l.Logprob {
			t.Errorf("token %d: %s", i, l.RawJSON())
		}
	}
	if got := r.Choices[0].Message.Content; !bytes.Equal(text, []byte(got)) {
		t.Errorf("tokens are %q, the answer %q", text, got)
	}
}

func TestSDKCompletion(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	params := openai.CompletionNewParams{
		Model: "kvasir-mini", Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"Once upon a time", "Größe"}},
		Echo: openai.Bool(true), Logprobs: openai.Int(2), MaxTokens: openai.Int(8), Temperature: openai.Float(0),
	}
	r, err := client.Completions.New(t.Context(), params, option.WithJSONSet("ignore_eos", true))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Choices) != 2 || r.Usage.CompletionTokens != 16 {
		t.Fatalf("%d choices, usage %+v", len(r.Choices), r.Usage)
	}
	for i, c := range r.Choices {
		prompt := params.Prompt.OfArrayOfStrings[i]
		if !strings.HasPrefix(c.Text, prompt) || len(c.Text) == len(prompt) {
			t.Errorf("choice %d is %q; its prompt %q", i, c.Text, prompt)
		}
		var l struct { // the client's own type drops what is null
			Tokens        []string             `json:"tokens"`
			TokenLogprobs []*float64           `json:"token_logprobs"`
			TopLogprobs   []map[string]float64 `json:"top_logprobs"`
			TextOffset    []int                `json:"text_offset"`
		}
		if err := json.Unmarshal([]byte(c.Logprobs.RawJSON()), &l); err != nil {
			t.Fatal(err)
		}
		chars := []rune(c.Text)
		if n := len(l.Tokens); n < 10 || len(l.TokenLogprobs) != n || len(l.TopLogprobs) != n || len(l.TextOffset) != n {
			t.Fatalf("lists of different lengths: %s", c.Logprobs.RawJSON())
		}
		for k, token := range l.Tokens {
			rest := string(chars[l.TextOffset[k]:])
			if whole := utf8.ValidString(token) && !strings.HasPrefix(token, "bytes:"); whole && !strings.HasPrefix(rest, token) &&
				!strings.HasPrefix(token, "<|") {
				t.Errorf("token %d, %q, is not at character %d of %q", k, token, l.TextOffset[k], c.Text)
			}
			if _, ok := l.TopLogprobs[k][token]; !ok && k > 0 {
				t.Errorf("token %d, %q, is not among %v", k, token, l.TopLogprobs[k])
			}
		}
	}
	stream := client.Completions.NewStreaming(t.Context(), params, option.WithJSONSet("ignore_eos", true))
	got := make([]string, 2)
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			got[c.Index] += c.Text
		}
	}
	if stream.Err() != nil || got[0] != r.Choices[0].Text || got[1] != r.Choices[1].Text {
		t.Errorf("streamed %q (%v), whole %q and %q", got, stream.Err(), r.Choices[0].Text, r.Choices[1].Text)
	}
}

func TestSDKErrors(t *testing.T) {
	_, web := serveMini(t)
	good := sdk(web, "key")
	refused := func(err error, status int, param, code string) {
		t.Helper()
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != status || e.Param != param || e.Code != code {
			t.Errorf("got %v; want status %d, param %q, code %q", err, status, param, code)
		}
	}
	bad := sdk(web, "wrong")
	_, err := bad.Chat.Completions.New(t.Context(), question())
	refused(err, 401, "", "invalid_api_key")
	params := question()
	params.Model = "gpt-5"
	_, err = good.Chat.Completions.New(t.Context(), params)
	refused(err, 404, "model", "model_not_found")
	params = question()
	params.Temperature = openai.Float(3)
	_, err = good.Chat.Completions.New(t.Context(), params)
	refused(err, 400, "temperature", "invalid_value")
	stream := good.Chat.Completions.NewStreaming(t.Context(), params)
	for stream.Next() {
		t.Errorf("an event of a refused request: %s", stream.Current().RawJSON())
	}
	refused(stream.Err(), 400, "temperature", "invalid_value")
	params = question()
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "f g"})}
	_, err = good.Chat.Completions.New(t.Context(), params)
	refused(err, 400, "tools[0].function.name", "invalid_value")
	params = question()
	params.MaxTokens = openai.Int(5000)
	_, err = good.Chat.Completions.New(t.Context(), params)
	refused(err, 400, "messages", "context_length_exceeded")
	params = question()
	params.LogitBias = map[string]int64{"1000000": 1}
	_, err = good.Chat.Completions.New(t.Context(), params)
	refused(err, 400, "logit_bias", "invalid_value")
	_, err = good.Moderations.New(t.Context(), openai.ModerationNewParams{Input: openai.ModerationNewParamsInputUnion{OfString: openai.String("a")}})
	refused(err, 404, "", "unknown_url")
}

func TestSDKModels(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	page, err := client.Models.List(t.Context())
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "kvasir-mini" || page.Data[0].OwnedBy != "kvasir" {
		t.Errorf("%v, %+v", err, page)
	}
	one, err := client.Models.Get(t.Context(), "kvasir-mini")
	if err != nil || one.ID != "kvasir-mini" || one.Created == 0 {
		t.Errorf("%v, %+v", err, one)
	}
}
