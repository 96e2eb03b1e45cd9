package openai

import (
	"errors"
	"reflect"
	"testing"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// FuzzResponse holds that a request for a response is refused with a path, or gives items that are stored and read
// again as they are.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","input":"hi","instructions":"x","store":false,"stream":true,"max_output_tokens":1}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","call_id":"1","name":"f",` +
			`"arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"x"},{"type":"reasoning","summary":[],` +
			`"content":[{"type":"reasoning_text","text":"t"}]},{"id":"msg_1"}]}`,
		`{"input":"a","tools":[{"type":"function","name":"f","parameters":{},"strict":true}],"tool_choice":{"type":"function",` +
			`"name":"f"},"text":{"format":{"type":"json_schema","name":"n","schema":{}}},"reasoning":{"effort":"low"}}`,
		`{"input":"a","include":["reasoning.encrypted_content"],"metadata":{"a":"b"},"previous_response_id":"resp_1"}`,
		`{"input":[{"type":"function_call","namespace":"n","name":"f","call_id":"1"}],"tools":[{"type":"namespace","name":"n",` +
			`"tools":[{"type":"function","name":"f"}]},{"type":"web_search"}],"client_metadata":{}}`,
		`{"input":[{"type":"image"}]}`, `{"input":5}`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeResponse(body, nil)
		if err != nil {
			if bad := new(wire.Error); !errors.As(err, &bad) {
				t.Fatalf("%v is no *wire.Error", err)
			}
			return
		}
		stored, err := EncodeItems(r.Input)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeItems(stored)
		if err != nil {
			t.Fatalf("%s: %v", stored, err)
		}
		twice, err := EncodeItems(again)
		if err != nil || !reflect.DeepEqual(stored, twice) {
			t.Fatalf("stored %s, then %s: %v", stored, twice, err)
		}
	})
}
