package ollama

import (
	"encoding/json"
	"time"
)

// Line is a line of an answer of /api/chat or /api/generate, or all of an answer that is not streamed, as Encoder
// writes it.
type Line struct {
	Model    string        `json:"model"`
	Created  time.Time     `json:"created_at"`
	Message  *LineMessage  `json:"message,omitempty"`  // of a chat
	Response string        `json:"response,omitempty"` // of a continuation
	Thinking string        `json:"thinking,omitempty"`
	Logprobs []LineLogprob `json:"logprobs,omitempty"`
	Done     bool          `json:"done"`
	Reason   string        `json:"done_reason,omitempty"` // of the last line, like what follows

	Total       int64 `json:"total_duration,omitempty"` // nanoseconds
	Load        int64 `json:"load_duration,omitempty"`
	Prompt      int   `json:"prompt_eval_count,omitempty"` // tokens
	PromptEval  int64 `json:"prompt_eval_duration,omitempty"`
	Generated   int   `json:"eval_count,omitempty"`
	GeneratedIn int64 `json:"eval_duration,omitempty"`
}

// LineMessage is a piece of a chat's answer.
type LineMessage struct {
	Role     string     `json:"role"` // "assistant"
	Content  string     `json:"content"`
	Thinking string     `json:"thinking,omitempty"`
	Calls    []LineCall `json:"tool_calls,omitempty"`
}

// LineCall is a call of a tool.
type LineCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // an object
	} `json:"function"`
}

// LineLogprob is a token with its log probability.
type LineLogprob struct {
	Token   string        `json:"token"`
	Logprob float32       `json:"logprob"`
	Bytes   []int         `json:"bytes"`
	Top     []LineLogprob `json:"top_logprobs,omitempty"`
}
