package text

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
)

// TestBounds holds that what cannot fit the context is refused by the name of its field, before it is rendered.
func TestBounds(t *testing.T) {
	m := openMini(t, Options{KVBytes: 16 << 20})
	user := chat.Message{Role: "user", Content: "hi"}
	call := func(arguments string) chat.Message {
		return chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Arguments: arguments}}}
	}
	for _, c := range []struct {
		name  string
		r     Request
		field fault.Field
		want  string
	}{
		{"messages", Request{Chat: &chat.Input{Messages: make([]chat.Message, m.Context+1)}}, FieldMessages, "messages, parts and calls"},
		{"parts", Request{Chat: &chat.Input{Messages: []chat.Message{{Role: "user", Parts: make([]chat.Part, m.Context)}}}}, FieldMessages, "messages, parts and calls"},
		{"values", Request{Chat: &chat.Input{Messages: []chat.Message{user, call("[" + strings.Repeat("0,", m.Context) + "0]")}}}, FieldMessages, "more values"},
		{"arguments", Request{Chat: &chat.Input{Messages: []chat.Message{user, call(`"` + strings.Repeat("a", m.mostBytes()) + `"`)}}}, FieldMessages, "bytes"},
		{"stop", Request{Prompt: "x", Stop: []string{strings.Repeat("a", m.mostBytes()+1)}}, FieldStop, "bytes"},
		{"prompt", Request{Prompt: strings.Repeat("a", m.mostBytes()+1)}, engine.FieldPrompt, "bytes"},
	} {
		_, err := m.Encode(t.Context(), c.r)
		var bad *fault.Error
		if !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(bad.Problem, c.want) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

// TestEncodingCosts holds that rendering and encoding takes no more memory than bound says, where all of it is small
// and where it is one word.
func TestEncodingCosts(t *testing.T) {
	m := openMini(t, Options{KVBytes: 16 << 20})
	for name, r := range map[string]Request{
		"word":     {Prompt: strings.Repeat("a", m.mostBytes())},
		"words":    {Prompt: strings.Repeat("a ", m.mostBytes()/2)},
		"messages": {Chat: &chat.Input{Messages: slicesOf(chat.Message{Role: "user"}, m.Context/2)}},
		"parts":    {Chat: &chat.Input{Messages: []chat.Message{{Role: "user", Parts: slicesOf(chat.Part{Type: "text"}, m.Context-1)}}}},
	} {
		cost, err := m.bound(&r)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := m.Encode(t.Context(), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(cost)+64<<10 {
			t.Errorf("%s: %d bytes; want at most %d", name, got, cost)
		}
		if used := m.work.Used(); used != 0 {
			t.Errorf("%s: %d bytes are still taken", name, used)
		}
	}
}

func slicesOf[T any](one T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = one
	}
	return all
}
