package ollama

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// FuzzDecode holds that what is not accepted is a *wire.Error, and that what clients are answered with is JSON.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"model":"a","prompt":"x","options":{"temperature":1},"keep_alive":"5m","format":"json","think":"low"}`,
		`{"messages":[{"role":"user","content":"x","tool_calls":[{"function":{"name":"f","arguments":{}}}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[1]}}}]}`,
		`{"input":["a","b"],"dimensions":3,"truncate":false}`,
		`{"model":"a","format":{"type":"object"},"keep_alive":-1.5,"stream":false,"logprobs":true}`,
		`{"tools":[{`, `{"tools":[{"function":{"name":1}}]}`,
	} {
		f.Add(body)
	}
	param := func(c *wire.Cursor, _ string) (bool, error) { return true, c.Skip() }
	f.Fuzz(func(t *testing.T, body string) {
		data := []byte(body)
		g, err1 := DecodeGenerate(data, param)
		c, err2 := DecodeChat(data, param)
		_, err3 := DecodeEmbed(data)
		_, err4 := DecodeEmbeddings(data)
		_, err5 := DecodeShow(data)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil && !errors.As(err, new(*wire.Error)) {
				t.Errorf("%q: %v", body, err)
			}
		}
		e, p := Encoder{}, Piece{Created: time.Unix(0, 0), Text: body, Thinking: body, Done: &Done{Reason: body}}
		if err1 == nil {
			e.Model = g.Model
		}
		if err2 == nil {
			e = Encoder{Model: c.Model, Chat: true}
			for _, m := range c.Messages {
				p.Calls = append(p.Calls, m.Calls...)
			}
			for _, tool := range c.Tools {
				if !json.Valid(tool.JSON) {
					t.Errorf("%q: the tool %q is no JSON", body, tool.JSON)
				}
			}
		}
		p.Logprobs = []Logprob{{Token: data, Logprob: -1e30, Top: []Logprob{{Token: data}}}}
		if line := e.Append(nil, &p); !json.Valid(line) {
			t.Errorf("%q: the line %q is no JSON", body, line)
		}
		if line := AppendError(nil, body); !json.Valid(line) {
			t.Errorf("%q: the line %q is no JSON", body, line)
		}
	})
}
