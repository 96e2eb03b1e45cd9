package server

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/sampling"
)

// openaiAPI is OpenAI's API, with the extensions of vLLM and kvasir's own.
func openaiAPI() *dialect {
	return &dialect{
		names: map[fault.Field]string{
			engine.FieldStopTokens: "stop_token_ids", engine.FieldFirstToken: "ttft_ms", engine.FieldPerToken: "tpot_ms",
			engine.FieldTimeout: "timeout_ms", engine.FieldSalt: "cache_salt", engine.FieldKeepPriority: "kv_priority",
			engine.FieldKeepTime: "kv_ttl_ms", engine.FieldAdapter: "model", sampling.FieldBeams: "best_of",
			sampling.FieldEarlyStop: "early_stopping", text.FieldThinking: "thinking_token_budget", text.FieldText: "input", text.FieldTruncate: "truncate_prompt_tokens",
		},
		fail: func(f *failure) any { return openai.ErrorResponse{Error: openaiError(f)} },
		failEvent: func(dst []byte, f *failure) []byte {
			return openai.AppendErrorEvent(dst, openaiError(f))
		},
		streamType: "text/event-stream; charset=utf-8", ping: ": ping\n\n",
		title: "OpenAI", replies: openaiReplies,
		routes: func(s *Server) map[string]route {
			routes := map[string]route{
				"/v1/chat/completions":       {"POST", s.asks(decodeChat), clients, "the next message of a conversation"},
				"/v1/completions":            {"POST", s.asks(decodeCompletion), clients, "the continuation of a text"},
				"/v1/chat/completions/batch": {"POST", s.asks(decodeChatBatch), clients, "the next messages of several conversations"},
				"/invocations":               {"POST", s.invoke, clients, "SageMaker: any of OpenAI's paths, by the members of the body"},
				"/v1/chat/completions/render": {"POST", s.render(decodeChat, "chatcmpl-", false), clients,
					"the prompt of a chat, and its parameters"},
				"/v1/completions/render": {"POST", s.render(decodeCompletion, "cmpl-", true), clients, "the prompts of completions, and their parameters"},
			}
			maps.Copy(routes, s.openaiRoutes())
			maps.Copy(routes, s.fileRoutes())
			return routes
		},
	}
}

// openaiReplies are what the paths answer.
var openaiReplies = map[string]reply{
	"/v1/chat/completions":        {openai.ChatCompletion{}, openai.ChatChunk{}},
	"/v1/completions":             {openai.Completion{}, openai.CompletionChunk{}},
	"/v1/chat/completions/batch":  {whole: openai.ChatCompletion{}},
	"/v1/chat/completions/render": {whole: openai.Rendered{}}, "/v1/completions/render": {whole: []openai.Rendered{}},
	"/v1/embeddings": {whole: openai.EmbeddingResponse{}},
	"/pooling":       {whole: openai.PoolingResponse{}}, "/classify": {whole: openai.ClassifyResponse{}},
	"/v1/rerank": {whole: openai.RerankResponse{}}, "/rerank": {whole: openai.RerankResponse{}},
	"/v1/score": {whole: openai.ScoreResponse{}}, "/score": {whole: openai.ScoreResponse{}},
	"/v1/models": {whole: openai.ModelList{}}, modelPath: {whole: openai.Model{}},
	"/tokenize": {whole: openai.TokenizeResponse{}}, "/detokenize": {whole: openai.DetokenizeResponse{}},
	filesPath: {whole: openai.File{}}, "GET " + filesPath: {whole: openai.Page[openai.File]{}},
	"/v1/files/{id}": {whole: openai.File{}}, "DELETE /v1/files/{id}": {whole: openai.Deleted{}},
	"/v1/batches": {whole: openai.Batch{}}, "GET /v1/batches": {whole: openai.Page[openai.Batch]{}},
	"/v1/batches/{id}": {whole: openai.Batch{}}, "/v1/batches/{id}/cancel": {whole: openai.Batch{}},
}

// openaiError puts a failure in the form of OpenAI's API.
func openaiError(f *failure) *openai.Error {
	kind := openai.TypeInvalidRequest
	switch {
	case f.status == http.StatusTooManyRequests:
		kind = openai.TypeRateLimit
	case f.status == http.StatusServiceUnavailable:
		kind = openai.TypeUnavailable
	case f.status >= 500:
		kind = openai.TypeServer
	}
	message := f.message
	if long := new(text.LengthError); errors.As(f.cause, &long) {
		message = fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens "+
			"(%d in the prompt, %d for the completion). Please reduce the length of the prompt or of the completion.",
			long.Context, long.Prompt+long.Answer, long.Prompt, long.Answer)
	}
	return openai.NewError(kind, f.param, f.code, message)
}

// Limits of a request.
const (
	maxStops     = 64   // strings in stop, and ids in stop_token_ids
	maxLogitBias = 1024 // entries of logit_bias
	maxBreakers  = 16   // strings in dry_sequence_breakers
	maxBreaker   = 40   // bytes of one
)

// openaiParams are the parameters of both completions that only change how tokens are chosen, and when.
var openaiParams = parameters{
	"temperature":        param(number(0, 2), func(r *text.Request, x float32) { r.Sampling.Temperature = x }),
	"top_p":              param(topP, func(r *text.Request, x float32) { r.Sampling.TopP = x }),
	"top_k":              param(integer(-1, math.MaxInt32), func(r *text.Request, n int) { r.Sampling.TopK = n }),
	"min_p":              param(number(0, 1), func(r *text.Request, x float32) { r.Sampling.MinP = x }),
	"repetition_penalty": param(positive(1e6), func(r *text.Request, x float32) { r.Sampling.RepetitionPenalty = x }),
	"presence_penalty":   param(number(-2, 2), func(r *text.Request, x float32) { r.Sampling.PresencePenalty = x }),
	"frequency_penalty":  param(number(-2, 2), func(r *text.Request, x float32) { r.Sampling.FrequencyPenalty = x }),
	"logit_bias": param(biases(maxLogitBias),
		func(r *text.Request, m map[int32]float32) { r.Sampling.LogitBias = m }),
	"typical_p":         param(positive(1), func(r *text.Request, x float32) { r.Sampling.TypicalP = x }),
	"top_n_sigma":       param(sigmas, func(r *text.Request, x float32) { r.Sampling.TopNSigma = x }),
	"xtc_probability":   param(number(0, 1), func(r *text.Request, x float32) { r.Sampling.XTCProbability = x }),
	"xtc_threshold":     param(positive(1), func(r *text.Request, x float32) { r.Sampling.XTCThreshold = x }),
	"dynatemp_range":    param(number(0, 2), func(r *text.Request, x float32) { r.Sampling.DynamicRange = x }),
	"dynatemp_exponent": param(positive(100), func(r *text.Request, x float32) { r.Sampling.DynamicExponent = x }),
	"mirostat":          param(mirostat, func(r *text.Request, on bool) { r.Sampling.Mirostat = on }),
	"mirostat_tau":      param(positive(100), func(r *text.Request, x float32) { r.Sampling.MirostatTau = x }),
	"mirostat_eta":      param(positive(1), func(r *text.Request, x float32) { r.Sampling.MirostatEta = x }),
	"dry_multiplier":    param(number(0, 100), func(r *text.Request, x float32) { r.Sampling.DRYMultiplier = x }),
	"dry_base":          param(number(1, 100), func(r *text.Request, x float32) { r.Sampling.DRYBase = x }),
	"dry_allowed_length": param(integer(1, math.MaxInt32),
		func(r *text.Request, n int) { r.Sampling.DRYAllowed = n }),
	"dry_penalty_last_n": param(lastN, func(r *text.Request, n int) { r.Sampling.DRYLastN = n }),
	"dry_sequence_breakers": param(breakers,
		func(r *text.Request, list []string) { r.DRYBreakers = list }),
	"bad_words":      param(stops(maxStops), func(r *text.Request, list []string) { r.BadWords = list }),
	"samplers":       param(stages, func(r *text.Request, list []sampling.Stage) { r.Sampling.Samplers = list }),
	"seed":           param((*wire.Cursor).Int, func(r *text.Request, n int64) { r.Sampling.Seed = uint64(n) }),
	"min_tokens":     param(integer(0, math.MaxInt32), func(r *text.Request, n int) { r.MinTokens = n }),
	"stop":           param(stops(maxStops), func(r *text.Request, list []string) { r.Stop = list }),
	"stop_token_ids": param(tokens(maxStops), func(r *text.Request, ids []int32) { r.StopTokens = ids }),
	"ignore_eos":     param((*wire.Cursor).Bool, func(r *text.Request, on bool) { r.IgnoreEOS = on }),
	"include_stop_str_in_output": param((*wire.Cursor).Bool,
		func(r *text.Request, on bool) { r.IncludeStop = on }),
	"skip_special_tokens": param((*wire.Cursor).Bool, func(r *text.Request, on bool) { r.KeepSpecial = !on }),
	"priority":            param(integer(-math.MaxInt32, math.MaxInt32), func(r *text.Request, n int) { r.Priority = n }),
	"user":                param(label(openai.MaxLabel), func(r *text.Request, s string) { r.Tenant = s }),
	"ttft_ms":             param(millis, func(r *text.Request, d time.Duration) { r.FirstToken = d }),
	"tpot_ms":             param(millis, func(r *text.Request, d time.Duration) { r.PerToken = d }),
	"timeout_ms":          param(millis, func(r *text.Request, d time.Duration) { r.Timeout = d }),
	"cache_salt":          param(label(openai.MaxLabel), func(r *text.Request, s string) { r.Salt = s }),
	"kv_priority":         param(integer(-1000, 1000), func(r *text.Request, n int) { r.Keep.Priority = n }),
	"kv_ttl_ms":           param(millis, func(r *text.Request, d time.Duration) { r.Keep.TTL = d.Milliseconds() }),
}

// topP reads a number from 0 to 1. OpenAI takes 0, which leaves the likeliest token.
func topP(c *wire.Cursor) (float32, error) {
	x, err := c.NumberIn(0, 1)
	return max(float32(x), math.SmallestNonzeroFloat32), err
}

// sigmas reads a number of standard deviations. llama.cpp's -1 is off.
func sigmas(c *wire.Cursor) (float32, error) {
	x, err := c.NumberIn(-1, 100)
	return max(float32(x), 0), err
}

// mirostat reads a version of Mirostat, 0 for none. The first is not there: it assumes Zipf's law of the model.
func mirostat(c *wire.Cursor) (bool, error) {
	n, err := c.IntIn(0, 2)
	if err == nil && n == 1 {
		err = c.Wrong("expected 0 or 2, found 1; version 1 is not supported")
	}
	return n == 2, err
}

// breakers reads an array of short strings, nil for null.
func breakers(c *wire.Cursor) ([]string, error) {
	list, err := stops(maxBreakers)(c)
	for _, s := range list {
		if err == nil && len(s) > maxBreaker {
			err = c.Wrong("has a string of %d bytes; at most %d are allowed", len(s), maxBreaker)
		}
	}
	return append([]string{}, list...), err
}

// lastN reads a number of tokens, -1 for all.
func lastN(c *wire.Cursor) (int, error) {
	n, err := c.IntIn(-1, math.MaxInt32)
	if err == nil && n == 0 {
		err = c.Wrong("expected a number above 0, or -1 for all; dry_multiplier 0 is off")
	}
	return max(n, 0), err
}

// stages reads the order of the samplers.
func stages(c *wire.Cursor) ([]sampling.Stage, error) { return readStages(c) }

// readStages reads the order of the samplers. Penalties and DRY always come first, and may be listed there. Those of
// the names in passed are passed over.
func readStages(c *wire.Cursor, passed ...string) (list []sampling.Stage, err error) {
	list = []sampling.Stage{}
	err = c.Array("an array of names", func(int) error {
		name, err := c.Text()
		stage, ok := sampling.StageNames[name]
		first := name == "penalties" || name == "dry"
		switch {
		case err != nil:
			return err
		case first && len(list) == 0, slices.Contains(passed, name):
			return nil
		case first:
			return c.Wrong("%s always comes before the samplers that drop tokens; list it first, or not at all", name)
		case !ok:
			return c.Wrong("expected one of %s, found %q", strings.Join(slices.Sorted(maps.Keys(sampling.StageNames)), ", "), name)
		case slices.Contains(list, stage):
			return c.Wrong("lists %s twice", name)
		}
		list = append(list, stage)
		return nil
	})
	return list, err
}

// openaiAnswer is what the answers to chats and completions have in common.
type openaiAnswer struct {
	job      *job
	common   *openai.Common
	params   given
	logprobs bool // of the answer's tokens
	origins  bool // beside these
	id       string
	created  int64 // seconds since 1970
	encoder  *openai.Encoder
}

// ask returns what the server has to know of a request.
func (o *openaiAnswer) ask(a answer, prompts func(text.Info) ([]text.Request, error)) *ask {
	out := &ask{model: o.common.Model, stream: o.common.Stream, prompts: prompts, answer: a, transfer: o.common.KVTransfer}
	out.made, out.given = o.common.Choices()
	return out
}

// request returns what the parameters ask for, without the prompt.
func (o *openaiAnswer) request(info text.Info) text.Request {
	info.Defaults.Seed = mathrand.Uint64()
	r := o.params.request(info)
	r.MaxTokens = value(o.common.MaxTokens, info.MaxTokens)
	r.PromptLogprobs = value(o.common.PromptLogprobs, -1)
	r.Truncate = value(o.common.TruncatePromptTokens, 0)
	r.Answer.Form, r.Begun = form(o.common.Structure), o.common.ContinueTokenIDs
	if o.common.UseBeamSearch {
		r.Sampling = sampling.Defaults() // it goes by the model's own probabilities
		r.Sampling.Temperature = 0
		early := sampling.EarlyStop(o.common.EarlyStopping)
		if early == "" {
			early = sampling.EarlyHeuristic
		}
		r.Search = &sampling.BeamParams{Width: o.common.Beams(), LengthPenalty: value(o.common.LengthPenalty, 1),
			Early: early}
	}
	return r
}

// alternatives sets which alternatives are told of each token, if log probabilities are wanted. param has how many.
func (o *openaiAnswer) alternatives(r *text.Request, most *int, info text.Info, param string) error {
	if !o.logprobs {
		return nil
	}
	r.Logprobs, r.LogprobTokens = value(most, 0), o.common.LogprobTokenIDs
	if r.Logprobs != openai.AllLogprobs {
		return nil
	}
	if r.Logprobs = engine.AllLogprobs; !info.AllLogprobs {
		return wire.Invalid(param, wire.CodeInvalidValue,
			"-1 asks for those of all tokens; this server tells at most %d (--max-logprobs)", openai.MaxLogprobs)
	}
	return nil
}

// checkBeams refuses parameters that a beam search has no use for.
func (o *openaiAnswer) checkBeams() error {
	if !o.common.UseBeamSearch {
		return nil
	}
	r := o.params.request(text.Info{Defaults: sampling.Params{TopP: 1, RepetitionPenalty: 1}})
	p := &r.Sampling
	for _, m := range []struct {
		name string
		ok   bool
		want string
	}{
		{"temperature", p.Temperature == 0, "0"},
		{"top_p", p.TopP == 1, "1"},
		{"top_k", p.TopK <= 0, "0 or -1"},
		{"min_p", p.MinP == 0, "0"},
		{"repetition_penalty", p.RepetitionPenalty == 1, "1"},
		{"presence_penalty", p.PresencePenalty == 0, "0"},
		{"frequency_penalty", p.FrequencyPenalty == 0, "0"},
		{"logit_bias", len(p.LogitBias) == 0, "{}"},
		{"min_tokens", r.MinTokens == 0, "0"},
		{"stop", len(r.Stop) == 0, "[]"},
	} {
		if !m.ok {
			return wire.Invalid(m.name, wire.CodeInvalidValue, "must be %s when use_beam_search is true", m.want)
		}
	}
	if field := p.Beyond(); field != "" || len(r.BadWords) > 0 {
		return wire.Invalid(cmp.Or(string(field), "bad_words"), wire.CodeInvalidValue, "must not be given when use_beam_search is true")
	}
	return nil
}

// open begins an answer. kind precedes its id, and object is what its events are called.
func (o *openaiAnswer) open(j *job, kind, object string) {
	o.job, o.id, o.created = j, kind+cmp.Or(o.common.RequestID, rand.Text()), time.Now().Unix()
	if j.stream {
		o.encoder = openai.NewEncoder(object, o.id, j.title(), o.created, o.usageLast())
	}
}

func (o *openaiAnswer) usageLast() bool {
	return o.common.StreamOptions != nil && o.common.StreamOptions.IncludeUsage
}

// fill fills in what pieces of chats and completions have in common.
func (o *openaiAnswer) fill(p *openai.Piece, c *choice, d *text.Delta) {
	p.Index, p.Text, p.Finish = c.index, d.Text, d.Finish
	if d.Finish != "" {
		p.StopReason = c.stopReason()
	}
	if o.common.ReturnTokenIDs {
		p.TokenIDs = d.IDs
		if c.first {
			p.Prompt = c.prompt.IDs
		}
	}
	if options := o.common.StreamOptions; options != nil && options.IncludeUsage && options.ContinuousUsageStats {
		p.Usage = o.openaiUsage(c.usage)
	}
}

func (o *openaiAnswer) end(dst []byte) []byte {
	if o.usageLast() {
		dst = o.encoder.AppendUsage(dst, o.openaiUsage(o.job.usage()))
	}
	return append(dst, openai.Done...)
}

func (o *openaiAnswer) openaiUsage(u text.Usage) *openai.Usage {
	out := &openai.Usage{PromptTokens: u.Prompt, CompletionTokens: u.Generated, TotalTokens: u.Prompt + u.Generated,
		PromptTokensDetails: openai.PromptDetails{CachedTokens: u.Cached}}
	reasons := o.job.choices[0].prompt.Request.Answer.Parse && o.job.served.Model.Info().Reasons
	if d := (openai.CompletionDetails{AcceptedPredictionTokens: u.Accepted, RejectedPredictionTokens: u.Rejected}); reasons || d != (openai.CompletionDetails{}) {
		d.ReasoningTokens = u.Reasoning
		out.CompletionTokensDetails = &d
	}
	return out
}

// stopReason returns the stop string or the token of stop_token_ids that ended an answer, nil if none did.
func (c *choice) stopReason() any {
	if c.stop != "" {
		return c.stop
	}
	if c.finish == "stop" && slices.Contains(c.prompt.Request.StopTokens, c.last) {
		return c.last
	}
	return nil
}

// spell returns what log probabilities call a token.
func (o *openaiAnswer) spell(t text.TokenInfo) string {
	if o.common.ReturnTokensAsTokenIDs {
		return "token_id:" + strconv.Itoa(int(t.ID))
	}
	return openai.TokenText(t.Bytes)
}

// ids returns token ids if they were asked for.
func (o *openaiAnswer) ids(ids []int32) []int32 {
	if o.common.ReturnTokenIDs {
		return ids
	}
	return nil
}
