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
	Root        string       `json:"root"`                    // of an alias, the model's id; of an adapter, its source
	Parent      string       `json:"parent,omitempty"`        // of an adapter, the id of the model it adapts
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

// DetokenizeResponse is the answer of /detokenize.
type DetokenizeResponse struct {
	Prompt string `json:"prompt"`
}
