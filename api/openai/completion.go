package openai

import (
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// CompletionRequest asks for the continuation of texts.
type CompletionRequest struct {
	Common
	Prompts          Prompts `json:"prompt"`
	Echo             bool    `json:"echo,omitempty"`     // the answer begins with the prompt
	Logprobs         *int    `json:"logprobs,omitempty"` // alternatives per token
	AddSpecialTokens *bool   `json:"add_special_tokens,omitempty"`
	Suffix           *string `json:"suffix,omitempty"` // what follows the answer
}

// MaxPrompts is how many prompts one request may hold, and how many answers it may ask for altogether.
const MaxPrompts = 1024

// Prompt is one text to continue, or its tokens.
type Prompt struct {
	Text string
	IDs  []int32 // not nil if the prompt came as tokens
}

// Prompts are the prompts of a request: on the wire a string, an array of strings, an array of token ids, or an array
// of such arrays.
type Prompts []Prompt

// MarshalJSON writes an array of strings or an array of arrays of ids.
func (p Prompts) MarshalJSON() ([]byte, error) {
	list := make([]any, len(p))
	for i, one := range p {
		if list[i] = one.Text; one.IDs != nil {
			list[i] = one.IDs
		}
	}
	return json.Marshal(list)
}

// DecodeCompletion reads the body of a completion request. Whatever neither it nor extra understands is refused with a
// *wire.Error that names it. extra may be nil.
func DecodeCompletion(body []byte, extra Extra) (*CompletionRequest, error) {
	r := &CompletionRequest{}
	if err := wire.Decode(body, func(c *wire.Cursor, key string) error { return r.field(c, key, extra) }); err != nil {
		return nil, err
	}
	made, _ := r.Choices()
	switch {
	case len(r.Prompts) == 0:
		return nil, wire.Missing("prompt", "a string, token ids, or an array of these")
	case made > 1 && made*len(r.Prompts) > MaxPrompts:
		return nil, wire.Invalid("n", wire.CodeInvalidValue, "%d answers to %d prompts are more than %d", made,
			len(r.Prompts), MaxPrompts)
	case r.MaxTokens != nil && *r.MaxTokens == 0 && !r.Echo:
		return nil, wire.Invalid("max_tokens", wire.CodeInvalidValue, "0 is only allowed with echo")
	case r.Echo && r.UseBeamSearch:
		return nil, wire.Invalid("echo", wire.CodeInvalidValue, "must be false when use_beam_search is true")
	case r.Echo && r.Suffix != nil:
		return nil, wire.Invalid("echo", wire.CodeInvalidValue, "must be false with suffix")
	case len(r.ContinueTokenIDs) > 0 && (len(r.Prompts) > 1 || r.Echo || r.Suffix != nil || r.Logprobs != nil):
		return nil, wire.Invalid("continue_token_ids", wire.CodeInvalidValue, "not available with several prompts, echo, suffix or logprobs")
	case r.Logprobs != nil && *r.Logprobs == AllLogprobs && r.Echo:
		return nil, wire.Invalid("logprobs", wire.CodeInvalidValue, "must not be -1 with echo: of a prompt's tokens, %d alternatives are told", MaxLogprobs)
	case r.LogprobTokenIDs != nil && r.Logprobs == nil:
		return nil, wire.Invalid("logprob_token_ids", wire.CodeInvalidValue, "only allowed with logprobs")
	case r.PromptLogprobs != nil && r.Echo:
		return nil, wire.Invalid("prompt_logprobs", wire.CodeInvalidValue,
			"not available with echo, whose logprobs include the prompt's")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *CompletionRequest) field(c *wire.Cursor, key string, extra Extra) (err error) {
	switch key {
	case "prompt":
		r.Prompts, err = prompts(c, MaxPrompts)
	case "echo":
		r.Echo, err = c.Bool()
	case "logprobs":
		r.Logprobs, err = wire.Optional(c.IntIn(AllLogprobs, MaxLogprobs))
	case "suffix":
		if s, err := c.Text(); s != "" || err != nil {
			r.Suffix = &s
			return err
		}
	case "add_special_tokens":
		r.AddSpecialTokens, err = wire.Optional(c.Bool())
	default:
		err = r.Common.field(c, key, extra)
	}
	return err
}

// prompts reads at most most prompts.
func prompts(c *wire.Cursor, most int) (Prompts, error) {
	const expected = "a string, an array of strings, an array of token ids, or an array of arrays of token ids"
	if c.Peek() == '"' {
		s, err := c.Text()
		return Prompts{{Text: s}}, err
	}
	var list Prompts
	var first byte
	err := c.Array(expected, func(i int) error {
		b := c.Peek()
		if c.IsNumber() {
			b = '0'
		}
		if i == 0 {
			first = b
		}
		if b != first || b != '"' && b != '0' && b != '[' {
			return c.Mismatch(expected)
		}
		if b == '0' && i == 0 {
			list = Prompts{{IDs: []int32{}}}
		} else if b != '0' && i == most {
			return c.Wrong("at most %d prompts are allowed", most)
		}
		return prompt(c, b, &list)
	})
	return list, err
}

// prompt reads the next element of prompts: a text, an id of the only prompt, or a prompt's ids.
func prompt(c *wire.Cursor, kind byte, list *Prompts) (err error) {
	var p Prompt
	switch kind {
	case '"':
		p.Text, err = c.Text()
	case '0':
		id, err := c.Token()
		(*list)[0].IDs = append((*list)[0].IDs, id)
		return err
	default:
		if p.IDs, err = c.Tokens(maxInt32); err == nil && p.IDs == nil {
			err = c.Wrong("expected at least one token")
		}
	}
	*list = append(*list, p)
	return err
}
