package chat

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// FuzzConversations renders any conversation with templates of all kinds: an error or a prompt, within the bounds.
func FuzzConversations(f *testing.F) {
	sources := []string{llamaStyle}
	files, err := filepath.Glob(filepath.Join("testdata", "*.jinja"))
	if err != nil || len(files) == 0 {
		f.Fatalf("%d templates, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		sources = append(sources, string(data))
	}
	var templates []*Template
	for i, source := range sources {
		t, err := Parse("fuzz", source)
		if err != nil {
			f.Fatalf("template %d: %v", i, err)
		}
		templates = append(templates, t)
	}
	f.Add("system", "Be brief.", "user", "hi", `{"a":[1,{"b":null}]}`, `{"type":"function","function":{"name":"f"}}`, true)
	f.Add("user", "", "assistant", "<|im_end|>", `{}`, ``, false)
	f.Add("tool", "{{ x }}", "developer", "{% raw %}", `[`, `{}`, true)
	f.Fuzz(func(t *testing.T, role, content, second, more, arguments, tool string, generate bool) {
		in := Input{AddGenerationPrompt: generate, MaxValues: 1000, Messages: []Message{{Role: role, Content: content},
			{Role: second, Parts: []Part{{Type: "text", Text: more}}},
			{Role: "assistant", Reasoning: more, ToolCalls: []ToolCall{{ID: "1", Name: content, Arguments: arguments}}},
			{Role: "tool", ToolCallID: "1", Name: content, Content: more}}}
		if tool != "" {
			in.Tools = []json.RawMessage{json.RawMessage(tool)}
		}
		for i, tmpl := range templates {
			prompt, err := tmpl.RenderChat(context.Background(), in)
			if size := 64 * (len(role) + len(content) + len(second) + len(more) + len(arguments) + len(tool) + 1000); err == nil && len(prompt) > size {
				t.Errorf("template %d makes %d bytes of a conversation of %d", i, len(prompt), size/64-1000)
			}
		}
	})
}
