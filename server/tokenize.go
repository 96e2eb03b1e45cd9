package server

import (
	"fmt"
	"net/http"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine/text"
)

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	out, err := s.tokens(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, out)
}

func (s *Server) tokens(w http.ResponseWriter, r *http.Request) (*openai.TokenizeResponse, error) {
	req, err := read(w, r, openai.DecodeTokenize)
	if err != nil {
		return nil, err
	}
	warn(w, req.Ignored)
	m, _, err := s.lookup(r.Context(), req.Model)
	if err != nil {
		return nil, err
	}
	out := &openai.TokenizeResponse{MaxModelLen: m.Model.Info().Context, Tokens: []int32{}}
	t, err := fromSource(&req.Source, !req.ContinueFinalMessage)
	if err != nil {
		return nil, err
	}
	if t.Template, err = ownTemplate(req.ChatTemplate); err != nil {
		return nil, err
	}
	if t.Chat != nil {
		t.Chat.Continue = req.ContinueFinalMessage
	}
	for _, tool := range req.Tools {
		t.Chat.Tools = append(t.Chat.Tools, tool.JSON)
	}
	ids, err := m.Model.Encode(r.Context(), t)
	if err != nil {
		return nil, err
	}
	out.Tokens, out.Count = append(out.Tokens, ids...), len(ids)
	if req.ReturnTokenStrs {
		out.TokenStrs = make([]string, len(ids))
		for i, id := range ids {
			out.TokenStrs[i] = m.Vocabulary.Token(id)
		}
	}
	return out, nil
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	out, err := s.untokens(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, out)
}

func (s *Server) untokens(w http.ResponseWriter, r *http.Request) (*openai.DetokenizeResponse, error) {
	req, err := read(w, r, openai.DecodeDetokenize)
	if err != nil {
		return nil, err
	}
	m, _, err := s.lookup(r.Context(), req.Model)
	if err != nil {
		return nil, err
	}
	if n, most := len(req.Tokens), m.Model.Info().Context; n > most {
		return nil, wire.Invalid("tokens", wire.CodeInvalidValue, "found %d token ids; the context has %d", n, most)
	}
	for i, id := range req.Tokens {
		if vocab := m.Model.Info().Vocab; int(id) >= vocab {
			return nil, wire.Invalid(fmt.Sprintf("tokens[%d]", i), wire.CodeInvalidValue,
				"token %d is outside the vocabulary of %d", id, vocab)
		}
	}
	return &openai.DetokenizeResponse{Prompt: m.Vocabulary.Decode(req.Tokens, false)}, nil
}

// fromSource returns a request of what a prompt is made from. generate says whether a conversation ends with the
// beginning of an answer if the source does not.
func fromSource(s *openai.Source, generate bool) (r text.Request, err error) {
	r.NoSpecial, r.Special = !value(s.AddSpecialTokens, true), value(s.AddSpecialTokens, false)
	if s.Messages != nil {
		r.Chat, err = openai.Conversation(s.Messages, value(s.AddGenerationPrompt, generate), s.ChatTemplateKwargs)
	} else {
		r.Prompt = value(s.Prompt, "")
	}
	return r, err
}
