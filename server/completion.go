package server

import (
	"net/http"
	"strconv"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// defaultMaxTokens is how many tokens a text completion gets that does not say, as with OpenAI.
const defaultMaxTokens = 16

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	j, err := s.completionJob(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, j)
}

func (s *Server) completionJob(w http.ResponseWriter, r *http.Request) (*job, error) {
	req, err := read(w, r, openai.DecodeCompletion)
	if err != nil {
		return nil, err
	}
	j, err := s.newJob(req.Model, &req.Sampling, false)
	if err != nil {
		return nil, err
	}
	t := common(&req.Sampling, j.info)
	t.MaxTokens = value(req.MaxTokens, defaultMaxTokens)
	t.NoSpecial = !value(req.AddSpecialTokens, true)
	silent := t.MaxTokens == 0 // which only comes with echo
	t.MaxTokens = max(t.MaxTokens, 1)
	if j.logprobs = req.Logprobs != nil; j.logprobs {
		t.Logprobs = *req.Logprobs
		if req.Echo {
			t.PromptLogprobs = t.Logprobs
		}
	}
	for _, p := range req.Prompts {
		t.Prompt, t.IDs = p.Text, p.IDs
		from := len(j.choices)
		if err := j.add(t, "prompt"); err != nil {
			return nil, err
		}
		if !req.Echo {
			continue
		}
		if p.IDs != nil {
			p.Text = j.served.Model.Decode(p.IDs)
		}
		for _, c := range j.choices[from:] {
			c.echo, c.silent, c.prompt = true, silent, p.Text
		}
	}
	return j, nil
}

func (j *job) completion() *openai.Completion {
	out := &openai.Completion{ID: j.id, Object: openai.ObjectCompletion, Created: j.created, Model: j.title(), Usage: *j.usage(j.choices)}
	for _, c := range j.best() {
		one := openai.CompletionChoice{Index: c.index, Text: c.text.String(), FinishReason: c.finish, TokenIDs: c.ids,
			PromptLogprobs: j.promptLogprobs(c)}
		if j.logprobs {
			one.Logprobs = j.completionLogprobs(c, c.tokens, c.echo)
		}
		if j.sampling.ReturnTokenIDs {
			one.PromptTokenIDs = c.request.IDs
		}
		out.Choices = append(out.Choices, one)
	}
	return out
}

// completionLogprobs returns the log probabilities of the next tokens of a choice's text. If the prompt is among them,
// the first token has none.
func (j *job) completionLogprobs(c *choice, tokens []text.TokenInfo, fromPrompt bool) *openai.CompletionLogprobs {
	l := &openai.CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []*openai.Logprob{}, TopLogprobs: []openai.TopByText{}, TextOffset: []int{}}
	for i, t := range tokens {
		l.Tokens = append(l.Tokens, openai.TokenText(t.Bytes))
		l.TextOffset = append(l.TextOffset, c.offset)
		if c.request.KeepSpecial || !j.served.Model.Special(t.ID) {
			c.offset += characters(t.Bytes)
		}
		if i == 0 && fromPrompt {
			l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, nil), append(l.TopLogprobs, nil)
			continue
		}
		own, top := openai.Logprob(t.Logprob), openai.TopByText{}
		for _, alternative := range t.Top {
			top[openai.TokenText(alternative.Bytes)] = openai.Logprob(alternative.Logprob)
		}
		top[openai.TokenText(t.Bytes)] = own
		l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, &own), append(l.TopLogprobs, top)
	}
	return l
}

// characters counts the characters that begin in b.
func characters(b []byte) int {
	n := 0
	for _, x := range b {
		if x&0xc0 != 0x80 {
			n++
		}
	}
	return n
}

// promptLogprobs returns the log probabilities of a prompt's tokens, nil if they were not asked for.
func (j *job) promptLogprobs(c *choice) []openai.PromptLogprob {
	if j.sampling.PromptLogprobs == nil {
		return nil
	}
	tokens := c.gen.Prompt()
	out := make([]openai.PromptLogprob, len(tokens)) // nil for the first
	for i, t := range tokens {
		if i == 0 {
			continue
		}
		entry := openai.PromptLogprob{strconv.Itoa(int(t.ID)): ranked(t, 0)}
		for rank, top := range t.Top {
			entry[strconv.Itoa(int(top.ID))] = ranked(top, rank+1)
		}
		out[i] = entry
	}
	return out
}

func ranked(t text.TokenInfo, rank int) openai.RankedLogprob {
	return openai.RankedLogprob{Logprob: openai.Logprob(t.Logprob), Rank: rank, DecodedToken: openai.TokenText(t.Bytes)}
}
