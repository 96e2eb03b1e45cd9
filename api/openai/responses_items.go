package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/api/wire"
)

// Item is a part of a request for a response, or of a response.
type Item struct {
	Type   string // one of the constants below
	ID     string // "" if the request gave none
	Status string // ItemCompleted and others; "" is ItemCompleted

	Role     string         // of a message: user, assistant, system or developer
	Text     string         // of a message, or the thoughts of a reasoning
	Logprobs []TokenLogprob // of the text of an answer, if they were asked for

	CallID    string // of a call, and of its output
	Name      string // of the function that is called
	Namespace string // of that function; "" is none
	Arguments string // JSON text
	Output    string // of a call

	Sealed string // encrypted_content of a reasoning
}

// Values of Item.Type.
const (
	ItemMessage   = "message"
	ItemCall      = "function_call"
	ItemOutput    = "function_call_output"
	ItemReasoning = "reasoning"
	ItemReference = "item_reference"
)

// Values of Item.Status.
const (
	ItemInProgress = "in_progress"
	ItemCompleted  = "completed"
	ItemIncomplete = "incomplete"
)

// maxItems bounds the items of a request.
const maxItems = 4096

// DecodeItems reads {"data": […]}, the items that EncodeItems wrote.
func DecodeItems(body []byte) (list []Item, err error) {
	err = wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		list, err = items(c)
		return err
	})
	return list, err
}

// EncodeItems writes items as DecodeItems reads them.
func EncodeItems(list []Item) ([]byte, error) {
	return wire.Encode(map[string][]Item{"data": append([]Item{}, list...)})
}

// items reads a string, which is a message of the user, or an array of items.
func items(c *wire.Cursor) ([]Item, error) {
	if c.Peek() == '"' {
		text, err := c.Text()
		return []Item{{Type: ItemMessage, Role: "user", Text: text}}, err
	}
	list := []Item{}
	err := c.Array("a string or an array of items", func(i int) error {
		if i == maxItems {
			return c.Wrong("at most %d items are allowed", maxItems)
		}
		r := reading{}
		if err := c.Object(func(key string) error { return r.field(c, key) }); err != nil {
			return err
		}
		list = append(list, r.Item)
		return r.check(c.Path(), &list[i])
	})
	return list, err
}

// reading is an item whose type may come after its members.
type reading struct {
	Item
	content, output, summary bool // was given
	summaries                string
}

func (r *reading) field(c *wire.Cursor, key string) (err error) {
	switch key {
	case "type":
		r.Type, err = c.Text()
	case "id":
		r.ID, err = c.Label(MaxLabel)
	case "status":
		r.Status, err = c.Label(MaxLabel)
	case "role":
		r.Role, err = c.Label(MaxLabel)
	case "content":
		r.content = true
		r.Text, err = itemText(c)
	case "output":
		r.output = true
		r.Output, err = itemText(c)
	case "summary":
		r.summary = true
		r.summaries, err = itemText(c)
	case "encrypted_content":
		r.Sealed, err = c.Text()
	case "call_id":
		r.CallID, err = c.Label(MaxLabel)
	case "name":
		r.Name, err = c.Label(MaxToolName)
	case "namespace":
		r.Namespace, err = c.Label(MaxToolName)
	case "arguments":
		r.Arguments, err = c.Text()
	case "phase", "parsed_arguments": // of answers, and of clients' helpers; they change nothing
		err = c.Skip()
	default:
		err = c.Ignore()
	}
	return err
}

// check finds what is missing in an item, or does not belong to its type, and puts what is right into out.
func (r *reading) check(path string, out *Item) error {
	missing := func(key, expected string) error { return wire.Missing(path+"."+key, expected) }
	if r.Type == "" && r.Role == "" && r.ID != "" && !r.content { // clients leave the type of a reference out
		r.Type, out.Type = ItemReference, ItemReference
	}
	switch r.Type {
	case "", ItemMessage:
		out.Type = ItemMessage
		switch r.Role {
		case "user", "assistant", "system", "developer":
		case "":
			return missing("role", "the role of a message")
		default:
			return wire.Invalid(path+".role", wire.CodeInvalidValue, "expected user, assistant, system or developer, found %q",
				wire.Clip([]byte(r.Role)))
		}
		if !r.content {
			return missing("content", "a string or an array of parts")
		}
	case ItemCall:
		if r.Name == "" {
			return missing("name", "the name of a function")
		}
		if r.CallID == "" {
			return missing("call_id", "the id of a call")
		}
	case ItemOutput:
		if r.CallID == "" {
			return missing("call_id", "the id of a call")
		}
		if !r.output {
			return missing("output", "a string or an array of parts")
		}
	case ItemReasoning:
		if !r.summary && !r.content && r.Sealed == "" {
			return missing("summary", "an array")
		}
		if out.Text == "" && r.Sealed == "" {
			out.Text = r.summaries
		}
	case ItemReference:
		if r.ID == "" {
			return missing("id", "the id of an item")
		}
	default:
		return wire.Invalid(path+".type", wire.CodeUnsupported, "items of type %q are not supported, only message, "+
			"function_call, function_call_output, reasoning and item_reference", wire.Clip([]byte(r.Type)))
	}
	return nil
}

// textParts are the types of parts that are text.
var textParts = []string{"input_text", "output_text", "reasoning_text", "summary_text", "refusal", "text"}

// itemText reads a string, or an array of parts of text.
func itemText(c *wire.Cursor) (string, error) {
	if c.Peek() == '"' {
		return c.Text()
	}
	var all strings.Builder
	err := c.Array("a string or an array of parts", func(int) error {
		kind, text, given := "", "", false
		err := c.Object(func(key string) (err error) {
			switch key {
			case "type":
				if kind, err = c.Text(); err == nil && !slices.Contains(textParts, kind) {
					err = wire.Invalid(c.Path(), wire.CodeUnsupported, "parts of type %q are not supported, only text",
						wire.Clip([]byte(kind)))
				}
			case "text", "refusal":
				given = true
				text, err = c.Text()
			case "annotations", "logprobs", "parsed": // of answers; they change nothing
				err = c.Skip()
			default:
				err = c.Ignore()
			}
			return err
		})
		if err != nil {
			return err
		}
		if kind == "" {
			return wire.Missing(c.Path()+".type", "the type of a part, such as input_text")
		}
		if !given {
			return wire.Missing(c.Path()+".text", "a string")
		}
		all.WriteString(text)
		return nil
	})
	return all.String(), err
}

// MarshalJSON writes an item as answers have it.
func (i Item) MarshalJSON() ([]byte, error) { return i.append(nil), nil }

func (i *Item) append(dst []byte) []byte {
	member := func(key, value string) {
		dst = append(append(dst, `,"`...), key...)
		dst = wire.AppendString(append(dst, `":`...), value)
	}
	dst = append(dst, `{"type":"`...)
	dst = append(append(dst, i.Type...), '"')
	if i.ID != "" {
		member("id", i.ID)
	}
	if i.Type == ItemReference {
		return append(dst, '}')
	}
	status := i.Status
	if status == "" {
		status = ItemCompleted
	}
	member("status", status)
	switch i.Type {
	case ItemMessage:
		member("role", i.Role)
		dst = append(dst, `,"content":[`...)
		if i.Role != "assistant" {
			dst = append(dst, `{"type":"input_text","text":`...)
			dst = append(wire.AppendString(dst, i.Text), '}')
		} else if status != ItemInProgress {
			dst = i.appendPart(dst)
		}
		dst = append(dst, ']')
	case ItemReasoning:
		dst = append(dst, `,"summary":[]`...)
		if status != ItemInProgress {
			dst = append(dst, `,"content":[`...)
			dst = append(i.appendPart(dst), ']')
		}
		if i.Sealed != "" {
			member("encrypted_content", i.Sealed)
		}
	case ItemCall:
		member("call_id", i.CallID)
		if i.Namespace != "" {
			member("namespace", i.Namespace)
		}
		member("name", i.Name)
		member("arguments", i.Arguments)
	case ItemOutput:
		member("call_id", i.CallID)
		member("output", i.Output)
	}
	return append(dst, '}')
}

// appendPart appends the part that holds the text of an answer or of a reasoning.
func (i *Item) appendPart(dst []byte) []byte {
	if i.Type == ItemReasoning {
		dst = append(dst, `{"type":"reasoning_text","text":`...)
		return append(wire.AppendString(dst, i.Text), '}')
	}
	dst = append(dst, `{"type":"output_text","text":`...)
	dst = append(wire.AppendString(dst, i.Text), `,"annotations":[],"logprobs":`...)
	return append(appendTokens(dst, i.Logprobs), '}')
}

// ItemList is a page of a response's input.
type ItemList struct {
	Object  string `json:"object"` // ObjectList
	Data    []Item `json:"data"`
	FirstID string `json:"first_id"`
	LastID  string `json:"last_id"`
	HasMore bool   `json:"has_more"`
}

// Response answers a ResponseRequest.
type Response struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`     // ObjectResponse
	CreatedAt          int64             `json:"created_at"` // seconds since 1970
	Status             string            `json:"status"`     // one of the constants below
	Background         bool              `json:"background"`
	CompletedAt        *int64            `json:"completed_at"`
	Error              *ResponseError    `json:"error"`
	IncompleteDetails  *Incomplete       `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	MaxToolCalls       *int              `json:"max_tool_calls"`
	Model              string            `json:"model"`
	Output             []Item            `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	PromptCacheKey     *string           `json:"prompt_cache_key,omitempty"`
	Reasoning          ResponseReasoning `json:"reasoning"`
	SafetyIdentifier   *string           `json:"safety_identifier,omitempty"`
	ServiceTier        string            `json:"service_tier"` // "default"
	Store              bool              `json:"store"`
	Temperature        float32           `json:"temperature"`
	Text               ResponseText      `json:"text"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Tools              []json.RawMessage `json:"tools"`
	TopLogprobs        int               `json:"top_logprobs"`
	TopP               float32           `json:"top_p"`
	Truncation         string            `json:"truncation"`      // "disabled"
	Usage              *ResponseUsage    `json:"usage,omitempty"` // nil until the answer is complete
	User               *string           `json:"user,omitempty"`
	Metadata           map[string]string `json:"metadata"`
}

// ObjectResponse is what a Response is called.
const ObjectResponse = "response"

// Values of Response.Status.
const (
	ResponseQueued     = "queued"
	ResponseInProgress = "in_progress"
	ResponseCompleted  = "completed"
	ResponseIncomplete = "incomplete"
	ResponseFailed     = "failed"
	ResponseCancelled  = "cancelled"
)

// ResponseError says why a response failed.
type ResponseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Incomplete says why a response is incomplete.
type Incomplete struct {
	Reason string `json:"reason"` // "max_output_tokens"
}

// ResponseReasoning is how much a model was told to think.
type ResponseReasoning struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"` // always null
}

// ResponseText is the form that the text must have.
type ResponseText struct {
	Format    json.RawMessage `json:"format"`
	Verbosity string          `json:"verbosity"` // "medium"
}

// ResponseUsage counts the tokens of a response.
type ResponseUsage struct {
	InputTokens         int               `json:"input_tokens"`
	InputTokensDetails  InputDetails      `json:"input_tokens_details"`
	OutputTokens        int               `json:"output_tokens"`
	OutputTokensDetails CompletionDetails `json:"output_tokens_details"`
	TotalTokens         int               `json:"total_tokens"`
}

// InputDetails says how many of the prompt's tokens were found in the prefix cache.
type InputDetails struct {
	CachedTokens     int `json:"cached_tokens"`
	CacheWriteTokens int `json:"cache_write_tokens"` // that are paid for: none
}

// Deleted answers the removal of an object.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}
