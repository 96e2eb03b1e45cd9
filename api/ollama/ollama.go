// Package ollama holds the wire types of Ollama's HTTP API: requests, which are decoded strictly, answers, and the
// lines of a stream, which are encoded without reflection. It knows nothing of models, of what tokens mean, or of HTTP.
// Read ChatRequest and DecodeChat first.
package ollama

import "time"

// APIVersion is the version of Ollama whose API this is, as clients compare it to know what a server can do.
const APIVersion = "0.12.6"

// ErrorResponse is an answer that is an error, and the line that ends a stream that breaks.
type ErrorResponse struct {
	Error string `json:"error"`
}

// Details says what a model is made of. Members that are not known are empty.
type Details struct {
	ParentModel   string   `json:"parent_model"`
	Format        string   `json:"format"` // such as "gguf"
	Family        string   `json:"family"`
	Families      []string `json:"families"`
	ParameterSize string   `json:"parameter_size"`     // such as "7.6B"
	Quantization  string   `json:"quantization_level"` // such as "Q8_0"
}

// Tag is a model in the answer of /api/tags.
type Tag struct {
	Name     string    `json:"name"`
	Model    string    `json:"model"` // the same
	Modified time.Time `json:"modified_at"`
	Size     int64     `json:"size"`   // bytes
	Digest   string    `json:"digest"` // 64 hex digits, which tell models apart
	Details  Details   `json:"details"`
}

// Tags is the answer of /api/tags.
type Tags struct {
	Models []Tag `json:"models"`
}

// Process is a model in memory, in the answer of /api/ps.
type Process struct {
	Name    string    `json:"name"`
	Model   string    `json:"model"`
	Size    int64     `json:"size"` // bytes
	Digest  string    `json:"digest"`
	Details Details   `json:"details"`
	Expires time.Time `json:"expires_at"`
	VRAM    int64     `json:"size_vram"` // bytes of Size on an accelerator
	Context int       `json:"context_length"`
}

// Processes is the answer of /api/ps.
type Processes struct {
	Models []Process `json:"models"`
}

// ShowResponse is the answer of /api/show.
type ShowResponse struct {
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters,omitempty"`
	Template     string         `json:"template"` // in Jinja
	System       string         `json:"system,omitempty"`
	Details      Details        `json:"details"`
	ModelInfo    map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	Modified     time.Time      `json:"modified_at"`
}

// EmbedResponse is the answer of /api/embed.
type EmbedResponse struct {
	Model      string      `json:"model"`
	Embeddings [][]float32 `json:"embeddings"`
	Total      int64       `json:"total_duration"` // nanoseconds
	Load       int64       `json:"load_duration"`
	Prompt     int         `json:"prompt_eval_count"` // tokens
}

// EmbeddingsResponse is the answer of /api/embeddings.
type EmbeddingsResponse struct {
	Embedding []float32 `json:"embedding"`
}

// Progress is a line of the answers of /api/pull and /api/create.
type Progress struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"` // bytes
	Completed int64  `json:"completed,omitempty"`
}
