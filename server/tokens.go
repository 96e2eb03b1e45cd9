package server

import (
	"cmp"
	"crypto/rand"
	"math"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// tokensAPI is vLLM's path for those who have tokens and want tokens. Its errors are OpenAI's.
func tokensAPI() *dialect {
	d := openaiAPI()
	d.names[engine.FieldPrompt] = "token_ids"
	d.replies = map[string]reply{"/inference/v1/generate": {tokensReply{}, tokensReply{}}}
	d.routes = func(s *Server) map[string]route {
		return map[string]route{"/inference/v1/generate": {"POST", s.asks(decodeTokens), clients, "vLLM: tokens that continue tokens"}}
	}
	return d
}

// tokensAnswer answers with tokens.
type tokensAnswer struct {
	openaiAnswer
	ids  []int32
	most *int // of logprobs
}

// tokensReply is an answer, or an event of a stream.
type tokensReply struct {
	RequestID      string                 `json:"request_id"`
	Model          string                 `json:"model"`
	Choices        []tokensChoice         `json:"choices"`
	PromptLogprobs []openai.PromptLogprob `json:"prompt_logprobs"`
	KVTransfer     *openai.KVTransfer     `json:"kv_transfer_params"`
	Usage          *openai.Usage          `json:"usage"` // null but at the end
}

type tokensChoice struct {
	Index        int                  `json:"index"`
	TokenIDs     []int32              `json:"token_ids"`
	Logprobs     *openai.ChatLogprobs `json:"logprobs"`
	FinishReason *string              `json:"finish_reason"`
	StopReason   any                  `json:"stop_reason"`
}

func decodeTokens(body []byte) (*ask, error) {
	a := &tokensAnswer{openaiAnswer: openaiAnswer{common: &openai.Common{}, params: given{known: openaiParams}}}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "token_ids":
			a.ids, err = c.Tokens(math.MaxInt32)
		case "model":
			a.common.Model, err = c.Label(openai.MaxLabel)
		case "request_id":
			a.common.RequestID, err = c.Label(openai.MaxLabel)
		case "stream":
			a.common.Stream, err = c.Bool()
		case "sampling_params":
			err = c.Object(func(key string) error { return a.sampling(c, key) })
		case "kv_transfer_params":
			a.common.KVTransfer, err = openai.DecodeTransfer(c)
		case "cache_salt", "priority", "kv_priority", "kv_ttl_ms", "ttft_ms", "tpot_ms", "timeout_ms", "user":
			_, err = a.params.read(c, key)
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(a.ids) == 0:
		return nil, wire.Missing("token_ids", "an array of token ids")
	case a.common.LogprobTokenIDs != nil && a.most == nil:
		return nil, wire.Invalid("sampling_params.logprob_token_ids", wire.CodeInvalidValue, "only allowed with logprobs")
	case a.common.KVTransfer != nil && a.common.KVTransfer.DoRemoteDecode && a.common.Stream:
		return nil, wire.Invalid("kv_transfer_params.do_remote_decode", wire.CodeInvalidValue, "not available when stream is true")
	case a.common.PromptLogprobs != nil && a.common.Stream:
		return nil, wire.Invalid("sampling_params.prompt_logprobs", wire.CodeInvalidValue, "not available when stream is true")
	}
	a.logprobs = a.most != nil
	return a.ask(a, a.prompts), nil
}

// sampling reads a member of sampling_params.
func (a *tokensAnswer) sampling(c *wire.Cursor, key string) (err error) {
	switch key {
	case "n":
		a.common.N, err = wire.Optional(c.IntIn(1, openai.MaxChoices))
	case "max_tokens":
		a.common.MaxTokens, err = wire.Optional(c.IntIn(1, math.MaxInt32))
	case "logprobs":
		a.most, err = wire.Optional(c.IntIn(openai.AllLogprobs, openai.MaxLogprobs))
	case "logprob_token_ids":
		a.common.LogprobTokenIDs, err = c.Tokens(openai.MaxLogprobTokens)
	case "prompt_logprobs":
		a.common.PromptLogprobs, err = wire.Optional(c.IntIn(0, openai.MaxLogprobs))
	case "detokenize": // there is no text either way
		_, err = c.Bool()
	default:
		var known bool
		if known, err = a.params.read(c, key); !known && err == nil {
			err = c.Unsupported()
		}
	}
	return err
}

func (a *tokensAnswer) prompts(info text.Info) ([]text.Request, error) {
	r := a.openaiAnswer.request(info)
	r.IDs = a.ids
	if err := a.alternatives(&r, a.most, info, "sampling_params.logprobs"); err != nil {
		return nil, err
	}
	return []text.Request{r}, nil
}

func (a *tokensAnswer) begin(j *job) { a.job, a.id = j, cmp.Or(a.common.RequestID, rand.Text()) }

// choice describes a choice, or a piece of it.
func (a *tokensAnswer) choice(c *choice, ids []int32, tokens []text.TokenInfo, finish string) tokensChoice {
	out := tokensChoice{Index: c.index, TokenIDs: append([]int32{}, ids...)}
	if a.logprobs {
		out.Logprobs = &openai.ChatLogprobs{Content: a.chatLogprobs(tokens)}
	}
	if finish != "" {
		out.FinishReason, out.StopReason = &finish, c.stopReason()
	}
	return out
}

func (a *tokensAnswer) reply(choices ...tokensChoice) *tokensReply {
	return &tokensReply{RequestID: a.id, Model: a.job.title(), Choices: choices}
}

func (a *tokensAnswer) piece(dst []byte, c *choice, d *text.Delta) []byte {
	return appendEvent(dst, a.reply(a.choice(c, d.IDs, d.Tokens, d.Finish)))
}

func (a *tokensAnswer) end(dst []byte) []byte {
	last := a.reply()
	last.Choices, last.Usage = []tokensChoice{}, a.openaiUsage(a.job.usage())
	return append(appendEvent(dst, last), openai.Done...)
}

func (a *tokensAnswer) whole() any {
	out := a.reply()
	for _, c := range a.job.choices {
		out.Choices = append(out.Choices, a.choice(c, c.ids, c.tokens, c.finish))
	}
	out.KVTransfer = a.job.offered
	out.PromptLogprobs, out.Usage = a.promptLogprobs(a.job.choices[0]), a.openaiUsage(a.job.usage())
	return out
}

// appendEvent appends an event of a stream whose data is JSON.
func appendEvent(dst []byte, v any) []byte {
	body, err := wire.Encode(v)
	if err != nil { // all values are of the kinds that encoding/json takes
		panic(err)
	}
	return append(append(append(dst, "data: "...), body...), '\n')
}
