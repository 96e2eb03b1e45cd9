package chat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ToolFormat says how a model writes calls of tools.
type ToolFormat struct {
	Name string

	sections []section  // what may begin calls; none: the answer's first byte
	bare     string     // bytes that begin calls where they are the answer's first, if a known tool's name follows
	json     bool       // calls are JSON objects (output_json.go), or may be
	keyed    bool       // of one member, {name: arguments}
	python   bool       // calls are in Python's notation (output_python.go)
	named    *namedCall // calls name their tool and then give JSON (output_named.go)
	param    *paramCall // arguments are tagged one by one (output_params.go)
	channels bool       // calls are messages of a channel (output_harmony.go)

	guide    Guide
	stops    []string // tokens that end an answer, beside the model's own
	ownIDs   bool     // the model writes ids that its template wants back
	shortIDs bool     // the template wants ids of nine letters and digits
	nothing  []string // names that call nothing

	shape *regexp.Regexp // of a call as a template of the format renders it
	hint  *regexp.Regexp // of the source of a template that renders no calls
}

// section is a pair of marks around calls. Without close, calls end where no other follows.
type section struct{ open, close string }

// Guide is how calls are spelled where a grammar guides them, with JSON arguments in any case: Open, then for each call
// Before, the arguments, After, with Between before all but the first, then Close. Name stands for the tool's name.
type Guide struct{ Open, Before, After, Between, Close string }

// GuideName stands for the name of a tool in Guide.Before.
const GuideName = "\x00"

// ReasoningFormat says how a model marks its reasoning.
type ReasoningFormat struct {
	Name        string
	open, close string
	ignored     []string // marks around content
	after       string   // white space that models write after close
	hint        *regexp.Regexp
}

const jsonCall = `{"name": "` + GuideName + `", "arguments": `

// jsonIn returns the guide for one JSON call between two marks, on lines of its own.
func jsonIn(open, close string) Guide {
	return Guide{Before: open + "\n" + jsonCall, After: "}\n" + close, Between: "\n"}
}

// listIn returns the guide for a JSON list of calls between two marks.
func listIn(open, close string) Guide {
	return Guide{Open: open + "[", Before: jsonCall, After: "}", Between: ", ", Close: "]" + close}
}

// toolFormats are the formats of calls, in the order in which templates are asked for them.
var toolFormats = []ToolFormat{
	{Name: "harmony", channels: true, stops: []string{"<|call|>"},
		guide: Guide{Before: "<|channel|>commentary to=functions." + GuideName + " <|constrain|>json<|message|>"},
		shape: regexp.MustCompile(`to=functions\.probe.*<\|message\|>`)},
	{Name: "qwen3_coder", sections: []section{{"<tool_call>", "</tool_call>"}, {"<function=", ""}}, json: true,
		param: &paramCall{"<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>", true},
		guide: jsonIn("<tool_call>", "</tool_call>"),
		shape: regexp.MustCompile(`<tool_call>\s*<function=probe>`)},
	{Name: "seed_oss", sections: []section{{"<seed:tool_call>", "</seed:tool_call>"}}, json: true,
		param: &paramCall{"<function=", ">", "<parameter=", ">", "", "</parameter>", "</function>", false},
		guide: jsonIn("<seed:tool_call>", "</seed:tool_call>"),
		shape: regexp.MustCompile(`<seed:tool_call>\s*<function=probe>`)},
	{Name: "glm", sections: []section{{"<tool_call>", "</tool_call>"}}, json: true,
		param: &paramCall{"", "\n", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "", false},
		guide: jsonIn("<tool_call>", "</tool_call>"),
		shape: regexp.MustCompile(`<tool_call>probe\s*<arg_key>`)},
	{Name: "hunyuan", sections: []section{{"<tool_calls:opensource>", "</tool_calls:opensource>"}}, json: true,
		param: &paramCall{"<tool_call:opensource>", "<tool_sep:opensource>", "<arg_key:opensource>",
			"</arg_key:opensource>", "<arg_value:opensource>", "</arg_value:opensource>", "</tool_call:opensource>", false},
		guide: jsonIn("<tool_calls:opensource>", "</tool_calls:opensource>"),
		shape: regexp.MustCompile(`<tool_call:opensource>probe`)},
	{Name: "minimax_m2", sections: []section{{"<minimax:tool_call>", "</minimax:tool_call>"}}, json: true,
		param: &paramCall{`<invoke name="`, `">`, `<parameter name="`, `">`, "", "</parameter>", "</invoke>", false},
		guide: jsonIn("<minimax:tool_call>", "</minimax:tool_call>"),
		shape: regexp.MustCompile(`<minimax:tool_call>\s*<invoke name="probe">`)},
	{Name: "deepseek_v32", json: true,
		sections: []section{{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"}, {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"}},
		param: &paramCall{`<｜DSML｜invoke name="`, `">`, `<｜DSML｜parameter name="`, `">`, "", "</｜DSML｜parameter>",
			"</｜DSML｜invoke>", false},
		guide: jsonIn("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
		shape: regexp.MustCompile(`<｜DSML｜invoke name="probe">`)},
	{Name: "deepseek_v31", sections: []section{{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}},
		named: &namedCall{head: "<｜tool▁call▁begin｜>", sep: []string{"<｜tool▁sep｜>"}, tail: "<｜tool▁call▁end｜>"},
		guide: Guide{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>" + GuideName + "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "",
			"<｜tool▁calls▁end｜>"},
		shape: regexp.MustCompile(`<｜tool▁call▁begin｜>probe<｜tool▁sep｜>`)},
	{Name: "deepseek_v3", sections: []section{{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"}},
		named: &namedCall{head: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", sep: []string{"\n"}, lead: "```json",
			tail: "<｜tool▁call▁end｜>"},
		guide: Guide{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + GuideName + "\n```json\n",
			"\n```<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>"},
		shape: regexp.MustCompile(`<｜tool▁call▁begin｜>function<｜tool▁sep｜>probe`),
		hint:  regexp.MustCompile(`<｜tool▁call▁begin｜>`)},
	{Name: "kimi_k2", sections: []section{{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}}, ownIDs: true,
		named: &namedCall{head: "<|tool_call_begin|>", sep: []string{"<|tool_call_argument_begin|>"},
			tail: "<|tool_call_end|>", name: kimiName},
		guide: Guide{"<|tool_calls_section_begin|>",
			"<|tool_call_begin|>functions." + GuideName + ":0<|tool_call_argument_begin|>", "<|tool_call_end|>", "",
			"<|tool_calls_section_end|>"},
		shape: regexp.MustCompile(`<\|tool_call_begin\|>`)},
	{Name: "mistral", sections: []section{{"[TOOL_CALLS]", ""}}, json: true, shortIDs: true,
		named: &namedCall{sep: []string{"[ARGS]", "[CALL_ID]", "{"}, idMark: "[CALL_ID]"},
		guide: Guide{Before: "[TOOL_CALLS]" + GuideName + "[ARGS]"},
		shape: regexp.MustCompile(`\[TOOL_CALLS\]probe`), hint: regexp.MustCompile(`\[ARGS\]`)},
	{Name: "mistral_v3", sections: []section{{"[TOOL_CALLS]", ""}}, json: true, shortIDs: true,
		named: &namedCall{sep: []string{"[ARGS]", "[CALL_ID]", "{"}, idMark: "[CALL_ID]"},
		guide: listIn("[TOOL_CALLS]", ""),
		shape: regexp.MustCompile(`\[TOOL_CALLS\] ?\[?\{`), hint: regexp.MustCompile(`\[TOOL_CALLS\]`)},
	{Name: "command_r7b", sections: []section{{"<|START_ACTION|>", "<|END_ACTION|>"}}, json: true,
		guide: Guide{"<|START_ACTION|>[", `{"tool_call_id": "0", "tool_name": "` + GuideName + `", "parameters": `, "}", ", ",
			"]<|END_ACTION|>"},
		shape: regexp.MustCompile(`<\|START_ACTION\|>`), hint: regexp.MustCompile(`<\|START_ACTION\|>`)},
	{Name: "command_r", sections: []section{{"Action: ```json", "```"}, {"Action:```json", "```"}, {"Action:\n```json", "```"}}, json: true,
		nothing: []string{"directly-answer", "directly_answer"},
		guide:   Guide{"Action: ```json\n[", `{"tool_name": "` + GuideName + `", "parameters": `, "}", ", ", "]\n```"},
		shape:   regexp.MustCompile("Action:\\s*```json"), hint: regexp.MustCompile("Write .?'Action:")},
	{Name: "nemotron", sections: []section{{"<TOOLCALL>", "</TOOLCALL>"}}, json: true,
		guide: listIn("<TOOLCALL>", "</TOOLCALL>"),
		shape: regexp.MustCompile(`<TOOLCALL>`), hint: regexp.MustCompile(`<TOOLCALL>`)},
	{Name: "minimax_m1", sections: []section{{"<tool_calls>", "</tool_calls>"}}, json: true,
		guide: Guide{"<tool_calls>\n", jsonCall, "}\n", "", "</tool_calls>"},
		shape: regexp.MustCompile(`<tool_calls>\s*\{`)},
	{Name: "apriel", sections: []section{{"<tool_calls>", "</tool_calls>"}}, json: true,
		guide: listIn("<tool_calls>", "</tool_calls>"),
		shape: regexp.MustCompile(`<tool_calls>\s*\[`)},
	{Name: "apertus", sections: []section{{"<|tools_prefix|>", "<|tools_suffix|>"}}, json: true, keyed: true,
		guide: Guide{"<|tools_prefix|>[", `{"` + GuideName + `": `, "}", ", ", "]<|tools_suffix|>"},
		shape: regexp.MustCompile(`<\|tools_prefix\|>`)},
	{Name: "lfm2", sections: []section{{"<|tool_call_start|>", "<|tool_call_end|>"}}, json: true, python: true,
		guide: listIn("<|tool_call_start|>", "<|tool_call_end|>"),
		shape: regexp.MustCompile(`<\|tool_call_start\|>`), hint: regexp.MustCompile(`<\|tool_call_start\|>|<\|tool_list_start\|>`)},
	{Name: "functionary", sections: []section{{"<function=", ""}}, stops: []string{"<|eom_id|>"},
		named: &namedCall{sep: []string{">"}, tail: "</function>"},
		guide: Guide{Before: "<function=" + GuideName + ">", After: "</function>"},
		shape: regexp.MustCompile(`<function=probe>\{`)},
	{Name: "gigachat", sections: []section{{"<|function_call|>", ""}}, json: true,
		guide: Guide{Before: "<|function_call|>" + jsonCall, After: "}"},
		shape: regexp.MustCompile(`<\|function_call\|>\{`)},
	{Name: "phi4", json: true,
		sections: []section{{"<|tool_call|>", "<|/tool_call|>"}, {"functools", ""}},
		guide:    listIn("<|tool_call|>", "<|/tool_call|>"),
		shape:    regexp.MustCompile(`functools ?\[`), hint: regexp.MustCompile(`<\|/tool_call\|>|<\|/tool\|>|functools`)},
	{Name: "granite", json: true,
		sections: []section{{"<|tool_call|>", ""}, {"<tool_call>", "</tool_call>"}},
		guide:    listIn("<|tool_call|>", ""),
		shape:    regexp.MustCompile(`<\|tool_call\|>`), hint: regexp.MustCompile(`<\|tool_call\|>`)},
	{Name: "hermes", sections: []section{{"<tool_call>", "</tool_call>"}}, json: true,
		guide: jsonIn("<tool_call>", "</tool_call>"),
		shape: regexp.MustCompile(`<tool_call>\s*\[?\{`), hint: regexp.MustCompile(`<tool_call>`)},
	{Name: "llama3", bare: "{", json: true, stops: []string{"<|eom_id|>"},
		sections: []section{{"<|python_tag|>", ""}},
		guide:    Guide{Before: `{"name": "` + GuideName + `", "parameters": `, After: "}", Between: "; "},
		shape:    regexp.MustCompile(`\{"name": "probe", "parameters": `), hint: regexp.MustCompile(`"parameters": dictionary of argument`)},
	{Name: "pythonic", bare: "[{", json: true, python: true, stops: []string{"<|eom_id|>"},
		sections: []section{{"<|python_start|>", "<|python_end|>"}, {"<|python_tag|>", ""}},
		guide:    listIn("", ""),
		shape:    regexp.MustCompile(`\[probe\(`), hint: regexp.MustCompile(`\[func_name1\(`)},
	{Name: "json", bare: "[{", json: true,
		guide: Guide{Before: jsonCall, After: "}", Between: ", "},
		shape: regexp.MustCompile(`(assistant<\|end_header_id\|>\n\n|assistant\n|<\|assistant\|>\n?)\{"name": "probe"`)},
}

// reasoningFormats are the formats of reasoning, in the order in which templates are asked for them.
var reasoningFormats = []ReasoningFormat{
	{Name: "harmony", hint: regexp.MustCompile(`<\|channel\|>`)},
	{Name: "command_r7b", open: "<|START_THINKING|>", close: "<|END_THINKING|>",
		ignored: []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
		hint:    regexp.MustCompile(`<\|START_THINKING\|>|<\|START_RESPONSE\|>`)},
	{Name: "seed_oss", open: "<seed:think>", close: "</seed:think>", hint: regexp.MustCompile(`<seed:think>`)},
	{Name: "hunyuan", open: "<think:opensource>", close: "</think:opensource>", hint: regexp.MustCompile(`think:opensource`)},
	{Name: "mistral", open: "[THINK]", close: "[/THINK]", hint: regexp.MustCompile(`\[THINK\]`)},
	{Name: "apriel", open: "Here are my reasoning steps:", close: "[BEGIN FINAL RESPONSE]",
		ignored: []string{"[END FINAL RESPONSE]"}, hint: regexp.MustCompile(`\[BEGIN FINAL RESPONSE\]`)},
	{Name: "granite", open: "<think>", close: "</think>",
		ignored: []string{"<response>", "</response>"}, after: "\n\n", hint: regexp.MustCompile(`between <response>`)},
	{Name: "granite_v32", open: "Here is my thought process:", close: "Here is my response:",
		hint: regexp.MustCompile(`Here is my thought process:`)},
	{Name: "think", open: "<think>", close: "</think>", after: "\n\n", hint: regexp.MustCompile(`</?think>`)},
}

// ToolFormats returns the names of the formats of calls.
func ToolFormats() (names []string) {
	for i := range toolFormats {
		names = append(names, toolFormats[i].Name)
	}
	return names
}

// ReasoningFormats returns the names of the formats of reasoning.
func ReasoningFormats() (names []string) {
	for i := range reasoningFormats {
		names = append(names, reasoningFormats[i].Name)
	}
	return names
}

// Formats returns how the answers that a template asks for are written: as the names say, or, where they are "auto" or
// "", as is told from the template. "none", and what cannot be told, is nil. t may be nil.
func (t *Template) Formats(tools, reasoning string) (*ToolFormat, *ReasoningFormat, error) {
	var f *ToolFormat
	var r *ReasoningFormat
	switch tools {
	case "", "auto":
		f = t.toolFormat()
	case "none":
	default:
		i := slices.Index(ToolFormats(), tools)
		if i < 0 {
			return nil, nil, fmt.Errorf("chat: tool format %q; want auto, none or one of %s", tools,
				strings.Join(ToolFormats(), ", "))
		}
		f = &toolFormats[i]
	}
	switch reasoning {
	case "", "auto":
		r = t.reasoningFormat()
	case "none":
	default:
		i := slices.Index(ReasoningFormats(), reasoning)
		if i < 0 {
			return nil, nil, fmt.Errorf("chat: reasoning format %q; want auto, none or one of %s", reasoning,
				strings.Join(ReasoningFormats(), ", "))
		}
		r = &reasoningFormats[i]
	}
	if f != nil && f.channels != (r != nil && r.Name == "harmony") {
		return nil, nil, fmt.Errorf("chat: the tool format is %s, and the reasoning format is %s; harmony goes with itself only",
			f.Name, r.name())
	}
	return f, r, nil
}

// toolFormat tells the format from a call as the template renders it, or else from the template's source.
func (t *Template) toolFormat() *ToolFormat {
	if t == nil {
		return nil
	}
	for i := range toolFormats {
		if f := &toolFormats[i]; t.call != "" && f.shape.MatchString(t.call) {
			return f
		}
	}
	for i := range toolFormats {
		if f := &toolFormats[i]; t.call == "" && f.hint != nil && f.hint.MatchString(t.source) {
			return f
		}
	}
	return nil
}

// reasoningFormat tells the format from the template's source, or from what it renders.
func (t *Template) reasoningFormat() *ReasoningFormat {
	if t == nil {
		return nil
	}
	for i := range reasoningFormats {
		if r := &reasoningFormats[i]; r.hint.MatchString(t.source) || r.hint.MatchString(t.call) {
			return r
		}
	}
	return nil
}

// kimiName splits "functions.NAME:INDEX", which is the id.
func kimiName(text string) (id, name string) {
	name = strings.TrimPrefix(text, "functions.")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	return text, name
}

// Guide returns how calls are spelled where a grammar guides them.
func (f *ToolFormat) Guide() Guide { return f.guide }

// End returns what ends reasoning where the model has not ended it: before text, or before what a grammar says.
func (r *ReasoningFormat) End(guided bool) string {
	switch {
	case r.channels() && guided:
		return harmonyThoughtEnd
	case r.channels():
		return harmonyThoughtEnd + harmonyFinal
	}
	return "\n" + r.close + r.after
}

// Final returns what begins an answer's text after a prompt, "" if nothing does.
func (r *ReasoningFormat) Final(prompt string) string {
	if !r.channels() || strings.Contains(prompt[max(0, strings.LastIndex(prompt, harmonyStart)):], harmonyMessage) {
		return ""
	}
	return harmonyFinal
}

// Preamble returns what is around a text before calls, where a message of its own holds it.
func (r *ReasoningFormat) Preamble() (open, close string) { return harmonyPreamble, harmonyThoughtEnd }

// Stops returns the texts of tokens that end an answer, beside the model's own.
func (f *ToolFormat) Stops() []string {
	if f == nil {
		return nil
	}
	return f.stops
}

// Marks returns the texts that are shown to a Parser even where they are special tokens.
func Marks(f *ToolFormat, r *ReasoningFormat) (marks []string) {
	if f != nil {
		marks = append(f.marks(), marks...)
		if c := f.named; c != nil {
			marks = append(append(marks, c.head, c.tail, c.lead), c.sep...)
			marks = append(marks, strings.SplitAfter(c.head, ">")...) // several tokens
		}
		if c := f.param; c != nil {
			marks = append(marks, c.head, c.sep, c.key, c.keyEnd, c.value, c.valueEnd, c.end)
		}
	}
	if r.channels() || f != nil && f.channels {
		marks = append(marks, harmonyMarks...)
	}
	if r != nil {
		marks = append(append(marks, r.open, r.close), r.ignored...)
	}
	return slices.DeleteFunc(marks, func(s string) bool { return strings.TrimSpace(s) == "" })
}

// region returns the state between calls.
func (p *Parser) region() func() bool {
	switch f := p.tools; {
	case f.param != nil:
		return p.paramRegion
	case f.named != nil:
		return p.namedRegion
	case f.python:
		return p.pythonRegion
	}
	return p.jsonRegion
}

// marks returns what may begin or end calls.
func (f *ToolFormat) marks() (marks []string) {
	if f == nil {
		return nil
	}
	for _, s := range f.sections {
		marks = append(marks, s.open)
		if s.close != "" && s.close != "```" {
			marks = append(marks, s.close)
		}
	}
	return marks
}

func (f *ToolFormat) begins(mark string) bool {
	return f != nil && slices.ContainsFunc(f.sections, func(s section) bool { return s.open == mark })
}

func (f *ToolFormat) ends(mark string) bool {
	return f != nil && slices.ContainsFunc(f.sections, func(s section) bool { return s.close == mark })
}

// closes returns the mark that closes the calls that a mark began, if there is one.
func (f *ToolFormat) closes(mark string) []string {
	for _, s := range f.sections {
		if s.open == mark && s.close != "" {
			return []string{s.close}
		}
	}
	return nil
}

func (f *ToolFormat) bareAt(b byte) bool { return f != nil && strings.IndexByte(f.bare, b) >= 0 }

func (f *ToolFormat) ignores(name string) bool { return slices.Contains(f.nothing, name) }

// interrupts are marks that end reasoning too: of tokens that models write for nothing else.
func (f *ToolFormat) interrupts() (marks []string) {
	if f == nil || f.named == nil || f.named.head == "" {
		return nil
	}
	return []string{f.sections[0].open}
}

func (r *ReasoningFormat) channels() bool { return r != nil && r.Name == "harmony" }

func (r *ReasoningFormat) name() string {
	if r == nil {
		return "none"
	}
	return r.Name
}

// opens are the marks that begin reasoning.
func (r *ReasoningFormat) opens() []string {
	if r == nil {
		return nil
	}
	return []string{r.open}
}

func (r *ReasoningFormat) begins(mark string) bool { return slices.Contains(r.opens(), mark) }

// opened reports whether a prompt ends with the beginning of reasoning.
func (r *ReasoningFormat) opened(prompt string) bool {
	return r != nil && !r.channels() && strings.HasSuffix(strings.TrimRight(prompt, whiteSpace), r.open)
}

// Triggers returns the texts that begin calls in free text.
func (f *ToolFormat) Triggers() []string {
	if f.guide.Open != "" {
		return []string{strings.TrimRight(f.guide.Open, "[\n")}
	}
	before, _, _ := strings.Cut(f.guide.Before, GuideName)
	if i := strings.IndexByte(before, '\n'); i > 0 {
		before = before[:i]
	}
	return []string{before}
}

// Around returns the marks around reasoning in an answer to a prompt. open is "" if the prompt has begun it, and close
// if there is none to come.
func (r *ReasoningFormat) Around(prompt string) (open, close string) {
	switch {
	case r == nil:
		return "", ""
	case r.channels():
		return harmonyThought, harmonyThoughtEnd
	case r.opened(prompt):
		return "", r.close + r.after
	case strings.HasSuffix(strings.TrimRight(prompt, whiteSpace), r.close):
		return "", ""
	}
	return r.open, r.close + r.after
}
