package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/store"
)

// recall puts together what a request asks: the responses before it, oldest first, and its own items.
func (a *responseAnswer) recall(ctx context.Context) error {
	input := a.request.Input
	for i := range input {
		path := fmt.Sprintf("input[%d]", i)
		if err := a.resolve(ctx, path, &input[i]); err != nil {
			return err
		}
	}
	var before [][]openai.Item
	for id := a.request.PreviousResponseID; id != ""; {
		r, err := a.past(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return refuse(http.StatusBadRequest, "previous_response_id", "previous_response_not_found",
				"Previous response with id '%s' not found.", wire.Clip([]byte(id)))
		}
		if err != nil {
			return err
		}
		if r.Status != openai.ResponseCompleted && r.Status != openai.ResponseIncomplete {
			return wire.Invalid("previous_response_id", wire.CodeInvalidValue, "that response is %s", r.Status)
		}
		if a.recalled += int64(len(r.Input) + len(r.Body)); a.recalled > a.server.cfg.MaxBodyBytes {
			return wire.Invalid("previous_response_id", wire.CodeInvalidValue,
				"the conversation has more than %d bytes, the most of a request", a.server.cfg.MaxBodyBytes)
		}
		before, id = append(before, r.items), r.Previous
	}
	slices.Reverse(before)
	a.items = append(slices.Concat(before...), input...)
	if len(a.items) == 0 {
		return wire.Invalid("input", wire.CodeInvalidValue, "there is no item")
	}
	return nil
}

// resolve completes an item of the input: what it refers to, what is sealed in it, and its id.
func (a *responseAnswer) resolve(ctx context.Context, path string, one *openai.Item) error {
	switch {
	case one.Type == openai.ItemReference:
		r, err := a.past(ctx, responseOf(one.ID))
		i := -1
		if err == nil {
			i = slices.IndexFunc(r.items, func(i openai.Item) bool { return i.ID == one.ID })
		}
		if errors.Is(err, store.ErrNotFound) || err == nil && i < 0 {
			return refuse(http.StatusNotFound, path+".id", "not_found", "Item with id '%s' not found.", wire.Clip([]byte(one.ID)))
		}
		if err != nil {
			return err
		}
		*one = r.items[i]
		a.recalled += int64(len(one.Text) + len(one.Name) + len(one.Arguments) + len(one.Output))
		if a.recalled > a.server.cfg.MaxBodyBytes {
			return wire.Invalid(path+".id", wire.CodeInvalidValue, "the items referred to have more than %d bytes, the most of a request",
				a.server.cfg.MaxBodyBytes)
		}
		return nil
	case one.Type == openai.ItemReasoning && one.Text == "" && one.Sealed != "":
		text, err := a.server.unseal(a.owner, one.Sealed)
		if err != nil {
			return wire.Invalid(path+".encrypted_content", wire.CodeInvalidValue, "it was not made by this server for this API key")
		}
		one.Text = text
	}
	if one.ID == "" {
		a.named++
		one.ID = a.itemID(one.Type, "i", a.named)
	}
	return nil
}

// pastResponse is a stored response with the items of its input and its output.
type pastResponse struct {
	*store.Response
	items []openai.Item
}

// past returns a stored response of the same owner. It is read once, however often the request names it.
func (a *responseAnswer) past(ctx context.Context, id string) (*pastResponse, error) {
	if r := a.pasts[id]; r != nil {
		return r, nil
	}
	kept, err := a.server.later.store()
	if err != nil {
		return nil, err
	}
	one, err := kept.Response(ctx, a.owner, id)
	if err != nil {
		return nil, err
	}
	one.Events = nil
	done, err := a.body.recall(ctx, int64(len(one.Input)+len(one.Body)))
	if err != nil {
		return nil, err
	}
	defer done()
	r := &pastResponse{Response: one}
	if r.items, err = openai.DecodeItems(one.Input); err != nil {
		return nil, err
	}
	var body struct {
		Output json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(one.Body, &body); err != nil {
		return nil, err
	}
	output, err := openai.DecodeItems(fmt.Appendf(nil, `{"data":%s}`, body.Output))
	if r.items = append(r.items, output...); err != nil {
		return nil, err
	}
	if a.pasts == nil {
		a.pasts = map[string]*pastResponse{}
	}
	a.pasts[id] = r
	return r, nil
}

// conversation returns the items as the messages that a template takes. What the assistant thinks, says and calls in
// one turn is one message.
func (a *responseAnswer) conversation() *chat.Input {
	in := &chat.Input{AddGenerationPrompt: true}
	if a.request.Instructions != "" {
		in.Messages = append(in.Messages, chat.Message{Role: "system", Content: a.request.Instructions})
	}
	turn := func(done func(*chat.Message) bool) *chat.Message { // the assistant's, which is not done
		if n := len(in.Messages); n > 0 && in.Messages[n-1].Role == "assistant" && !done(&in.Messages[n-1]) {
			return &in.Messages[n-1]
		}
		in.Messages = append(in.Messages, chat.Message{Role: "assistant"})
		return &in.Messages[len(in.Messages)-1]
	}
	for _, one := range a.items {
		switch {
		case one.Type == openai.ItemReasoning:
			m := turn(func(m *chat.Message) bool { return m.Reasoning != "" || m.Content != "" || m.ToolCalls != nil })
			m.Reasoning = one.Text
		case one.Type == openai.ItemCall:
			m := turn(func(*chat.Message) bool { return false })
			m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: one.CallID, Name: openai.Qualified(one.Namespace, one.Name), Arguments: one.Arguments})
		case one.Type == openai.ItemOutput:
			in.Messages = append(in.Messages, chat.Message{Role: "tool", ToolCallID: one.CallID, Content: one.Output})
		case one.Role == "assistant":
			m := turn(func(m *chat.Message) bool { return m.Content != "" || m.ToolCalls != nil })
			m.Content = one.Text
		case one.Role == "developer": // OpenAI's new name of the role that templates call system
			in.Messages = append(in.Messages, chat.Message{Role: "system", Content: one.Text})
		default:
			in.Messages = append(in.Messages, chat.Message{Role: one.Role, Content: one.Text})
		}
	}
	return in
}

// sealer encrypts what a client keeps for the server and need not read.
func (s *Server) sealer() cipher.AEAD {
	block, err := aes.NewCipher(mac(s.cfg.Secret, "reasoning"))
	if err != nil { // the key has 32 bytes
		panic(err)
	}
	a, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil { // blocks have 16 bytes
		panic(err)
	}
	return a
}

// seal encrypts a text for an owner, and unseal returns it to that owner alone.
func (s *Server) seal(owner, text string) string {
	return base64.StdEncoding.EncodeToString(s.sealer().Seal(nil, nil, []byte(text), []byte(owner)))
}

func (s *Server) unseal(owner, sealed string) (string, error) {
	data, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return "", err
	}
	out, err := s.sealer().Open(nil, nil, data, []byte(owner))
	return string(out), err
}
