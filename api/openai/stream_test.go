package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestStreamEvents(t *testing.T) {
	chat := NewEncoder(ObjectChatChunk, "chatcmpl-1", `m"x`, 7, true)
	plain := NewEncoder(ObjectCompletion, "cmpl-1", "m", 7, false)
	likely := TopLogprob{"é", -0.5, Bytes("é")}
	usage := &Usage{PromptTokens: 3, CompletionTokens: 2, TotalTokens: 5, PromptTokensDetails: PromptDetails{1}}
	cases := []struct {
		got  []byte
		want string
	}{
		{chat.AppendPiece(nil, &Piece{Index: 0, Role: true}),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m\"x","choices":[{"index":0,` +
				`"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}`},
		{chat.AppendPiece(nil, &Piece{Index: 3, Text: "a\n", TokenIDs: []int32{5, 6}, Prompt: []int32{1}, Usage: usage}),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m\"x","choices":[{"index":3,` +
				`"delta":{"content":"a\n"},"logprobs":null,"finish_reason":null,"token_ids":[5,6]}],"prompt_token_ids":[1],` +
				`"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}}`},
		{chat.AppendPiece(nil, &Piece{Finish: "stop", Chat: []TokenLogprob{{likely, []TopLogprob{likely}, ""}, {TopLogprob: likely, Origin: "forced"}}}),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m\"x","choices":[{"index":0,` +
				`"delta":{},"logprobs":{"content":[{"token":"é","logprob":-0.5,"bytes":[195,169],"top_logprobs":[` +
				`{"token":"é","logprob":-0.5,"bytes":[195,169]}]},{"token":"é","logprob":-0.5,"bytes":[195,169],` +
				`"top_logprobs":[],"origin":"forced"}],"refusal":null},"finish_reason":"stop","stop_reason":null}],"usage":null}`},
		{chat.AppendUsage(nil, usage),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m\"x","choices":[],` +
				`"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}}`},
		{plain.AppendPiece(nil, &Piece{Index: 1, Text: "a", Finish: "length", Logprobs: &CompletionLogprobs{
			Tokens: []string{"<b>"}, TokenLogprobs: []*Logprob{nil}, TopLogprobs: []TopByText{{"x": -1}}, TextOffset: []int{4}}}),
			`{"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[{"index":1,"text":"a",` +
				`"logprobs":{"tokens":["<b>"],"token_logprobs":[null],"top_logprobs":[{"x":-1}],"text_offset":[4]},` +
				`"finish_reason":"length","stop_reason":null}]}`},
		{plain.AppendPiece(nil, &Piece{Finish: "stop", StopReason: "\n", TokenIDs: []int32{1}, Prompt: []int32{2}}),
			`{"id":"cmpl-1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"","logprobs":null,` +
				`"finish_reason":"stop","token_ids":[1],"stop_reason":"\n","prompt_token_ids":[2]}]}`},
		{chat.AppendPiece(nil, &Piece{Finish: "stop", StopReason: int32(7)}),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m\"x","choices":[{"index":0,"delta":{},` +
				`"logprobs":null,"finish_reason":"stop","stop_reason":7}],"usage":null}`},
	}
	for _, c := range cases {
		if want := "data: " + c.want + "\n\n"; string(c.got) != want {
			t.Errorf("got  %swant %s", c.got, want)
		}
		if body := bytes.TrimPrefix(c.got, []byte("data: ")); !json.Valid(body) {
			t.Errorf("%s is not valid JSON", body)
		}
	}
	const want = `data: {"error":{"message":"m","type":"server_error","param":null,"code":"c"}}` + "\n\n"
	if got := string(AppendErrorEvent(nil, NewError(TypeServer, "", "c", "m"))); got != want {
		t.Errorf("got %s", got)
	}
}

func TestLogprobsOnTheWire(t *testing.T) {
	for in, want := range map[Logprob]string{
		-0.1:                    "-0.1",
		0:                       "0",
		-1e-8:                   "-1e-08",
		Logprob(math.Inf(-1)):   "-9999",
		-1e30:                   "-9999",
		Logprob(-math.MaxInt16): "-9999",
	} {
		got, err := json.Marshal(in)
		var back float64
		if err != nil || string(got) != want || json.Unmarshal(got, &back) != nil {
			t.Errorf("%v: got %s, want %s", in, got, want)
		}
	}
	if got, _ := json.Marshal(Logprob(math.NaN())); string(got) != "-9999" {
		t.Errorf("NaN is written as %s", got)
	}
}

func TestTokenText(t *testing.T) {
	for in, want := range map[string]string{" the": " the", "\xe2\x82": `bytes:\xe2\x82`, "": "", "a\xff": `bytes:\x61\xff`} {
		if got := TokenText([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func BenchmarkAppendPiece(b *testing.B) {
	e := NewEncoder(ObjectChatChunk, "chatcmpl-0123456789abcdef", "kvasir-mini", 1763712000, true)
	p := &Piece{Text: " token"}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendPiece(buf[:0], p)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.SetBytes(int64(len(buf)))
}

func TestAppendPieceAllocatesNothing(t *testing.T) {
	e := NewEncoder(ObjectChatChunk, "chatcmpl-1", "m", 7, true)
	buf := make([]byte, 0, 4096)
	p := &Piece{Text: strings.Repeat("é\n", 20), Finish: "stop", TokenIDs: []int32{1}, Usage: &Usage{}}
	if n := testing.AllocsPerRun(100, func() { e.AppendPiece(buf, p) }); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}
