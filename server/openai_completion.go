package server

import (
	"strconv"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// defaultMaxTokens is how many tokens a text completion gets that does not say, as with OpenAI.
const defaultMaxTokens = 16

// completionAnswer answers /v1/completions.
type completionAnswer struct {
	openaiAnswer
	request *openai.CompletionRequest
	offsets map[*choice]int // characters of a choice's text so far, for log probabilities
}

func decodeCompletion(body []byte) (*ask, error) {
	a := &completionAnswer{offsets: map[*choice]int{}}
	a.params.known = openaiParams
	var err error
	if a.request, err = openai.DecodeCompletion(body, a.params.read); err != nil {
		return nil, err
	}
	a.common, a.logprobs = &a.request.Common, a.request.Logprobs != nil
	if err := a.checkBeams(); err != nil {
		return nil, err
	}
	out := a.ask(a, a.prompts)
	out.silent = a.request.MaxTokens != nil && *a.request.MaxTokens == 0 // which only comes with echo
	return out, nil
}

func (a *completionAnswer) prompts(info text.Info) ([]text.Request, error) {
	r := a.openaiAnswer.request(info)
	r.MaxTokens = max(value(a.request.MaxTokens, defaultMaxTokens), 1)
	r.NoSpecial = !value(a.request.AddSpecialTokens, true)
	if err := a.alternatives(&r, a.request.Logprobs, info, "logprobs"); err != nil {
		return nil, err
	}
	if a.logprobs && a.request.Echo {
		r.PromptLogprobs = r.Logprobs
	}
	var all []text.Request
	for _, p := range a.request.Prompts {
		r.Prompt, r.IDs, r.Suffix = p.Text, p.IDs, a.request.Suffix
		all = append(all, r)
	}
	return all, nil
}

func (a *completionAnswer) begin(j *job) { a.open(j, "cmpl-", openai.ObjectCompletion) }

func (a *completionAnswer) piece(dst []byte, c *choice, d *text.Delta) []byte {
	var p openai.Piece
	a.fill(&p, c, d)
	echo, tokens := c.first && a.request.Echo, d.Tokens
	if echo {
		p.Text = a.prompt(c) + p.Text
	}
	if a.logprobs {
		if echo {
			tokens = append(c.gen.Prompt(), tokens...)
		}
		p.Logprobs = a.list(c, tokens, echo)
	}
	return a.encoder.AppendPiece(dst, &p)
}

func (a *completionAnswer) whole() any {
	out := &openai.Completion{ID: a.id, Object: openai.ObjectCompletion, Created: a.created, Model: a.job.title(),
		Usage: *a.openaiUsage(a.job.usage()), KVTransfer: a.job.offered}
	for _, c := range a.job.best() {
		one := openai.CompletionChoice{Index: c.index, Text: c.text.String(), FinishReason: c.finish, StopReason: c.stopReason(), TokenIDs: a.ids(c.ids),
			PromptLogprobs: a.promptLogprobs(c), PromptTokenIDs: a.ids(c.prompt.IDs)}
		tokens := c.tokens
		if a.request.Echo {
			one.Text = a.prompt(c) + one.Text
			tokens = append(c.gen.Prompt(), tokens...)
		}
		if a.logprobs {
			one.Logprobs = a.list(c, tokens, a.request.Echo)
		}
		out.Choices = append(out.Choices, one)
	}
	return out
}

// prompt returns the text of a choice's prompt.
func (a *completionAnswer) prompt(c *choice) string {
	p := a.request.Prompts[c.number]
	if p.IDs != nil {
		return a.job.served.Vocabulary.Decode(c.prompt.IDs, false)
	}
	if a.common.TruncatePromptTokens != nil {
		return a.job.served.Vocabulary.Decode(c.prompt.IDs, true)
	}
	return p.Text
}

// list returns the log probabilities of the next tokens of a choice's text. If the prompt is among them, the first
// token has none.
func (a *completionAnswer) list(c *choice, tokens []text.TokenInfo, fromPrompt bool) *openai.CompletionLogprobs {
	l := &openai.CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []*openai.Logprob{},
		TopLogprobs: []openai.TopByText{},
		TextOffset:  []int{}}
	for i, t := range tokens {
		l.Tokens = append(l.Tokens, a.spell(t))
		l.TextOffset = append(l.TextOffset, a.offsets[c])
		if c.prompt.Request.KeepSpecial || !a.job.served.Vocabulary.IsSpecial(t.ID) {
			a.offsets[c] += runes(t.Bytes)
		}
		if i == 0 && fromPrompt {
			l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, nil), append(l.TopLogprobs, nil)
			continue
		}
		own, top := openai.Logprob(t.Logprob), openai.TopByText{}
		for _, alternative := range t.Top {
			top[a.spell(alternative)] = openai.Logprob(alternative.Logprob)
		}
		top[a.spell(t)] = own
		l.TokenLogprobs, l.TopLogprobs = append(l.TokenLogprobs, &own), append(l.TopLogprobs, top)
	}
	return l
}

// runes counts the characters that begin in b.
func runes(b []byte) int {
	n := 0
	for _, x := range b {
		if x&0xc0 != 0x80 {
			n++
		}
	}
	return n
}

// promptLogprobs returns the log probabilities of a prompt's tokens, nil if they were not asked for.
func (o *openaiAnswer) promptLogprobs(c *choice) []openai.PromptLogprob {
	if o.common.PromptLogprobs == nil {
		return nil
	}
	tokens := c.gen.Prompt()
	out := make([]openai.PromptLogprob, len(tokens)) // nil for the first
	for i, t := range tokens {
		if i == 0 {
			continue
		}
		entry := openai.PromptLogprob{strconv.Itoa(int(t.ID)): ranked(t, t.Rank)}
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
