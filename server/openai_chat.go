package server

import (
	"strings"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// chatAnswer answers /v1/chat/completions.
type chatAnswer struct {
	openaiAnswer
	request *openai.ChatRequest
	batch   [][]openai.Message // conversations; nil is that of request
}

func decodeChat(body []byte) (*ask, error) {
	a := &chatAnswer{}
	a.params.known = openaiParams
	var err error
	if a.request, err = openai.DecodeChat(body, a.params.read); err != nil {
		return nil, err
	}
	return a.asks()
}

// decodeChatBatch reads a request for the next messages of several conversations.
func decodeChatBatch(body []byte) (*ask, error) {
	a := &chatAnswer{}
	a.params.known = openaiParams
	var err error
	if a.request, a.batch, err = openai.DecodeChatBatch(body, a.params.read); err != nil {
		return nil, err
	}
	return a.asks()
}

// asks returns what the server has to know of a request.
func (a *chatAnswer) asks() (*ask, error) {
	a.common, a.logprobs, a.origins = &a.request.Common, a.request.Logprobs, a.request.ReturnTokenOrigins
	if a.request.MaxCompletionTokens != nil {
		a.common.MaxTokens = a.request.MaxCompletionTokens
	}
	out := a.ask(a, a.prompts)
	out.ignored = a.request.Ignored
	return out, a.checkBeams()
}

func (a *chatAnswer) prompts(info text.Info) ([]text.Request, error) {
	r := a.openaiAnswer.request(info)
	err := a.alternatives(&r, a.request.TopLogprobs, info, "top_logprobs")
	if err != nil {
		return nil, err
	}
	if r.Template, err = ownTemplate(a.request.ChatTemplate); err != nil {
		return nil, err
	}
	conversations := a.batch
	if conversations == nil {
		conversations = [][]openai.Message{a.request.Messages}
	}
	r.Prediction = predicted(a.request.Prediction)
	generate := value(a.request.AddGenerationPrompt, !a.request.ContinueFinalMessage)
	var all []text.Request
	for _, messages := range conversations {
		one := r
		if one.Chat, err = openai.Conversation(messages, generate, a.request.ChatTemplateKwargs); err != nil {
			return nil, err
		}
		one.Chat.Continue, one.Special = a.request.ContinueFinalMessage, a.request.AddSpecialTokens
		a.tell(&one)
		all = append(all, one)
	}
	return all, nil
}

func (a *chatAnswer) begin(j *job) {
	a.open(j, "chatcmpl-", openai.ObjectChatChunk)
}

// piece writes a chat's role first, and its finish last, in events of their own.
func (a *chatAnswer) piece(dst []byte, c *choice, d *text.Delta) []byte {
	var p openai.Piece
	a.fill(&p, c, d)
	a.split(&p, c, d)
	if a.logprobs {
		p.Chat = a.chatLogprobs(d.Tokens)
	}
	if c.first {
		role := openai.Piece{Index: p.Index, Role: true, Prompt: p.Prompt}
		if p.Usage != nil { // of which nothing is generated yet
			u := *p.Usage
			u.TotalTokens, u.CompletionTokens, u.CompletionTokensDetails = u.PromptTokens, 0, nil
			role.Usage = &u
		}
		role.Text = a.echo()
		dst = a.encoder.AppendPiece(dst, &role)
		p.Prompt = nil
	}
	if finish := p.Finish; finish != "" && (p.Text != "" || p.Thought != "" || p.Calls != nil || len(p.Chat) > 0) {
		p.Finish = ""
		dst = a.encoder.AppendPiece(dst, &p)
		p = openai.Piece{Index: p.Index, Finish: finish, StopReason: p.StopReason, Usage: p.Usage}
	}
	return a.encoder.AppendPiece(dst, &p)
}

func (a *chatAnswer) whole() any {
	out := &openai.ChatCompletion{ID: a.id, Object: openai.ObjectChat, Created: a.created, Model: a.job.title(),
		Usage: *a.openaiUsage(a.job.usage()), KVTransfer: a.job.offered}
	for _, c := range a.job.best() {
		one := openai.ChatChoice{Index: c.index, FinishReason: c.finish, StopReason: c.stopReason(),
			TokenIDs: a.ids(c.ids), Message: a.message(c)}
		if a.logprobs {
			one.Logprobs = &openai.ChatLogprobs{Content: a.chatLogprobs(c.tokens)}
		}
		out.Choices = append(out.Choices, one)
	}
	first := a.job.choices[0]
	out.PromptLogprobs, out.PromptTokenIDs = a.promptLogprobs(first), a.ids(first.prompt.IDs)
	return out
}

// chatLogprobs returns the log probabilities of an answer's tokens; it is not nil.
func (o *openaiAnswer) chatLogprobs(tokens []text.TokenInfo) []openai.TokenLogprob {
	out := make([]openai.TokenLogprob, len(tokens))
	for i, t := range tokens {
		out[i] = openai.TokenLogprob{TopLogprob: o.topLogprob(t), Top: make([]openai.TopLogprob, len(t.Top))}
		for k, top := range t.Top {
			out[i].Top[k] = o.topLogprob(top)
		}
		if o.origins {
			out[i].Origin = t.Origin.String()
		}
	}
	return out
}

func (o *openaiAnswer) topLogprob(t text.TokenInfo) openai.TopLogprob {
	return openai.TopLogprob{Token: o.spell(t), Logprob: openai.Logprob(t.Logprob), Bytes: t.Bytes}
}

// predicted returns the text of a prediction, "" if there is none.
func predicted(p *openai.Content) string {
	if p == nil {
		return ""
	}
	return p.Text + strings.Join(p.Parts, "")
}

// ownTemplate returns the chat template that a request brings, nil if it brings none.
func ownTemplate(source string) (*chat.Template, error) {
	if source == "" {
		return nil, nil
	}
	t, err := chat.ParseGuest("chat_template", source)
	if err != nil {
		return nil, wire.Invalid("chat_template", wire.CodeInvalidValue, "%v", err)
	}
	return t, nil
}
