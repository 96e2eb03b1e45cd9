package openai

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/api/wire"
)

const chatHead = `{"messages":[{"role":"user","content":"hi"}],`

// TestTools reads tools, and tells what is wrong with others by path.
func TestTools(t *testing.T) {
	one := func(function string) string { return `"tools":[{"type":"function","function":` + function + `}]` }
	for body, want := range map[string]string{
		one(`{"name":"f"}`): "",
		one(`{"name":"a.b:c/d-e_1","description":"d","parameters":{"type":"object"},"strict":true}`): "",
		one(`{"name":"f"}`) + `,"tool_choice":"required","parallel_tool_calls":false`:                "",
		one(`{"name":"f"}`) + `,"tool_choice":{"type":"function","function":{"name":"f"}}`:           "",
		one(`{"name":"f"}`) + `,"tool_choice":{"type":"function","function":{"name":"g"}}`:           "tool_choice.function.name",
		one(`{"name":"f"}`) + `,"tool_choice":"sometimes"`:                                           "tool_choice",
		one(`{"name":"f"}`) + `,"tool_choice":{"type":"function"}`:                                   "tool_choice.function.name",
		`"tool_choice":"required"`:            "tool_choice",
		one(`{"name":"f g"}`):                 "tools[0].function.name",
		one(`{"name":""}`):                    "tools[0].function.name",
		one(`{"description":"d"}`):            "tools[0].function.name",
		one(`{"name":"f","parameters":[]}`):   "tools[0].function.parameters",
		one(`{"name":"f","strict":1}`):        "tools[0].function.strict",
		one(`{"name":"f","args":1}`):          "tools[0].function.args",
		`"tools":[{"type":"web_search"}]`:     "tools[0].type",
		`"tools":[{"function":{"name":"f"}}]`: "tools[0].type",
		`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`: "tools[1].function.name",
		`"tools":[` + strings.Repeat(`{},`, MaxTools) + `{}]`:                                               "tools[0].type",
	} {
		_, err := DecodeChat([]byte(chatHead+body+"}"), nil)
		bad := new(wire.Error)
		if errors.As(err, &bad) != (want != "") || bad.Path != want {
			t.Errorf("%s: %v; want path %q", body, err, want)
		}
	}
	var many []string
	for i := range MaxTools + 1 {
		many = append(many, fmt.Sprintf(`{"type":"function","function":{"name":"f%d"}}`, i))
	}
	if _, err := DecodeChat([]byte(chatHead+`"tools":[`+strings.Join(many, ",")+"]}"), nil); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("tools[%d]: at most %d", MaxTools, MaxTools)) {
		t.Errorf("%d tools: %v", len(many), err)
	}
	if _, err := DecodeChat([]byte(chatHead+`"tools":[`+strings.Join(many[1:], ",")+"]}"), nil); err != nil {
		t.Errorf("%d tools: %v", MaxTools, err)
	}
}

// TestToolText holds that templates get tools as they came, without strict.
func TestToolText(t *testing.T) {
	r, err := DecodeChat([]byte(chatHead+`"tools":[{"function":{"parameters":{"b":1, "a":2},"strict":true,"name":"f"},"type":"function"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"function","function":{"parameters":{"b":1, "a":2},"name":"f"}}`
	if tool := r.Tools[0]; string(tool.JSON) != want || !tool.Strict || string(tool.Parameters) != `{"b":1, "a":2}` {
		t.Errorf("%s, %+v", tool.JSON, tool)
	}
}

// TestStructures reads the forms of answers in each API's words.
func TestStructures(t *testing.T) {
	for body, want := range map[string]string{
		`"response_format":{"type":"text"}`:                                                             "<nil>",
		`"response_format":{"type":"json_object"}`:                                                      "response_format json",
		`"response_format":{"type":"json_object","schema":{"a":1}}`:                                     `response_format.schema schema {"a":1}`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{}}}`: "response_format.json_schema.schema schema {}",
		`"response_format":{"type":"json_schema","json_schema":{"name":"x"}}`:                           "error response_format.json_schema.schema",
		`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`:                          "error response_format.json_schema.name",
		`"response_format":{"type":"text","json_schema":{"name":"x"}}`:                                  "error response_format.json_schema",
		`"response_format":{}`: "error response_format.type",
		`"response_format":{"type":"structural_tag","structures":[{"begin":"<a>","schema":{},"end":"</a>"}],"triggers":["<a"]}`: "response_format tags 1",
		`"guided_json":"{\"a\": 1}"`:                                   `guided_json schema {"a": 1}`,
		`"json_schema":{}`:                                             "json_schema schema {}",
		`"guided_regex":"a+"`:                                          "guided_regex regex a+",
		`"guided_choice":["a","b"]`:                                    "guided_choice choice [a b]",
		`"grammar":"root ::= \"a\""`:                                   `grammar grammar root ::= "a"`,
		`"structured_outputs":{}`:                                      "<nil>",
		`"structured_outputs":{"json_object":true}`:                    "structured_outputs.json_object json",
		`"structured_outputs":{"choice":["a"]}`:                        "structured_outputs.choice choice [a]",
		`"structured_outputs":{"choice":["a"],"grammar":"b"}`:          "error structured_outputs.grammar",
		`"structured_outputs":{"disable_any_whitespace":true}`:         "error structured_outputs.disable_any_whitespace",
		`"grammar":"x","guided_json":{}`:                               "error guided_json",
		`"grammar":"x","use_beam_search":true`:                         "error grammar",
		`"grammar":"` + strings.Repeat("x", MaxSchema+1) + `"`:         "error grammar",
		`"json_schema":{"a":"` + strings.Repeat("x", MaxSchema) + `"}`: "error json_schema",
	} {
		r, err := DecodeChat([]byte(chatHead+body+"}"), nil)
		got := "<nil>"
		bad := new(wire.Error)
		switch {
		case errors.As(err, &bad):
			got = "error " + bad.Path
		case r.Structure == nil:
		case r.Structure.JSON:
			got = r.Structure.Path + " json"
		case r.Structure.Schema != nil:
			got = r.Structure.Path + " schema " + string(r.Structure.Schema)
		case r.Structure.Regex != "":
			got = r.Structure.Path + " regex " + r.Structure.Regex
		case r.Structure.Grammar != "":
			got = r.Structure.Path + " grammar " + r.Structure.Grammar
		case r.Structure.Choice != nil:
			got = fmt.Sprint(r.Structure.Path, " choice ", r.Structure.Choice)
		default:
			got = fmt.Sprint(r.Structure.Path, " tags ", len(r.Structure.Tags))
		}
		if got != want {
			t.Errorf("%.120s: %.120s; want %s", body, got, want)
		}
	}
}

// TestCallPieces writes a stream's events with reasoning and calls.
func TestCallPieces(t *testing.T) {
	e := NewEncoder(ObjectChatChunk, "id", "m", 1, false)
	got := string(e.AppendPiece(nil, &Piece{Thought: "t", Text: "x", Calls: []CallPiece{{ID: "c", Name: "f"}, {Arguments: `{"a`}}}))
	const want = `"delta":{"content":"x","reasoning_content":"t","reasoning":"t","tool_calls":[{"index":0,"id":"c","type":"function",` +
		`"function":{"name":"f","arguments":""}},{"index":0,"function":{"arguments":"{\"a"}}]}`
	if !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
