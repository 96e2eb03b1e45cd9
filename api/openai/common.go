package openai

import (
	"math"

	"github.com/kvasir-llm/kvasir/api/wire"
)

const maxInt32 = math.MaxInt32

// Common holds the fields that chat and text completions share and that shape the answer. Parameters that only change
// how tokens are chosen, and when, are not here: Extra reads them. A pointer is nil where the request says nothing.
type Common struct {
	Model         string         `json:"model,omitempty"`
	Stream        bool           `json:"stream,omitempty"`
	StreamOptions *StreamOptions `json:"stream_options,omitempty"`
	N             *int           `json:"n,omitempty"`          // answers per prompt, 1 to MaxChoices
	BestOf        *int           `json:"best_of,omitempty"`    // answers made, of which the n likeliest by token are given
	MaxTokens     *int           `json:"max_tokens,omitempty"` // new tokens at most

	UseBeamSearch bool          `json:"use_beam_search,omitempty"` // the n best answers of best_of (or n) beams
	LengthPenalty *float64      `json:"length_penalty,omitempty"`  // default 1
	EarlyStopping EarlyStopping `json:"early_stopping,omitempty"`

	Structure *Structure `json:"-"` // the form that the answer must have

	PromptLogprobs *int `json:"prompt_logprobs,omitempty"` // alternatives per prompt token
	ReturnTokenIDs bool `json:"return_token_ids,omitempty"`

	// ContinueTokenIDs are the tokens with which the answer begins, as a stream that broke off gave them.
	ContinueTokenIDs []int32 `json:"continue_token_ids,omitempty"`

	LogprobTokenIDs []int32 `json:"logprob_token_ids,omitempty"` // the alternatives, in place of the likeliest

	ReturnTokensAsTokenIDs bool   `json:"return_tokens_as_token_ids,omitempty"` // log probabilities name tokens by their ids
	TruncatePromptTokens   *int   `json:"truncate_prompt_tokens,omitempty"`     // -1 is what leaves room for the answer
	RequestID              string `json:"request_id,omitempty"`                 // of which the answer's id is made

	KVTransfer *KVTransfer `json:"kv_transfer_params,omitempty"` // nil is none
}

// Extra reads a member that the wire types have no field for. known is false if it has no use for it either: then the
// member is refused, unless it asks for nothing.
type Extra func(c *wire.Cursor, key string) (known bool, err error)

// StreamOptions says what a stream reports beside the answer.
type StreamOptions struct {
	IncludeUsage         bool `json:"include_usage,omitempty"`          // a last event with the usage
	ContinuousUsageStats bool `json:"continuous_usage_stats,omitempty"` // the usage so far in each event
}

// Limits of a request.
const (
	MaxChoices  = 128 // n
	MaxLogprobs = 20  // alternatives per token
	AllLogprobs = -1  // of alternatives per token: the whole vocabulary
	MaxLabel    = 512 // characters of user, cache_salt, and names of any kind

	MaxLogprobTokens = 128 // of logprob_token_ids

	maxContinued   = 1 << 20  // of continue_token_ids
	maxMetadata    = 16       // members of metadata
	maxKwargsBytes = 64 << 10 // of chat_template_kwargs
	maxTemplate    = 64 << 10 // bytes of chat_template
)

// field reads one member, with extra if Common has no field for it.
func (r *Common) field(c *wire.Cursor, key string, extra Extra) (err error) {
	switch key {
	case "model":
		r.Model, err = c.Label(MaxLabel)
	case "stream":
		r.Stream, err = c.Bool()
	case "stream_options":
		r.StreamOptions = &StreamOptions{}
		err = c.Object(func(key string) error { return r.StreamOptions.field(c, key) })
	case "n":
		r.N, err = wire.Optional(c.IntIn(1, MaxChoices))
	case "best_of":
		r.BestOf, err = wire.Optional(c.IntIn(1, MaxChoices))
	case "max_tokens":
		r.MaxTokens, err = wire.Optional(c.IntIn(0, maxInt32))
	case "use_beam_search":
		r.UseBeamSearch, err = c.Bool()
	case "length_penalty":
		r.LengthPenalty, err = wire.Optional(c.NumberIn(-100, 100))
	case "early_stopping":
		r.EarlyStopping, err = earlyStopping(c)
	case "prompt_logprobs":
		r.PromptLogprobs, err = wire.Optional(c.IntIn(0, MaxLogprobs))
	case "logprob_token_ids":
		r.LogprobTokenIDs, err = c.Tokens(MaxLogprobTokens)
	case "continue_token_ids":
		r.ContinueTokenIDs, err = c.Tokens(maxContinued)
	case "return_token_ids":
		r.ReturnTokenIDs, err = c.Bool()
	case "return_tokens_as_token_ids":
		r.ReturnTokensAsTokenIDs, err = c.Bool()
	case "truncate_prompt_tokens":
		r.TruncatePromptTokens, err = wire.Optional(c.IntIn(-1, maxInt32))
		if err == nil && *r.TruncatePromptTokens == 0 {
			err = c.Wrong("expected an integer above 0, or -1 for what leaves room for the answer")
		}
	case "truncation_side":
		err = c.Inert(`"left"`)
	case "kv_transfer_params":
		r.KVTransfer, err = DecodeTransfer(c)
	case "request_id":
		r.RequestID, err = c.Label(MaxLabel)
	default:
		if known, err := r.structure(c, key); known || err != nil {
			return err
		}
		if extra != nil {
			if known, err := extra(c, key); known || err != nil {
				return err
			}
		}
		return other(c, key)
	}
	return err
}

func (o *StreamOptions) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "include_usage":
		o.IncludeUsage, err = c.Bool()
	case "continuous_usage_stats":
		o.ContinuousUsageStats, err = c.Bool()
	case "include_obfuscation": // only false is served
		return c.Inert("false")
	default:
		return c.Unsupported()
	}
	return err
}

// asksNothing holds, for members that clients send by default, the JSON texts with which they ask for nothing.
var asksNothing = map[string][]string{
	"documents":                     {"[]"},
	"function_call":                 {`"none"`, `"auto"`},
	"functions":                     {"[]"},
	"modalities":                    {`["text"]`},
	"parallel_tool_calls":           {"true", "false"},
	"prompt_cache_retention":        {`"in_memory"`, `"in-memory"`},
	"service_tier":                  {`"auto"`, `"default"`},
	"spaces_between_special_tokens": {"true"},
	"store":                         {"false"},
	"suffix":                        {`""`},
	"tool_choice":                   {`"none"`, `"auto"`},
	"tools":                         {"[]"},
	"verbosity":                     {`"medium"`},
}

// other reads a member that no request has a field for.
func other(c *wire.Cursor, key string) error {
	switch key {
	case "safety_identifier", "prompt_cache_key":
		_, err := c.Label(MaxLabel)
		return err
	case "metadata": // kept by servers that store; this one never does
		n := 0
		return c.Object(func(string) error {
			if n++; n > maxMetadata {
				return c.Wrong("at most %d members are allowed", maxMetadata)
			}
			_, err := c.Label(MaxLabel)
			return err
		})
	}
	if allowed := asksNothing[key]; allowed != nil {
		return c.Inert(allowed...)
	}
	return c.Unsupported()
}

// check finds what is wrong with members together.
func (r *Common) check() error {
	bad := func(param, format string, args ...any) error {
		return wire.Invalid(param, wire.CodeInvalidValue, format, args...)
	}
	_, n := r.Choices()
	if err := r.checkTransfer(); err != nil {
		return err
	}
	switch {
	case r.StreamOptions != nil && !r.Stream:
		return bad("stream_options", "only allowed when stream is true")
	case r.BestOf != nil && *r.BestOf < n:
		return bad("best_of", "best_of must be at least n, which is %d; found %d", n, *r.BestOf)
	case r.BestOf != nil && *r.BestOf > n && r.Stream && !r.UseBeamSearch:
		return bad("best_of", "more than n is not available when stream is true: "+
			"which answers are best is known when all have ended")
	case !r.UseBeamSearch && r.LengthPenalty != nil && *r.LengthPenalty != 1:
		return bad("length_penalty", "only allowed when use_beam_search is true")
	case !r.UseBeamSearch && r.EarlyStopping != "" && r.EarlyStopping != "false":
		return bad("early_stopping", "only allowed when use_beam_search is true")
	case r.UseBeamSearch && r.Stream:
		return bad("stream", "must be false when use_beam_search is true")
	case r.UseBeamSearch && r.Structure != nil:
		return bad(r.Structure.Path, "not available when use_beam_search is true")
	case r.UseBeamSearch && r.PromptLogprobs != nil:
		return bad("prompt_logprobs", "must be null when use_beam_search is true")
	case len(r.ContinueTokenIDs) > 0 && (r.UseBeamSearch || r.Beams() > 1 || r.Structure != nil || r.PromptLogprobs != nil):
		return bad("continue_token_ids", "not available with several answers, a form of the answer, or prompt_logprobs")
	case r.PromptLogprobs != nil && r.Stream:
		return bad("prompt_logprobs", "not available when stream is true")
	}
	return nil
}

// Choices returns how many answers are made for each prompt, and how many of them are given.
func (r *Common) Choices() (made, given int) {
	if given = max(1, deref(r.N)); r.UseBeamSearch {
		return given, given
	}
	return max(given, deref(r.BestOf)), given
}

// Beams returns how many beams a search has.
func (r *Common) Beams() int { return max(1, deref(r.N), deref(r.BestOf)) }

func deref(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}
