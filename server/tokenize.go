package server

import (
	"fmt"
	"net/http"

	"github.com/kvasir-llm/kvasir/api/openai"
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
	m, _, err := s.lookup(req.Model)
	if err != nil {
		return nil, err
	}
	out := &openai.TokenizeResponse{MaxModelLen: m.Model.Info().Context, Tokens: []int32{}}
	t := text.Request{NoSpecial: !value(req.AddSpecialTokens, true)}
	if req.Prompt != nil {
		t.Prompt = *req.Prompt
	} else if t.Chat, err = conversation(req.Messages, req.AddGenerationPrompt, req.ChatTemplateKwargs); err != nil {
		return nil, err
	}
	ids, err := m.Model.Encode(t)
	if err != nil && (t.Chat != nil || t.Prompt != "") { // no text has no tokens; that is no prompt, but an answer here
		return nil, err
	}
	out.Tokens, out.Count = append(out.Tokens, ids...), len(ids)
	if req.ReturnTokenStrs {
		out.TokenStrs = make([]string, len(ids))
		for i, id := range ids {
			out.TokenStrs[i] = m.Model.Token(id)
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
	m, _, err := s.lookup(req.Model)
	if err != nil {
		return nil, err
	}
	for i, id := range req.Tokens {
		if vocab := m.Model.Info().Vocab; int(id) >= vocab {
			return nil, &text.RequestError{Field: fmt.Sprintf("tokens[%d]", i),
				Problem: fmt.Sprintf("token %d is outside the vocabulary of %d", id, vocab)}
		}
	}
	return &openai.DetokenizeResponse{Prompt: m.Model.Decode(req.Tokens)}, nil
}
