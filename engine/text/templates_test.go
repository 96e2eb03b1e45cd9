package text

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/sampling"
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
			if !ok {
				t.Errorf("%s, %s, %+v: %+v", name, m.tools.Name, choice, got)
			}
		}
	}
	if len(formats) < 20 || formats["harmony"] == 0 {
		t.Errorf("the formats are %v", formats)
	}
	t.Log(formats)
}

// TestGuidedChannels holds that answers in harmony are of their form however the model strays: calls and JSON come in
// messages of their own, calls count as no reasoning, and reasoning that takes too long is ended.
func TestGuidedChannels(t *testing.T) {
	const name = "openai-gpt-oss-120b.jinja"
	source, err := os.ReadFile(reference.Path(t, "templates", "jinja", name))
	if err != nil {
		t.Fatal(err)
	}
	m := openMini(t, Options{})
	if m.Template, err = chat.Parse(name, string(source)); err != nil {
		t.Fatal(err)
	}
	if err := m.openFormats(&Options{}); err != nil || m.tools.Name != "harmony" {
		t.Fatal(err)
	}
	isWeather := func(text string) bool {
		var v struct{ City *string }
		return json.Unmarshal([]byte(text), &v) == nil && v.City != nil
	}
	form := &Form{Field: "form", Spec: grammar.Spec{Compact: true, Ordered: true,
		Schema: []byte(`{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`)}}
	for seed := range uint64(12) {
		for _, kind := range []string{"required", "form", "either", "strict", "thought"} {
			r := withTools(asking("What is the weather in Paris?"), ToolChoice{Required: kind == "required"}, kind == "strict")
			r.MaxTokens = 120
			r.Sampling = sampling.Defaults()
			r.Sampling.Temperature, r.Sampling.Seed = 0.8+float32(seed%3)*0.2, seed
			switch kind {
			case "form":
				r.Chat.Tools, r.Answer.Tools, r.Answer.Form = nil, nil, form
			case "either":
				r.Answer.Form = form
			case "thought":
				r.Answer.Form, r.Answer.Thought = form, new(int)
			}
			got := answered(t, m, r)
			ok := got.finish != "length" || kind == "strict"
			for i, call := range got.calls {
				_, args, _ := strings.Cut(call, " ")
				free := (kind == "either" || kind == "thought") && json.Valid([]byte(args)) // the tool is not strict
				ok = ok && (isWeather(args) || free || got.finish == "length" && i == len(got.calls)-1)
			}
			switch kind {
			case "required":
				ok = ok && len(got.calls) > 0 && got.content == "" && got.finish == FinishCalls
			case "form":
				ok = ok && isWeather(got.content)
			case "either", "thought":
				ok = ok && (isWeather(got.content) && len(got.calls) == 0 || got.content == "" && len(got.calls) > 0)
			}
			if kind == "thought" {
				ok = ok && got.thought == ""
			}
			if !ok || strings.Contains(got.content, "<|channel|>") || strings.Contains(got.content, "<|message|>") {
				t.Errorf("seed %d, %s: %+v", seed, kind, got)
			}
		}
	}
}
