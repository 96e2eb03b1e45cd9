package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// overlong is what engines and providers say, in small letters, of a prompt that is too long: OpenAI, kvasir and vLLM;
// vLLM without a code; SGLang; llama-server; Anthropic; Gemini; Bedrock; TGI.
var overlong = [][]byte{
	[]byte("context_length_exceeded"), []byte("maximum context length"), []byte("longer than the model's context length"),
	[]byte("available context size"), []byte("prompt is too long"), []byte("exceeds the maximum number of tokens"),
	[]byte("input is too long"), []byte("`inputs` must have less than"),
}

// tooLong reads an answer with status 400. If the prompt is too long for the model, that is a failure, so that a model
// with more room is asked. Any other answer is left as it was.
func tooLong(res *http.Response) *failure {
	said, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	small := bytes.ToLower(said)
	if err == nil && slices.ContainsFunc(overlong, func(s []byte) bool { return bytes.Contains(small, s) }) {
		return &failure{err: fmt.Errorf("the prompt is too long for the model: %.200s", said), answer: &answer{res.StatusCode, res.Header, said}, long: true}
	}
	res.Body = &rejoined{first: said, err: err, ReadCloser: res.Body}
	return nil
}
