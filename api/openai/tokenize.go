package openai

import "encoding/json"

// TokenizeRequest asks for the tokens of a text, or of a conversation as the model's template writes it.
type TokenizeRequest struct {
	Model               string          `json:"model,omitempty"`
	Prompt              *string         `json:"prompt,omitempty"`
	Messages            []Message       `json:"messages,omitempty"`
	AddSpecialTokens    *bool           `json:"add_special_tokens,omitempty"` // default true for a prompt
	AddGenerationPrompt *bool           `json:"add_generation_prompt,omitempty"`
	ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs,omitempty"`
	ReturnTokenStrs     bool            `json:"return_token_strs,omitempty"`
}

// DetokenizeRequest asks for the text of tokens.
type DetokenizeRequest struct {
	Model  string  `json:"model,omitempty"`
	Tokens []int32 `json:"tokens"`
}

// DecodeTokenize reads the body of a /tokenize request.
func DecodeTokenize(body []byte) (*TokenizeRequest, error) {
	r := &TokenizeRequest{}
	if err := decode(body, r.field); err != nil {
		return nil, err
	}
	chat := r.Messages != nil
	switch {
	case chat && r.Prompt != nil:
		return nil, invalid("prompt", CodeInvalidValue, "prompt and messages exclude each other")
	case !chat && r.Prompt == nil:
		return nil, missing("prompt", "either prompt, a string, or messages, an array that is not empty")
	case chat && r.AddSpecialTokens != nil && *r.AddSpecialTokens:
		return nil, invalid("add_special_tokens", CodeUnsupported, "not supported with messages: the template writes the special tokens")
	case !chat && r.AddGenerationPrompt != nil:
		return nil, invalid("add_generation_prompt", CodeInvalidValue, "only allowed with messages")
	case !chat && r.ChatTemplateKwargs != nil:
		return nil, invalid("chat_template_kwargs", CodeInvalidValue, "only allowed with messages")
	}
	return r, nil
}

func (r *TokenizeRequest) field(c *cursor, key string) (err error) {
	switch key {
	case "model":
		r.Model, err = c.text()
	case "prompt":
		var s string
		s, err = c.text()
		r.Prompt = &s
	case "messages":
		r.Messages, err = c.messages()
	case "add_special_tokens":
		err = c.optionalBool(&r.AddSpecialTokens)
	case "add_generation_prompt":
		err = c.optionalBool(&r.AddGenerationPrompt)
	case "chat_template_kwargs":
		r.ChatTemplateKwargs, err = c.kwargs()
	case "return_token_strs":
		r.ReturnTokenStrs, err = c.boolean()
	default:
		err = c.unsupported()
	}
	return err
}

// DecodeDetokenize reads the body of a /detokenize request.
func DecodeDetokenize(body []byte) (*DetokenizeRequest, error) {
	r, given := &DetokenizeRequest{}, false
	err := decode(body, func(c *cursor, key string) (err error) {
		switch key {
		case "model":
			r.Model, err = c.text()
		case "tokens":
			if r.Tokens, err = c.tokens(maxInt32); r.Tokens == nil {
				r.Tokens = []int32{} // given, and of no text
			}
			given = true
		default:
			err = c.unsupported()
		}
		return err
	})
	if err == nil && !given {
		err = missing("tokens", "an array of token ids")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}
