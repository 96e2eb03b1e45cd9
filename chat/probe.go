package chat

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/chat/jinja"
)

// wants is the form in which a template expects what the OpenAI wire format leaves open. Templates disagree: some print
// a call's arguments unchanged, so they need JSON text; others iterate over them, so they need an object.
type wants struct {
	partsAccepted  bool // a content may be a list of parts
	partsRequired  bool // a content must be one
	textArguments  bool // a call's arguments are JSON text
	nullContent    bool // a call without words has None as content, not ""
	toolsOmitted   bool // without tools, the variable tools does not exist, instead of being None
	systemFolded   bool // the model knows no system message: its text belongs before the first user's
	reasoningField string
	// The template prints these variables without asking whether they are defined: the tools as JSON text, the time.
	functions, datetime bool
}

// Words that a probe looks for in a rendered prompt.
const (
	probeText  = "kvasir-probe-text"
	probeKey   = "kvasir_probe_key"
	probeValue = "kvasir-probe-value"

	probeSteps  = 200_000     // far more than any template needs for two turns
	probeCallID = "kvasir001" // nine letters and digits, which Mistral's templates insist on
)

// probe detects what a template wants by rendering small conversations with it, and returns how it renders a call.
func probe(j *jinja.Template, source string) (w wants, call string) {
	w = wants{
		reasoningField: reasoningField(source),
		functions:      regexp.MustCompile(`[+~] *functions\b`).MatchString(source),
		datetime:       regexp.MustCompile(`[+~] *datetime\b`).MatchString(source),
	}
	part := NewDict()
	part.Set("type", "text")
	part.Set("text", probeText)
	text := w.try(j, turn("user", probeText))
	if text == "" {
		w.toolsOmitted = true
		if text = w.try(j, turn("user", probeText)); text == "" {
			w.toolsOmitted = false
		}
	}
	parts := w.try(j, turn("user", []any{part}))
	w.partsAccepted = strings.Contains(parts, probeText) && !printed(parts, "text")
	w.partsRequired = w.partsAccepted && !strings.Contains(text, probeText)

	rest := turn("user", w.content(&Message{Content: "hi"}))
	system := w.try(j, turn("system", w.content(&Message{Content: probeText})), rest)
	w.systemFolded = !strings.Contains(system, probeText) && w.try(j, rest) != ""
	if call = w.probeCall(j, turn("tool", w.content(&Message{Content: "result"}))); call == "" {
		call = w.probeCall(j) // perhaps it knows calls, but not their results
	}
	return w, call
}

// probeCall detects the form in which a template wants a call, and returns a prompt with one, "" if it cannot print
// calls. The messages after follow the call.
func (w *wants) probeCall(j *jinja.Template, after ...*Dict) string {
	object := NewDict()
	object.Set(probeKey, probeValue)
	for _, c := range []wants{{nullContent: true}, {}, {nullContent: true, textArguments: true}, {textArguments: true}} {
		var content, arguments any = "", object
		if c.nullContent {
			content = nil
		} else if w.partsRequired {
			content = []any{}
		}
		if c.textArguments {
			arguments = `{"` + probeKey + `": "` + probeValue + `"}`
		}
		m := turn("assistant", content)
		m.Set("tool_calls", []any{toolCall(probeCallID, "probe", arguments)})
		messages := []any{turn("user", w.content(&Message{Content: probeText})), m}
		for _, a := range after {
			a.Set("tool_call_id", probeCallID)
			messages = append(messages, a)
		}
		prompt := w.try(j, messages...)
		if strings.Contains(prompt, probeValue) && !printed(prompt, probeKey) && !strings.Contains(prompt, "None") {
			w.nullContent, w.textArguments = c.nullContent, c.textArguments
			return prompt
		}
	}
	return ""
}

// complete adds the variables functions and datetime if the template wants them and vars has none.
func (w *wants) complete(vars *Dict, now func() time.Time) (*Dict, error) {
	if !w.functions && !w.datetime {
		return vars, nil
	}
	all := NewDict()
	if vars != nil {
		for _, key := range vars.Keys() {
			v, _ := vars.Get(key)
			all.Set(key, v)
		}
	}
	if _, ok := all.Get("functions"); w.functions && !ok {
		text := ""
		if tools, _ := all.Get("tools"); tools != nil {
			var err error
			if text, err = jinja.EncodeJSON(tools, 2); err != nil {
				return nil, err
			}
		}
		all.Set("functions", text)
	}
	if _, ok := all.Get("datetime"); w.datetime && !ok {
		all.Set("datetime", now().UTC().Format("Jan 02 2006 15:04:05 GMT"))
	}
	return all, nil
}

func turn(role string, content any) *Dict {
	d := NewDict()
	d.Set("role", role)
	d.Set("content", content)
	return d
}

// try renders a conversation, or returns "" if the template fails on it.
func (w *wants) try(j *jinja.Template, messages ...any) string {
	vars := NewDict()
	vars.Set("messages", messages)
	if !w.toolsOmitted {
		vars.Set("tools", nil)
	}
	vars.Set("documents", nil)
	vars.Set("add_generation_prompt", false)
	vars.Set("bos_token", "")
	vars.Set("eos_token", "")
	vars.Set("functions", "")
	vars.Set("datetime", "")
	prompt, err := j.RenderWithin(context.Background(), probeSteps, vars, nil)
	if err != nil {
		return ""
	}
	return prompt
}

// printed reports whether an object with that key was printed as by Python, or as JSON within JSON.
func printed(prompt, key string) bool {
	return strings.Contains(prompt, "'"+key+"'") || strings.Contains(prompt, `\"`+key+`\"`)
}

// reasoningField returns the name under which a template looks for a message's reasoning.
func reasoningField(source string) string {
	for _, field := range []string{"reasoning_content", "reasoning", "thinking"} {
		if regexp.MustCompile(`[.'"]` + field + `\b`).MatchString(source) {
			return field
		}
	}
	return "reasoning_content"
}
