package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrNoTemplate is returned if a checkpoint has no chat template. There is no default: a model answers a prompt in a
// form that it was not trained on wrongly, without any sign of an error.
var ErrNoTemplate = errors.New("chat: the model has no chat template: neither tokenizer_config.json nor " +
	"chat_template.jinja nor chat_template.json gives one; name one explicitly, or use plain completions")

// FromConfig returns the source of a checkpoint's default template. Like transformers, it looks in chat_template.jinja,
// then in chat_template.json, then in tokenizer_config.json; an absent file is nil.
func FromConfig(tokenizerConfigJSON, chatTemplateJinja, chatTemplateJSON []byte) (source string, err error) {
	return NamedFromConfig("default", tokenizerConfigJSON, chatTemplateJinja, chatTemplateJSON)
}

// NamedFromConfig is FromConfig for checkpoints with several templates, such as "default", "tool_use" and "rag".
func NamedFromConfig(name string, tokenizerConfigJSON, chatTemplateJinja, chatTemplateJSON []byte) (string, error) {
	if len(chatTemplateJinja) > 0 && name == "default" {
		return string(chatTemplateJinja), nil
	}
	for _, file := range []struct {
		name string
		data []byte
	}{{"chat_template.json", chatTemplateJSON}, {"tokenizer_config.json", tokenizerConfigJSON}} {
		if len(file.data) == 0 {
			continue
		}
		source, err := fromJSON(name, file.data)
		if err != nil {
			return "", fmt.Errorf("chat: %s: %w", file.name, err)
		}
		if source != "" {
			return source, nil
		}
	}
	return "", ErrNoTemplate
}

// fromJSON reads the member chat_template of a JSON object, a text or a list of {name, template}; "" if there is none.
func fromJSON(name string, data []byte) (string, error) {
	var config struct {
		ChatTemplate json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return "", err
	}
	raw := config.ChatTemplate
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] == '"' {
		if name != "default" {
			return "", nil
		}
		var source string
		err := json.Unmarshal(raw, &source)
		return source, err
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("chat_template: expected a string or a list of {name, template}: %w", err)
	}
	var names []string
	for _, t := range list {
		if t.Name == name {
			return t.Template, nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return "", nil
	}
	return "", fmt.Errorf("chat_template: expected a template named %q, found %s", name, strings.Join(names, ", "))
}
