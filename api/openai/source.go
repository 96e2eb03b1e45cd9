package openai

import (
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Source is what a prompt is made from: a text, or a conversation as the model's template writes it.
type Source struct {
	Model               string          `json:"model,omitempty"`
	Prompt              *string         `json:"prompt,omitempty"`
	Messages            []Message       `json:"messages,omitempty"`
	AddSpecialTokens    *bool           `json:"add_special_tokens,omitempty"` // default true for a prompt, else false
	AddGenerationPrompt *bool           `json:"add_generation_prompt,omitempty"`
	ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs,omitempty"`

	Ignored []string `json:"-"` // paths of members of messages that say nothing here
}

func (r *Source) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "model":
		r.Model, err = c.Label(MaxLabel)
	case "prompt":
		r.Prompt, err = wire.Optional(c.Text())
	case "messages":
		r.Messages, err = messages(c)
		r.Ignored = c.Ignored()
	case "add_special_tokens":
		r.AddSpecialTokens, err = wire.Optional(c.Bool())
	case "add_generation_prompt":
		r.AddGenerationPrompt, err = wire.Optional(c.Bool())
	case "chat_template_kwargs":
		r.ChatTemplateKwargs, err = kwargs(c)
	default:
		err = c.Unsupported()
	}
	return err
}

// check finds members that only go with messages.
func (r *Source) check() error {
	switch {
	case r.Messages == nil && r.AddGenerationPrompt != nil:
		return wire.Invalid("add_generation_prompt", wire.CodeInvalidValue, "only allowed with messages")
	case r.Messages == nil && r.ChatTemplateKwargs != nil:
		return wire.Invalid("chat_template_kwargs", wire.CodeInvalidValue, "only allowed with messages")
	}
	return nil
}

// TokenizeRequest asks for the tokens of a text or a conversation.
type TokenizeRequest struct {
	Source
	ReturnTokenStrs bool `json:"return_token_strs,omitempty"`

	Tools                []Tool `json:"tools,omitempty"`
	ContinueFinalMessage bool   `json:"continue_final_message,omitempty"`
	ChatTemplate         string `json:"chat_template,omitempty"` // "" is the model's
}

// DecodeTokenize reads the body of a /tokenize request.
func DecodeTokenize(body []byte) (*TokenizeRequest, error) {
	r := &TokenizeRequest{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "return_token_strs":
			r.ReturnTokenStrs, err = c.Bool()
		case "tools":
			r.Tools, err = tools(c)
		case "continue_final_message":
			r.ContinueFinalMessage, err = c.Bool()
		case "chat_template":
			r.ChatTemplate, err = template(c)
		default:
			err = r.field(c, key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	chat := r.Messages != nil
	switch {
	case chat && r.Prompt != nil:
		return nil, wire.Invalid("prompt", wire.CodeInvalidValue, "prompt and messages exclude each other")
	case !chat && r.Prompt == nil:
		return nil, wire.Missing("prompt", "either prompt, a string, or messages, an array that is not empty")
	case !chat && r.Tools != nil:
		return nil, wire.Invalid("tools", wire.CodeInvalidValue, "only allowed with messages")
	case !chat && r.ChatTemplate != "":
		return nil, wire.Invalid("chat_template", wire.CodeInvalidValue, "only allowed with messages")
	}
	if r.ContinueFinalMessage {
		if err := continues(r.Messages, r.AddGenerationPrompt); err != nil {
			return nil, err
		}
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// PinRequest names a prompt whose KV blocks are to stay in the prefix cache, or need not any more: exactly one of
// Prompt, Tokens and Messages. AddGenerationPrompt is false by default.
type PinRequest struct {
	Source
	Tokens    []int32 `json:"tokens,omitempty"`
	CacheSalt string  `json:"cache_salt,omitempty"`
	Key       string  `json:"key,omitempty"` // the name of the API key whose requests find the prompt
}

// PinResponse tells how many of a prompt's tokens are pinned, or are not any more.
type PinResponse struct {
	PromptTokens int `json:"prompt_tokens"`
	Tokens       int `json:"tokens"`
}

// DecodePin reads the body of a /kv/pin or /kv/unpin request.
func DecodePin(body []byte) (*PinRequest, error) {
	r := &PinRequest{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "tokens":
			r.Tokens, err = c.Tokens(maxInt32)
		case "cache_salt":
			r.CacheSalt, err = c.Label(MaxLabel)
		case "key":
			r.Key, err = c.Label(MaxLabel)
		default:
			err = r.field(c, key)
		}
		return err
	})
	if err != nil {
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
		return nil, wire.Missing("prompt",
			"prompt, a string, tokens, an array of ids, or messages, an array that is not empty")
	case given > 1:
		return nil, wire.Invalid("prompt", wire.CodeInvalidValue, "prompt, tokens and messages exclude each other")
	case r.Prompt == nil && r.AddSpecialTokens != nil:
		return nil, wire.Invalid("add_special_tokens", wire.CodeInvalidValue, "only allowed with prompt")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// DetokenizeRequest asks for the text of tokens.
type DetokenizeRequest struct {
	Model  string  `json:"model,omitempty"`
	Tokens []int32 `json:"tokens"`
}

// DecodeDetokenize reads the body of a /detokenize request.
func DecodeDetokenize(body []byte) (*DetokenizeRequest, error) {
	r, given := &DetokenizeRequest{}, false
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "model":
			r.Model, err = c.Label(MaxLabel)
		case "tokens":
			if r.Tokens, err = c.Tokens(maxInt32); r.Tokens == nil {
				r.Tokens = []int32{} // given, and of no text
			}
			given = true
		default:
			err = c.Unsupported()
		}
		return err
	})
	if err == nil && !given {
		err = wire.Missing("tokens", "an array of token ids")
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}
