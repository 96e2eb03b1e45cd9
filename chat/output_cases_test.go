package chat

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/reference"
)

func formatNamed(t testing.TB, tools, reasoning string) (*ToolFormat, *ReasoningFormat) {
	f, r, err := (*Template)(nil).Formats(tools, reasoning)
	if err != nil {
		t.Fatal(err)
	}
	return f, r
}

// outputs are answers of models, by format of calls and of reasoning, and what they are. A call is "name arguments".
var outputs = []struct {
	tools, reasoning, prompt, text string
	thought, content               string
	calls                          []string
}{
	{"hermes", "think", "", "Hello there.", "", "Hello there.", nil},
	{"hermes", "think", "", " spaces stay \n", "", " spaces stay \n", nil},
	{"hermes", "think", "", "<think>\na </think> b", "a", "b", nil},
	{"hermes", "think", "<think>\n", "a\n\nb\n</think>\n\nc", "a\n\nb", "c", nil},
	{"hermes", "think", "<think>\n", "never ends <tool_call>", "never ends <tool_call>", "", nil},
	{"hermes", "think", "<think>\n\n</think>\n\n", "c", "", "c", nil},
	{"hermes", "think", "", "about <think> tags</think>", "", "about <think> tags</think>", nil},
	{"hermes", "none", "", "<think>x</think>", "", "<think>x</think>", nil},
	{"hermes", "", "", "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"</tool_call> {\\\"\"}}\n</tool_call>\n", "",
		"Let me see.", []string{`get_weather {"city": "</tool_call> {\""}`}},
	{"hermes", "", "", `<tool_call>{"arguments": {"a": [1, {"b": "}"}]}, "name": "f"}</tool_call>`, "", "", []string{`f {"a": [1, {"b": "}"}]}`}},
	{"hermes", "", "", `<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>`, "", "", []string{`f {"a": 1}`}},
	{"hermes", "", "", `<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g", "arguments": null}</tool_call>done`, "", "done", []string{"f {}", "g {}"}},
	{"hermes", "", "", `<tool_call>{"type": "function", "function": {"name": "f", "parameters": {}}}</tool_call>`, "", "", []string{"f {}"}},
	{"hermes", "", "", `<tool_call>{"name": "f", "arguments": {"a": 1`, "", "", []string{`f {"a": 1`}},
	{"hermes", "", "", `<tool_call>{"na`, "", `<tool_call>{"na`, nil},
	{"hermes", "", "", `a <tool_ca`, "", `a <tool_ca`, nil},
	{"hermes", "", "", `Use <tool_call> tags, then </tool_call>.`, "", `Use <tool_call> tags, then </tool_call>.`, nil},
	{"hermes", "", "", `<tool_call>{"no": "name"}</tool_call>`, "", `<tool_call>{"no": "name"}</tool_call>`, nil},
	{"hermes", "", "", `<tool_call></tool_call>`, "", `<tool_call></tool_call>`, nil},
	{"hermes", "", "", `<tool_call>{"name": "f", "arguments": {"a": 1</tool_call> more`, "", "more", []string{`f {"a": 1`}},
	{"qwen3_coder", "", "", "<tool_call>\n<function=get_weather>\n<parameter=city>\nline 1\n\n</tool_call>\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=at>\n{\"x\": true}\n</parameter>\n</function>\n</tool_call>",
		"", "", []string{`get_weather {"city": "line 1\n\n</tool_call>", "days": 3, "at": {"x": true}}`}},
	{"qwen3_coder", "", "", "<function=get_weather>\n<parameter=city>\n3\n</parameter>\n<parameter=days>\nmany\n</parameter>\n<parameter=new>\nTrue\n</parameter>\n</function>\n</tool_call>",
		"", "", []string{`get_weather {"city": "3", "days": "many", "new": true}`}},
	{"qwen3_coder", "", "", "<tool_call>\n<function=f>\n</function>\n</tool_call>", "", "", []string{"f {}"}},
	{"qwen3_coder", "", "", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar", "", "", []string{`get_weather {"city": "Par`}},
	{"qwen3_coder", "", "", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "", "", []string{`f {"a": 1}`}},
	{"glm", "think", "", "\n<think>t</think>\nYes.\n<tool_call>f\n</tool_call><tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>x\ny</arg_value>\n</tool_call>",
		"t", "Yes.", []string{"f {}", `get_weather {"city": "x\ny"}`}},
	{"minimax_m2", "", "", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">[1, 2]</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>", "", "",
		[]string{`f {"a": [1, 2]}`, "g {}"}},
	{"deepseek_v32", "think", "<think>", "t</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"a\" string=\"true\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
		"t", "", []string{`f {"a": "1", "b": 1}`}},
	{"deepseek_v3", "think", "<think>\n", "t<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"```\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"t", "", []string{"f {\"a\": \"```\"}", "g {}"}},
	{"deepseek_v31", "think", "</think>", "ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "", "ok", []string{`f {"a": 1}`}},
	{"kimi_k2", "", "", "<|tool_calls_section_begin|><|tool_call_begin|>functions.a.b:0<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|><|tool_calls_section_end|>", "", "", []string{`a.b {"x": 1}`}},
	{"mistral", "mistral", "", "[THINK]t[/THINK]Sure.[TOOL_CALLS]f[ARGS]{\"a\": \"[TOOL_CALLS]\"}[TOOL_CALLS]g[CALL_ID]abc123def[ARGS]{}", "t", "Sure.", []string{`f {"a": "[TOOL_CALLS]"}`, "g {}"}},
	{"mistral", "", "", "[TOOL_CALLS]f{\"a\": 1}", "", "", []string{`f {"a": 1}`}},
	{"mistral_v3", "", "", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"arguments\": {}, \"name\": \"g\"}]", "", "", []string{`f {"a": 1}`, "g {}"}},
	{"granite", "", "", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "", "", []string{"f {}"}},
	{"phi4", "", "", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>", "", "", []string{"f {}"}},
	{"phi4", "", "", " functools[{\"name\": \"f\", \"arguments\": {}}]", "", "", []string{"f {}"}},
	{"command_r7b", "command_r7b", "<|START_THINKING|>", "t<|END_THINKING|><|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}\n]<|END_ACTION|>", "t", "", []string{`f {"a": 1}`}},
	{"command_r7b", "command_r7b", "", "<|START_RESPONSE|>Hi <b>you</b><|END_RESPONSE|>", "", "Hi <b>you</b>", nil},
	{"command_r", "", "", "Action: ```json\n[\n    {\n        \"tool_name\": \"directly-answer\",\n        \"parameters\": {}\n    }\n]```", "", "", nil},
	{"command_r", "", "", "Action: ```json\n[{\"tool_name\": \"f\", \"parameters\": {\"a\": 1}}]\n```", "", "", []string{`f {"a": 1}`}},
	{"llama3", "", "", `{"name": "get_weather", "parameters": {"city": "x"}}`, "", "", []string{`get_weather {"city": "x"}`}},
	{"llama3", "", "", `{"name": "get_weather", "parameters": {}}; {"name": "get_weather", "parameters": {"days": 1}}`, "", "", []string{"get_weather {}", `get_weather {"days": 1}`}},
	{"llama3", "", "", `{"name": "nobody", "parameters": {}} is JSON`, "", `{"name": "nobody", "parameters": {}} is JSON`, nil},
	{"llama3", "", "", `{"a": [1, 2]}`, "", `{"a": [1, 2]}`, nil},
	{"llama3", "", "", `<|python_tag|>{"name": "get_weather", "parameters": {"days": 2}}`, "", "", []string{`get_weather {"days": 2}`}},
	{"pythonic", "", "", `[get_weather(city='it\'s', days=-3, at={'a': [True, None, 1.5]}), get_weather()]`, "", "", []string{`get_weather {"city": "it's", "days": -3, "at": {"a": [true, null, 1.5]}}`, "get_weather {}"}},
	{"pythonic", "", "", `[1, 2] is a list`, "", `[1, 2] is a list`, nil},
	{"pythonic", "", "", `[nobody(a=1)]`, "", `[nobody(a=1)]`, nil},
	{"lfm2", "", "", `a<|tool_call_start|>[f(a="x)", b=(1, 2))]<|tool_call_end|>b`, "", "ab", []string{`f {"a": "x)", "b": [1, 2]}`}},
	{"json", "", "", "\n[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"é\"}}]", "", "", []string{`get_weather {"city": "é"}`}},
	{"apertus", "", "", `<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>`, "", "", []string{`f {"a": 1}`, "g {}"}},
	{"harmony", "harmony", "<|start|>assistant", "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}", "t", "", []string{`f {"a": 1}`}},
	{"harmony", "harmony", "<|start|>assistant", "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>commentary<|message|>First. <|end|><|start|>assistant<|channel|>final<|message|>Hi é.", "t", "First. Hi é.", nil},
	{"harmony", "harmony", "<|start|>assistant", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"<|end|> \\\"<|channel|>\"} <|end|><|start|>assistant<|channel|>final<|message|>Hi", "", "Hi", []string{`f {"a": "<|end|> \"<|channel|>"} `}},
	{"harmony", "harmony", "<|start|>assistant", "<|channel|>commentary to=functions.f<|message|><|call|>", "", "", []string{"f {}"}},
	{"harmony", "harmony", "<|start|>assistant", "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>commentary to=functions.f <|constrain", "", "", []string{"f {}"}},
	{"harmony", "harmony", "<|start|>assistant", "Hi", "", "Hi", nil},
	{"harmony", "harmony", "<|start|>assistant", "<|channel|>analysis to=browser.search code<|message|>{}<|call|>", "{}", "", nil},
	{"granite", "granite", "", "<think>t</think><response>Hi</response>", "t", "Hi", nil},
	{"apriel", "apriel", "Here are my reasoning steps:\n", "t\n[BEGIN FINAL RESPONSE]\nHi\n[END FINAL RESPONSE]", "t", "Hi", nil},
}

func TestOutputs(t *testing.T) {
	for _, c := range outputs {
		o := ParserOptions{Prompt: c.prompt, Known: []Tool{weather}}
		tools, reasoning := c.tools, c.reasoning
		if reasoning == "" {
			reasoning = "none"
		}
		o.Tools, o.Reasoning = formatNamed(t, tools, reasoning)
		got := checkSplits(t, o, c.text)
		var calls []string
		for _, call := range got.Calls {
			calls = append(calls, call.Name+" "+call.Arguments)
		}
		if got.Reasoning != c.thought || got.Content != c.content || !slices.Equal(calls, c.calls) {
			t.Errorf("%s, %s: %q:\n%v\nwant reasoning %q, content %q, calls %q", c.tools, c.reasoning, c.text, got, c.thought,
				c.content, c.calls)
		}
	}
}

// TestSingle holds that nothing counts after the only call.
func TestSingle(t *testing.T) {
	f, r := formatNamed(t, "hermes", "think")
	text := `<tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>{"name": "g"}</tool_call> more`
	got := checkSplits(t, ParserOptions{Tools: f, Reasoning: r, Single: true}, text)
	if len(got.Calls) != 1 || got.Content != "" {
		t.Error(got)
	}
}

// TestIDs holds that ids are as the formats' templates want them back.
func TestIDs(t *testing.T) {
	for name, want := range map[string]string{
		"mistral":    `[TOOL_CALLS]f[CALL_ID]abc123def[ARGS]{}`,
		"mistral_v3": `[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "x"}]`,
		"kimi_k2":    `<|tool_calls_section_begin|><|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}<|tool_call_end|>`,
		"hermes":     `<tool_call>{"id": "x", "name": "f"}</tool_call>`,
	} {
		f, _ := formatNamed(t, name, "none")
		id := NewParser(ParserOptions{Tools: f}).Push(want)[0].ID
		switch {
		case name == "kimi_k2" && id != "functions.f:7", name == "mistral" && id != "abc123def",
			name == "mistral_v3" && len(id) != 9, name == "hermes" && !strings.HasPrefix(id, "call_"):
			t.Errorf("%s: id %q", name, id)
		}
	}
}

// recorded returns the texts of all recorded streams of answers, as they came in pieces.
func recorded(t *testing.T) map[string][]string {
	all := map[string][]string{}
	dir := reference.Path(t, "api", "streams", "replays")
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || strings.HasSuffix(path, ".md") || strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var list []string
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var chunk struct {
				Choices []struct {
					Text  string
					Delta struct{ Content string }
				}
			}
			line := strings.TrimPrefix(lines.Text(), "data: ")
			if json.Unmarshal([]byte(line), &chunk) == nil && len(chunk.Choices) > 0 {
				list = append(list, chunk.Choices[0].Delta.Content+chunk.Choices[0].Text)
			}
		}
		if len(list) > 0 {
			all[strings.TrimPrefix(path, dir)] = list
		}
		return lines.Err()
	})
	if err != nil || len(all) < 8 {
		t.Fatal(len(all), err)
	}
	return all
}

// TestRecordedStreams parses recorded answers, of which each gives the same whatever its pieces.
func TestRecordedStreams(t *testing.T) {
	f, r := formatNamed(t, "hermes", "think")
	for name, list := range recorded(t) {
		o := ParserOptions{Tools: f, Reasoning: r}
		text := strings.Join(list, "")
		whole := checkSplits(t, o, text)
		if got := parsed(o, list...); got.String() != whole.String() {
			t.Errorf("%s:\n%v\nwhole:\n%v", name, got, whole)
		}
		if strings.Contains(name, "stream_interval_20") {
			if len(whole.Calls) != 1 || whole.Content != "" || whole.Reasoning == "" || !json.Valid([]byte(whole.Calls[0].Arguments)) {
				t.Errorf("%s: %v", name, whole)
			}
		}
	}
}

// TestDeepSeekOutputs parses the turns that DeepSeek's own encoder wrote, and compares them with the messages.
func TestDeepSeekOutputs(t *testing.T) {
	f, r := formatNamed(t, "deepseek_v32", "think")
	for _, name := range []string{"test_input.json test_output.txt", "test_input_search_wo_date.json test_output_search_wo_date.txt",
		"test_input_search_w_date.json test_output_search_w_date.txt"} {
		input, output, _ := strings.Cut(name, " ")
		var in struct {
			Tools    []struct{ Function struct{ Name string } }
			Messages []struct {
				Role, Content string
				Reasoning     string `json:"reasoning_content"`
				ToolCalls     []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
		data, err := os.ReadFile(reference.Path(t, "api", "streams", "deepseek-v3.2", input))
		if err != nil || json.Unmarshal(data, &in) != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(reference.Path(t, "api", "streams", "deepseek-v3.2", output))
		if err != nil {
			t.Fatal(err)
		}
		rest := string(text)
		for _, m := range in.Messages {
			if m.Role != "assistant" {
				continue
			}
			i := strings.Index(rest, "<｜end▁of▁sentence｜>")
			if i < 0 {
				t.Fatalf("%s has too few turns", output)
			}
			turn := rest[:i]
			rest = rest[i+len("<｜end▁of▁sentence｜>"):]
			for _, before := range []string{"<｜Assistant｜>", "</function_results>"} {
				if i := strings.LastIndex(turn, before); i >= 0 {
					turn = turn[i+len(before):]
				}
			}
			got := checkSplits(t, ParserOptions{Tools: f, Reasoning: r}, turn)
			ok := got.Content == m.Content && len(got.Calls) == len(m.ToolCalls) &&
				(got.Reasoning == strings.TrimSpace(m.Reasoning) || got.Reasoning == "")
			for i := range min(len(got.Calls), len(m.ToolCalls)) {
				c := m.ToolCalls[i].Function
				ok = ok && got.Calls[i].Name == c.Name && sameJSON(got.Calls[i].Arguments, c.Arguments)
			}
			if !ok {
				t.Errorf("%s: %q:\n%v\nwant %+v", output, turn, got, m)
			}
		}
	}
}

// FuzzParser holds that no answer makes a parser panic, that pieces do not matter, and that calls of complete answers
// have names.
func FuzzParser(f *testing.F) {
	for _, c := range outputs {
		i := slices.Index(ToolFormats(), c.tools)
		f.Add(c.text, i, slices.Index(ReasoningFormats(), c.reasoning), len(c.text)/3, c.prompt)
	}
	f.Fuzz(func(t *testing.T, text string, tools, reasoning, cut int, prompt string) {
		o := ParserOptions{Known: []Tool{weather, {Name: "f"}}, Prompt: prompt}
		if tools >= 0 && tools < len(toolFormats) {
			o.Tools = &toolFormats[tools]
		}
		if reasoning >= 0 && reasoning < len(reasoningFormats) {
			o.Reasoning = &reasoningFormats[reasoning]
		}
		whole := parsed(o, text).String()
		if got := parsed(o, pieces(text, 1)...).String(); got != whole {
			t.Errorf("byte by byte:\n%s\nwhole:\n%s", got, whole)
		}
		if cut > 0 && cut < len(text) {
			if got := parsed(o, text[:cut], text[cut:]).String(); got != whole {
				t.Errorf("cut at %d:\n%s\nwhole:\n%s", cut, got, whole)
			}
		}
	})
}
