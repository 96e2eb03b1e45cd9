package server

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// invocations are the paths that a body may be meant for, by a member that it has.
var invocations = []struct{ member, path string }{
	{"messages", "/v1/chat/completions"}, {"prompt", "/v1/completions"}, {"input", "/v1/embeddings"},
	{"query", "/v1/rerank"}, {"text_1", "/v1/score"}, {"queries", "/v1/score"},
}

// invoke answers a request as the path does that its body is meant for. SageMaker knows one path only.
func (s *Server) invoke(w http.ResponseWriter, r *http.Request) {
	var members map[string]json.RawMessage
	text, err := read(w, r, func(text []byte) (*[]byte, error) {
		if json.Unmarshal(text, &members) != nil {
			return nil, wire.Invalid("", wire.CodeInvalidJSON, "the body is no JSON object")
		}
		return &text, nil
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	for _, one := range invocations {
		if _, ok := members[one.member]; !ok {
			continue
		}
		again := r.Clone(r.Context())
		again.URL.Path = one.path
		again.Body = io.NopCloser(bytes.NewReader(*text))
		if counted, ok := r.Body.(*body); ok {
			counted.ReadCloser = again.Body
			again.Body = counted
		}
		s.routes[one.path].handler(w, again)
		return
	}
	s.fail(w, r, wire.Missing("messages", "messages, prompt, input, query, text_1 or queries, by which a path is chosen"))
}
