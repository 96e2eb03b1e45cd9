// Package openai holds the wire types of OpenAI's HTTP API, with the extensions that other servers of open models have
// made common: requests, which are decoded strictly, responses, and the events of a stream, which are encoded without
// reflection. It knows nothing of models, of what tokens mean, or of HTTP. Read ChatRequest and DecodeChat first.
package openai

// Names of the "object" members.
const (
	ObjectChat       = "chat.completion"
	ObjectChatChunk  = "chat.completion.chunk"
	ObjectCompletion = "text_completion"
	ObjectModel      = "model"
	ObjectList       = "list"
	ObjectEmbedding  = "embedding"
	ObjectScore      = "score"
)

// Model describes a served model, in answers of /v1/models.
type Model struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`  // ObjectModel
	Created     int64        `json:"created"` // seconds since 1970
	OwnedBy     string       `json:"owned_by"`
	Root        string       `json:"root"`                    // where the model, or the adapter, was loaded from
	Parent      *string      `json:"parent"`                  // of an adapter, the id of the model it adapts; of others null
	MaxModelLen int          `json:"max_model_len,omitempty"` // tokens of prompt and answer together; 0 is not known yet
	Status      *ModelStatus `json:"status,omitempty"`        // of a model that is loaded when a request names it
}

// ModelStatus says whether a model is in memory.
type ModelStatus struct {
	Value    string   `json:"value"`              // "unloaded", "loading", "loaded" or "unloading"
	Progress *float64 `json:"progress,omitempty"` // of loading, 0 to 1
}

// ModelList is the answer of /v1/models.
type ModelList struct {
	Object string  `json:"object"` // ObjectList
	Data   []Model `json:"data"`
}

// TokenizeResponse is the answer of /tokenize.
type TokenizeResponse struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int32  `json:"tokens"`
	TokenStrs   []string `json:"token_strs"` // null if not asked for
}

// Rendered is a prompt as it would be computed, in the form of a request for tokens.
type Rendered struct {
	RequestID      string   `json:"request_id"`
	Model          string   `json:"model"`
	TokenIDs       []int32  `json:"token_ids"`
	Prompt         string   `json:"prompt"` // their text
	SamplingParams Sampling `json:"sampling_params"`
	Stream         bool     `json:"stream"`
	Priority       int      `json:"priority"`
}

// Sampling is how the tokens of an answer would be chosen.
type Sampling struct {
	N                 int      `json:"n"`
	MaxTokens         *int     `json:"max_tokens"` // null is the rest of the context
	MinTokens         int      `json:"min_tokens"`
	Temperature       float32  `json:"temperature"`
	TopP              float32  `json:"top_p"`
	TopK              int      `json:"top_k"`
	MinP              float32  `json:"min_p"`
	RepetitionPenalty float32  `json:"repetition_penalty"`
	PresencePenalty   float32  `json:"presence_penalty"`
	FrequencyPenalty  float32  `json:"frequency_penalty"`
	Stop              []string `json:"stop"`
	StopTokenIDs      []int32  `json:"stop_token_ids"`
	IgnoreEOS         bool     `json:"ignore_eos"`
}

// DetokenizeResponse is the answer of /detokenize.
type DetokenizeResponse struct {
	Prompt string `json:"prompt"`
}
