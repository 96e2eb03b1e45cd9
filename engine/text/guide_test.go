package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/sampling"
)

// whole is an answer as its pieces add up.
type whole struct {
	content, thought string
	calls            []string // name and arguments
	finish           string
	usage            Usage
}

func answerTo(t *testing.T, m *Model, r Request) whole {
	t.Helper()
	r.Sampling = sampling.Defaults()
	r.Sampling.Temperature = 0
	return answered(t, m, r)
}

// answered returns the answer to a request with its own sampling.
func answered(t *testing.T, m *Model, r Request) whole {
	t.Helper()
	g, err := generate(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var w whole
	for {
		d, err := g.Next(t.Context())
		if err == io.EOF {
			return w
		}
		if err != nil {
			t.Fatal(err)
		}
		w.content += d.Text
		w.thought += d.Reasoning
		for _, e := range d.Calls {
			if e.Kind == chat.Called {
				w.calls = append(w.calls, e.Text+" ")
				continue
			}
			w.calls[len(w.calls)-1] += e.Text
		}
		w.finish, w.usage = d.Finish, d.Usage
	}
}

const weatherTool = `{"type": "function", "function": {"name": "get_weather", "description": "Get the weather of a city",
	"parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}}}`

func asking(question string) Request {
	r := request()
	r.Chat = &chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{{Role: "user", Content: question}}}
	r.Answer.Parse = true
	r.MaxTokens = 200
	return r
}

func withTools(r Request, choice ToolChoice, strict bool) Request {
	var tool struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(weatherTool), &tool); err != nil {
		panic(err)
	}
	r.Chat.Tools = []json.RawMessage{json.RawMessage(weatherTool)}
	r.Answer.Choice = choice
	r.Answer.Tools = []Tool{{Field: "tools[0].parameters", Tool: chat.Tool{Name: tool.Function.Name,
		Parameters: tool.Function.Parameters, Strict: strict}}}
	return r
}

func TestCalls(t *testing.T) {
	m := openMini(t, Options{})
	const question = "What is the weather in Paris?"
	want := []string{`get_weather {"city": "Paris"}`}
	for _, choice := range []ToolChoice{{}, {Required: true}, {Name: "get_weather"}} {
		for _, strict := range []bool{false, true} {
			got := answerTo(t, m, withTools(asking(question), choice, strict))
			if !slices.Equal(got.calls, want) || got.content != "" || got.finish != FinishCalls {
				t.Errorf("%+v, strict %v: %+v", choice, strict, got)
			}
		}
	}
	r := withTools(asking("Tell me a story."), ToolChoice{Required: true}, false)
	if got := answerTo(t, m, r); len(got.calls) == 0 || got.content != "" || got.finish != FinishCalls {
		t.Errorf("required: %+v", got)
	}
}

// TestFormsWithinTheLimit holds that an answer of a form is of that form whatever its most tokens are, once these are
// enough for the shortest one.
func TestFormsWithinTheLimit(t *testing.T) {
	m := openMini(t, Options{})
	schema := []byte(`{"type": "object", "properties": {"text": {"type": "string"}, "list": {"type": "array", "items":
		{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}}},
		"required": ["text", "list"], "additionalProperties": false}`)
	for _, most := range []int{24, 30, 48, 80, 150} {
		r := asking("Tell me a story about a fox.")
		r.MaxTokens = most
		r.Answer.Form = &Form{Spec: grammar.Spec{Schema: schema, Compact: true, Ordered: true}, Field: "form"}
		got := answerTo(t, m, r)
		var v struct {
			Text *string
			List *[]struct{ N *int }
		}
		if err := json.Unmarshal([]byte(got.content), &v); err != nil || v.Text == nil || v.List == nil || got.finish != "stop" {
			t.Errorf("%d tokens: %+v: %v", most, got, err)
		}
		r = asking("Tell me a story about a fox.")
		r.MaxTokens = most
		r.Answer.Form = &Form{Spec: grammar.Spec{Regex: `Once[a-zA-Z ,.]{9,}, [0-9]{4} (times|and never again) the end`}, Field: "form"}
		if got := answerTo(t, m, r); !strings.HasSuffix(got.content, " the end") || got.finish != "stop" {
			t.Errorf("%d tokens: %+v", most, got)
		}
		calls := withTools(asking("Tell me a story about a fox, and the weather everywhere."), ToolChoice{Required: true}, false)
		calls.MaxTokens = most + 20
		for _, c := range answerTo(t, m, calls).calls {
			if _, args, _ := strings.Cut(c, " "); !json.Valid([]byte(args)) {
				t.Errorf("%d tokens: %q", calls.MaxTokens, c)
			}
		}
	}
}

// TestReasoning holds that reasoning is told apart and counted, that a budget ends it, and that a form holds for what
// follows it.
func TestReasoning(t *testing.T) {
	m := openMini(t, Options{})
	think := func() Request {
		r := asking("What is 17 + 25?")
		r.Chat.Extra = chat.NewDict()
		r.Chat.Extra.Set("enable_thinking", true)
		return r
	}
	free := answerTo(t, m, think())
	if free.thought == "" || strings.Contains(free.content+free.thought, "think>") || !strings.Contains(free.content, "42") ||
		free.usage.Reasoning < 4 || free.usage.Reasoning >= free.usage.Generated {
		t.Fatalf("%+v", free)
	}
	for _, budget := range []int{0, 1, 3, 1000} {
		r := think()
		r.Answer.Thought = &budget
		got := answerTo(t, m, r)
		if budget == 1000 && got.thought != free.thought || budget < 1000 && len(got.thought) >= len(free.thought) ||
			!strings.HasPrefix(free.thought, got.thought) || got.content == "" {
			t.Errorf("a budget of %d: %+v", budget, got)
		}
	}
	r := think()
	r.Answer.Form = &Form{Spec: grammar.Spec{Regex: "The answer is [0-9]+"}, Field: "form"}
	if got := answerTo(t, m, r); got.thought != free.thought || !strings.HasPrefix(got.content, "The answer is ") {
		t.Errorf("a form after reasoning: %+v", got)
	}
}

// TestLogprobsChangeNoToken holds that log probabilities, for which forced tokens are computed one by one, change no
// token of an answer.
func TestLogprobsChangeNoToken(t *testing.T) {
	m := openMini(t, Options{})
	spelled := func(r Request, logprobs int) []int32 {
		r.Logprobs = logprobs
		g, err := generate(t.Context(), m, r)
		if err != nil {
			t.Fatal(err)
		}
		return listen(t, g).ids
	}
	schema := []byte(`{"type": "object", "properties": {"international_standard_name": {"enum": ["uninteresting", "unbelievable"]},
		"list_of_coordinates": {"type": "array", "items": {"enum": ["north-west", "north-east"]}, "minItems": 2}},
		"required": ["international_standard_name", "list_of_coordinates"], "additionalProperties": false}`)
	for n := range 12 {
		r := asking(fmt.Sprintf("What is the weather in Paris and in %d cities?", n))
		switch n % 3 {
		case 0:
			r.Answer.Form = &Form{Spec: grammar.Spec{Schema: schema, Compact: true, Ordered: true}, Field: "form"}
		case 1:
			r.Answer.Form = &Form{Spec: grammar.Spec{Regex: "(the unbelievable|the uninteresting) [a-z]{1,9} is [0-9]+ metres away"}, Field: "form"}
		case 2:
			r = withTools(r, ToolChoice{Required: true}, true)
		}
		r.MaxTokens, r.Sampling = 60, sampling.Defaults()
		switch r.Sampling.Seed = uint64(n); n % 4 {
		case 0:
			r.Sampling.Temperature = 0
		case 1:
			r.Sampling.Mirostat = true
		case 2:
			r.Sampling.TypicalP, r.Sampling.FrequencyPenalty = 0.9, 0.5
		}
		if without, with := spelled(r, -1), spelled(r, 1); !slices.Equal(without, with) {
			t.Errorf("%d: %q, with log probabilities %q", n, m.Tokenizer.Decode(without, true), m.Tokenizer.Decode(with, true))
		}
	}
}

func TestFormsRefused(t *testing.T) {
	m := openMini(t, Options{})
	form := func(s grammar.Spec) Request {
		r := asking("hi")
		r.Answer.Form = &Form{Spec: s, Field: "form"}
		return r
	}
	schema := func(s string) Request { return form(grammar.Spec{Schema: []byte(s)}) }
	badTool := withTools(asking("hi"), ToolChoice{Required: true}, false)
	badTool.Answer.Tools[0].Parameters = []byte(`{"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}`)
	eos, min, named := schema(`{}`), schema(`{}`), withTools(asking("hi"), ToolChoice{Name: "nobody"}, false)
	eos.IgnoreEOS, min.MinTokens = true, 5
	for want, r := range map[fault.Field]Request{
		"form.properties.x.type": schema(`{"properties": {"x": {"type": "dict"}}}`),
		"form":                   form(grammar.Spec{Regex: "("}),
		"tools[0].parameters.properties.x.pattern": badTool,
		FieldIgnoreEOS:        eos,
		engine.FieldMinTokens: min,
		FieldTools:            named,
	} {
		r.Sampling = sampling.Defaults()
		_, err := m.Prepare(t.Context(), r)
		bad := new(fault.Error)
		if !errors.As(err, &bad) || bad.Field != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestInfill holds that a suffix asks for what is between two texts, in the model's own marks.
func TestInfill(t *testing.T) {
	m := openMini(t, Options{})
	r, suffix := request(), "\n}\n"
	r.Prompt, r.Suffix, r.MaxTokens = "func add(a, b int) int {\n", &suffix, 16
	r.Sampling = sampling.Defaults()
	p, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	const want = "<|fim_prefix|>func add(a, b int) int {\n<|fim_suffix|>\n}\n<|fim_middle|>"
	if got := m.Tokenizer.Decode(p.IDs, false); got != want || !m.Tokenizer.IsSpecial(p.IDs[0]) {
		t.Errorf("%q; want %q", got, want)
	}
	if got := answerTo(t, m, r); !strings.Contains(got.content, "return") {
		t.Errorf("%+v", got)
	}
	r.IDs = []int32{1}
	if _, err := m.Prepare(t.Context(), r); fmt.Sprint(err) != "suffix needs a prompt that is text, not tokens" {
		t.Error(err)
	}
}

// TestContinue holds that an answer continues the last message.
func TestContinue(t *testing.T) {
	m := openMini(t, Options{})
	r := asking("What is the capital of France?")
	r.Chat.AddGenerationPrompt, r.Chat.Continue = false, true
	r.Chat.Messages = append(r.Chat.Messages, chat.Message{Role: "assistant", Content: "The capital of Fra"})
	r.Sampling = sampling.Defaults()
	p, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if text := m.Tokenizer.Decode(p.IDs, false); !strings.HasSuffix(text, "<|im_start|>assistant\nThe capital of Fra") {
		t.Errorf("%q", text)
	}
}

// TestGuideLimits holds that the limits of requests can be set.
func TestGuideLimits(t *testing.T) {
	limits := GuideLimits{Tools: 1, Grammar: grammar.Limits{Bytes: 400, Depth: 8, States: 1 << 14, Work: 1 << 16}}
	m := openMini(t, Options{Guide: limits})
	tools := withTools(asking("hi"), ToolChoice{}, false)
	two, large := tools, tools
	two.Answer.Tools = slices.Repeat(tools.Answer.Tools, 2)
	large.Answer.Tools = []Tool{{Field: "tools[0].parameters", Tool: chat.Tool{Name: "f", Parameters: []byte(strings.Repeat(" ", 401))}}}
	form := func(schema string) Request {
		r := asking("hi")
		r.Answer.Form = &Form{Spec: grammar.Spec{Schema: []byte(schema)}, Field: "form"}
		return r
	}
	for want, r := range map[string]Request{
		"":                              tools,
		"tools has 2; at most 1":        two,
		"tools[0].parameters has 401":   large,
		"form has 422 bytes":            form(`{"description": "` + strings.Repeat("x", 403) + `"}`),
		"form is not JSON: is nested":   form(strings.Repeat(`{"items": `, 12) + "{}" + strings.Repeat("}", 12)),
		"form.pattern the regular expr": form(`{"type": "string", "pattern": "^(?=.*a.{80})(?=.*b.{90}).{200}$"}`),
	} {
		r.Sampling = sampling.Defaults()
		if _, err := m.Prepare(t.Context(), r); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestGuidesApart holds that requests of one salt share a compiled grammar and those of others do not: the time of an
// answer would tell them what form others have asked for.
func TestGuidesApart(t *testing.T) {
	m := openMini(t, Options{})
	for i, c := range []struct {
		salt string
		want int // compiled grammars
	}{{"a", 1}, {"b", 2}, {"a", 2}, {"", 3}, {"b", 3}} {
		r := asking("What?")
		r.Sampling, r.Salt = sampling.Defaults(), c.salt
		r.Answer.Form = &Form{Spec: grammar.Spec{Regex: "yes|no"}, Field: "guided_regex"}
		if _, err := m.Prepare(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := len(m.guides.recent); got != c.want {
			t.Errorf("after request %d there are %d compiled grammars; want %d", i, got, c.want)
		}
	}
}
