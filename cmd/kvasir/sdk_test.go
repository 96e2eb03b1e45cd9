package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// TestBuiltBinaryWithTheOfficialClient builds the program, serves the built-in model with it and asks it with
// OpenAI's own client.
func TestBuiltBinaryWithTheOfficialClient(t *testing.T) {
	address := startServer(t, buildKvasir(t), "--api-key", "secret").address
	client := openai.NewClient(option.WithBaseURL(address+"/v1"), option.WithAPIKey("secret"), option.WithMaxRetries(0))
	ask := openai.ChatCompletionNewParams{
		Model:    "kvasir-mini",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is a KV cache?")},
	}
	whole, err := client.Chat.Completions.New(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	answer := whole.Choices[0].Message.Content
	if !strings.Contains(answer, "keys and values") || whole.Choices[0].FinishReason != "stop" {
		t.Errorf("finish %q, answer %q", whole.Choices[0].FinishReason, answer)
	}

	stream := client.Chat.Completions.NewStreaming(t.Context(), ask)
	var sum openai.ChatCompletionAccumulator
	for stream.Next() {
		sum.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := sum.Choices[0].Message.Content; got != answer {
		t.Errorf("streamed %q; whole %q", got, answer)
	}

	completion, err := client.Completions.New(t.Context(), openai.CompletionNewParams{
		Model: "kvasir-mini", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("package ")},
		MaxTokens: openai.Int(3), N: openai.Int(2), Seed: openai.Int(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(completion.Choices) != 2 || completion.Usage.CompletionTokens != 6 {
		t.Errorf("%d choices, usage %+v", len(completion.Choices), completion.Usage)
	}
	models, err := client.Models.List(t.Context())
	if err != nil || len(models.Data) != 1 || models.Data[0].ID != "kvasir-mini" {
		t.Errorf("models %+v, error %v", models, err)
	}

	ask.Model = "another"
	checkError(t, &client, ask, 404, "model")
	ask.Model, ask.Temperature = "kvasir-mini", openai.Float(9)
	checkError(t, &client, ask, 400, "temperature")
	stranger := openai.NewClient(option.WithBaseURL(address+"/v1"), option.WithAPIKey("wrong"), option.WithMaxRetries(0))
	checkError(t, &stranger, ask, 401, "")
}

func checkError(t *testing.T, c *openai.Client, ask openai.ChatCompletionNewParams, status int, param string) {
	t.Helper()
	_, err := c.Chat.Completions.New(t.Context(), ask)
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != status || refused.Param != param {
		t.Errorf("error %v; want status %d and param %q", err, status, param)
	}
}
