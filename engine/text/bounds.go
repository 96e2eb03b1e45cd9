package text

import (
	"context"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// What a request may hold follows from the context: a text that goes into the prompt has no more bytes than its tokens
// can have, and a list no more elements than there are tokens. What is being rendered and encoded is bounded in all.
const (
	workBytes   = 192 << 20 // of memory for all prompts that are being rendered and encoded
	costPerByte = 96        // bytes of memory for a byte of text meanwhile; TestEncodingCosts measures it
	costPerPart = 4096      // likewise for a message, a part of one, or a call in it
)

// mostBytes is how long a text may be that goes into a prompt.
func (m *Model) mostBytes() int { return m.Context * m.longest }

func (m *Model) tooLong(field fault.Field, bytes int) error {
	return fault.New(field, "has %d bytes, more than %d tokens can hold; the context has %d", bytes, m.Context, m.Context)
}

// bound refuses a request that cannot fit the context, and returns how many bytes of memory its prompt takes to make.
func (m *Model) bound(r *Request) (cost int64, err error) {
	if err := m.checkStops(r.Stop); err != nil {
		return 0, err
	}
	bytes, parts := len(r.Prompt), 0
	if r.Suffix != nil {
		bytes += len(*r.Suffix)
	}
	if r.Chat != nil {
		if parts, bytes = size(r.Chat); parts > m.Context {
			return 0, fault.New(FieldMessages, "have %d messages, parts and calls in all, more than the context of %d tokens can hold",
				parts, m.Context)
		}
	}
	if bytes > m.mostBytes() {
		return 0, m.tooLong(source(r), bytes)
	}
	return costPerByte*int64(bytes) + costPerPart*int64(parts), nil
}

// size returns how many messages, parts and calls a conversation has, and the bytes of its texts.
func size(in *chat.Input) (parts, bytes int) {
	for i := range in.Messages {
		msg := &in.Messages[i]
		parts += 1 + len(msg.Parts) + len(msg.ToolCalls)
		bytes += len(msg.Role) + len(msg.Content) + len(msg.Reasoning) + len(msg.ToolCallID) + len(msg.Name)
		for _, p := range msg.Parts {
			bytes += len(p.Type) + len(p.Text)
		}
		for _, c := range msg.ToolCalls {
			bytes += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	for _, t := range in.Tools {
		parts, bytes = parts+1, bytes+len(t)
	}
	return parts, bytes
}

// checkStops refuses stop strings that no answer can hold.
func (m *Model) checkStops(stops []string) error {
	for _, s := range stops {
		if s == "" {
			return fault.New(FieldStop, "has an empty string")
		}
		if len(s) > m.mostBytes() {
			return m.tooLong(FieldStop, len(s))
		}
	}
	return nil
}

// encode encodes a text. An error of the tokenizer is the text's fault.
func (m *Model) encode(ctx context.Context, field fault.Field, text string, o tokenizer.EncodeOptions) ([]int32, error) {
	ids, err := m.Tokenizer.EncodeContext(ctx, text, o)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, &fault.Error{Field: field, Problem: err.Error()}
	}
	return ids, nil
}
