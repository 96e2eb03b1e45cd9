package openai

import "encoding/json"

// PinRequest names a prompt whose KV blocks are to stay in the prefix cache, or need not any more: exactly one of Prompt, Tokens
// and Messages.
type PinRequest struct {
	Model               string          `json:"model,omitempty"`
	Prompt              *string         `json:"prompt,omitempty"`
	Tokens              []int32         `json:"tokens,omitempty"`
	Messages            []Message       `json:"messages,omitempty"`
	AddSpecialTokens    *bool           `json:"add_special_tokens,omitempty"`    // default true for a prompt
	AddGenerationPrompt *bool           `json:"add_generation_prompt,omitempty"` // default false
	ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs,omitempty"`
	CacheSalt           string          `json:"cache_salt,omitempty"`
}

// PinResponse tells how many of a prompt's tokens are pinned, or are not any more.
type PinResponse struct {
	PromptTokens int `json:"prompt_tokens"`
	Tokens       int `json:"tokens"`
}

// DecodePin reads the body of a /kv/pin or /kv/unpin request.
func DecodePin(body []byte) (*PinRequest, error) {
	r := &PinRequest{}
	if err := decode(body, r.field); err != nil {
		return nil, err
	}
	given := 0
	for _, set := range []bool{r.Prompt != nil, r.Tokens != nil, r.Messages != nil} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, missing("prompt", "prompt, a string, tokens, an array of ids, or messages, an array that is not empty")
	case given > 1:
		return nil, invalid("prompt", CodeInvalidValue, "prompt, tokens and messages exclude each other")
	case r.Prompt == nil && r.AddSpecialTokens != nil:
		return nil, invalid("add_special_tokens", CodeInvalidValue, "only allowed with prompt")
	case r.Messages == nil && r.AddGenerationPrompt != nil:
		return nil, invalid("add_generation_prompt", CodeInvalidValue, "only allowed with messages")
	case r.Messages == nil && r.ChatTemplateKwargs != nil:
		return nil, invalid("chat_template_kwargs", CodeInvalidValue, "only allowed with messages")
	}
	return r, nil
}

func (r *PinRequest) field(c *cursor, key string) (err error) {
	switch key {
	case "model":
		r.Model, err = c.text()
	case "prompt":
		var s string
		s, err = c.text()
		r.Prompt = &s
	case "tokens":
		r.Tokens, err = c.tokens(maxInt32)
	case "messages":
		r.Messages, err = c.messages()
	case "add_special_tokens":
		err = c.optionalBool(&r.AddSpecialTokens)
	case "add_generation_prompt":
		err = c.optionalBool(&r.AddGenerationPrompt)
	case "chat_template_kwargs":
		r.ChatTemplateKwargs, err = c.kwargs()
	case "cache_salt":
		r.CacheSalt, err = c.text()
	default:
		err = c.unsupported()
	}
	return err
}
