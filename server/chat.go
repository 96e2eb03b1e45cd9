package server

import (
	"net/http"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
)

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	j, err := s.chatJob(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, j)
}

func (s *Server) chatJob(w http.ResponseWriter, r *http.Request) (*job, error) {
	req, err := read(w, r, openai.DecodeChat)
	if err != nil {
		return nil, err
	}
	if req.MaxCompletionTokens != nil {
		req.MaxTokens = req.MaxCompletionTokens
	}
	j, err := s.newJob(req.Model, &req.Sampling, true)
	if err != nil {
		return nil, err
	}
	t := common(&req.Sampling, j.info)
	if t.Chat, err = conversation(req.Messages, req.AddGenerationPrompt, req.ChatTemplateKwargs); err != nil {
		return nil, err
	}
	if j.logprobs = req.Logprobs; req.Logprobs {
		t.Logprobs = value(req.TopLogprobs, 0)
	}
	return j, j.add(t, "messages")
}

func (j *job) chatCompletion() *openai.ChatCompletion {
	out := &openai.ChatCompletion{ID: j.id, Object: openai.ObjectChat, Created: j.created, Model: j.title(), Usage: *j.usage(j.choices)}
	for _, c := range j.best() {
		one := openai.ChatChoice{Index: c.index, FinishReason: c.finish, TokenIDs: c.ids,
			Message: openai.AnswerMessage{Role: "assistant", Content: c.text.String()}}
		if j.logprobs {
			one.Logprobs = &openai.ChatLogprobs{Content: chatLogprobs(c.tokens)}
		}
		out.Choices = append(out.Choices, one)
	}
	first := j.choices[0]
	out.PromptLogprobs = j.promptLogprobs(first)
	if j.sampling.ReturnTokenIDs {
		out.PromptTokenIDs = first.request.IDs
	}
	return out
}

// chatLogprobs returns the log probabilities of an answer's tokens; it is not nil.
func chatLogprobs(tokens []text.TokenInfo) []openai.TokenLogprob {
	out := make([]openai.TokenLogprob, len(tokens))
	for i, t := range tokens {
		out[i] = openai.TokenLogprob{TopLogprob: topLogprob(t), Top: make([]openai.TopLogprob, len(t.Top))}
		for k, top := range t.Top {
			out[i].Top[k] = topLogprob(top)
		}
	}
	return out
}

func topLogprob(t text.TokenInfo) openai.TopLogprob {
	return openai.TopLogprob{Token: openai.TokenText(t.Bytes), Logprob: openai.Logprob(t.Logprob), Bytes: t.Bytes}
}
