package text

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
)

// bounded returns constraints that follow a grammar, nil if the text is free, and bound the tokens of reasoning. room
// is the most tokens of the answer.
func (m *Model) bounded(a *Answer, prompt string, g *compiled, room int) (func() engine.Constraint, error) {
	if a.Thought != nil && m.reasoning == nil {
		return nil, fault.New(FieldThinking, "is %d; %s does not reason", *a.Thought, m.Name)
	}
	free := a.Form == nil && !a.Choice.guided()
	return func() engine.Constraint {
		b := &bounds{m: m, left: room, thought: -1, look: -1, most: -1}
		b.parser = chat.NewParser(chat.ParserOptions{Reasoning: m.reasoning, Prompt: prompt})
		if g != nil {
			b.matcher, b.least, b.free, b.ends = g.Start(), g.least, free, endings{m: m}
			b.most = min(room-1, mostLook)
			b.look = b.most
		}
		if a.Thought != nil {
			b.thought = *a.Thought
		}
		b.endThought()
		return b
	}, nil
}

// bounds is the constraint of one answer: its grammar, the end of reasoning that takes too many tokens, and the end of
// an answer whose tokens are nearly used up. Such an answer is completed in the shortest way that is found, so that
// it is of its form, rather than cut off.
type bounds struct {
	m       *Model
	matcher *grammar.Matcher // nil: the text is free
	free    bool             // there is text around calls, which may end anywhere
	least   func() int       // tokens of the shortest whole answer that is found
	ends    endings
	parser  *chat.Parser // knows where reasoning begins and ends
	left    int          // tokens of the answer
	thought int          // tokens of reasoning; -1 is any number
	look    int          // when so many are left, it is time to see how many the end takes; -1 is never
	most    int          // what look begins with
	due     []int32      // tokens that must come next
}

const (
	mostLook = 256 // tokens before the last one where the end is first looked for
	mostEnd  = 192 // tokens that an end may take

	spareTokens = 8 // by which an end may become longer with one token
	nearEnd     = 4 // tokens of an end that one token may pass, to begin another part
)

// endThought makes the end of reasoning due, if its tokens are used up.
func (b *bounds) endThought() {
	if b.thought == 0 && b.parser.Thinking() && len(b.due) == 0 {
		b.due = b.m.end
	}
}

// Mask also looks for the end of the answer: the device is busy meanwhile.
func (b *bounds) Mask(dst []uint32) {
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
}

func (b *bounds) Forced() []int32 {
	if len(b.due) > 0 || b.matcher == nil {
		return b.due
	}
	return b.matcher.Forced()
}

func (b *bounds) Accept(token int32) error {
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
		least = b.least()
	}
	if b.matcher.Complete() && b.left <= least+spareTokens && !b.parser.Thinking() {
		b.due, b.look = b.m.stops[:1], -1
		return
	}
	from, path := b.matcher, []int32(nil)
	if b.parser.Thinking() {
		from, path = from.Clone(), b.m.end
		for _, id := range path {
			if from.Accept(id) != nil {
				b.look = -1
				return
			}
		}
	}
	rest, ok := b.ends.find(from)
	path = slices.Concat(path, rest)
	switch spare := b.left - len(path); {
	case ok && (spare <= spareTokens || !b.free && len(path) <= nearEnd && spare <= least+spareTokens):
		b.due, b.look = path, b.left-len(path) // where the token that ends it is due
	case ok:
		b.look = b.left - max((spare-least-spareTokens)/4, 1) // another part may begin meanwhile
	default:
		b.look = b.left - 16
	}
}

// endings finds how an answer may end, and remembers it: most tokens leave an answer where it was before, such as
// within a text.
type endings struct {
	m     *Model
	known map[grammar.Position]ending
	last  grammar.Position // that was asked for
}

// ending is the tokens that complete an answer, without the one that ends it; none may have been found.
type ending struct {
	path []int32
	ok   bool
}

const mostEndings = 512 // that are remembered

// find returns tokens that complete an answer, without the one that ends it. Its greedy search, for brackets and
// quotation marks first, finds an end of JSON soon, and may miss that of another form.
func (e *endings) find(from *grammar.Matcher) (path []int32, ok bool) {
	start := from.Position()
	if !start.Beside(e.last) {
		e.known = nil
	}
	e.last = start
	if end, known := e.known[start]; known {
		return end.path, end.ok
	}
	var passed []grammar.Position
	var at []int // tokens before each
	sim, mask := from.Clone(), make([]uint32, compute.MaskWords(e.m.Spec.Vocab))
	for !sim.Complete() {
		p := sim.Position()
		if end := e.known[p]; end.ok {
			path = append(path, end.path...)
			break
		}
		passed, at = append(passed, p), append(at, len(path))
		next := e.m.toEnd(sim, mask)
		if path = append(path, next...); next == nil || len(path) > mostEnd {
			e.keep(start, ending{})
			return nil, false
		}
	}
	for i, p := range passed {
		e.keep(p, ending{path[at[i]:], true})
	}
	return path, true
}

func (e *endings) keep(p grammar.Position, end ending) {
	if e.known == nil || len(e.known) >= mostEndings {
		e.known = map[grammar.Position]ending{}
	}
	e.known[p] = end
}

// toEnd appends tokens to sim that come nearer to its end, and returns them; nil if there are none.
func (m *Model) toEnd(sim *grammar.Matcher, mask []uint32) []int32 {
	next := sim.Forced()
	if len(next) == 0 {
		clear(mask)
		sim.Mask(mask)
		if id := m.think; id >= 0 {
			mask[id/32] &^= 1 << (id % 32)
		}
		next = []int32{m.complete(sim, mask, m.guides.closers.next(mask))}
	}
	for _, id := range next {
		if id < 0 || sim.Accept(id) != nil {
			return nil
		}
	}
	return next
}

// complete returns a token that begins the text of another one and completes the output, or that one.
func (m *Model) complete(sim *grammar.Matcher, mask []uint32, id int32) int32 {
	if id < 0 {
		return id
	}
	text := m.Tokenizer.Bytes(id)
	for n := 1; n < len(text); n++ {
		other, ok := m.Tokenizer.ID(string(text[:n]))
		if !ok || mask[other/32]>>(other%32)&1 == 0 {
			continue
		}
		if try := sim.Clone(); try.Accept(other) == nil && try.Complete() {
			return other
		}
	}
	return id
}

// closers are the tokens that JSON may end with.
type closers struct {
	comma, quote int32   // -1 is none
	length       []int   // of all tokens, bytes
	text         []int32 // those that end a text, the longest first
	other        []int32 // brackets and quotation marks, the longest first, then what is between values, the shortest first
}

func newClosers(tokens []grammar.Token) closers {
	c := closers{comma: -1, quote: -1, length: make([]int, len(tokens))}
	rank := func(id int32) (n int) {
		text := string(tokens[id].Bytes)
		if n = len(text); strings.Trim(text, `"]}`) == "" {
			return -n
		}
		return n
	}
	for i, t := range tokens {
		id, text := int32(i), string(t.Bytes)
		c.length[id] = len(text)
		if t.Special || text == "" || strings.Trim(text, `"[]{},: `) != "" {
			continue
		}
		if text[0] == '"' && strings.Trim(text[1:], "]}") == "" {
			c.text = append(c.text, id)
		}
		if text[0] != '"' || len(text) == 1 || text == `""` {
			c.other = append(c.other, id)
		}
		switch text {
		case ",":
			c.comma = id
		case `"`:
			c.quote = id
		}
	}
	for _, list := range [][]int32{c.text, c.other} {
		slices.SortFunc(list, func(a, b int32) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	}
	return c
}

// next returns the best token of a mask to end with, -1 if there is none. Where a comma and a quotation mark may come,
// it is in a text.
func (c *closers) next(mask []uint32) int32 {
	may := func(id int32) bool { return id >= 0 && mask[id/32]>>(id%32)&1 != 0 }
	if may(c.comma) && may(c.quote) {
		for _, id := range c.text {
			if may(id) {
				return id
			}
		}
	}
	for _, id := range c.other {
		if may(id) {
			return id
		}
	}
	best, most := int32(-1), -1 // nearest to how a tokenizer spells what must come
	for i, w := range mask {
		for ; w != 0; w &= w - 1 {
			if id := 32*i + bits.TrailingZeros32(w); id < len(c.length) && c.length[id] > most {
				best, most = int32(id), c.length[id]
			}
		}
	}
	return best
}
