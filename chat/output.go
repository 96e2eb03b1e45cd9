package chat

import (
	"crypto/rand"
	"strings"
	"unicode/utf8"
)

// EventKind says what an Event adds to an answer.
type EventKind int

const (
	Content   EventKind = iota // text for the user
	Reasoning                  // thoughts before it
	Called                     // a call of a tool: its name and id
	Arguments                  // a piece of the last call's arguments, JSON text
)

// Event is a piece of an answer. The texts of events of one kind, one after the other, are the answer's.
type Event struct {
	Kind EventKind
	Text string // of Called, the tool's name
	ID   string // of Called
}

// Parser splits the text of a model's answer into reasoning, content and calls of tools, as it comes. How the text is
// cut into pieces changes nothing but the pieces of events: a Parser takes a byte only once the bytes so far say what
// it is.
//
// White space around reasoning and before calls belongs to neither. What looks like a call and is none is content, as
// the model wrote it. A call that ends early, at the length limit, has the arguments that were written.
type Parser struct {
	tools     *ToolFormat // nil: there are no calls
	reasoning *ReasoningFormat
	known     map[string]*paramTypes // by tool
	single    bool
	newID     func() string

	half   string      // the beginning of a character
	in     string      // what was pushed and not taken yet
	state  func() bool // takes what it can of in; false if it needs more
	ending bool        // nothing follows in
	out    []Event

	gap      string // white space that was not written yet
	said     bool   // content was written
	thought  bool   // reasoning was written
	reasoned bool   // there was reasoning
	calls    int    // that have begun
	called   bool   // a call came after the last content
	inside   bool   // the text is reasoning, or its marks
	done     bool   // nothing that follows counts

	raw     strings.Builder // of a call that has no name yet
	mark    string          // that began the calls at hand
	pending bool            // raw is being kept
	heading bool            // it is harmony's, of a header
	named   bool            // the call at hand was told
	muted   bool            // it is not to be told
	nested  int             // open lists around calls
	object  jsonObject
	value   jsonScan
	param   paramReader
}

// Tool is a function that a model may call.
type Tool struct {
	Name       string
	Parameters []byte // the JSON Schema of its arguments, an object; nil if it takes any
	Strict     bool   // calls must match the schema
}

// ParserOptions say what a Parser looks for.
type ParserOptions struct {
	Tools     *ToolFormat      // how calls are written; nil is not at all
	Reasoning *ReasoningFormat // how reasoning is marked; nil is not at all
	Known     []Tool           // the tools that may be called
	Prompt    string           // the rendered prompt, whose end may begin the reasoning
	Single    bool             // whatever follows the first call does not count
	NewID     func() string    // makes ids of calls where the model writes none; nil is as the format's templates want them
}

// NewParser returns a parser of one answer.
func NewParser(o ParserOptions) *Parser {
	p := &Parser{tools: o.Tools, reasoning: o.Reasoning, single: o.Single, newID: o.NewID, known: map[string]*paramTypes{}}
	for i := range o.Known {
		p.known[o.Known[i].Name] = readTypes(o.Known[i].Parameters)
	}
	if p.newID == nil {
		p.newID = p.tools.newID
	}
	p.state = p.leading
	if p.reasoning.channels() {
		p.state = p.header
		if i := strings.LastIndex(o.Prompt, harmonyStart); i >= 0 {
			p.Push(o.Prompt[i+len(harmonyStart):])
			p.raw.Reset()
		}
		return p
	}
	if p.reasoning.opened(o.Prompt) {
		p.inside, p.reasoned, p.state = true, true, p.think
	}
	return p
}

// newID returns an id that the format's templates take: nine letters and digits for Mistral's.
func (f *ToolFormat) newID() string {
	if f != nil && f.shortIDs {
		return strings.ToLower(rand.Text())[:9]
	}
	return "call_" + rand.Text()
}

// Push takes the next piece of the answer's text and returns what it adds. The events are valid until the next call.
func (p *Parser) Push(text string) []Event {
	p.out = p.out[:0]
	if !p.done {
		text = p.half + text
		whole := wholeRunes(text)
		p.in, p.half = p.in+text[:whole], text[whole:]
		p.run()
	}
	return p.out
}

// Close takes the end of the answer.
func (p *Parser) Close() []Event {
	p.out = p.out[:0]
	if p.done {
		return p.out
	}
	p.in, p.ending = p.in+p.half, true
	p.run()
	p.keep(len(p.in))
	if p.heading && strings.Contains(p.raw.String(), harmonyChannel) { // the output was cut off there
		p.raw.Reset()
	}
	p.abandon()
	if !p.called && (p.said || !p.reasoned) && !p.inside {
		p.emit(Content, p.gap)
	}
	p.gap, p.done = "", true
	return p.out
}

// Done reports whether nothing that follows counts: the only call that may be is complete.
func (p *Parser) Done() bool { return p.done }

// Thinking reports whether the text so far ends inside of reasoning or its marks.
func (p *Parser) Thinking() bool { return p.inside }

// wholeRunes returns how many bytes of text come before a character at its end that is not complete.
func wholeRunes(text string) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRuneInString(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

func (p *Parser) run() {
	for !p.done && p.state() {
	}
	if p.done {
		p.in = ""
	}
}

func (p *Parser) emit(kind EventKind, text string) {
	if text == "" {
		return
	}
	if n := len(p.out); n > 0 && p.out[n-1].Kind == kind && kind != Called {
		p.out[n-1].Text += text
		return
	}
	p.out = append(p.out, Event{Kind: kind, Text: text})
}

// take removes n bytes from the input and returns them.
func (p *Parser) take(n int) string {
	s := p.in[:n]
	p.in = p.in[n:]
	return s
}

// space takes white space.
func (p *Parser) space() string { return p.take(len(p.in) - len(strings.TrimLeft(p.in, whiteSpace))) }

const whiteSpace = " \t\r\n"

// until takes the text before the first of some marks, and the mark; of marks that begin in one place, the longest.
// Without a mark it takes all that cannot be a mark's beginning, and found is "".
func (p *Parser) until(marks ...string) (text, found string) {
	var firsts [16]byte
	n := 0
	for _, m := range marks {
		if m != "" && n < len(firsts) {
			firsts[n] = m[0]
			n++
		}
	}
	for i := 0; i < len(p.in); i++ {
		next := strings.IndexAny(p.in[i:], string(firsts[:n]))
		if next < 0 {
			break
		}
		i += next
		mark, wait := p.markAt(i, marks)
		if wait {
			return p.take(i), ""
		}
		if mark != "" {
			text = p.take(i)
			return text, p.take(len(mark))
		}
	}
	return p.take(len(p.in)), ""
}

// markAt returns the longest mark at byte i of the input, "" if there is none, and whether more input may make one.
func (p *Parser) markAt(i int, marks []string) (found string, wait bool) {
	rest := p.in[i:]
	for _, m := range marks {
		switch {
		case m == "" || m[0] != rest[0]:
		case len(m) > len(rest):
			wait = wait || !p.ending && strings.HasPrefix(m, rest)
		case len(m) > len(found) && strings.HasPrefix(rest, m):
			found = m
		}
	}
	return found, wait
}

// word takes the text before the first of some marks, into b, and the mark, "" if it has not come yet. It returns false
// if b has become longer than a name may be.
func (p *Parser) word(b *strings.Builder, marks ...string) (mark string, ok bool) {
	for p.in != "" {
		mark, wait := p.markAt(0, marks)
		if wait || mark != "" {
			return p.keep(len(mark)), true
		}
		if b.Len() == maxName {
			return "", false
		}
		b.WriteString(p.keep(1))
	}
	return "", true
}

// leading is the state before the first content.
func (p *Parser) leading() bool {
	p.gap += p.space()
	if p.in == "" {
		return false
	}
	var marks []string
	if !p.reasoned && p.calls == 0 {
		marks = p.reasoning.opens()
	}
	if p.reasoning != nil && p.reasoning.close != "" { // of reasoning that was left out
		marks = append(marks, p.reasoning.close)
	}
	mark, wait := p.markAt(0, append(marks, p.contentMarks()...))
	switch {
	case wait:
		return false
	case mark != "" && p.reasoning.begins(mark):
		p.take(len(mark))
		p.gap, p.inside, p.reasoned, p.state = "", true, true, p.think
	case mark != "":
		p.note(p.take(len(mark)))
	case p.tools.bareAt(p.in[0]):
		p.enter("")
	default:
		p.state = p.content
	}
	return true
}

// contentMarks are what ends content or is no part of it.
func (p *Parser) contentMarks() []string {
	marks := p.tools.marks()
	if p.reasoning != nil {
		marks = append(marks, p.reasoning.ignored...)
	}
	return marks
}

// note takes a mark of content. One that closes calls is content where there are none.
func (p *Parser) note(mark string) {
	switch {
	case p.tools.begins(mark):
		p.enter(mark)
	case p.tools.ends(mark) && !p.called:
		p.say(mark)
		p.state = p.content
	default:
		p.gap = ""
	}
}

// content is the state of text for the user.
func (p *Parser) content() bool {
	text, mark := p.until(p.contentMarks()...)
	p.say(text)
	if mark != "" {
		p.note(mark)
	}
	return mark != ""
}

// say writes content, but keeps white space at its end until something follows.
func (p *Parser) say(text string) {
	body := strings.TrimRight(text, whiteSpace)
	if body == "" {
		p.gap += text
		return
	}
	end := text[len(body):]
	if !p.said && (p.reasoned || p.calls > 0) {
		p.gap, body = "", strings.TrimLeft(body, whiteSpace)
	}
	p.emit(Content, p.gap+body)
	p.gap, p.said, p.called = end, true, false
}

// think is the state of reasoning.
func (p *Parser) think() bool {
	text, mark := p.until(append([]string{p.reasoning.close}, p.tools.interrupts()...)...)
	if !p.thought {
		text = strings.TrimLeft(text, whiteSpace)
	}
	if body := strings.TrimRight(text, whiteSpace); body != "" {
		p.emit(Reasoning, p.gap+body)
		p.gap, p.thought = text[len(body):], true
	} else {
		p.gap += text
	}
	if mark == "" {
		return false
	}
	p.gap, p.inside, p.state = "", false, p.leading
	if mark != p.reasoning.close {
		p.enter(mark)
	}
	return true
}

// enter begins a region of calls, after its mark.
func (p *Parser) enter(mark string) {
	p.raw.Reset()
	p.raw.WriteString(mark)
	p.mark, p.named, p.pending, p.nested = mark, false, true, 0
	p.state = p.region()
}

// begin tells of a call. It returns false if that is no name, or of no tool where only the name says that it is a call.
func (p *Parser) begin(id, name string) bool {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return false
	}
	if _, ok := p.known[name]; p.mark == "" && !ok {
		return false
	}
	p.named, p.called = true, true
	p.raw.Reset()
	if p.muted = p.tools.ignores(name); p.muted {
		return true
	}
	p.calls++
	if id == "" {
		id = p.newID()
	}
	p.out = append(p.out, Event{Kind: Called, Text: name, ID: id})
	return true
}

// argue writes a piece of the arguments.
func (p *Parser) argue(text string) {
	if !p.muted {
		p.emit(Arguments, text)
	}
}

// finish ends the call at hand.
func (p *Parser) finish() {
	p.named, p.pending = false, false
	if !p.muted {
		p.done = p.single
	}
}

// keep takes n bytes of the input that belong to a call. While it has no name they may become content.
func (p *Parser) keep(n int) string {
	s := p.take(n)
	if p.pending && !p.named {
		p.raw.WriteString(s)
	}
	return s
}

// abandon gives up on a call that has no name: what was taken of it is content.
func (p *Parser) abandon() {
	raw := p.raw.String()
	p.raw.Reset()
	p.pending = false
	if raw != "" {
		p.say(raw)
	}
}

// fail leaves a region of calls whose text is of no known form.
func (p *Parser) fail() bool {
	p.abandon()
	p.state = p.content
	return true
}
