package server

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// anthropicSDK is Anthropic's own client.
func anthropicSDK(web *httptest.Server, key string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(web.URL), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithHTTPClient(web.Client()))
}

// anthropicQuestion is a greedy question to the built-in model.
func anthropicQuestion(text string) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: "kvasir-mini", MaxTokens: 24,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}}
	p.SetExtraFields(map[string]any{"temperature": 0})
	return p
}

// accumulate streams an answer and returns what the client makes of the events.
func accumulate(t *testing.T, client *anthropic.Client, p anthropic.MessageNewParams) anthropic.Message {
	t.Helper()
	stream, sum := client.Messages.NewStreaming(t.Context(), p), anthropic.Message{}
	for stream.Next() {
		if err := sum.Accumulate(stream.Current()); err != nil {
			t.Fatalf("%v: %s", err, stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestAnthropicSDK(t *testing.T) {
	_, web := serveMini(t)
	client := anthropicSDK(web, "key")
	p := anthropicQuestion("What is a KV cache?")
	m, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	answer := m.Content[0].Text
	if len(answer) < 20 || m.StopReason != "max_tokens" || m.Usage.OutputTokens != 24 || m.Model != "kvasir-mini" {
		t.Errorf("%s", m.RawJSON())
	}
	if got := accumulate(t, &client, p); got.Content[0].Text != answer || got.StopReason != "max_tokens" ||
		got.Usage.OutputTokens != 24 || got.Usage.InputTokens+got.Usage.CacheReadInputTokens != m.Usage.InputTokens+m.Usage.CacheReadInputTokens {
		t.Errorf("streamed %s, whole %s", got.RawJSON(), m.RawJSON())
	}
	counted, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: p.Model, Messages: p.Messages})
	if err != nil || counted.InputTokens != m.Usage.InputTokens+m.Usage.CacheReadInputTokens {
		t.Errorf("counted %d (%v); the answer says %+v", counted.InputTokens, err, m.Usage)
	}

	words := strings.Fields(answer)
	stop := words[len(words)/2]
	p.StopSequences = []string{"no such text", stop}
	m, err = client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if before, _, _ := strings.Cut(answer, stop); m.Content[0].Text != before || m.StopReason != "stop_sequence" || m.StopSequence != stop {
		t.Errorf("stopped at %q: %s", stop, m.RawJSON())
	}
}

// TestAnthropicSDKContinues holds that an answer goes on where a last message of the assistant ends.
func TestAnthropicSDKContinues(t *testing.T) {
	_, web := serveMini(t)
	client := anthropicSDK(web, "key")
	p := anthropicQuestion("What is a KV cache?")
	m, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.SplitAfterN(m.Content[0].Text, " ", 4)
	begun := strings.TrimSuffix(strings.Join(words[:3], ""), " ")
	p.Messages = append(p.Messages, anthropic.NewAssistantMessage(anthropic.NewTextBlock(begun)))
	rest, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got := begun + rest.Content[0].Text; !strings.HasPrefix(got, m.Content[0].Text) {
		t.Errorf("continued %q, whole %q", got, m.Content[0].Text)
	}
}

func TestAnthropicSDKTools(t *testing.T) {
	_, web := serveMini(t)
	client := anthropicSDK(web, "key")
	p := anthropicQuestion("What is the weather in Paris?")
	p.MaxTokens = 80
	p.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "get_weather",
		Description: anthropic.String("Get the weather of a city"), InputSchema: anthropic.ToolInputSchemaParam{
			Properties: map[string]any{"city": map[string]string{"type": "string"}}, Required: []string{"city"}}}}}
	p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{DisableParallelToolUse: anthropic.Bool(true)}}
	m, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	use := m.Content[len(m.Content)-1]
	var in struct{ City string }
	if err := json.Unmarshal(use.Input, &in); err != nil || use.Type != "tool_use" || in.City == "" || m.StopReason != "tool_use" {
		t.Fatalf("%s: %v", m.RawJSON(), err)
	}
	got := accumulate(t, &client, p)
	if again := got.Content[len(got.Content)-1]; strings.ReplaceAll(string(again.Input), " ", "") != string(use.Input) || again.Name != "get_weather" || got.StopReason != "tool_use" {
		t.Errorf("streamed %s, whole %s", got.RawJSON(), m.RawJSON())
	}
	p.ToolChoice = anthropic.ToolChoiceUnionParam{}
	p.Messages = append(p.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(use.ID, `{"sky":"clear"}`, false)))
	if m, err = client.Messages.New(t.Context(), p); err != nil || len(m.Content) == 0 {
		t.Errorf("after the result: %v, %v", m, err)
	}
}

func TestAnthropicSDKThinking(t *testing.T) {
	_, web := serveMini(t)
	client := anthropicSDK(web, "key")
	p := anthropicQuestion("What is 17 + 25?")
	p.MaxTokens, p.Thinking = 120, anthropic.ThinkingConfigParamOfEnabled(16)
	m, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	thoughts := m.Content[0].Thinking
	if m.Content[0].Type != "thinking" || thoughts == "" || m.Usage.OutputTokensDetails.ThinkingTokens == 0 {
		t.Fatalf("%s", m.RawJSON())
	}
	if got := accumulate(t, &client, p); got.Content[0].Thinking != thoughts || got.Content[1].Text != m.Content[1].Text {
		t.Errorf("streamed %s, whole %s", got.RawJSON(), m.RawJSON())
	}
	p.Messages = append(p.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("And 1 more?")))
	if _, err := client.Messages.New(t.Context(), p); err != nil {
		t.Errorf("thoughts that come back: %v", err)
	}
}

func TestAnthropicSDKStructure(t *testing.T) {
	_, web := serveMini(t)
	client := anthropicSDK(web, "key")
	p := anthropicQuestion("Paris is the capital of France.")
	p.MaxTokens = 80
	p.OutputConfig.Format.Schema = map[string]any{"type": "object", "properties": map[string]any{"capital": map[string]string{"type": "string"}},
		"required": []string{"capital"}, "additionalProperties": false}
	m, err := client.Messages.New(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]string
	if err := json.Unmarshal([]byte(m.Content[0].Text), &out); err != nil || len(out) != 1 {
		t.Errorf("%s: %v", m.RawJSON(), err)
	}
}

func TestAnthropicSDKErrors(t *testing.T) {
	_, web := serveMini(t)
	refused := func(err error, status int, kind anthropic.ErrorType, words string) {
		t.Helper()
		var e *anthropic.Error
		if !errors.As(err, &e) || e.StatusCode != status || e.Type() != kind || e.RequestID == "" || !strings.Contains(e.Error(), words) {
			t.Errorf("got %v; want status %d, %s, %q", err, status, kind, words)
		}
	}
	bad, good := anthropicSDK(web, "wrong"), anthropicSDK(web, "key")
	_, err := bad.Messages.New(t.Context(), anthropicQuestion("hi"))
	refused(err, 401, anthropic.ErrorTypeAuthenticationError, "API key")
	p := anthropicQuestion("hi")
	p.Model = "claude"
	_, err = good.Messages.New(t.Context(), p)
	refused(err, 404, anthropic.ErrorTypeNotFoundError, "claude")
	p = anthropicQuestion("hi")
	p.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewImageBlockBase64("image/png", "AA=="))}
	_, err = good.Messages.New(t.Context(), p)
	refused(err, 400, anthropic.ErrorTypeInvalidRequestError, "image")
	stream := good.Messages.NewStreaming(t.Context(), p)
	for stream.Next() {
		t.Errorf("an event of a refused request: %s", stream.Current().RawJSON())
	}
	refused(stream.Err(), 400, anthropic.ErrorTypeInvalidRequestError, "image")
	_, err = good.Messages.New(t.Context(), anthropicQuestion(strings.Repeat("Paris is a city. ", 200)))
	refused(err, 400, anthropic.ErrorTypeInvalidRequestError, "prompt is too long")
}

func TestAnthropicSDKModels(t *testing.T) {
	_, web := serveMini(t)
	client := anthropicSDK(web, "key")
	page, err := client.Models.List(t.Context(), anthropic.ModelListParams{})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "kvasir-mini" || page.Data[0].MaxInputTokens != 512 {
		t.Errorf("%v, %+v", err, page)
	}
	one, err := client.Models.Get(t.Context(), "kvasir-mini", anthropic.ModelGetParams{})
	if err != nil || one.ID != "kvasir-mini" || one.CreatedAt.IsZero() {
		t.Errorf("%v, %+v", err, one)
	}
}
