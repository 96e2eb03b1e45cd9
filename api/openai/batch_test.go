package openai

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// FuzzBatch holds that a line of a batch, and a request for one, are refused with a path or can be used.
func FuzzBatch(f *testing.F) {
	for _, s := range []string{
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}`,
		`{"custom_id":"a","method":"GET","url":"/v1/models"}`, `{"custom_id":"a","method":"POST","url":"/v1/score","body":5}`,
		`{"input_file_id":"file-1","endpoint":"/v1/responses","completion_window":"24h","metadata":{"a":"b"},` +
			`"output_expires_after":{"anchor":"created_at","seconds":3600}}`,
		`{"input_file_id":"file-1","endpoint":"/v1/responses","completion_window":"1h"}`, `{}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		line, err := DecodeBatchLine(body)
		if bad := new(wire.Error); err != nil && !errors.As(err, &bad) {
			t.Fatalf("%v is no *wire.Error", err)
		}
		if err == nil && (line.CustomID == "" || !json.Valid(line.Body)) {
			t.Fatalf("accepted %+v", line)
		}
		b, err := DecodeBatch(body)
		if bad := new(wire.Error); err != nil && !errors.As(err, &bad) {
			t.Fatalf("%v is no *wire.Error", err)
		}
		if err == nil && (b.InputFileID == "" || b.Endpoint == "" || b.OutputExpires < 0) {
			t.Fatalf("accepted %+v", b)
		}
	})
}
