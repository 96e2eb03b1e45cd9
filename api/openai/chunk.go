package openai

// ChatChunk is the data of an event of a chat's stream, as Encoder writes it.
type ChatChunk struct {
	ID             string        `json:"id"`
	Object         string        `json:"object"` // ObjectChatChunk
	Created        int64         `json:"created"`
	Model          string        `json:"model"`
	Choices        []ChunkChoice `json:"choices"` // none in the event with the usage of a whole request
	PromptTokenIDs []int32       `json:"prompt_token_ids,omitempty"`
	Usage          *Usage        `json:"usage,omitempty" null:"true"`
}

// ChunkChoice is what an event adds to a choice.
type ChunkChoice struct {
	Index        int           `json:"index"`
	Delta        ChunkDelta    `json:"delta"`
	Logprobs     *ChatLogprobs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"`
	StopReason   any           `json:"stop_reason,omitempty"`
	TokenIDs     []int32       `json:"token_ids,omitempty"`
}

// ChunkDelta is what an event adds to a message.
type ChunkDelta struct {
	Role             string      `json:"role,omitempty"`
	Content          string      `json:"content,omitempty"`
	ReasoningContent string      `json:"reasoning_content,omitempty"`
	Reasoning        string      `json:"reasoning,omitempty"`
	ToolCalls        []ChunkCall `json:"tool_calls,omitempty"`
}

// ChunkCall is what an event adds to a call of a tool.
type ChunkCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// CompletionChunk is the data of an event of a completion's stream.
type CompletionChunk struct {
	ID      string                  `json:"id"`
	Object  string                  `json:"object"` // ObjectCompletion
	Created int64                   `json:"created"`
	Model   string                  `json:"model"`
	Choices []CompletionChunkChoice `json:"choices"`
	Usage   *Usage                  `json:"usage,omitempty" null:"true"`
}

// CompletionChunkChoice is what an event adds to a choice.
type CompletionChunkChoice struct {
	Index          int                 `json:"index"`
	Text           string              `json:"text"`
	Logprobs       *CompletionLogprobs `json:"logprobs"`
	FinishReason   *string             `json:"finish_reason"`
	StopReason     any                 `json:"stop_reason,omitempty"`
	TokenIDs       []int32             `json:"token_ids,omitempty"`
	PromptTokenIDs []int32             `json:"prompt_token_ids,omitempty"`
}

// ResponseEvent is the data of an event of a response's stream. Which members are there depends on the type.
type ResponseEvent struct {
	Type           string         `json:"type"` // such as "response.output_text.delta"
	SequenceNumber int            `json:"sequence_number"`
	Response       *Response      `json:"response,omitempty"`
	OutputIndex    int            `json:"output_index,omitempty"`
	ItemID         string         `json:"item_id,omitempty"`
	ContentIndex   int            `json:"content_index,omitempty"`
	Item           *Item          `json:"item,omitempty"`
	Part           *ResponsePart  `json:"part,omitempty"`
	Delta          string         `json:"delta,omitempty"`
	Text           string         `json:"text,omitempty"`
	Name           string         `json:"name,omitempty"`
	Arguments      string         `json:"arguments,omitempty"`
	Logprobs       []TokenLogprob `json:"logprobs,omitempty"`
	Code           *string        `json:"code,omitempty"` // of an error
	Message        string         `json:"message,omitempty"`
	Param          *string        `json:"param,omitempty"`
}

// ResponsePart is the text of an item.
type ResponsePart struct {
	Type        string         `json:"type"` // "output_text" or "reasoning_text"
	Text        string         `json:"text"`
	Annotations []any          `json:"annotations,omitempty"` // always none
	Logprobs    []TokenLogprob `json:"logprobs,omitempty"`
}
