package openai

import "encoding/json"

// CompletionRequest asks for the continuation of texts.
type CompletionRequest struct {
	Sampling
	Prompts          Prompts `json:"prompt"`
	Echo             bool    `json:"echo,omitempty"`     // the answer begins with the prompt
	Logprobs         *int    `json:"logprobs,omitempty"` // alternatives per token
	AddSpecialTokens *bool   `json:"add_special_tokens,omitempty"`
}

// MaxPrompts is how many prompts one request may hold, and how many answers it may ask for altogether.
const MaxPrompts = 1024

// Prompt is one text to continue, or its tokens.
type Prompt struct {
	Text string
	IDs  []int32 // not nil if the prompt came as tokens
}

// Prompts are the prompts of a request: on the wire a string, an array of strings, an array of token ids, or an array of
// such arrays.
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

// DecodeCompletion reads the body of a completion request. Whatever is not understood is refused with an *Error that
// names it.
func DecodeCompletion(body []byte) (*CompletionRequest, error) {
	r := &CompletionRequest{}
	if err := decode(body, r.field); err != nil {
		return nil, err
	}
	made, _ := r.Choices()
	switch {
	case len(r.Prompts) == 0:
		return nil, missing("prompt", "a string, token ids, or an array of these")
	case made > 1 && made*len(r.Prompts) > MaxPrompts:
		return nil, invalid("n", CodeInvalidValue, "%d answers to %d prompts are more than %d", made, len(r.Prompts), MaxPrompts)
	case r.MaxTokens != nil && *r.MaxTokens == 0 && !r.Echo:
		return nil, invalid("max_tokens", CodeInvalidValue, "0 is only allowed with echo")
	case r.Echo && r.UseBeamSearch:
		return nil, invalid("echo", CodeInvalidValue, "must be false when use_beam_search is true")
	case r.PromptLogprobs != nil && r.Echo:
		return nil, invalid("prompt_logprobs", CodeInvalidValue, "not available with echo, whose logprobs include the prompt's")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *CompletionRequest) field(c *cursor, key string) (err error) {
	switch key {
	case "prompt":
		r.Prompts, err = c.prompts(MaxPrompts)
	case "echo":
		r.Echo, err = c.boolean()
	case "logprobs":
		err = c.intIn(&r.Logprobs, 0, MaxLogprobs)
	case "add_special_tokens":
		err = c.optionalBool(&r.AddSpecialTokens)
	default:
		known, err := r.Sampling.field(c, key)
		if err != nil || known {
			return err
		}
		return c.other(key)
	}
	return err
}

// prompts reads at most most prompts.
func (c *cursor) prompts(most int) (Prompts, error) {
	const expected = "a string, an array of strings, an array of token ids, or an array of arrays of token ids"
	if c.peek() == '"' {
		s, err := c.text()
		return Prompts{{Text: s}}, err
	}
	var list Prompts
	var first byte
	err := c.array(expected, func(i int) error {
		b := c.peek()
		if c.numeric() {
			b = '0'
		}
		if i == 0 {
			first = b
		}
		if b != first || b != '"' && b != '0' && b != '[' {
			return c.mismatch(expected)
		}
		if b == '0' && i == 0 {
			list = Prompts{{IDs: []int32{}}}
		} else if b != '0' && i == most {
			return c.wrong("at most %d prompts are allowed", most)
		}
		return c.prompt(b, &list)
	})
	return list, err
}

// prompt reads the next element of prompts: a text, an id of the only prompt, or a prompt's ids.
func (c *cursor) prompt(kind byte, list *Prompts) (err error) {
	var p Prompt
	switch kind {
	case '"':
		p.Text, err = c.text()
	case '0':
		id, err := c.token()
		(*list)[0].IDs = append((*list)[0].IDs, id)
		return err
	default:
		if p.IDs, err = c.tokens(maxInt32); err == nil && p.IDs == nil {
			err = c.wrong("expected at least one token")
		}
	}
	*list = append(*list, p)
	return err
}
