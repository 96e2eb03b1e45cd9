package text

import (
	"slices"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// bounded returns constraints that follow a grammar, nil if the text is free, and bound the tokens of reasoning. room
// is the most tokens of the answer.
func (m *Model) bounded(a *Answer, prompt string, g *compiled, room int) (func() engine.Constraint, error) {
	if a.Thought != nil && m.reasoning == nil {
		return nil, fault.New(FieldThinking, "is %d; %s does not reason", *a.Thought, m.Name)
	}
	free, near := a.Form == nil && !a.Choice.guided(), nearEnd
	if m.tools != nil && len(a.Tools) > 0 {
		guide := m.tools.Guide()
		near += len(m.Tokenizer.Encode(guide.After+guide.Close, tokenizer.EncodeOptions{ParseSpecial: true}))
	}
	o := chat.ParserOptions{Reasoning: m.reasoning, Prompt: prompt}
	if len(a.Tools) > 0 {
		o.Tools = m.tools // calls are no reasoning
	}
	return func() engine.Constraint {
		b := &bounds{m: m, form: g, end: m.end, left: room, thought: -1, look: -1, most: -1}
		b.parser = chat.NewParser(o)
		if g != nil {
			b.end, b.free, b.near = m.guidedEnd, free, near
			b.most = min(room-1, mostLook)
			b.look = b.most
		}
		if a.Thought != nil {
			b.thought = *a.Thought
		}
		return b
	}, nil
}

// bounds is the constraint of one answer: its grammar, the end of reasoning that takes too many tokens, and the end of
// an answer whose tokens are nearly used up. Such an answer is completed in the shortest way that is found, so that
// it is of its form, rather than cut off.
type bounds struct {
	m       *Model
	form    *compiled        // nil: the text is free
	find    *find            // what it shares with other answers of form, once the loop asks
	matcher *grammar.Matcher // of that
	begun   bool             // the loop has asked
	free    bool             // there is text around calls, which may end anywhere
	near    int              // tokens of an end that one token may pass, to begin another part
	parser  *chat.Parser     // knows where reasoning begins and ends
	end     []int32          // tokens that end reasoning
	left    int              // tokens of the answer
	thought int              // tokens of reasoning; -1 is any number
	look    int              // when so many are left, it is time to see how many the end takes; -1 is never
	most    int              // what look begins with
	due     []int32          // tokens that must come next
}

const (
	mostLook = 256 // tokens before the last one where the end is first looked for
	mostEnd  = 192 // tokens that an end may take

	spareTokens = 8 // by which an end may become longer with one token
	nearEnd     = 4 // tokens of an end that one token may pass, to begin another part, beside those that end calls
)

// enter begins a call from the loop, leave ends it.
func (b *bounds) enter() {
	if b.form != nil {
		if b.matcher == nil {
			b.find = b.m.guides.start(b.form)
			b.matcher = b.find.origin.Clone()
		}
		b.find.asked = true
	}
	if !b.begun {
		b.begun = true
		b.endThought()
	}
}

func (b *bounds) leave() {
	if b.form != nil {
		b.find.asked = false
		b.m.guides.found.settle(b.find)
	}
}

// Close lets go of what the answer has found.
func (b *bounds) Close() {
	if b.matcher != nil {
		b.matcher.Release()
		b.m.guides.found.end(b.find)
	}
}

// endThought makes the end of reasoning due, if its tokens are used up.
func (b *bounds) endThought() {
	if b.thought != 0 || !b.parser.Thinking() || len(b.due) > 0 {
		return
	}
	if b.matcher != nil {
		after := b.afterThought()
		if after == nil {
			return
		}
		after.Release()
	}
	b.due = b.end
}

// afterThought returns a matcher of what follows the reasoning; nil if that cannot end here, within a character.
func (b *bounds) afterThought() *grammar.Matcher {
	after := b.matcher.Clone()
	for _, id := range b.end {
		if after.Accept(id) != nil {
			after.Release()
			return nil
		}
	}
	return after
}

// Mask also looks for the end of the answer: the device is busy meanwhile.
func (b *bounds) Mask(dst []uint32) {
	b.enter()
	if b.left <= b.look && len(b.due) == 0 {
		b.close()
	}
	switch {
	case len(b.due) > 0:
		dst[b.due[0]/32] |= 1 << (b.due[0] % 32)
	case b.matcher != nil:
		b.matcher.Mask(dst)
	default:
		for i := range dst {
			dst[i] = ^uint32(0)
		}
	}
	b.leave()
}

func (b *bounds) Forced() []int32 {
	b.enter()
	forced := b.due
	if len(b.due) == 0 && b.matcher != nil {
		forced = b.matcher.Forced()
	}
	b.leave()
	return forced
}

func (b *bounds) Accept(token int32) error {
	b.enter()
	err := b.accept(token)
	b.leave()
	return err
}

func (b *bounds) accept(token int32) error {
	forced := len(b.due) > 0 && b.due[0] == token
	switch {
	case forced:
		b.due = b.due[1:]
	case len(b.due) > 0: // the token was forced before they were due
		b.due, b.look = nil, b.most
	}
	if t := b.m.Tokenizer; !t.IsSpecial(token) || b.m.shown[token] {
		b.parser.Push(string(t.Bytes(token)))
	}
	if b.thought > 0 && !forced && b.parser.Thinking() {
		b.thought--
	}
	if b.left--; b.matcher != nil {
		if err := b.matcher.Accept(token); err != nil {
			return err
		}
	}
	b.endThought()
	return nil
}

// close looks for the end of the answer, and makes it due if the tokens left are just enough. The next part of an
// answer that could end here, such as another call, is taken to be as long as the shortest answer.
func (b *bounds) close() {
	if b.free && b.matcher.Complete() {
		b.look = b.left - 1
		return
	}
	least := 0
	if !b.free {
		least = b.form.least
	}
	if b.matcher.Complete() && b.left <= least+spareTokens && !b.parser.Thinking() {
		b.due, b.look = b.m.stops[:1], -1
		return
	}
	from, path := b.matcher, []int32(nil)
	if b.parser.Thinking() {
		if from, path = b.afterThought(), b.end; from == nil {
			b.look = b.left - 1
			return
		}
		defer from.Release()
	}
	rest, ok := from.Ending(mostEnd)
	path = slices.Concat(path, rest)
	switch spare := b.left - len(path); {
	case ok && (spare <= spareTokens || !b.free && len(path) <= b.near && spare <= least+spareTokens):
		b.due, b.look = path, b.left-len(path) // where the token that ends it is due
	case ok:
		b.look = b.left - max((spare-least-spareTokens)/4, 1) // another part may begin meanwhile
	default:
		b.look = b.left - 16
	}
}
