package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// MaxInputs is how many texts one request may hold that is not for completions, as with OpenAI.
const MaxInputs = 2048

// EmbeddingRequest asks for the vectors of texts, of tokens, or of a conversation.
type EmbeddingRequest struct {
	Inputs
	Encoding
	Dimensions *int   `json:"dimensions,omitempty"`
	Normalize  *bool  `json:"normalize,omitempty"` // vLLM has use_activation, too
	Task       string `json:"task,omitempty"`      // of /pooling: "embed", "classify", or "" for what the model does
}

// Inputs are what is pooled: Input, or Messages.
type Inputs struct {
	Pooled
	Input               Prompts         `json:"input,omitempty"`
	Messages            []Message       `json:"messages,omitempty"`
	AddGenerationPrompt bool            `json:"add_generation_prompt,omitempty"`
	ChatTemplateKwargs  json.RawMessage `json:"chat_template_kwargs,omitempty"`
	ChatTemplate        string          `json:"chat_template,omitempty"`      // "" is the model's
	AddSpecialTokens    *bool           `json:"add_special_tokens,omitempty"` // default true for Input, else false
	UseActivation       *bool           `json:"use_activation,omitempty"`     // default true

	Ignored []string `json:"-"` // paths of members of messages that say nothing here
}

// Encoding is how vectors are written.
type Encoding struct {
	Format     string `json:"encoding_format,omitempty"` // "float", "base64" or "bytes"; "" is float
	EmbedDtype string `json:"embed_dtype,omitempty"`     // "float32", "float16" or "bfloat16"; "" is float32
	Endianness string `json:"endianness,omitempty"`      // "little", "big" or "native", which is little; "" is little
}

// Pooled is what requests share that generate nothing.
type Pooled struct {
	Model                string `json:"model,omitempty"`
	User                 string `json:"user,omitempty"`
	Priority             *int   `json:"priority,omitempty"`
	CacheSalt            string `json:"cache_salt,omitempty"`
	TruncatePromptTokens *int   `json:"truncate_prompt_tokens,omitempty"` // -1 is what the model takes
}

// DecodeEmbedding reads the body of a request for embeddings.
func DecodeEmbedding(body []byte) (*EmbeddingRequest, error) {
	r := &EmbeddingRequest{}
	err := wire.Decode(body, r.field)
	if err == nil {
		err = r.Inputs.check()
	}
	if err == nil && r.UseActivation != nil && r.Normalize != nil {
		err = wire.Invalid("use_activation", wire.CodeInvalidValue, "means the same as normalize, which is given, too")
	}
	if r.Normalize == nil {
		r.Normalize = r.UseActivation
	}
	return r, cmp.Or(err, r.Encoding.check())
}

// DecodePooling reads the body of a request for what a model makes of texts: vectors or classes.
func DecodePooling(body []byte) (*EmbeddingRequest, error) {
	r := &EmbeddingRequest{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		if key != "task" {
			return r.field(c, key)
		}
		r.Task, err = oneOf(c, "embed", "classify")
		return err
	})
	return r, cmp.Or(err, r.Inputs.check(), r.Encoding.check())
}

// DecodeClassify reads the body of a request for the classes of texts.
func DecodeClassify(body []byte) (*Inputs, error) {
	r := &Inputs{}
	err := wire.Decode(body, r.field)
	return r, cmp.Or(err, r.check())
}

func (r *EmbeddingRequest) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "encoding_format":
		r.Format, err = oneOf(c, "float", "base64", "bytes")
	case "embed_dtype":
		r.EmbedDtype, err = oneOf(c, "float32", "float16", "bfloat16")
	case "endianness":
		r.Endianness, err = oneOf(c, "native", "little", "big")
	case "dimensions":
		r.Dimensions, err = wire.Optional(c.IntIn(1, maxInt32))
	case "normalize":
		r.Normalize, err = wire.Optional(c.Bool())
	default:
		err = r.Inputs.field(c, key)
	}
	return err
}

func (r *Inputs) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "input":
		r.Input, err = prompts(c, MaxInputs)
	case "messages":
		r.Messages, err = messages(c)
		r.Ignored = c.Ignored()
	case "add_generation_prompt":
		r.AddGenerationPrompt, err = c.Bool()
	case "chat_template_kwargs":
		r.ChatTemplateKwargs, err = kwargs(c)
	case "chat_template":
		r.ChatTemplate, err = template(c)
	case "add_special_tokens":
		r.AddSpecialTokens, err = wire.Optional(c.Bool())
	case "use_activation":
		r.UseActivation, err = wire.Optional(c.Bool())
	default:
		err = r.Pooled.field(c, key)
	}
	return err
}

// check finds what is missing, or goes with messages only.
func (r *Inputs) check() error {
	chat := len(r.Messages) > 0
	for _, m := range []struct {
		name  string
		given bool
	}{{"add_generation_prompt", r.AddGenerationPrompt}, {"chat_template_kwargs", r.ChatTemplateKwargs != nil},
		{"chat_template", r.ChatTemplate != ""}} {
		if m.given && !chat {
			return wire.Invalid(m.name, wire.CodeInvalidValue, "only allowed with messages")
		}
	}
	switch {
	case chat && len(r.Input) > 0:
		return wire.Invalid("input", wire.CodeInvalidValue, "input and messages exclude each other")
	case !chat && len(r.Input) == 0:
		return wire.Missing("input", "a string, token ids, or an array of these; or messages")
	}
	return nil
}

// check refuses what plain numbers have no use for.
func (e *Encoding) check() error {
	plain := e.Format == "" || e.Format == "float"
	switch {
	case plain && e.EmbedDtype != "" && e.EmbedDtype != "float32":
		return wire.Invalid("embed_dtype", wire.CodeInvalidValue, "needs encoding_format to be base64 or bytes")
	case plain && e.Endianness != "":
		return wire.Invalid("endianness", wire.CodeInvalidValue, "needs encoding_format to be base64 or bytes")
	}
	return nil
}

// oneOf reads one of some words.
func oneOf(c *wire.Cursor, words ...string) (string, error) {
	s, err := c.Text()
	if err == nil && !slices.Contains(words, s) {
		err = c.Wrong("expected one of %s, found %q", strings.Join(words, ", "), wire.Clip([]byte(s)))
	}
	return s, err
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
	case "cache_salt":
		p.CacheSalt, err = c.Label(MaxLabel)
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

// Vector is a vector on the wire: an array of numbers, or the base64 of Append's bytes.
type Vector struct {
	Values []float32
	Encoding
}

// MarshalJSON writes the vector.
func (v Vector) MarshalJSON() ([]byte, error) {
	if v.Format != "base64" {
		return json.Marshal(v.Values)
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(v.Append(nil)))
}

// Append appends the numbers in their type and order.
func (v Vector) Append(dst []byte) []byte {
	var order binary.AppendByteOrder = binary.LittleEndian
	if v.Endianness == "big" {
		order = binary.BigEndian
	}
	for _, x := range v.Values {
		switch bits := math.Float32bits(x); v.EmbedDtype {
		case "bfloat16": // rounded to even
			dst = order.AppendUint16(dst, uint16((bits+0x7fff+bits>>16&1)>>16))
		case "float16":
			dst = order.AppendUint16(dst, half(x))
		default:
			dst = order.AppendUint32(dst, bits)
		}
	}
	return dst
}

// half rounds a number to the nearest of IEEE 754's binary16, to even where two are as near.
func half(x float32) uint16 {
	sign := uint16(math.Float32bits(x) >> 16 & 0x8000)
	switch a := math.Abs(float64(x)); {
	case a >= 65520: // what rounds to 65536 is infinite
		return sign | 0x7c00
	case a < 0x1p-14:
		return sign | uint16(math.RoundToEven(a*0x1p24))
	default:
		_, e := math.Frexp(a) // a is 2^(e-1) to 2^e, in steps of 2^(e-11)
		return sign | uint16(int(math.RoundToEven(math.Ldexp(a, 11-e)))+(e+13)<<10)
	}
}

// PooledUsage counts the tokens of requests that generate nothing.
type PooledUsage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// PoolingResponse is the answer of /pooling.
type PoolingResponse struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"` // ObjectList
	Created int64       `json:"created"`
	Model   string      `json:"model"`
	Data    []PooledOne `json:"data"`
	Usage   PooledUsage `json:"usage"`
}

// PooledOne is what a model makes of one text.
type PooledOne struct {
	Index  int    `json:"index"`
	Object string `json:"object"` // "pooling"
	Data   Vector `json:"data"`
}

// ClassifyResponse is the answer of /classify.
type ClassifyResponse struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"` // ObjectList
	Created int64       `json:"created"`
	Model   string      `json:"model"`
	Data    []Classes   `json:"data"`
	Usage   PooledUsage `json:"usage"`
}

// Classes are the probabilities of a text's classes.
type Classes struct {
	Index  int       `json:"index"`
	Label  *string   `json:"label"` // of the likeliest; null if it has no name
	Probs  []float32 `json:"probs"`
	Number int       `json:"num_classes"`
}

// VectorBytes says where the vectors of an answer in bytes are, in its header Metadata.
type VectorBytes struct {
	ID      string        `json:"id"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Data    []VectorPlace `json:"data"`
	Usage   PooledUsage   `json:"usage"`
}

// VectorPlace is where one vector is.
type VectorPlace struct {
	Index      int    `json:"index"`
	EmbedDtype string `json:"embed_dtype"`
	Endianness string `json:"endianness"`
	Start      int    `json:"start"` // bytes
	End        int    `json:"end"`
	Shape      []int  `json:"shape"`
}
