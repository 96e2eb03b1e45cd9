package ollama

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Limits of requests.
const (
	maxTools = 128     // of a request
	maxLogs  = 20      // top_logprobs
	maxInput = 2048    // texts to embed
	maxName  = 512     // characters of a model's name
	maxWait  = 1 << 31 // seconds of keep_alive
)

// Common are the members of both requests for answers.
type Common struct {
	Model       string
	Stream      bool // true by default
	Format      *Format
	Think       *Think
	KeepAlive   *time.Duration // nil is as the server is configured; a negative time is for ever
	Logprobs    bool
	TopLogprobs int
}

// Format is what an answer must be: any JSON object, or one of a schema.
type Format struct {
	Schema json.RawMessage // nil is any
}

// Think says whether the model reasons before it answers.
type Think struct {
	On     bool
	Effort string // "low", "medium" or "high"; "" is not given
}

// Param reads one member of "options". known is false if there is none of this name.
type Param func(c *wire.Cursor, key string) (known bool, err error)

func (r *Common) field(c *wire.Cursor, key string, param Param) (err error) {
	switch key {
	case "model":
		r.Model, err = c.Label(maxName)
	case "stream":
		r.Stream, err = c.Bool()
	case "format":
		r.Format, err = format(c)
	case "think":
		r.Think, err = think(c)
	case "keep_alive":
		r.KeepAlive, err = wire.Optional(keepAlive(c))
	case "logprobs":
		r.Logprobs, err = c.Bool()
	case "top_logprobs":
		r.TopLogprobs, err = c.IntIn(0, maxLogs)
	case "options":
		err = options(c, param)
	case "temperature", "top_p": // where some clients put these options
		_, err = param(c, key)
	case "max_output_tokens":
		_, err = param(c, "num_predict")
	case "tool_choice":
		err = c.Inert(`"auto"`)
	default:
		err = c.Unsupported()
	}
	return err
}

func options(c *wire.Cursor, param Param) error {
	return c.Object(func(key string) error {
		known, err := param(c, key)
		if err == nil && !known {
			err = c.Unsupported()
		}
		return err
	})
}

// format reads "json", a schema, or "", which is nothing.
func format(c *wire.Cursor) (*Format, error) {
	switch c.Peek() {
	case '{':
		raw, err := c.Raw()
		return &Format{Schema: raw}, err
	case '"':
		s, err := c.Text()
		switch {
		case err != nil || s == "":
			return nil, err
		case s != "json":
			return nil, c.Wrong(`expected "json" or a JSON Schema, found %q`, wire.Clip([]byte(s)))
		}
		return &Format{}, nil
	}
	return nil, c.Mismatch(`"json" or a JSON Schema`)
}

func think(c *wire.Cursor) (*Think, error) {
	if c.Peek() != '"' {
		on, err := c.Bool()
		return &Think{On: on}, err
	}
	s, err := c.Text()
	switch {
	case err != nil:
		return nil, err
	case s != "low" && s != "medium" && s != "high":
		return nil, c.Wrong(`expected true, false, "low", "medium" or "high", found %q`, wire.Clip([]byte(s)))
	}
	return &Think{On: true, Effort: s}, nil
}

// keepAlive reads a number of seconds, or a string such as "5m".
func keepAlive(c *wire.Cursor) (time.Duration, error) {
	var seconds float64
	var err error
	if c.Peek() == '"' {
		s, err := c.Text()
		if err != nil {
			return 0, err
		}
		if d, err := time.ParseDuration(s); err == nil {
			return d, nil
		}
		if seconds, err = strconv.ParseFloat(s, 64); err != nil {
			return 0, c.Wrong(`expected a time such as "5m", or seconds, found %q`, wire.Clip([]byte(s)))
		}
	} else if seconds, err = c.Number(); err != nil {
		return 0, err
	}
	if math.IsNaN(seconds) || seconds > maxWait {
		return 0, c.Wrong("expected at most %d seconds", maxWait)
	}
	if seconds < 0 {
		return -1, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// nothing reads a member that is only accepted while it is empty.
func nothing(c *wire.Cursor) error { return c.Inert(`""`, `[]`, `{}`, `false`) }

// GenerateRequest asks for the continuation of a prompt.
type GenerateRequest struct {
	Common
	Prompt, System string
	Suffix         *string
	Raw            bool // the prompt is not a user's message, but text to continue
}

// DecodeGenerate reads a request.
func DecodeGenerate(body []byte, param Param) (*GenerateRequest, error) {
	r := &GenerateRequest{Common: Common{Stream: true}}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "prompt":
			r.Prompt, err = c.Text()
		case "system":
			r.System, err = c.Text()
		case "suffix":
			if r.Suffix, err = wire.Optional(c.Text()); err == nil && *r.Suffix == "" {
				r.Suffix = nil // as clients send it that have none
			}
		case "raw":
			r.Raw, err = c.Bool()
		case "images", "context", "template":
			err = nothing(c)
		default:
			err = r.field(c, key, param)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.Suffix != nil && r.System != "":
		return nil, wire.Invalid("system", wire.CodeInvalidValue, "not allowed with suffix, whose prompt is no message")
	case r.Raw && r.System != "":
		return nil, wire.Invalid("system", wire.CodeInvalidValue, "not allowed with raw")
	}
	return r, nil
}

// ChatRequest asks for the next message of a conversation.
type ChatRequest struct {
	Common
	Messages []Message
	Tools    []Tool
	Ignored  []string // paths of members of messages that are of no use
}

// Message is one of a conversation.
type Message struct {
	Role, Content, Thinking string
	Calls                   []Call
	ToolName, ToolCallID    string // of a tool's result
}

// Call is a call of a tool.
type Call struct {
	ID, Name  string
	Arguments json.RawMessage // an object
}

// Tool is a function that may be called.
type Tool struct {
	Name       string
	Parameters json.RawMessage // the JSON Schema of its arguments; nil is any
	JSON       json.RawMessage // as it came
}

// DecodeChat reads a request.
func DecodeChat(body []byte, param Param) (*ChatRequest, error) {
	r := &ChatRequest{Common: Common{Stream: true}}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "messages":
			err = c.Array("an array of messages", func(int) error {
				m, err := message(c, &r.Ignored)
				r.Messages = append(r.Messages, m)
				return err
			})
		case "tools":
			err = c.Array("an array of tools", func(i int) error {
				if i == maxTools {
					return c.Wrong("at most %d tools are allowed", maxTools)
				}
				t, err := tool(c)
				r.Tools = append(r.Tools, t)
				return err
			})
		default:
			err = r.field(c, key, param)
		}
		return err
	})
	return r, err
}

// message reads a message. What clients add to messages that they send back is passed over, and its paths are noted.
func message(c *wire.Cursor, ignored *[]string) (m Message, err error) {
	err = c.Object(func(key string) (err error) {
		switch key {
		case "role":
			m.Role, err = c.Text()
		case "content":
			m.Content, err = c.Text()
		case "thinking":
			m.Thinking, err = c.Text()
		case "tool_name":
			m.ToolName, err = c.Text()
		case "tool_call_id":
			m.ToolCallID, err = c.Text()
		case "images":
			err = nothing(c)
		case "tool_calls":
			err = c.Array("an array of calls", func(int) error {
				one, err := call(c)
				m.Calls = append(m.Calls, one)
				return err
			})
		default:
			*ignored = append(*ignored, c.Path())
			err = c.Skip()
		}
		return err
	})
	if err == nil && m.Role == "" {
		err = wire.Missing(c.Path()+".role", `such as "user"`)
	}
	return m, err
}

func call(c *wire.Cursor) (one Call, err error) {
	err = c.Object(func(key string) (err error) {
		switch key {
		case "id":
			one.ID, err = c.Text()
		case "function":
			err = c.Object(func(key string) (err error) {
				switch key {
				case "name":
					one.Name, err = c.Text()
				case "arguments":
					if c.Peek() != '{' {
						return c.Mismatch("an object")
					}
					one.Arguments, err = c.Raw()
				default:
					err = c.Skip()
				}
				return err
			})
		default:
			err = c.Skip()
		}
		return err
	})
	if err == nil && one.Name == "" {
		err = wire.Missing(c.Path()+".function.name", "the name of a tool")
	}
	if one.Arguments == nil {
		one.Arguments = json.RawMessage("{}")
	}
	return one, err
}

func tool(c *wire.Cursor) (t Tool, err error) {
	at := *c // to read it again
	if t.JSON, err = at.Raw(); err != nil {
		return t, err
	}
	err = c.Object(func(key string) (err error) {
		switch key {
		case "type":
			var kind string
			if kind, err = c.Text(); err == nil && kind != "function" {
				err = c.Wrong("expected \"function\", found %q", wire.Clip([]byte(kind)))
			}
		case "function":
			err = c.Object(func(key string) (err error) {
				switch key {
				case "name":
					t.Name, err = c.Text()
				case "parameters":
					if c.Peek() != '{' {
						return c.Mismatch("a JSON Schema")
					}
					t.Parameters, err = c.Raw()
				default: // it is the template's
					err = c.Skip()
				}
				return err
			})
		default:
			err = c.Skip()
		}
		return err
	})
	if err == nil && t.Name == "" {
		err = wire.Missing(c.Path()+".function.name", "the name of a tool")
	}
	return t, err
}

// EmbedRequest asks for vectors of texts.
type EmbedRequest struct {
	Model      string
	Input      []string
	Truncate   bool // true by default
	Dimensions int  // 0 is all
	KeepAlive  *time.Duration
}

// DecodeEmbed reads a request of /api/embed.
func DecodeEmbed(body []byte) (*EmbedRequest, error) {
	r := &EmbedRequest{Truncate: true}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "input":
			r.Input, err = input(c)
		case "truncate":
			r.Truncate, err = c.Bool()
		case "dimensions":
			r.Dimensions, err = c.IntIn(0, math.MaxInt32)
		default:
			err = r.field(c, key)
		}
		return err
	})
	return r, err
}

// DecodeEmbeddings reads a request of /api/embeddings, which has one text.
func DecodeEmbeddings(body []byte) (*EmbedRequest, error) {
	r := &EmbedRequest{Truncate: true, Input: []string{""}}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		if key == "prompt" {
			r.Input[0], err = c.Text()
			return err
		}
		return r.field(c, key)
	})
	return r, err
}

func (r *EmbedRequest) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "model":
		r.Model, err = c.Label(maxName)
	case "keep_alive":
		r.KeepAlive, err = wire.Optional(keepAlive(c))
	case "options": // none changes a vector
		err = options(c, func(c *wire.Cursor, _ string) (bool, error) { return true, c.Skip() })
	default:
		err = c.Unsupported()
	}
	return err
}

// input reads a string or an array of strings.
func input(c *wire.Cursor) ([]string, error) {
	if c.Peek() == '"' {
		s, err := c.Text()
		return []string{s}, err
	}
	list := []string{}
	err := c.Array("a string or an array of strings", func(i int) error {
		if i == maxInput {
			return c.Wrong("at most %d texts are allowed", maxInput)
		}
		s, err := c.Text()
		list = append(list, s)
		return err
	})
	return list, err
}

// named reads a model's name, in the member that it has now or in the one that it had, which some clients leave empty.
func named(c *wire.Cursor, name *string) error {
	given, err := c.Label(maxName)
	if given != "" {
		*name = given
	}
	return err
}

// DecodeModel reads a request that names a model and says nothing else.
func DecodeModel(body []byte) (*string, error) {
	return decodeModel(body, func(c *wire.Cursor, _ string) error { return c.Unsupported() })
}

// DecodeShow reads a request for what a model is.
func DecodeShow(body []byte) (*string, error) {
	return decodeModel(body, func(c *wire.Cursor, key string) error {
		switch key {
		case "verbose":
			return c.Skip()
		case "system", "template", "options": // in place of the model's own
			return nothing(c)
		}
		return c.Unsupported()
	})
}

func decodeModel(body []byte, other func(c *wire.Cursor, key string) error) (*string, error) {
	name := new(string)
	err := wire.Decode(body, func(c *wire.Cursor, key string) error {
		if key == "model" || key == "name" {
			return named(c, name)
		}
		return other(c, key)
	})
	if err == nil && *name == "" {
		err = wire.Missing("model", "the name of a model")
	}
	return name, err
}

// PullRequest asks for a model of the hub.
type PullRequest struct {
	Model  string
	Stream bool // true by default
}

// DecodePull reads a request.
func DecodePull(body []byte) (*PullRequest, error) {
	r := &PullRequest{Stream: true}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "model", "name":
			err = named(c, &r.Model)
		case "stream":
			r.Stream, err = c.Bool()
		case "insecure":
			err = c.Inert("false")
		case "username", "password":
			err = nothing(c)
		default:
			err = c.Unsupported()
		}
		return err
	})
	if err == nil && r.Model == "" {
		err = wire.Missing("model", "the name of a model on the hub")
	}
	return r, err
}

// CreateRequest asks for a model that is made of another one.
type CreateRequest struct {
	Model, From, System, Template string
	Parameters                    map[string]any
	Files, Adapters               map[string]string // digests of blobs, by the names of files
	Stream                        bool              // true by default
}

// maxFiles bounds the files of a model.
const maxFiles = 256

// files reads names of files with the digests of their blobs.
func files(c *wire.Cursor) (all map[string]string, err error) {
	err = c.Object(func(name string) error {
		if len(all) == maxFiles {
			return c.Wrong("at most %d files are allowed", maxFiles)
		}
		digest, err := c.Label(maxName)
		if all == nil {
			all = map[string]string{}
		}
		all[name] = digest
		return err
	})
	return all, err
}

// DecodeCreate reads a request.
func DecodeCreate(body []byte) (*CreateRequest, error) {
	r := &CreateRequest{Stream: true}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "model", "name":
			err = named(c, &r.Model)
		case "from":
			r.From, err = c.Label(maxName)
		case "system":
			r.System, err = c.Text()
		case "template":
			r.Template, err = c.Text()
		case "stream":
			r.Stream, err = c.Bool()
		case "license": // which the other model has
			err = c.Skip()
		case "parameters":
			if c.Peek() != '{' {
				return c.Mismatch("an object")
			}
			var raw []byte
			if raw, err = c.Raw(); err == nil {
				if json.Unmarshal(raw, &r.Parameters) != nil {
					err = c.Wrong("a number of it is out of range")
				}
			}
		case "files":
			r.Files, err = files(c)
		case "adapters":
			r.Adapters, err = files(c)
		case "messages", "quantize", "quantization":
			err = nothing(c)
		default:
			err = c.Unsupported()
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case r.Model == "":
		return nil, wire.Missing("model", "the name of the model to make")
	case r.From == "" && r.Files == nil:
		return nil, wire.Missing("from", "the name of the model that it is made of")
	case r.From != "" && r.Files != nil:
		return nil, wire.Invalid("files", wire.CodeInvalidValue, "not allowed with from: a model is made of one or the other")
	}
	return r, nil
}

// CopyRequest asks for another name of a model.
type CopyRequest struct{ Source, Destination string }

// DecodeCopy reads a request.
func DecodeCopy(body []byte) (*CopyRequest, error) {
	r := new(CopyRequest)
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "source":
			r.Source, err = c.Label(maxName)
		case "destination":
			r.Destination, err = c.Label(maxName)
		default:
			err = c.Unsupported()
		}
		return err
	})
	if err == nil && (r.Source == "" || r.Destination == "") {
		err = wire.Missing("source", "two names, in source and destination")
	}
	return r, err
}
