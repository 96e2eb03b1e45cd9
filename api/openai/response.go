package openai

import "strconv"

// Usage counts the tokens of a request.
type Usage struct {
	PromptTokens        int           `json:"prompt_tokens"`
	CompletionTokens    int           `json:"completion_tokens"`
	TotalTokens         int           `json:"total_tokens"`
	PromptTokensDetails PromptDetails `json:"prompt_tokens_details"`

	CompletionTokensDetails *CompletionDetails `json:"completion_tokens_details,omitempty"` // of models that reason, and if tokens were guessed ahead
}

// CompletionDetails says how many of the answer's tokens are reasoning, how many were guessed ahead, such as from the
// prediction, and how many tokens were guessed in vain.
type CompletionDetails struct {
	ReasoningTokens          int `json:"reasoning_tokens"`
	AcceptedPredictionTokens int `json:"accepted_prediction_tokens,omitempty"`
	RejectedPredictionTokens int `json:"rejected_prediction_tokens,omitempty"`
}

// PromptDetails says how many of the prompt's tokens were found in the prefix cache.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// ChatCompletion answers a ChatRequest.
type ChatCompletion struct {
	ID             string          `json:"id"`
	Object         string          `json:"object"`  // ObjectChat
	Created        int64           `json:"created"` // seconds since 1970
	Model          string          `json:"model"`
	Choices        []ChatChoice    `json:"choices"`
	Usage          Usage           `json:"usage"`
	PromptLogprobs []PromptLogprob `json:"prompt_logprobs"` // null if not asked for, and so the next
	PromptTokenIDs []int32         `json:"prompt_token_ids"`
	KVTransfer     *KVTransfer     `json:"kv_transfer_params,omitempty"`
}

// ChatChoice is one answer of a ChatCompletion.
type ChatChoice struct {
	Index        int           `json:"index"`
	Message      AnswerMessage `json:"message"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason string        `json:"finish_reason"` // "stop", "length" or "tool_calls"
	StopReason   any           `json:"stop_reason"`   // the stop string or the id, an int32, of stop_token_ids; or null
	TokenIDs     []int32       `json:"token_ids"`     // null if not asked for
}

// AnswerMessage is what the assistant says.
type AnswerMessage struct {
	Role             string     `json:"role"`    // "assistant"
	Content          *string    `json:"content"` // null if there are calls and no words
	Refusal          *string    `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"` // the same, as newer clients call it
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
}

// ChatLogprobs are the log probabilities of an answer's tokens.
type ChatLogprobs struct {
	Content []TokenLogprob `json:"content"`
	Refusal []TokenLogprob `json:"refusal"` // always null
}

// TokenLogprob is a token with its natural log probability.
type TokenLogprob struct {
	TopLogprob
	Top    []TopLogprob `json:"top_logprobs"`
	Origin string       `json:"origin,omitempty"` // "chosen", "guessed" or "forced"; "" if it was not asked for
}

// TopLogprob is a token that was likely.
type TopLogprob struct {
	Token   string  `json:"token"` // see TokenText
	Logprob Logprob `json:"logprob"`
	Bytes   Bytes   `json:"bytes"`
}

// Completion answers a CompletionRequest.
type Completion struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`  // ObjectCompletion
	Created int64              `json:"created"` // seconds since 1970
	Model   string             `json:"model"`
	Choices []CompletionChoice `json:"choices"`
	Usage   Usage              `json:"usage"`

	KVTransfer *KVTransfer `json:"kv_transfer_params,omitempty"`
}

// CompletionChoice is one answer of a Completion.
type CompletionChoice struct {
	Index          int                 `json:"index"`
	Text           string              `json:"text"`
	Logprobs       *CompletionLogprobs `json:"logprobs"`
	FinishReason   string              `json:"finish_reason"`   // "stop" or "length"
	StopReason     any                 `json:"stop_reason"`     // as in a ChatChoice
	PromptLogprobs []PromptLogprob     `json:"prompt_logprobs"` // null if not asked for, and so the next ones
	TokenIDs       []int32             `json:"token_ids"`
	PromptTokenIDs []int32             `json:"prompt_token_ids"`
}

// CompletionLogprobs are the log probabilities of a text's tokens, in four lists of one length. What the first token of
// a prompt has is null.
type CompletionLogprobs struct {
	Tokens        []string    `json:"tokens"`
	TokenLogprobs []*Logprob  `json:"token_logprobs"`
	TopLogprobs   []TopByText `json:"top_logprobs"`
	TextOffset    []int       `json:"text_offset"` // characters of the text before the token
}

// TopByText maps the likeliest tokens, as TokenText spells them, to their log probabilities.
type TopByText map[string]Logprob

// PromptLogprob maps the ids of a prompt's token and of those likeliest in its place. It is nil for the first token.
type PromptLogprob map[string]RankedLogprob

// RankedLogprob is an entry of a PromptLogprob.
type RankedLogprob struct {
	Logprob      Logprob `json:"logprob"`
	Rank         int     `json:"rank,omitempty"` // among all tokens: 1 is the likeliest
	DecodedToken string  `json:"decoded_token"`
}

// Logprob is a natural log probability. On the wire it is never below -9999, which stands for impossible.
type Logprob float32

const impossible = -9999

// MarshalJSON writes a number.
func (l Logprob) MarshalJSON() ([]byte, error) { return appendLogprob(nil, l), nil }

func appendLogprob(dst []byte, l Logprob) []byte {
	if !(l > impossible) { // so is NaN
		l = impossible
	}
	return strconv.AppendFloat(dst, float64(l), 'g', -1, 32)
}

// Bytes is written as an array of numbers.
type Bytes []byte

// MarshalJSON writes an array of numbers.
func (b Bytes) MarshalJSON() ([]byte, error) { return appendBytes(nil, b), nil }

func appendBytes(dst []byte, b Bytes) []byte {
	dst = append(dst, '[')
	for i, x := range b {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(x), 10)
	}
	return append(dst, ']')
}
