package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// MaxInputs is how many texts one request may hold that is not for completions, as with OpenAI.
const MaxInputs = 2048

// EmbeddingRequest asks for the vectors of texts.
type EmbeddingRequest struct {
	Pooled
	Input            Prompts `json:"input"`
	EncodingFormat   string  `json:"encoding_format,omitempty"` // "float" or "base64"; "" is float
	Dimensions       *int    `json:"dimensions,omitempty"`
	Normalize        *bool   `json:"normalize,omitempty"`
	AddSpecialTokens *bool   `json:"add_special_tokens,omitempty"`
}

// Pooled is what requests share that generate nothing.
type Pooled struct {
	Model                string `json:"model,omitempty"`
	User                 string `json:"user,omitempty"`
	Priority             *int   `json:"priority,omitempty"`
	TruncatePromptTokens *int   `json:"truncate_prompt_tokens,omitempty"` // -1 is what the model takes
}

// DecodeEmbedding reads the body of a request for embeddings.
func DecodeEmbedding(body []byte) (*EmbeddingRequest, error) {
	r := &EmbeddingRequest{}
	if err := wire.Decode(body, r.field); err != nil {
		return nil, err
	}
	if len(r.Input) == 0 {
		return nil, wire.Missing("input", "a string, token ids, or an array of these")
	}
	return r, nil
}

func (r *EmbeddingRequest) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "input":
		r.Input, err = prompts(c, MaxInputs)
	case "encoding_format":
		if r.EncodingFormat, err = c.Text(); err == nil && r.EncodingFormat != "float" && r.EncodingFormat != "base64" {
			err = c.Wrong(`expected "float" or "base64", found %q`, r.EncodingFormat)
		}
	case "dimensions":
		r.Dimensions, err = wire.Optional(c.IntIn(1, maxInt32))
	case "normalize":
		r.Normalize, err = wire.Optional(c.Bool())
	case "add_special_tokens":
		r.AddSpecialTokens, err = wire.Optional(c.Bool())
	default:
		err = r.Pooled.field(c, key)
	}
	return err
}

// field reads a member that all of these requests have, or refuses it.
func (p *Pooled) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "model":
		p.Model, err = c.Label(MaxLabel)
	case "user":
		p.User, err = c.Label(MaxLabel)
	case "priority":
		p.Priority, err = wire.Optional(c.IntIn(math.MinInt32, maxInt32))
	case "truncate_prompt_tokens":
		p.TruncatePromptTokens, err = wire.Optional(c.IntIn(-1, maxInt32))
	default:
		err = c.Unsupported()
	}
	return err
}

// EmbeddingResponse is the answer to a request for embeddings.
type EmbeddingResponse struct {
	Object string      `json:"object"` // ObjectList
	Data   []Embedding `json:"data"`
	Model  string      `json:"model"`
	Usage  PooledUsage `json:"usage"`
}

// Embedding is one vector.
type Embedding struct {
	Object    string `json:"object"` // ObjectEmbedding
	Index     int    `json:"index"`
	Embedding Vector `json:"embedding"`
}

// Vector is a vector on the wire: an array of numbers, or, if Base64, its float32 in little-endian order.
type Vector struct {
	Values []float32
	Base64 bool
}

// MarshalJSON writes the vector.
func (v Vector) MarshalJSON() ([]byte, error) {
	if !v.Base64 {
		return json.Marshal(v.Values)
	}
	data := make([]byte, 0, 4*len(v.Values))
	for _, x := range v.Values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(data))
}

// PooledUsage counts the tokens of requests that generate nothing.
type PooledUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}
