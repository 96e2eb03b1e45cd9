// Package anthropic holds the wire types of Anthropic's Messages API: requests, which are decoded strictly, answers,
// and the events of a stream, which are encoded without reflection. It knows nothing of models, of what tokens mean,
// or of HTTP. Read Request and Decode first.
package anthropic

import (
	"encoding/json"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Values of Message.StopReason.
const (
	StopEndTurn   = "end_turn"      // the model ended its turn
	StopMaxTokens = "max_tokens"    // there are as many tokens as were asked for
	StopSequence  = "stop_sequence" // one of the request's was written
	StopToolUse   = "tool_use"
	StopContext   = "model_context_window_exceeded" // the context is full before max_tokens are reached
)

// Message answers a Request.
type Message struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"` // "message"
	Role         string  `json:"role"` // "assistant"
	Model        string  `json:"model"`
	Content      []any   `json:"content"` // TextBlock, ThinkingBlock and ToolUseBlock
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"` // the one that was written, with StopSequence
	StopDetails  *string `json:"stop_details"`  // always null: they are of refusals
	Usage        Usage   `json:"usage"`
}

// TextBlock is what the model says.
type TextBlock struct {
	Type string `json:"type"` // "text"
	Text string `json:"text"`
}

// ThinkingBlock is what the model thinks first.
type ThinkingBlock struct {
	Type      string `json:"type"` // "thinking"
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"` // always empty
}

// ToolUseBlock is a call of a tool.
type ToolUseBlock struct {
	Type  string          `json:"type"` // "tool_use"
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"` // an object
}

// Usage counts the tokens of a request. Those of the prompt are InputTokens and those of the cache together.
type Usage struct {
	InputTokens              int           `json:"input_tokens"`
	CacheCreationInputTokens int           `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int           `json:"cache_read_input_tokens"`
	OutputTokens             int           `json:"output_tokens"`
	OutputTokensDetails      OutputDetails `json:"output_tokens_details"`
}

// OutputDetails says how many of the answer's tokens are thinking.
type OutputDetails struct {
	ThinkingTokens int `json:"thinking_tokens"`
}

// TokenCount is the answer of /v1/messages/count_tokens.
type TokenCount struct {
	InputTokens int `json:"input_tokens"`
}

// Model describes a served model, in answers of /v1/models.
type Model struct {
	Type           string `json:"type"` // "model"
	ID             string `json:"id"`
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"` // RFC 3339
	Lifecycle      string `json:"lifecycle"`  // "active"
	MaxInputTokens int    `json:"max_input_tokens"`
	MaxTokens      int    `json:"max_tokens"`
}

// ModelList is a page of the served models.
type ModelList struct {
	Data    []Model `json:"data"`
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// Error says what is wrong with a request.
type Error struct {
	Type    string `json:"type"` // one of the constants below
	Message string `json:"message"`
}

// Values of Error.Type.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeNotFound       = "not_found_error"
	TypeTooLarge       = "request_too_large"
	TypeRateLimit      = "rate_limit_error"
	TypeAPI            = "api_error"
	TypeOverloaded     = "overloaded_error"
	TypeTimeout        = "timeout_error"
)

// ErrorResponse is the body of an answer that is an error, and the last event of a stream that breaks.
type ErrorResponse struct {
	Type      string `json:"type"` // "error"
	Error     Error  `json:"error"`
	RequestID string `json:"request_id"`
}

// AppendErrorEvent appends the event that ends a broken stream.
func AppendErrorEvent(dst []byte, e *ErrorResponse) []byte {
	body, err := wire.Encode(e)
	if err != nil { // strings always marshal
		panic(err)
	}
	dst = append(dst, "event: error\ndata: "...)
	return append(append(dst, body...), '\n') // body ends with a line feed of its own
}
