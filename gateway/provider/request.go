package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// request is a chat in OpenAI's API, of which no field is unknown.
type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	TopK                *int            `json:"top_k"`
	Seed                *int            `json:"seed"`
	PresencePenalty     *float64        `json:"presence_penalty"`
	FrequencyPenalty    *float64        `json:"frequency_penalty"`
	Stop                texts           `json:"stop"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	Tools               []tool          `json:"tools"`
	ToolChoice          toolChoice      `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ResponseFormat      *responseFormat `json:"response_format"`
	User                string          `json:"user"`
	PromptCacheKey      string          `json:"prompt_cache_key"` // which endpoint got the request
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role             string     `json:"role"`
	Content          content    `json:"content"`
	Name             string     `json:"name"`
	ToolCalls        []toolCall `json:"tool_calls"`
	ToolCallID       string     `json:"tool_call_id"`
	Refusal          *string    `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content"` // which providers do not take back
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // the text of a JSON object
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"function"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	} `json:"json_schema"`
}

// part is a text, or an image if it has a kind.
type part struct {
	text string
	kind string // such as image/png
	data string // in base64
	url  string // instead of data
}

// content is a text or parts.
type content []part

func (c *content) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		if text != nil {
			*c = content{{text: *text}}
		}
		return nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
	}
	if err := strict(data, &parts); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	for i, p := range parts {
		switch p.Type {
		case "text":
			*c = append(*c, part{text: p.Text})
		case "image_url":
			image := part{url: p.ImageURL.URL, kind: "image"}
			if rest, ok := strings.CutPrefix(p.ImageURL.URL, "data:"); ok {
				kind, data, ok := strings.Cut(rest, ";base64,")
				if !ok {
					return fmt.Errorf("content[%d].image_url.url: want base64", i)
				}
				image = part{kind: kind, data: data}
			}
			*c = append(*c, image)
		default:
			return fmt.Errorf("content[%d].type: %q cannot be translated for this provider", i, p.Type)
		}
	}
	return nil
}

// text joins the texts of a content.
func (c content) text() string {
	var b strings.Builder
	for _, p := range c {
		b.WriteString(p.text)
	}
	return b.String()
}

// texts are a text or several.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil {
		if one != nil {
			*t = texts{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// toolChoice is auto, none, required, or the name of a function.
type toolChoice struct{ mode, name string }

func (c *toolChoice) UnmarshalJSON(data []byte) error {
	if string(data) == "null" || json.Unmarshal(data, &c.mode) == nil {
		if !slices.Contains([]string{"", "auto", "none", "required"}, c.mode) {
			return fmt.Errorf("tool_choice: %q; want auto, none, required or a function", c.mode)
		}
		return nil
	}
	var named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := strict(data, &named); err != nil || named.Type != "function" {
		return errors.New("tool_choice: want auto, none, required or a function")
	}
	c.name = named.Function.Name
	return nil
}

// strict reads JSON without unknown keys.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// decode reads a request, and refuses what no provider can be told.
func decode(raw []byte) (*request, error) {
	q := &request{}
	if err := strict(raw, q); err != nil {
		text := strings.TrimPrefix(err.Error(), "json: ")
		if field, ok := strings.CutPrefix(text, "unknown field "); ok {
			return nil, fmt.Errorf("%s cannot be translated for this provider", strings.Trim(field, `"`))
		}
		return nil, errors.New(text)
	}
	if q.N != nil && *q.N != 1 {
		return nil, errors.New("n: the provider gives one answer")
	}
	for i, t := range q.Tools {
		if t.Type != "function" {
			return nil, fmt.Errorf("tools[%d].type: %q cannot be translated for this provider", i, t.Type)
		}
	}
	for i, m := range q.Messages {
		if !slices.Contains([]string{"system", "developer", "user", "assistant", "tool"}, m.Role) {
			return nil, fmt.Errorf("messages[%d].role: %q; want system, developer, user, assistant or tool", i, m.Role)
		}
		for j, c := range m.ToolCalls {
			if !json.Valid([]byte(c.Function.Arguments)) {
				return nil, fmt.Errorf("messages[%d].tool_calls[%d].function.arguments: no JSON", i, j)
			}
		}
	}
	return q, nil
}

// without refuses fields that a provider has no words for.
func (q *request) without(names ...string) error {
	set := map[string]bool{
		"seed": q.Seed != nil, "presence_penalty": q.PresencePenalty != nil && *q.PresencePenalty != 0,
		"frequency_penalty": q.FrequencyPenalty != nil && *q.FrequencyPenalty != 0, "top_k": q.TopK != nil,
		"response_format":     q.ResponseFormat != nil && q.ResponseFormat.Type != "text",
		"parallel_tool_calls": q.ParallelToolCalls != nil && !*q.ParallelToolCalls,
		"tool_choice none":    q.ToolChoice.mode == "none",
	}
	for _, name := range names {
		if set[name] {
			return fmt.Errorf("%s cannot be translated for this provider", name)
		}
	}
	return nil
}

// most is the most tokens of the answer; nil if the request does not say.
func (q *request) most() *int {
	if q.MaxCompletionTokens != nil {
		return q.MaxCompletionTokens
	}
	return q.MaxTokens
}

// system joins the instructions, which providers take apart from the conversation.
func (q *request) system() string {
	var all []string
	for _, m := range q.Messages {
		if m.Role == "system" || m.Role == "developer" {
			all = append(all, m.Content.text())
		}
	}
	return strings.Join(all, "\n\n")
}

// turns are the messages of the conversation, those of one side after another as one: results of tools are the user's.
func (q *request) turns() [][]message {
	side := func(m message) bool { return m.Role == "assistant" }
	var all [][]message
	for _, m := range q.Messages {
		if m.Role == "system" || m.Role == "developer" {
			continue
		}
		if n := len(all); n > 0 && side(all[n-1][0]) == side(m) {
			all[n-1] = append(all[n-1], m)
			continue
		}
		all = append(all, []message{m})
	}
	return all
}

// object is a JSON object that is built as it goes.
type object map[string]any

// put sets a key, unless the value is nil or empty.
func (o object) put(key string, value any) object {
	switch v := value.(type) {
	case *int:
		if v == nil {
			return o
		}
	case *float64:
		if v == nil {
			return o
		}
	case texts:
		if len(v) == 0 {
			return o
		}
	case []object:
		if len(v) == 0 {
			return o
		}
	case json.RawMessage:
		if len(v) == 0 {
			return o
		}
	case object:
		if len(v) == 0 {
			return o
		}
	case string:
		if v == "" {
			return o
		}
	}
	o[key] = value
	return o
}
