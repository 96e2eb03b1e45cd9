package text

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/internal/reference"
)

// TestGuidedCallsOfTemplates holds that the built-in model, which knows none of them but its own, calls a tool in the
// format of every template that has one, once for each format of calls and of reasoning. Templates without a format
// refuse tools, and take a format by name.
func TestGuidedCallsOfTemplates(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(reference.Path(t, "templates", "jinja"), "*.jinja"))
	if err != nil || len(files) < 60 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	m := openMini(t, Options{})
	described := strings.Replace(weatherTool, `{"type": "string"}`, `{"type": "string", "description": "The city"}`, 1)
	formats, tried := map[string]int{}, map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		if m.Template, err = chat.Parse(name, string(source)); err != nil {
			t.Fatal(err)
		}
		m.guides = guides{}
		if err := m.openFormats(&Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ask := withTools(asking("What is the weather in Paris?"), ToolChoice{Required: true}, true)
		if m.tools == nil {
			formats["none"]++
			if _, err := m.Prepare(t.Context(), ask); err == nil || !strings.HasPrefix(err.Error(), string(FieldTools)+" cannot be called") {
				t.Errorf("%s: %v", name, err)
			}
			if err := m.openFormats(&Options{ToolFormat: "json", ReasoningFormat: "none"}); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
		} else {
			formats[m.tools.Name]++
		}
		both := m.tools.Name
		if m.reasoning != nil {
			both += " " + m.reasoning.Name
		}
		if tried[both] {
			continue
		}
		tried[both] = true
		for _, choice := range []ToolChoice{{Required: true}, {Name: "get_weather"}} {
			r := withTools(ask, choice, true)
			r.MaxTokens = 160
			r.Chat.Tools = []json.RawMessage{json.RawMessage(described)}
			got := answerTo(t, m, r)
			ok := len(got.calls) > 0 && got.content == "" && got.finish == FinishCalls && (choice.Name == "" || len(got.calls) == 1)
			for _, call := range got.calls {
				function, args, _ := strings.Cut(call, " ")
				var v struct{ City *string }
				ok = ok && function == "get_weather" && json.Unmarshal([]byte(args), &v) == nil && v.City != nil
			}
			// A thought in harmony is free text, in which the model can get lost: then there is nothing but it.
			lost := m.tools.Name == "harmony" && got.finish == "length" && got.content == "" && len(got.calls) == 0
			if !ok && !lost {
				t.Errorf("%s, %s, %+v: %+v", name, m.tools.Name, choice, got)
			}
		}
	}
	if len(formats) < 20 || formats["harmony"] == 0 {
		t.Errorf("the formats are %v", formats)
	}
	t.Log(formats)
}
