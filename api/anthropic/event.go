package anthropic

import "encoding/json"

// Event is the data of an event of a stream, as Encoder writes it. Which members are there depends on the type.
type Event struct {
	Type         string        `json:"type"` // such as "content_block_delta"
	Message      *EventMessage `json:"message,omitempty"`
	Index        int           `json:"index,omitempty"` // of a content block
	ContentBlock *EventBlock   `json:"content_block,omitempty"`
	Delta        *EventDelta   `json:"delta,omitempty"`
	Usage        *Usage        `json:"usage,omitempty"`
	Error        *Error        `json:"error,omitempty"`
	RequestID    string        `json:"request_id,omitempty"` // of an error
}

// EventMessage is a Message that has just begun.
type EventMessage struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []any   `json:"content"`
	StopReason   *string `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	StopDetails  *string `json:"stop_details"`
	Usage        Usage   `json:"usage"`
}

// EventBlock is the beginning of a TextBlock, a ThinkingBlock or a ToolUseBlock.
type EventBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

// EventDelta is what an event adds to a block, or, without a type, to the message.
type EventDelta struct {
	Type         string  `json:"type,omitempty"`
	Text         string  `json:"text,omitempty"`
	Thinking     string  `json:"thinking,omitempty"`
	Signature    string  `json:"signature,omitempty"`
	PartialJSON  string  `json:"partial_json,omitempty"`
	StopReason   string  `json:"stop_reason,omitempty"`
	StopSequence *string `json:"stop_sequence,omitempty" null:"true"`
	StopDetails  *string `json:"stop_details,omitempty" null:"true"`
}
