package provider

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"strings"
)

// bedrock is the Converse API: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
type bedrock struct{}

func (*bedrock) encode(q *request) (string, any, error) {
	if err := q.without("seed", "presence_penalty", "frequency_penalty", "response_format", "parallel_tool_calls", "tool_choice none"); err != nil {
		return "", nil, err
	}
	var messages []object
	for _, turn := range q.turns() {
		role, blocks := "user", []object{}
		for _, m := range turn {
			if m.Role == "assistant" {
				role = "assistant"
			}
			more, err := bedrockBlocks(m)
			if err != nil {
				return "", nil, err
			}
			blocks = append(blocks, more...)
		}
		messages = append(messages, object{"role": role, "content": blocks})
	}
	o := object{"messages": messages}
	o.put("inferenceConfig", object{}.put("maxTokens", q.most()).put("temperature", q.Temperature).put("topP", q.TopP).put("stopSequences", q.Stop))
	o.put("additionalModelRequestFields", object{}.put("top_k", q.TopK))
	if s := q.system(); s != "" {
		o["system"] = []object{{"text": s}}
	}
	var tools []object
	for _, t := range q.Tools {
		schema := t.Function.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		tools = append(tools, object{"toolSpec": object{"name": t.Function.Name, "inputSchema": object{"json": schema}}.
			put("description", t.Function.Description)})
	}
	if len(tools) > 0 {
		config := object{"tools": tools}
		switch {
		case q.ToolChoice.name != "":
			config["toolChoice"] = object{"tool": object{"name": q.ToolChoice.name}}
		case q.ToolChoice.mode == "required":
			config["toolChoice"] = object{"any": struct{}{}}
		}
		o["toolConfig"] = config
	}
	path := "/model/" + strings.ReplaceAll(url.PathEscape(q.Model), ":", "%3A") + "/converse"
	if q.Stream {
		path += "-stream"
	}
	return path, o, nil
}

func bedrockBlocks(m message) ([]object, error) {
	var blocks []object
	for _, p := range m.Content {
		switch {
		case p.url != "":
			return nil, errors.New("image_url: this provider takes images as data: URLs only")
		case p.kind != "":
			if _, err := base64.StdEncoding.DecodeString(p.data); err != nil {
				return nil, fmt.Errorf("image_url: %w", err)
			}
			blocks = append(blocks, object{"image": object{"format": strings.TrimPrefix(p.kind, "image/"), "source": object{"bytes": p.data}}})
		case p.text != "":
			blocks = append(blocks, object{"text": p.text})
		}
	}
	if m.Role == "tool" {
		if blocks == nil {
			blocks = []object{{"text": " "}} // Bedrock wants one
		}
		return []object{{"toolResult": object{"toolUseId": m.ToolCallID, "content": blocks}}}, nil
	}
	for _, c := range m.ToolCalls {
		blocks = append(blocks, object{"toolUse": object{"toolUseId": c.ID, "name": c.Function.Name, "input": json.RawMessage(c.Function.Arguments)}})
	}
	return blocks, nil
}

type bedrockUsage struct {
	Input   int `json:"inputTokens"`
	Output  int `json:"outputTokens"`
	Read    int `json:"cacheReadInputTokens"`
	Written int `json:"cacheWriteInputTokens"`
}

func (u bedrockUsage) usage() usage {
	return usage{in: u.Input + u.Read + u.Written, out: u.Output, cached: u.Read}
}

// bedrockReason is OpenAI's word for why an answer ended.
func bedrockReason(stop string) string {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "tool_use":
		return "tool_calls"
	case "guardrail_intervened", "content_filtered":
		return "content_filter"
	}
	return "stop"
}

func (*bedrock) whole(data []byte) (*answer, error) {
	var said struct {
		Output *struct {
			Message struct {
				Content []struct {
					Text string `json:"text"`
					Tool *struct {
						ID    string          `json:"toolUseId"`
						Name  string          `json:"name"`
						Input json.RawMessage `json:"input"`
					} `json:"toolUse"`
					Reasoning struct {
						Text struct {
							Text string `json:"text"`
						} `json:"reasoningText"`
					} `json:"reasoningContent"`
				} `json:"content"`
			} `json:"message"`
		} `json:"output"`
		Stop  string       `json:"stopReason"`
		Usage bedrockUsage `json:"usage"`
	}
	if err := json.Unmarshal(data, &said); err != nil || said.Output == nil {
		return nil, fmt.Errorf("%.80q has no output", data)
	}
	a := &answer{finish: bedrockReason(said.Stop), usage: said.Usage.usage()}
	for _, b := range said.Output.Message.Content {
		a.text += b.Text
		a.reasoning += b.Reasoning.Text.Text
		if b.Tool != nil {
			a.calls = append(a.calls, toolCall{b.Tool.ID, "function", functionCall{b.Tool.Name, string(b.Tool.Input)}})
		}
	}
	return a, nil
}

func (*bedrock) event(kind string, data []byte, out *emitter) error {
	var e struct {
		Index int `json:"contentBlockIndex"`
		Start struct {
			Tool *struct {
				ID   string `json:"toolUseId"`
				Name string `json:"name"`
			} `json:"toolUse"`
		} `json:"start"`
		Delta struct {
			Text string `json:"text"`
			Tool struct {
				Input string `json:"input"`
			} `json:"toolUse"`
			Reasoning struct {
				Text string `json:"text"`
			} `json:"reasoningContent"`
		} `json:"delta"`
		Stop  string       `json:"stopReason"`
		Usage bedrockUsage `json:"usage"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("%.80q is no event", data)
	}
	switch kind {
	case "messageStart":
		out.delta(object{}, nil)
	case "contentBlockStart":
		if e.Start.Tool != nil {
			out.begin(e.Index, e.Start.Tool.ID, e.Start.Tool.Name)
		}
	case "contentBlockDelta":
		out.text(e.Delta.Text)
		out.reasoning(e.Delta.Reasoning.Text)
		out.arguments(e.Index, e.Delta.Tool.Input)
	case "messageStop":
		out.finish = bedrockReason(e.Stop)
	case "metadata":
		out.usage = e.Usage.usage()
	}
	return nil
}

// nextFrame reads a message of AWS's event stream: its length (4 bytes), the length of its headers (4), a checksum of
// these (4), the headers, the payload and a checksum of all (4).
// https://smithy.io/2.0/aws/amazon-eventstream.html
func nextFrame(in *bufio.Reader) (kind string, data []byte, err error) {
	var prelude [12]byte
	if _, err := io.ReadFull(in, prelude[:]); err != nil {
		return "", nil, err
	}
	total, headers := binary.BigEndian.Uint32(prelude[:]), binary.BigEndian.Uint32(prelude[4:])
	if crc32.ChecksumIEEE(prelude[:8]) != binary.BigEndian.Uint32(prelude[8:]) {
		return "", nil, errors.New("a message of the stream has a wrong checksum")
	}
	if total > longestEvent || total < 16 || headers > total-16 {
		return "", nil, fmt.Errorf("a message of the stream has %d bytes with %d of headers", total, headers)
	}
	rest := make([]byte, total-12)
	if _, err := io.ReadFull(in, rest); err != nil {
		return "", nil, io.ErrUnexpectedEOF
	}
	sum := crc32.Update(crc32.ChecksumIEEE(prelude[:]), crc32.IEEETable, rest[:len(rest)-4])
	if sum != binary.BigEndian.Uint32(rest[len(rest)-4:]) {
		return "", nil, errors.New("a message of the stream has a wrong checksum")
	}
	named, err := frameHeaders(rest[:headers])
	if err != nil {
		return "", nil, err
	}
	data = rest[headers : len(rest)-4]
	if named[":message-type"] != "event" {
		return "", nil, fmt.Errorf("the provider says %s: %s", named[":exception-type"]+named[":error-code"], said(data))
	}
	return named[":event-type"], data, nil
}

// frameHeaders reads headers of text: a name with its length (1 byte), the type 7, a value with its length (2).
func frameHeaders(raw []byte) (map[string]string, error) {
	named := map[string]string{}
	bad := errors.New("a message of the stream has headers that cannot be read")
	for len(raw) > 0 {
		n := int(raw[0])
		if len(raw) < n+4 || raw[n+1] != 7 {
			return nil, bad
		}
		name, size := string(raw[1:n+1]), int(binary.BigEndian.Uint16(raw[n+2:]))
		if raw = raw[n+4:]; len(raw) < size {
			return nil, bad
		}
		named[name] = string(raw[:size])
		raw = raw[size:]
	}
	return named, nil
}
