package server

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sampling"
)

// bodyTimeout is how long a client may take to send the body of a request.
const bodyTimeout = time.Minute

// read decodes the body of a request. The deadline is lifted afterwards: net/http goes on reading, to notice when the
// client goes away, and would take a deadline for that.
func read[T any](w http.ResponseWriter, r *http.Request, decode func([]byte) (*T, error)) (*T, error) {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Now().Add(bodyTimeout)) // not of a writer in a test, which has none
	body, err := io.ReadAll(r.Body)
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, err
	} else if err != nil {
		return nil, fail(http.StatusBadRequest, openai.TypeInvalidRequest, "", "unreadable_body", "Reading the request body: %v.", err)
	}
	control.SetReadDeadline(time.Time{})
	return decode(body)
}

func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// params returns how a request's tokens are drawn: what it says itself, and else what the model's makers recommend.
func params(s *openai.Sampling, defaults sampling.Params) sampling.Params {
	p := defaults
	set := func(dst *float32, src *float64) {
		if src != nil {
			*dst = float32(*src)
		}
	}
	set(&p.Temperature, s.Temperature)
	set(&p.TopP, s.TopP)
	set(&p.MinP, s.MinP)
	set(&p.RepetitionPenalty, s.RepetitionPenalty)
	set(&p.PresencePenalty, s.PresencePenalty)
	set(&p.FrequencyPenalty, s.FrequencyPenalty)
	p.TopK = value(s.TopK, p.TopK)
	if p.TopP == 0 {
		p.TopP = math.SmallestNonzeroFloat32 // OpenAI takes 0, which leaves the likeliest token
	}
	if len(s.LogitBias) > 0 {
		p.LogitBias = make(map[int32]float32, len(s.LogitBias))
		for id, bias := range s.LogitBias {
			p.LogitBias[id] = float32(bias)
		}
	}
	if s.Seed != nil {
		p.Seed = uint64(*s.Seed)
	} else {
		p.Seed = rand.Uint64()
	}
	return p
}

// common returns what the two kinds of request have in common, without the prompt.
func common(s *openai.Sampling, info Info) text.Request {
	r := text.Request{
		Params:         params(s, info.Defaults),
		MaxTokens:      value(s.MaxTokens, 0),
		MinTokens:      value(s.MinTokens, 0),
		Stop:           s.Stop,
		StopTokens:     s.StopTokenIDs,
		IncludeStop:    s.IncludeStop,
		IgnoreEOS:      s.IgnoreEOS,
		KeepSpecial:    !value(s.SkipSpecialTokens, true),
		Logprobs:       -1,
		PromptLogprobs: value(s.PromptLogprobs, -1),
		Priority:       value(s.Priority, 0),
		Tenant:         s.User,
		FirstToken:     millis(s.TTFTMillis),
		PerToken:       millis(s.TPOTMillis),
		Timeout:        millis(s.TimeoutMillis),
		Salt:           s.CacheSalt,
		Keep:           kv.Retention{Priority: value(s.KVPriority, 0), TTL: int64(value(s.KVTTLMillis, 0))},
	}
	if s.UseBeamSearch {
		r.Params, r.Search = beams(s)
	}
	return r
}

func millis(n *int) time.Duration { return time.Duration(value(n, 0)) * time.Millisecond }

// conversation returns messages as the chat template takes them.
func conversation(messages []openai.Message, generate *bool, kwargs []byte) (*chat.Input, error) {
	in := &chat.Input{AddGenerationPrompt: value(generate, true)}
	for _, m := range messages {
		out := chat.Message{Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID, Reasoning: m.ReasoningContent}
		if m.Role == "developer" { // OpenAI's new name of the role that templates call system
			out.Role = "system"
		}
		if m.Content != nil {
			out.Content = m.Content.Text
			for _, part := range m.Content.Parts {
				out.Parts = append(out.Parts, chat.Part{Type: "text", Text: part})
			}
		}
		for _, c := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		in.Messages = append(in.Messages, out)
	}
	if kwargs == nil {
		return in, nil
	}
	var err error
	if in.Extra, err = chat.DecodeVars(kwargs); err != nil {
		return nil, &text.RequestError{Field: "chat_template_kwargs", Problem: err.Error()}
	}
	for _, key := range in.Extra.Keys() {
		switch key {
		case "messages", "tools", "add_generation_prompt":
			return nil, &text.RequestError{Field: "chat_template_kwargs",
				Problem: fmt.Sprintf("%q belongs to the request itself and cannot be given again", key)}
		}
	}
	return in, nil
}
