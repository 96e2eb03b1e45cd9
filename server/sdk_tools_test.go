package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

// weatherParams is a greedy question with a tool.
func weatherParams(strict bool) openai.ChatCompletionNewParams {
	params := question()
	params.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What is the weather in Paris?")}
	params.MaxTokens = openai.Int(100)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "get_weather", Description: openai.String("Get the weather of a city"), Strict: openai.Bool(strict),
		Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
			"required": []string{"city"}, "additionalProperties": false},
	})}
	return params
}

// TestSDKTools calls a function, whole and streamed into the client's accumulator, and feeds its result back.
func TestSDKTools(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	const want = `{"city": "Paris"}`
	for _, choice := range []openai.ChatCompletionToolChoiceOptionUnionParam{
		{OfAuto: openai.String("auto")}, {OfAuto: openai.String("required")},
		openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "get_weather"}),
	} {
		params := weatherParams(true)
		params.ToolChoice = choice
		whole, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		message := whole.Choices[0].Message
		if len(message.ToolCalls) != 1 || message.ToolCalls[0].Function.Name != "get_weather" ||
			message.ToolCalls[0].Function.Arguments != want || whole.Choices[0].FinishReason != "tool_calls" {
			t.Fatalf("%s", whole.RawJSON())
		}

		var sum openai.ChatCompletionAccumulator
		var finished []openai.FinishedChatCompletionToolCall
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		for stream.Next() {
			if !sum.AddChunk(stream.Current()) {
				t.Errorf("the client cannot place %s", stream.Current().RawJSON())
			}
			if call, ok := sum.JustFinishedToolCall(); ok {
				finished = append(finished, call)
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		calls := sum.Choices[0].Message.ToolCalls
		if len(calls) != 1 || calls[0].Function.Arguments != want || calls[0].ID == "" || sum.Choices[0].FinishReason != "tool_calls" ||
			len(finished) != 1 || finished[0].Name != "get_weather" || finished[0].Arguments != want {
			t.Errorf("streamed %+v, finished %+v", calls, finished)
		}

		params = weatherParams(false)
		params.Messages = append(params.Messages, message.ToParam(), openai.ToolMessage(`{"temperature": 21, "sky": "clear"}`, message.ToolCalls[0].ID))
		answer, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil || answer.Choices[0].Message.Content == "" || answer.Choices[0].FinishReason != "stop" {
			t.Errorf("%v, %v", answer, err)
		}
	}
	params := weatherParams(true)
	params.Tools[0].OfFunction.Function.Parameters["properties"] = map[string]any{"x": map[string]any{"type": "string", "pattern": "("}}
	_, err := client.Chat.Completions.New(t.Context(), params)
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.Param != "tools[0].function.parameters.properties.x.pattern" {
		t.Errorf("%v", err)
	}
}

// TestSDKStructured asks for answers of a schema, whole and streamed, with log probabilities and without, of several
// choices, and for each of vLLM's forms.
func TestSDKStructured(t *testing.T) {
	_, web := serveMini(t)
	client := sdk(web, "key")
	params := question()
	params.MaxTokens, params.N, params.Temperature, params.Seed = openai.Int(60), openai.Int(2), openai.Float(1), openai.Int(3)
	params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "fact", Strict: openai.Bool(true), Schema: map[string]any{
			"type": "object", "properties": map[string]any{"capital": map[string]any{"type": "string"}, "country": map[string]any{"type": "string"},
				"size": map[string]any{"enum": []string{"small", "large"}}},
			"required": []string{"capital", "country", "size"}, "additionalProperties": false}}}}
	said := func(params openai.ChatCompletionNewParams) (texts []string) {
		whole, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range whole.Choices {
			texts = append(texts, c.Message.Content)
		}
		return texts
	}
	whole := said(params)
	for _, text := range whole {
		var fact struct{ Capital, Country, Size *string }
		if err := json.Unmarshal([]byte(text), &fact); err != nil || fact.Capital == nil || fact.Country == nil || fact.Size == nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	streamed := make([]string, 2)
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			streamed[c.Index] += c.Delta.Content
		}
	}
	if stream.Err() != nil || !slices.Equal(streamed, whole) {
		t.Errorf("streamed %q (%v), whole %q", streamed, stream.Err(), whole)
	}
	params.Logprobs, params.TopLogprobs = openai.Bool(true), openai.Int(2)
	if scored := said(params); !slices.Equal(scored, whole) {
		t.Errorf("with log probabilities %q, without %q", scored, whole)
	}
	for name, form := range map[string]struct {
		value any
		want  string
	}{
		"guided_choice":      {[]string{"yes", "no"}, "yes no"},
		"guided_regex":       {"(1|2){4}", "1111 1112 1121 1122 1211 1212 1221 1222 2111 2112 2121 2122 2211 2212 2221 2222"},
		"grammar":            {`root ::= "a" | "b"`, "a b"},
		"structured_outputs": {map[string]any{"choice": []string{"left", "right"}}, "left right"},
	} {
		params := question()
		r, err := client.Chat.Completions.New(t.Context(), params, option.WithJSONSet(name, form.value))
		if err != nil || !slices.Contains(strings.Fields(form.want), r.Choices[0].Message.Content) || r.Choices[0].FinishReason != "stop" {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
}
