package provider

import (
	"encoding/json"
	"fmt"
	"strings"
)

// anthropic is the Messages API: https://docs.anthropic.com/en/api/messages
type anthropic struct{}

// anthropicMost is the answer's length if the request does not say: Anthropic wants one.
const anthropicMost = 4096

func (*anthropic) encode(q *request) (string, any, error) {
	if err := q.without("seed", "presence_penalty", "frequency_penalty", "response_format"); err != nil {
		return "", nil, err
	}
	var messages []object
	for _, turn := range q.turns() {
		role, blocks := "user", []object{}
		for _, m := range turn {
			if m.Role == "assistant" {
				role = "assistant"
			}
			blocks = append(blocks, anthropicBlocks(m)...)
		}
		messages = append(messages, object{"role": role, "content": blocks})
	}
	o := object{"model": q.Model, "messages": messages, "max_tokens": anthropicMost}
	o.put("max_tokens", q.most()).put("system", q.system()).put("temperature", q.Temperature).put("top_p", q.TopP).
		put("top_k", q.TopK).put("stop_sequences", q.Stop)
	if q.Stream {
		o["stream"] = true
	}
	if q.User != "" {
		o["metadata"] = object{"user_id": q.User}
	}
	var tools []object
	for _, t := range q.Tools {
		schema := t.Function.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tools = append(tools, object{"name": t.Function.Name, "input_schema": schema}.put("description", t.Function.Description))
	}
	o.put("tools", tools)
	choice := object{}
	if name, ok := map[string]string{"auto": "auto", "required": "any", "none": "none"}[q.ToolChoice.mode]; ok {
		choice["type"] = name
	}
	if q.ToolChoice.name != "" {
		choice = object{"type": "tool", "name": q.ToolChoice.name}
	}
	if q.ParallelToolCalls != nil && !*q.ParallelToolCalls && len(tools) > 0 {
		if choice["type"] == nil {
			choice["type"] = "auto"
		}
		choice["disable_parallel_tool_use"] = true
	}
	o.put("tool_choice", choice)
	return "/v1/messages", o, nil
}

func anthropicBlocks(m message) []object {
	var blocks []object
	for _, p := range m.Content {
		switch {
		case p.url != "":
			blocks = append(blocks, object{"type": "image", "source": object{"type": "url", "url": p.url}})
		case p.kind != "":
			blocks = append(blocks, object{"type": "image", "source": object{"type": "base64", "media_type": p.kind, "data": p.data}})
		case p.text != "":
			blocks = append(blocks, object{"type": "text", "text": p.text})
		}
	}
	if m.Role == "tool" {
		return []object{object{"type": "tool_result", "tool_use_id": m.ToolCallID}.put("content", blocks)}
	}
	for _, c := range m.ToolCalls {
		blocks = append(blocks, object{"type": "tool_use", "id": c.ID, "name": c.Function.Name, "input": json.RawMessage(c.Function.Arguments)})
	}
	return blocks
}

type anthropicUsage struct {
	Input   int `json:"input_tokens"`
	Output  int `json:"output_tokens"`
	Read    int `json:"cache_read_input_tokens"`
	Written int `json:"cache_creation_input_tokens"`
}

func (u anthropicUsage) usage() usage {
	return usage{in: u.Input + u.Read + u.Written, out: u.Output, cached: u.Read}
}

type anthropicBlock struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Partial  string          `json:"partial_json"`
}

// anthropicReason is OpenAI's word for why an answer ended.
func anthropicReason(stop string) string {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	case "refusal":
		return "content_filter"
	}
	return "stop"
}

func (*anthropic) whole(data []byte) (*answer, error) {
	var said struct {
		Type    string           `json:"type"`
		Content []anthropicBlock `json:"content"`
		Stop    string           `json:"stop_reason"`
		Usage   anthropicUsage   `json:"usage"`
	}
	if err := json.Unmarshal(data, &said); err != nil || said.Type != "message" {
		return nil, fmt.Errorf("%.80q is no message", data)
	}
	a := &answer{finish: anthropicReason(said.Stop), usage: said.Usage.usage()}
	for _, b := range said.Content {
		switch b.Type {
		case "text":
			a.text += b.Text
		case "thinking":
			a.reasoning += b.Thinking
		case "tool_use":
			a.calls = append(a.calls, toolCall{b.ID, "function", functionCall{b.Name, string(b.Input)}})
		}
	}
	return a, nil
}

func (*anthropic) event(kind string, data []byte, out *emitter) error {
	var e struct {
		Type    string `json:"type"`
		Index   int    `json:"index"`
		Message struct {
			Usage anthropicUsage `json:"usage"`
		} `json:"message"`
		Block anthropicBlock `json:"content_block"`
		Delta struct {
			anthropicBlock
			Stop string `json:"stop_reason"`
		} `json:"delta"`
		Usage anthropicUsage `json:"usage"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%.80q is no event", data)
	}
	switch e.Type {
	case "message_start":
		out.usage = e.Message.Usage.usage()
		out.delta(object{}, nil)
	case "content_block_start":
		if e.Block.Type == "tool_use" {
			out.begin(e.Index, e.Block.ID, e.Block.Name)
		}
		out.text(e.Block.Text)
	case "content_block_delta":
		out.text(e.Delta.Text)
		out.reasoning(e.Delta.Thinking)
		out.arguments(e.Index, e.Delta.Partial)
	case "message_delta":
		out.usage.out = e.Usage.Output
		out.finish = anthropicReason(e.Delta.Stop)
	case "error":
		return fmt.Errorf("the provider says: %s", strings.TrimSpace(said(data)))
	}
	return nil
}
