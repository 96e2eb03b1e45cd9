package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
)

// gemini is Google's API: https://ai.google.dev/api/generate-content
type gemini struct{}

func (*gemini) encode(q *request) (string, any, error) {
	if err := q.without("parallel_tool_calls"); err != nil {
		return "", nil, err
	}
	names := map[string]string{} // of functions by the ids of calls
	var contents []object
	for _, turn := range q.turns() {
		role, parts := "user", []object{}
		for _, m := range turn {
			if m.Role == "assistant" {
				role = "model"
			}
			more, err := geminiParts(m, names)
			if err != nil {
				return "", nil, err
			}
			parts = append(parts, more...)
		}
		contents = append(contents, object{"role": role, "parts": parts})
	}
	config := object{}.put("maxOutputTokens", q.most()).put("temperature", q.Temperature).put("topP", q.TopP).put("topK", q.TopK).
		put("stopSequences", q.Stop).put("seed", q.Seed).put("presencePenalty", q.PresencePenalty).put("frequencyPenalty", q.FrequencyPenalty)
	if f := q.ResponseFormat; f != nil && f.Type != "text" {
		config["responseMimeType"] = "application/json"
		config.put("responseJsonSchema", f.JSONSchema.Schema)
	}
	o := object{"contents": contents}.put("generationConfig", config)
	if s := q.system(); s != "" {
		o["systemInstruction"] = object{"parts": []object{{"text": s}}}
	}
	var functions []object
	for _, t := range q.Tools {
		functions = append(functions, object{"name": t.Function.Name}.put("description", t.Function.Description).
			put("parametersJsonSchema", t.Function.Parameters))
	}
	if len(functions) > 0 {
		o["tools"] = []object{{"functionDeclarations": functions}}
	}
	calling := object{}
	if mode, ok := map[string]string{"auto": "AUTO", "required": "ANY", "none": "NONE"}[q.ToolChoice.mode]; ok {
		calling["mode"] = mode
	}
	if q.ToolChoice.name != "" {
		calling = object{"mode": "ANY", "allowedFunctionNames": []string{q.ToolChoice.name}}
	}
	if len(calling) > 0 {
		o["toolConfig"] = object{"functionCallingConfig": calling}
	}
	path := "/v1beta/models/" + url.PathEscape(q.Model)
	if q.Stream {
		return path + ":streamGenerateContent?alt=sse", o, nil
	}
	return path + ":generateContent", o, nil
}

func geminiParts(m message, names map[string]string) ([]object, error) {
	if m.Role == "tool" {
		name, ok := names[m.ToolCallID]
		if !ok {
			return nil, fmt.Errorf("tool_call_id: no earlier message has a call %q", m.ToolCallID)
		}
		return []object{{"functionResponse": object{"name": name, "response": object{"result": m.Content.text()}}}}, nil
	}
	var parts []object
	for _, p := range m.Content {
		switch {
		case p.url != "":
			return nil, errors.New("image_url: this provider takes images as data: URLs only")
		case p.kind != "":
			parts = append(parts, object{"inlineData": object{"mimeType": p.kind, "data": p.data}})
		case p.text != "":
			parts = append(parts, object{"text": p.text})
		}
	}
	for _, c := range m.ToolCalls {
		names[c.ID] = c.Function.Name
		parts = append(parts, object{"functionCall": object{"name": c.Function.Name, "args": json.RawMessage(c.Function.Arguments)}})
	}
	return parts, nil
}

type geminiAnswer struct {
	Candidates []struct {
		Content struct {
			Parts []struct {
				Text    string `json:"text"`
				Thought bool   `json:"thought"`
				Call    *struct {
					Name string          `json:"name"`
					Args json.RawMessage `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"content"`
		Finish string `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		Block string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage struct {
		Prompt   int `json:"promptTokenCount"`
		Answer   int `json:"candidatesTokenCount"`
		Thoughts int `json:"thoughtsTokenCount"`
		Cached   int `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
}

func (g *geminiAnswer) usage() usage {
	return usage{in: g.Usage.Prompt, out: g.Usage.Answer + g.Usage.Thoughts, cached: g.Usage.Cached}
}

// read adds what an answer or a part of it says.
func (*gemini) read(data []byte) (*answer, error) {
	var said geminiAnswer
	if err := json.Unmarshal(data, &said); err != nil || len(said.Candidates) == 0 && said.Feedback.Block == "" && said.Usage.Prompt == 0 {
		return nil, fmt.Errorf("%.80q has no candidates", data)
	}
	a := &answer{usage: said.usage()}
	if said.Feedback.Block != "" {
		a.finish = "content_filter"
	}
	if len(said.Candidates) == 0 {
		return a, nil
	}
	for _, p := range said.Candidates[0].Content.Parts {
		switch {
		case p.Call != nil:
			args := string(p.Call.Args)
			if args == "" {
				args = "{}"
			}
			a.calls = append(a.calls, toolCall{newID("call_"), "function", functionCall{p.Call.Name, args}})
		case p.Thought:
			a.reasoning += p.Text
		default:
			a.text += p.Text
		}
	}
	switch said.Candidates[0].Finish {
	case "":
	case "STOP":
		a.finish = "stop"
	case "MAX_TOKENS":
		a.finish = "length"
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY":
		a.finish = "content_filter"
	default:
		return nil, fmt.Errorf("it ended with %s", said.Candidates[0].Finish)
	}
	return a, nil
}

func (g *gemini) whole(data []byte) (*answer, error) {
	a, err := g.read(data)
	if err != nil {
		return nil, err
	}
	if a.finish == "" {
		return nil, errors.New("it has no finishReason")
	}
	if a.finish == "stop" && len(a.calls) > 0 {
		a.finish = "tool_calls"
	}
	return a, nil
}

func (g *gemini) event(_ string, data []byte, out *emitter) error {
	a, err := g.read(data)
	if err != nil {
		return err
	}
	out.reasoning(a.reasoning)
	out.text(a.text)
	for _, c := range a.calls {
		at := out.calls
		out.begin(at, c.ID, c.Function.Name)
		out.arguments(at, c.Function.Arguments)
	}
	if a.usage.in > 0 {
		out.usage = a.usage
	}
	if a.finish != "" {
		out.finish = a.finish
	}
	if out.finish == "stop" && out.calls > 0 {
		out.finish = "tool_calls"
	}
	return nil
}
