package grammar

import (
	"fmt"
	"unsafe"
)

// Spec is what to compile. Exactly one of the fields up to Tags is set.
type Spec struct {
	Schema  []byte   // a JSON Schema, draft 7 or 2020-12 (docs/grammar.md has the table of keywords)
	JSON    bool     // any JSON object
	Regex   string   // the whole output matches it
	Choice  []string // the output is one of them
	Grammar string   // llama.cpp's GBNF, or EBNF as xgrammar writes it; the output is what its rule root matches
	Tags    *Tags    // free text with constrained parts

	// Compact allows no white space between the tokens of JSON, but one space after a comma and a colon. Without it white
	// space is free, as JSON has it, and a weak model may write it for ever.
	Compact bool
	// Ordered wants the properties that a schema lists in its order, before others. Without it they come in any order,
	// as JSON Schema has it.
	Ordered bool
}

// Tags describes text that is free but for tags. A tag begins where the output spells a trigger.
type Tags struct {
	Triggers []string // each is a prefix of the Begin of a tag; none is the Begins themselves
	Tags     []Tag
	AtLeast  int    // tags that must be there
	AtMost   int    // tags that may be there; 0 is any number
	NoText   bool   // there is no text around the tags
	Between  string // a text that is between each two of them, with NoText
	NoTail   bool   // there is no text after the last tag
}

// Tag is a constrained part of the output: Begin, what Content says, End. Names of special tokens in Begin and End
// stand for these tokens.
type Tag struct {
	Begin   string
	Content Spec
	End     string
}

// Limits bounds what a grammar may cost. The zero value is DefaultLimits.
type Limits struct {
	Bytes   int // of a schema, regular expression or grammar
	Compile int // work of compiling, as Work
	Depth   int // of nesting in a schema, a regular expression or a grammar
	States  int // expressions and states that an output may have under way
	Work    int // of one mask or token, in derivatives: about 30 ns each
}

// DefaultLimits are the limits of a server open to strangers.
var DefaultLimits = Limits{Bytes: 1 << 20, Compile: 1 << 21, Depth: 256, States: 1 << 18, Work: 1 << 21}

// Error says what of a spec cannot be used.
type Error struct {
	Path    string // in the spec, as in "properties.size.pattern"; "" is the spec itself
	Problem string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "grammar: " + e.Problem
	}
	return fmt.Sprintf("grammar: %s: %s", e.Path, e.Problem)
}

// Grammar is a compiled spec for one vocabulary. It is immutable and safe for concurrent use.
type Grammar struct {
	vocab  *Vocab
	limits Limits
	arena  *arena
	root   id
}

// Bytes returns about how much memory the grammar takes.
func (g *Grammar) Bytes() int64 { return g.arena.memory() }

// memory returns about how much memory an arena takes, what others share with it included.
func (a *arena) memory() int64 {
	const each = int64(unsafe.Sizeof(expr{})) + 8 // with its row and its life
	return each*int64(cap(a.exprs)) + 4*int64(cap(a.lists)+cap(a.table)) + int64(unsafe.Sizeof(row{}))*int64(len(a.next)) +
		int64(unsafe.Sizeof(factor{}))*int64(cap(a.factors)) + 2*int64(unsafe.Sizeof(byteSet{}))*int64(len(a.sets))
}

// Compile makes a grammar of a spec. An error is an *Error.
func Compile(spec Spec, v *Vocab, l Limits) (*Grammar, error) {
	if l == (Limits{}) {
		l = DefaultLimits
	}
	a := v.arena.clone(l.Compile)
	p := v.common
	x, err := compileSpec(a, &p, &spec, v, l)
	if err != nil {
		return nil, err
	}
	if err := a.check(x); err != nil {
		return nil, err
	}
	return &Grammar{vocab: v, limits: l, arena: a, root: x}, nil
}

func compileSpec(a *arena, p *prelude, spec *Spec, v *Vocab, l Limits) (id, error) {
	set := 0
	for _, is := range []bool{spec.Schema != nil, spec.JSON, spec.Regex != "", spec.Choice != nil, spec.Grammar != "", spec.Tags != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return none, &Error{Problem: fmt.Sprintf("has %d kinds of constraints, want 1", set)}
	}
	if n := len(spec.Schema) + len(spec.Regex) + len(spec.Grammar); n > l.Bytes {
		return none, &Error{Problem: fmt.Sprintf("has %d bytes; want at most %d", n, l.Bytes)}
	}
	switch {
	case spec.Schema != nil:
		return compileSchema(a, p, spec, v, l)
	case spec.JSON && spec.Compact:
		return p.object[1], nil
	case spec.JSON:
		return p.object[0], nil
	case spec.Regex != "":
		x, err := parsePattern(spec.Regex, dialect{runeSet{{'\n', '\n'}}, l.Depth})
		if err == nil {
			var y id
			if y, err = (writer{a, a.runes}).whole(x); err == nil && x.risky(false) {
				err = a.try(v, y)
			}
			if err == nil {
				return y, nil
			}
		}
		return none, &Error{Problem: fmt.Sprintf("the regular expression %q %v", short100(spec.Regex), err)}
	case spec.Grammar != "":
		return compileGrammar(a, v, spec.Grammar, l)
	case spec.Tags != nil:
		return compileTags(a, p, spec.Tags, v, l)
	}
	var parts []id
	for _, text := range spec.Choice {
		parts = append(parts, a.literal(text))
	}
	return a.alt(parts...), nil
}
