package text

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/grammar"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// guides are the compiled grammars of a model, the last ones used.
type guides struct {
	once   sync.Once
	vocab  *grammar.Vocab
	limits GuideLimits

	found finds // of the loop alone

	mu     sync.Mutex
	recent []*compiled      // [mostGuides] the newest last
	bytes  int64            // of these, and of others whose answers are under way
	held   int64            // of those whose answers are under way
	of     map[string]int64 // the same, by who had them compiled
}

type compiled struct {
	*grammar.Grammar
	key   string
	who   string // had it compiled, as guard.As says
	bytes int64  // with what the first mask needs
	users int    // requests that hold it; guides.mu
	kept  bool   // in guides.recent; guides.mu
	least int    // tokens of the shortest output that is found, and the one that ends it

	find  *find                           // of the loop alone: what the next answer finds ready; nil is nothing
	large atomic.Bool                     // that is nothing, or so much that the next request makes another
	fresh atomic.Pointer[grammar.Matcher] // a matcher that has accepted nothing, for that
}

// warm returns a matcher that has accepted nothing, and finds ready what may come first. It may take as long as a mask
// may, so the loop does not call it.
func (c *compiled) warm(vocab int) (*grammar.Matcher, error) {
	o := c.Start()
	first := o.Clone()
	defer first.Release()
	first.Mask(make([]uint32, (vocab+31)/32))
	first.Forced()
	return o, first.Err()
}

// Bounds of compiled grammars.
const (
	mostGuides = 64
	guideBytes = 64 << 20 // of all that are kept or held
	guideWork  = 1 << 20  // bytes of Model.work that compiling one counts as: few do at once, in turns
)

// ErrGuides refuses a request since the grammars of others take all the memory there is for them.
var ErrGuides = errors.New("text: the grammars of other requests take all the memory there is for them")

// constraint returns what makes the limits on an answer's tokens, nil if there are none.
func (m *Model) constraint(ctx context.Context, r *Request, prompt string, room int) (func() engine.Constraint, error) {
	spec := m.spec(&r.Answer, prompt, m.thinks(ctx, r))
	if spec == nil && r.Answer.Thought == nil {
		return r.Constraint, nil
	}
	var g *compiled
	if spec != nil {
		switch {
		case r.IgnoreEOS:
			return nil, fault.New(FieldIgnoreEOS, "cannot be, since the answer must be of a form and ends with it")
		case r.MinTokens > 0:
			return nil, fault.New(engine.FieldMinTokens, "is %d; an answer of a form ends where that does", r.MinTokens)
		}
		var err error
		if g, err = m.compile(ctx, r, *spec); err != nil {
			return nil, err
		}
		if err = m.guides.hold(ctx, g); err != nil {
			return nil, err
		}
	}
	if r.MaxTokens > 0 {
		room = r.MaxTokens
	}
	return m.bounded(&r.Answer, prompt, g, room)
}

// thinks reports whether a model may reason before it answers a chat, though the prompt has not begun that: if to ask
// it for reasoning changes nothing in a prompt. It tries a short one, since what templates change is its end.
func (m *Model) thinks(ctx context.Context, r *Request) bool {
	a := &r.Answer
	if !a.Parse || r.Chat == nil || m.reasoning == nil || a.Form == nil && !a.Choice.guided() && !a.strict() {
		return false
	}
	in := chat.Input{AddGenerationPrompt: true, Messages: []chat.Message{{Role: "user", Content: "?"}}, Extra: r.Chat.Extra}
	without, err := m.render(ctx, r, &in)
	if err != nil {
		return false
	}
	in.Extra = chat.NewDict()
	if r.Chat.Extra != nil {
		for _, key := range r.Chat.Extra.Keys() {
			v, _ := r.Chat.Extra.Get(key)
			in.Extra.Set(key, v)
		}
	}
	in.Extra.Set("enable_thinking", true)
	in.Extra.Set("thinking", true)
	with, err := m.render(ctx, r, &in)
	return err == nil && with == without
}

// compile returns the grammar of a spec. If there is none, the error names the schema that is at fault. Requests share
// grammars like cached prefixes: only those of one salt do, since a grammar that is there takes less time.
func (m *Model) compile(ctx context.Context, r *Request, spec grammar.Spec) (*compiled, error) {
	m.guides.once.Do(m.openGuides)
	a := &r.Answer
	key, err := json.Marshal(struct {
		Salt string
		Spec grammar.Spec
	}{r.Salt, spec})
	if err != nil {
		return nil, err
	}
	c := m.guides.find(string(key))
	if c != nil && !c.large.Load() {
		return c, nil
	}
	release, err := m.work.Acquire(ctx, guideWork+costPerByte*int64(len(key)))
	if err != nil {
		return nil, err
	}
	defer release()
	if c != nil {
		o, err := c.warm(m.Spec.Vocab)
		c.fresh.Store(o)
		return c, err
	}
	g, err := grammar.Compile(spec, m.guides.vocab, m.guides.limits.Grammar)
	if err == nil {
		c := &compiled{Grammar: g, key: string(key), who: guard.Who(ctx), least: mostEnd}
		if first, ok := g.Start().Ending(mostEnd); ok {
			c.least = len(first) + 1
		}
		o, err := c.warm(m.Spec.Vocab)
		if err != nil {
			return nil, &fault.Error{Field: a.formField(), Problem: "needs more work for its first token than the limits allow"}
		}
		c.bytes = g.Bytes() + o.Bytes() + int64(len(key))
		c.fresh.Store(o)
		m.guides.keep(c)
		return c, nil
	}
	if a.Form != nil {
		if _, err := grammar.Compile(a.Form.Spec, m.guides.vocab, m.guides.limits.Grammar); err != nil {
			return nil, located(a.Form.Field, err)
		}
	}
	for i := range a.Tools {
		t := &a.Tools[i]
		if _, err := grammar.Compile(grammar.Spec{Schema: t.schema()}, m.guides.vocab, m.guides.limits.Grammar); err != nil {
			return nil, located(t.Field, err)
		}
	}
	return nil, located(FieldTools, err)
}

// formField is the field of a request that says what its answer must be.
func (a *Answer) formField() fault.Field {
	if a.Form != nil {
		return a.Form.Field
	}
	return FieldTools
}

// located returns the fault of a grammar's part that a field of a request gave.
func located(field fault.Field, err error) error {
	bad := new(grammar.Error)
	if !errors.As(err, &bad) {
		return err
	}
	if bad.Path != "" {
		field += fault.Field("." + bad.Path)
	}
	return &fault.Error{Field: field, Problem: bad.Problem}
}

func (g *guides) find(key string) *compiled {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.IndexFunc(g.recent, func(c *compiled) bool { return c.key == key })
	if i < 0 {
		return nil
	}
	c := g.recent[i]
	g.recent = append(slices.Delete(g.recent, i, i+1), c)
	return c
}

// keep keeps a grammar for requests to come, in place of others.
func (g *guides) keep(c *compiled) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.recent, c.kept = append(g.recent, c), true
	g.bytes += c.bytes
	for len(g.recent) > mostGuides {
		g.drop(g.victim(func(*compiled) int64 { return 1 }))
	}
	g.trim()
}

// trim drops grammars that nobody uses until the others take no more than guideBytes, but for the newest.
func (g *guides) trim() {
	for g.bytes > guideBytes {
		i := g.victim(func(c *compiled) int64 {
			if c.users > 0 {
				return 0 // dropping it would free nothing
			}
			return c.bytes
		})
		if i < 0 {
			return
		}
		g.drop(i)
	}
}

// victim returns the grammar that is dropped next, never the newest one: of those for which cost is more than 0, the
// one not asked for longest of whom these cost most. It is -1 if there is none.
func (g *guides) victim(cost func(*compiled) int64) int {
	sums := map[string]int64{}
	for _, c := range g.recent {
		sums[c.who] += cost(c)
	}
	most, at := int64(0), -1
	for i, c := range g.recent[:max(0, len(g.recent)-1)] {
		if cost(c) > 0 && sums[c.who] > most {
			most, at = sums[c.who], i
		}
	}
	return at
}

func (g *guides) drop(i int) {
	c := g.recent[i]
	c.kept = false
	g.free(c)
	g.recent = slices.Delete(g.recent, i, i+1)
}

// free no longer counts a grammar that no request uses and that is not kept.
func (g *guides) free(c *compiled) {
	if c.users == 0 && !c.kept {
		g.bytes -= c.bytes
	}
}

// hold counts a grammar as long as ctx lasts, which is that of a request, unless those that are held take too much. A
// quarter of what there is for them is for those who hold no more than that.
func (g *guides) hold(ctx context.Context, c *compiled) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.users++; c.users == 1 {
		if !c.kept {
			g.bytes += c.bytes // it was kept when it was found
		}
		g.held += c.bytes
		if g.of == nil {
			g.of = map[string]int64{}
		}
		g.of[c.who] += c.bytes
	}
	g.trim()
	most := int64(guideBytes)
	if g.of[c.who] > guideBytes/4 {
		most -= guideBytes / 4
	}
	if g.held > most && g.held > c.bytes {
		g.leave(c)
		return ErrGuides
	}
	guard.OnDone(ctx, func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.leave(c)
		return nil
	}, func(error) {})
	return nil
}

func (g *guides) leave(c *compiled) {
	if c.users--; c.users == 0 {
		g.held -= c.bytes
		if g.of[c.who] -= c.bytes; g.of[c.who] == 0 {
			delete(g.of, c.who)
		}
	}
	g.free(c)
}

// openGuides makes the vocabulary that grammars take.
func (m *Model) openGuides() {
	tokens := make([]grammar.Token, m.Spec.Vocab)
	for id := range min(m.Spec.Vocab, m.Tokenizer.VocabSize()) {
		tokens[id] = grammar.Token{Bytes: m.Tokenizer.Bytes(int32(id)), Special: m.Tokenizer.IsSpecial(int32(id))}
	}
	m.guides.vocab = grammar.NewVocab(tokens, m.stops, func(text string) []int32 {
		return m.Tokenizer.Encode(text, tokenizer.EncodeOptions{})
	})
}

// schema returns the schema of a tool's arguments.
func (t *Tool) schema() []byte {
	if len(t.Parameters) == 0 {
		return []byte(`{"type": "object"}`)
	}
	return t.Parameters
}

// spec returns what the whole output must be, reasoning included, nil if it may be anything.
func (m *Model) spec(a *Answer, prompt string, thinks bool) *grammar.Spec {
	calls, final := m.calls(a), ""
	if a.Parse {
		final = m.reasoning.Final(prompt)
	}
	var inner grammar.Spec
	switch {
	case a.Choice.guided():
		inner = grammar.Spec{Tags: calls}
	case a.Form != nil && len(a.Tools) > 0:
		calls.NoText, calls.AtLeast = true, 1
		inner = one(grammar.Tag{Begin: final, Content: a.Form.Spec}, grammar.Tag{Content: grammar.Spec{Tags: calls}})
	case a.Form != nil && final != "":
		inner = one(grammar.Tag{Begin: final, Content: a.Form.Spec})
	case a.Form != nil:
		inner = a.Form.Spec
	case !a.strict():
		return nil
	case final != "":
		calls.NoText, calls.AtLeast = true, 1
		before, end := m.reasoning.Preamble()
		inner = one(grammar.Tag{Begin: final, Content: grammar.Spec{Regex: anyText}},
			grammar.Tag{Begin: before, Content: upTo(end, grammar.Spec{Tags: calls})}, grammar.Tag{Content: grammar.Spec{Tags: calls}})
	default:
		calls.Triggers = m.tools.Triggers()
		inner = grammar.Spec{Tags: calls}
	}
	return m.afterReasoning(inner, prompt, thinks)
}

const anyText = `[\s\S]*`

// one returns a spec of exactly one of some tags.
func one(tags ...grammar.Tag) grammar.Spec {
	return grammar.Spec{Tags: &grammar.Tags{Tags: tags, AtLeast: 1, AtMost: 1, NoText: true}}
}

// upTo returns a spec of free text up to a mark, and of what follows it.
func upTo(mark string, then grammar.Spec) grammar.Spec {
	return grammar.Spec{Tags: &grammar.Tags{Triggers: []string{strings.TrimSpace(mark)}, AtLeast: 1, AtMost: 1, NoTail: true,
		Tags: []grammar.Tag{{Begin: mark, Content: then}}}}
}

// calls describes the calls of an answer, nil if there are no tools.
func (m *Model) calls(a *Answer) *grammar.Tags {
	if len(a.Tools) == 0 {
		return nil
	}
	g := m.tools.Guide()
	tags := &grammar.Tags{}
	for i := range a.Tools {
		t := &a.Tools[i]
		if a.Choice.Name != "" && t.Name != a.Choice.Name {
			continue
		}
		content := grammar.Spec{JSON: true, Compact: true}
		if t.Strict || a.Choice.guided() {
			content = grammar.Spec{Schema: t.schema(), Compact: true, Ordered: true}
		}
		before := strings.ReplaceAll(g.Before, chat.GuideName, t.Name)
		tags.Tags = append(tags.Tags, grammar.Tag{Begin: before, Content: content, End: g.After})
	}
	if a.Choice.guided() || g.Open != "" {
		tags.AtLeast, tags.NoText, tags.Between = 1, true, g.Between
	}
	if a.single() {
		tags.AtMost = 1
	}
	if g.Open == "" {
		return tags
	}
	outer := &grammar.Tags{Tags: []grammar.Tag{{Begin: g.Open, Content: grammar.Spec{Tags: tags}, End: g.Close}}}
	if a.Choice.guided() {
		outer.AtLeast, outer.AtMost, outer.NoText = 1, 1, true
	}
	return outer
}

func (a *Answer) single() bool { return a.Single || a.Choice.Name != "" }

// afterReasoning returns a spec that comes after the reasoning, if the prompt has begun that or the model thinks.
func (m *Model) afterReasoning(inner grammar.Spec, prompt string, thinks bool) *grammar.Spec {
	open, close := m.reasoning.Around(prompt)
	if !thinks && open != "" || close == "" {
		return &inner
	}
	rest := upTo(close, inner)
	if open == "" {
		return &rest
	}
	both := one(grammar.Tag{Begin: open, Content: rest}, grammar.Tag{Content: inner})
	return &both
}
