package text

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// Request is one prompt to continue. Exactly one of Prompt, IDs and Chat is set.
type Request struct {
	Prompt    string      // plain text
	IDs       []int32     // tokens
	Chat      *chat.Input // a conversation, which the model's template renders; BOS and EOS are filled in
	NoSpecial bool        // put no BOS before Prompt
	Special   bool        // put BOS before Chat too, beside what the template writes

	Template *chat.Template // renders Chat in place of the model's; nil is the model's

	Suffix *string // what follows the answer: Prompt is what comes before it (fill in the middle)

	Answer Answer // what the answer of a Chat is made of

	Begun      []int32 // the answer's beginning, in tokens: it goes on after them as if it had been generated here
	Prediction string  // what the answer is expected to be like; it changes no token (engine.Params.Prediction)

	Stop        []string // strings that end the answer
	IncludeStop bool     // a stop string is part of the answer
	KeepSpecial bool     // special tokens appear in the text
	BadWords    []string // that the answer does not hold, as far as their usual tokens go
	DRYBreakers []string // that a repetition does not reach across; nil is the usual ones
	Context     int      // most tokens of prompt and answer, for which MaxTokens is cut; 0 is the model's, and no cut

	Fit      bool // if MaxTokens are more than the context has room for, that many
	Truncate int  // most tokens of the prompt, of which the last are kept; 0 is all, -1 what leaves room for the answer

	engine.Params
}

// Names of parts of a Request, EmbedRequest or ScoreRequest in errors, beside those of engine.Params.
const (
	FieldModel      fault.Field = "model"
	FieldMessages   fault.Field = "messages"
	FieldSuffix     fault.Field = "suffix"
	FieldTools      fault.Field = "tools"
	FieldThinking   fault.Field = "thinking_tokens"
	FieldIgnoreEOS  fault.Field = "ignore_eos"
	FieldStop       fault.Field = "stop"
	FieldText       fault.Field = "text"
	FieldTruncate   fault.Field = "truncate"
	FieldDimensions fault.Field = "dimensions"
)

// LengthError is a prompt that leaves no room for its answer.
type LengthError struct {
	Field                   fault.Field // what the prompt was made from: engine.FieldPrompt or FieldMessages
	Context, Prompt, Answer int         // tokens: the most that fit, in the prompt, wanted for the answer
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("prompt: has %d tokens; with %d for the answer they are more than the context of %d",
		e.Prompt, e.Answer, e.Context)
}

// Prompt is a Request that was encoded and checked: every Generate that it is given to can be served. Only
// Model.Prepare makes one for use. It must not be changed, and may be used by several goroutines.
type Prompt struct {
	Request Request // without what the prompt was made from
	IDs     []int32 // the prompt's tokens

	prepared *engine.Prepared
	stops    []int32             // tokens that end the answer
	parser   *chat.ParserOptions // nil: the answer is text
}

// Blocks returns the KV blocks that the prompt fills, for other engines or from them.
func (p *Prompt) Blocks() *engine.Blocks { return p.prepared.Blocks() }

// Len returns the number of the prompt's tokens.
func (p *Prompt) Len() int { return len(p.IDs) }

// Prepare renders, encodes and checks a request, once for all its answers. A request that cannot be served is a
// *fault.Error that names a field, or a *LengthError.
func (m *Model) Prepare(ctx context.Context, r Request) (*Prompt, error) {
	if ctx.Err() != nil { // a client that is gone needs no tokens
		return nil, context.Cause(ctx)
	}
	if m.Spec.NoHead {
		return nil, fault.New(FieldModel, "%s has no head, and generates nothing; it %s", m.Name, m.Purpose())
	}
	if m.Spec.Encoder {
		return nil, fault.New(FieldModel, "%s is an encoder, which generates nothing; it %s", m.Name, m.Purpose())
	}
	if err := m.checkTools(&r.Answer); err != nil {
		return nil, err
	}
	r.Adapter = cmp.Or(r.Adapter, m.ownAdapter)
	written, ids, err := m.write(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fault.New(source(&r), "is empty")
	}
	limit := m.Context
	if r.Context > 0 {
		limit = min(limit, r.Context)
	}
	most := r.Truncate
	if most < 0 {
		most = max(limit-max(r.MaxTokens, 1), 1)
	}
	if most > 0 && len(ids) > most {
		ids = ids[len(ids)-most:]
	}
	if r.Context > 0 && r.MaxTokens == 0 {
		r.MaxTokens = limit
	}
	if (r.Fit || r.Context > 0) && r.MaxTokens > 0 {
		r.MaxTokens = max(min(r.MaxTokens, limit-len(ids)), 1)
	}
	if answer := max(r.MaxTokens, 1); len(ids)+answer > limit {
		return nil, &LengthError{source(&r), limit, len(ids), answer}
	}
	parser, err := m.parser(&r, written)
	if err != nil {
		return nil, err
	}
	if r.Constraint, err = m.constraint(ctx, &r, written, limit-len(ids)); err != nil {
		return nil, err
	}
	m.words(&r)
	if err := m.predict(ctx, &r); err != nil {
		return nil, err
	}
	whole := engine.Request{Prompt: slices.Concat(ids, r.Begun), Begun: len(r.Begun), EOS: m.stops, Params: r.Params}
	prepared, err := m.Engine.Prepare(whole)
	if err != nil {
		return nil, err
	}
	r.Prompt, r.Chat = "", nil // which may be large, and are not needed any more
	return &Prompt{r, ids, prepared, whole.Stops(), parser}, nil
}

// source names what a request's prompt is made from.
func source(r *Request) fault.Field {
	if r.Chat != nil {
		return FieldMessages
	}
	return engine.FieldPrompt
}

// Encode returns the tokens of a request's prompt, which may be none. IDs are returned as they are. What cannot fit the
// context is refused before it is rendered. It ends with ctx, with its cause.
func (m *Model) Encode(ctx context.Context, r Request) ([]int32, error) {
	_, ids, err := m.write(ctx, r)
	return ids, err
}

// tailBytes are as many of a prompt as tell what its end has begun of the answer.
const tailBytes = 256

// write returns the end of a prompt's text, "" if it came as tokens, and its tokens.
func (m *Model) write(ctx context.Context, r Request) (tail string, ids []int32, err error) {
	if r.IDs != nil && r.Chat == nil && r.Suffix == nil {
		return "", r.IDs, m.checkStops(r.Stop)
	}
	cost, err := m.bound(&r)
	if err != nil {
		return "", nil, err
	}
	release, err := m.work.Acquire(ctx, cost)
	if err != nil {
		return "", nil, err
	}
	defer release()
	field := source(&r)
	switch {
	case r.Chat != nil:
		if r.Prompt, err = m.render(ctx, &r, r.Chat); err != nil {
			return "", nil, err
		}
		r.NoSpecial = !r.Special
	case r.Suffix != nil:
		if r.Prompt, err = m.infill(&r); err != nil {
			return "", nil, err
		}
	}
	if n := len(r.Prompt); n > m.mostBytes() {
		return "", nil, m.tooLong(field, n)
	}
	tail = strings.Clone(r.Prompt[max(0, len(r.Prompt)-tailBytes):])
	ids, err = m.encode(ctx, field, r.Prompt, tokenizer.EncodeOptions{AddSpecial: !r.NoSpecial, ParseSpecial: true})
	return tail, ids, err
}

// render returns the prompt that a request's chat template makes of a conversation. It ends with ctx, with its cause.
func (m *Model) render(ctx context.Context, r *Request, conversation *chat.Input) (string, error) {
	template := cmp.Or(r.Template, m.Template)
	if template == nil {
		return "", fault.New(FieldMessages, "need a chat template; %s has none and takes plain text", m.Name)
	}
	in := *conversation
	in.MaxValues = m.Context
	if said := len(in.Messages) > 0 && in.Messages[0].Role == "system"; m.system != "" && !said {
		in.Messages = slices.Concat([]chat.Message{{Role: "system", Content: m.system}}, in.Messages)
	}
	if id, ok := m.Tokenizer.BOS(); ok {
		in.BOS = m.Tokenizer.Token(id)
	}
	if ids := m.Tokenizer.EOS(); len(ids) > 0 {
		in.EOS = m.Tokenizer.Token(ids[0])
	}
	prompt, err := template.RenderChat(ctx, in)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", &fault.Error{Field: FieldMessages, Problem: err.Error()}
	}
	return prompt, nil
}
