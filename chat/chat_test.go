package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

func readFile(t testing.TB, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func parse(t testing.TB, source string) *Template {
	t.Helper()
	tmpl, err := Parse("test", source)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// TestReferenceGoldens renders real templates with conversations whose prompts huggingface.js publishes.
func TestReferenceGoldens(t *testing.T) {
	var groups map[string]json.RawMessage
	if err := json.Unmarshal([]byte(readFile(t, reference.Path(t, "templates", "render_goldens.json"))), &groups); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, group := range []string{"TEST_DEFAULT_TEMPLATES", "TEST_CUSTOM_TEMPLATES"} {
		var cases map[string]struct {
			Template string          `json:"chat_template"`
			Data     json.RawMessage `json:"data"`
			Target   string          `json:"target"`
		}
		if err := json.Unmarshal(groups[group], &cases); err != nil {
			t.Fatal(err)
		}
		for name, c := range cases {
			n++
			vars, err := DecodeVars(c.Data)
			if err != nil {
				t.Fatal(err)
			}
			// One prompt has the day it was made on in it.
			made := func() time.Time { return time.Date(2025, 7, 10, 12, 0, 0, 0, time.UTC) }
			got, err := parse(t, c.Template).render(t.Context(), vars, made)
			if err != nil || got != c.Target {
				t.Errorf("%s\n got %q, %v\nwant %q", name, got, err, c.Target)
			}
		}
	}
	if n < 38 {
		t.Errorf("only %d cases were found", n)
	}
}

const weatherTool = `{"type": "function", "function": {"name": "get_weather", "description": "The weather in a city",
	"parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]}}}`

// TestReferenceTemplates renders a plain chat, a system message and a tool call with every template of the collection.
func TestReferenceTemplates(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(reference.Path(t, "templates", "jinja"), "*.jinja"))
	if err != nil || len(files) < 68 {
		t.Fatalf("found %d templates, %v", len(files), err)
	}
	user := Message{Role: "user", Content: "How is the weather in Oslo?"}
	call := Message{Role: "assistant", ToolCalls: []ToolCall{{ID: "call12345", Name: "get_weather", Arguments: `{"city": "Oslo"}`}}}
	result := Message{Role: "tool", Content: "It is snowing.", ToolCallID: "call12345", Name: "get_weather"}
	again := Message{Role: "user", Content: "Thank you."}
	tools := []json.RawMessage{json.RawMessage(weatherTool)}
	for _, file := range files {
		tmpl, err := Parse(filepath.Base(file), readFile(t, file))
		if err != nil {
			t.Error(err)
			continue
		}
		for name, in := range map[string]struct {
			Input
			want []string
		}{
			"plain": {Input{Messages: []Message{user}}, []string{"weather in Oslo?"}},
			"system": {Input{Messages: []Message{{Role: "system", Content: "Be brief."}, user}},
				[]string{"Be brief.", "weather in Oslo?"}},
			"tool call":   {Input{Messages: []Message{user, call}, Tools: tools}, []string{"weather in Oslo?"}},
			"tool result": {Input{Messages: []Message{user, call, result}, Tools: tools}, []string{"weather in Oslo?"}},
			"next turn":   {Input{Messages: []Message{user, call, result, {Role: "assistant", Content: "Snow."}, again}, Tools: tools}, []string{"Thank you."}},
			"parts": {Input{Messages: []Message{{Role: "user", Parts: []Part{{"text", "Hello"}, {"text", "there"}}}}},
				[]string{"Hello", "there"}},
		} {
			in.AddGenerationPrompt, in.BOS, in.EOS = true, "<s>", "</s>"
			got, err := tmpl.RenderChat(t.Context(), in.Input)
			var raised *RaisedError
			if err != nil && !(errors.As(err, &raised) && refuses(raised)) {
				t.Errorf("%s: %v", name, err)
			}
			for _, w := range in.want {
				if err == nil && !strings.Contains(got, w) {
					t.Errorf("%s: %s: %q is not in %q", filepath.Base(file), name, w, got)
				}
			}
		}
	}
}

// refuses says whether a template's model was made without what the conversation has.
func refuses(e *RaisedError) bool {
	return e.Template == "google-gemma-2-2b-it.jinja" && strings.HasPrefix(e.Message, "Conversation roles must alternate")
}

func TestKvasirMini(t *testing.T) {
	tmpl := parse(t, readFile(t, "testdata", "kvasir-mini.jinja"))
	n := 0
	for line := range strings.Lines(readFile(t, "testdata", "kvasir-mini.jsonl")) {
		vars, err := DecodeVars([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		vars.Set("add_generation_prompt", true)
		want, _ := vars.Get("rendered")
		if got, err := tmpl.Render(t.Context(), vars); err != nil || got != want {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
		n++
	}
	if n != 19 {
		t.Errorf("%d cases, want 19", n)
	}
}

func TestRenderChatVariables(t *testing.T) {
	extra := NewDict()
	extra.Set("enable_thinking", true)
	in := Input{
		Messages: []Message{
			{Role: "user", Content: "q", Name: "ann"},
			{Role: "assistant", Reasoning: "why", ToolCalls: []ToolCall{{ID: "c1", Name: "f", Arguments: `{"b": 1, "a": 2}`}}},
			{Role: "tool", Content: "r", ToolCallID: "c1"},
		},
		Tools:               []json.RawMessage{json.RawMessage(`{"z": 1, "a": 2}`)},
		AddGenerationPrompt: true,
		Extra:               extra,
		BOS:                 "<s>",
		EOS:                 "</s>",
		Now:                 func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	const source = `{{ messages|tojson }}|{{ tools|tojson }}|{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}` +
		`{{ enable_thinking }}{{ documents is none }}|{{ strftime_now('%Y-%m-%d') }}`
	want := `[{"role": "user", "content": "q", "name": "ann"}, {"role": "assistant", "content": null, ` +
		`"reasoning_content": "why", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 2}}}]}, ` +
		`{"role": "tool", "content": "r", "tool_call_id": "c1"}]|[{"z": 1, "a": 2}]|<s></s>TrueTrueTrue|2026-01-02`
	got, err := parse(t, source).RenderChat(t.Context(), in)
	if err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	extra.Set("messages", nil)
	if _, err := parse(t, source).RenderChat(t.Context(), in); err == nil || !strings.Contains(err.Error(), `"messages"`) {
		t.Errorf("messages given twice: %v", err)
	}
}

// TestForms checks that a template gets contents and arguments in the form it can print.
func TestForms(t *testing.T) {
	const loop = `{% for m in messages %}`
	calls := `{% for c in m.tool_calls %}{{ c.function.name }}`
	parts := []Part{{"text", "a"}, {"text", "b"}}
	call := []ToolCall{{Name: "f", Arguments: `{"x": 1}`}}
	for _, c := range []struct {
		name, source string
		m            Message
		want         string
	}{
		{"arguments as text", loop + "{{ m.content }}" + calls + "{{ '' + c.function.arguments }}{% endfor %}{% endfor %}",
			Message{Role: "assistant", Content: "t", ToolCalls: call}, `tf{"x": 1}`},
		{"arguments printed", loop + "{{ m.content or '' }}" + calls + "{{ c.function.arguments }}{% endfor %}{% endfor %}",
			Message{Role: "assistant", ToolCalls: call}, `f{"x": 1}`},
		{"arguments as object", loop + "{{ m.content }}" + calls + "{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}",
			Message{Role: "assistant", ToolCalls: call}, `f{"x": 1}`},
		{"no arguments", loop + calls + "{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}",
			Message{Role: "assistant", ToolCalls: []ToolCall{{Name: "f"}}}, `f{}`},
		{"parts to text", loop + "{{ m.content }}{% endfor %}", Message{Role: "user", Parts: parts}, "a\nb"},
		{"parts kept", loop + "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}",
			Message{Role: "user", Parts: parts}, "ab"},
		{"text to parts", loop + "{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}", Message{Role: "user", Content: "ab"}, "ab"},
		{"system folded", loop + "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ m.role + m.content }}{% endfor %}",
			Message{Role: "system", Content: "be brief"}, "userbe brief"},
		{"reasoning", loop + "{{ m.reasoning }}{% endfor %}", Message{Role: "assistant", Reasoning: "why"}, "why"},
		{"thinking", loop + "{{ m['thinking'] }}{% endfor %}", Message{Role: "assistant", Reasoning: "why"}, "why"},
	} {
		got, err := parse(t, c.source).RenderChat(t.Context(), Input{Messages: []Message{c.m}})
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	_, err := Parse("m/t.jinja", "a\n{{ x|foo }}")
	if want := `chat: template m/t.jinja line 2: unknown filter "foo"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = parse(t, "{{ raise_exception('Roles must alternate') }}").RenderChat(t.Context(), Input{})
	var raised *RaisedError
	if !errors.As(err, &raised) || raised.Message != "Roles must alternate" {
		t.Errorf("got %v", err)
	}
	in := Input{Messages: []Message{{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: "{"}}}}}
	if _, err = parse(t, "{{ messages }}").RenderChat(t.Context(), in); err != nil {
		t.Errorf("arguments of a template without tools: %v", err)
	}
	in.Tools = []json.RawMessage{json.RawMessage("{")}
	if _, err = parse(t, "").RenderChat(t.Context(), in); err == nil {
		t.Error("broken arguments and tools: no error")
	}
}

func TestFromConfig(t *testing.T) {
	for _, c := range []struct{ name, config, jinja, json, want, err string }{
		{"default", `{"chat_template": "A"}`, "", "", "A", ""},
		{"default", `{"chat_template": "A"}`, "J", `{"chat_template": "B"}`, "J", ""},
		{"default", `{"chat_template": "A"}`, "", `{"chat_template": "B"}`, "B", ""},
		{"default", `{"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]}`, "", "", "D", ""},
		{"tool_use", `{"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]}`, "J", "", "T", ""},
		{"rag", `{"chat_template": [{"name": "default", "template": "D"}]}`, "", "", "", `expected a template named "rag", found default`},
		{"default", `{"chat_template": null}`, "", "", "", "no chat template"},
		{"default", ``, "", "", "", "no chat template"},
		{"default", `{"chat_template": 5}`, "", "", "", "expected a string or a list"},
		{"default", `{`, "", "", "", "tokenizer_config.json"},
	} {
		got, err := NamedFromConfig(c.name, []byte(c.config), []byte(c.jinja), []byte(c.json))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

// llamaStyle is a template of the length and manner of Llama 3.1's.
const llamaStyle = `{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Today Date: " + strftime_now("%d %b %Y") + "\n\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {{- '{"name": "' + message.tool_calls[0].function.name + '", "parameters": ' }}
        {{- message.tool_calls[0].function.arguments | tojson + "}<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
`

func BenchmarkRender(b *testing.B) {
	in := Input{AddGenerationPrompt: true, BOS: "<s>", Messages: []Message{
		{Role: "system", Content: "You are a helpful assistant."},
		{Role: "user", Content: "What is a KV cache?"},
		{Role: "assistant", Content: "It stores the keys and values of past tokens."},
		{Role: "user", Content: "And why is it paged?"},
	}}
	withTools := in
	withTools.Tools = []json.RawMessage{json.RawMessage(weatherTool)}
	for name, source := range map[string]string{"mini": readFile(b, "testdata", "kvasir-mini.jinja"), "llama": llamaStyle} {
		tmpl := parse(b, source)
		for kind, in := range map[string]Input{"chat": in, "tools": withTools} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				bytes := 0
				for b.Loop() {
					prompt, err := tmpl.RenderChat(b.Context(), in)
					if err != nil {
						b.Fatal(err)
					}
					bytes = len(prompt)
				}
				b.SetBytes(int64(bytes))
			})
		}
	}
}
