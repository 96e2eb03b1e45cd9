package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode"
)

// errUnsupported marks a construct that the automaton of regex_dfa.go cannot express.
var errUnsupported = errors.New("outside the regular subset")

// node is one node of a parsed pattern.
type node struct {
	op       nodeOp
	set      charset // opSet, opLook
	atEnd    bool    // opLook: whether the end of the text satisfies it
	sub      []*node
	min, max int // opRepeat; max < 0 is unbounded
	lazy     bool
}

type nodeOp uint8

const (
	opSet    nodeOp = iota // one rune of set
	opLook                 // the next rune lies in set, or the text ends and atEnd
	opConcat               // sub in order
	opAlt                  // the first of sub that leads to a match
	opRepeat               // sub[0], min to max times
)

// regexParser reads Oniguruma's syntax as tokenizer files use it: alternation, groups, classes with nesting and &&,
// \p{…}, greedy, lazy and (for single runes) possessive repetition, (?i), and lookahead at one rune.
type regexParser struct {
	in    []rune
	pos   int
	fold  bool
	depth int
}

func parseRegex(pattern string) (*node, error) {
	p := &regexParser{in: []rune(pattern)}
	n, err := p.alternation()
	if err == nil && p.pos < len(p.in) {
		err = fmt.Errorf("unexpected %q at rune %d", p.in[p.pos], p.pos)
	}
	return n, err
}

func (p *regexParser) more() bool { return p.pos < len(p.in) }

func (p *regexParser) accept(s string) bool {
	r := []rune(s)
	if len(p.in)-p.pos < len(r) || !slices.Equal(p.in[p.pos:p.pos+len(r)], r) {
		return false
	}
	p.pos += len(r)
	return true
}

func (p *regexParser) alternation() (*node, error) {
	if p.depth++; p.depth > 100 {
		return nil, errors.New("nested deeper than 100 groups")
	}
	defer func() { p.depth-- }()
	alt := &node{op: opAlt}
	for {
		c, err := p.concat()
		if err != nil {
			return nil, err
		}
		if alt.sub = append(alt.sub, c); !p.accept("|") {
			break
		}
	}
	if len(alt.sub) == 1 {
		return alt.sub[0], nil
	}
	return alt, nil
}

func (p *regexParser) concat() (*node, error) {
	c := &node{op: opConcat}
	for p.more() && p.in[p.pos] != '|' && p.in[p.pos] != ')' {
		a, err := p.atom()
		if err != nil {
			return nil, err
		}
		for {
			q, more, err := p.quantified(a)
			if err != nil {
				return nil, err
			}
			if a = q; !more {
				break
			}
		}
		c.sub = append(c.sub, a)
	}
	return c, nil
}

// quantified reads one quantifier after a; more says that there was one.
func (p *regexParser) quantified(a *node) (n *node, more bool, err error) {
	lo, hi, counted := 0, -1, false
	switch {
	case p.accept("*"):
	case p.accept("+"):
		lo = 1
	case p.accept("?"):
		hi = 1
	default:
		if lo, hi, counted = p.braces(); !counted {
			return a, false, nil
		}
	}
	if lo > 1000 || hi > 1000 {
		return nil, false, fmt.Errorf("repetition of more than 1000")
	}
	n = &node{op: opRepeat, sub: []*node{a}, min: lo, max: hi}
	if p.accept("?") {
		n.lazy = true
	} else if !counted && p.accept("+") {
		return possessive(n)
	}
	return n, true, nil
}

// possessive expresses X?+, X*+ and X++ over single runes: what follows the run must not be an X, unless (for X?+)
// the one X was taken.
func possessive(n *node) (*node, bool, error) {
	x := n.sub[0]
	if x.op != opSet {
		return nil, false, fmt.Errorf("possessive repetition of a group: %w", errUnsupported)
	}
	not := &node{op: opLook, set: x.set.negate(), atEnd: true}
	if n.max == 1 {
		return &node{op: opAlt, sub: []*node{x, not}}, true, nil
	}
	return &node{op: opConcat, sub: []*node{n, not}}, true, nil
}

// braces reads {n}, {n,}, {,m} or {n,m}; anything else is a literal brace.
func (p *regexParser) braces() (lo, hi int, ok bool) {
	start := p.pos
	if !p.accept("{") {
		return 0, 0, false
	}
	lo, hasLo := p.number()
	hi = lo
	hasHi := hasLo
	if p.accept(",") {
		if hi, hasHi = p.number(); !hasHi {
			hi = -1
		}
		hasHi = hasHi || hasLo
	}
	if !hasHi || !p.accept("}") || (hi >= 0 && hi < lo) {
		p.pos = start
		return 0, 0, false
	}
	return lo, hi, true
}

func (p *regexParser) number() (int, bool) {
	start := p.pos
	for p.more() && p.in[p.pos] >= '0' && p.in[p.pos] <= '9' && p.pos-start < 6 {
		p.pos++
	}
	n, err := strconv.Atoi(string(p.in[start:p.pos]))
	return n, err == nil
}

func (p *regexParser) atom() (*node, error) {
	switch {
	case p.accept("(?:"):
		return p.group(p.fold)
	case p.accept("(?i:"):
		return p.group(true)
	case p.accept("(?-i:"):
		return p.group(false)
	case p.accept("(?="):
		return p.look(false)
	case p.accept("(?!"):
		return p.look(true)
	case p.accept("(?"):
		return nil, fmt.Errorf("group (?%c: %w", p.peek(), errUnsupported)
	case p.accept("("):
		return p.group(p.fold)
	case p.accept("["):
		s, err := p.class()
		return p.setNode(s), err
	case p.accept("."):
		return &node{op: opSet, set: charsetOfRunes("\n").negate()}, nil
	case p.accept("$"):
		return &node{op: opLook, set: charsetOfRunes("\n"), atEnd: true}, nil
	case p.accept(`\z`):
		return &node{op: opLook, atEnd: true}, nil
	case p.accept("^"):
		return nil, fmt.Errorf("^: %w", errUnsupported)
	case p.accept(`\`):
		s, err := p.escape(false)
		return p.setNode(s), err
	}
	r := p.in[p.pos]
	if r == '*' || r == '+' || r == '?' {
		return nil, fmt.Errorf("nothing to repeat at rune %d", p.pos)
	}
	p.pos++
	return p.setNode(charset{{r, r}}), nil
}

func (p *regexParser) peek() rune {
	if p.more() {
		return p.in[p.pos]
	}
	return 0
}

func (p *regexParser) setNode(s charset) *node {
	if p.fold {
		s = s.fold()
	}
	return &node{op: opSet, set: s}
}

func (p *regexParser) group(fold bool) (*node, error) {
	outer := p.fold
	p.fold = fold
	n, err := p.alternation()
	p.fold = outer
	if err == nil && !p.accept(")") {
		err = errors.New("missing )")
	}
	return n, err
}

// look reads the rest of a lookahead, which must be a single rune's.
func (p *regexParser) look(negative bool) (*node, error) {
	n, err := p.group(p.fold)
	if err != nil {
		return nil, err
	}
	for n.op == opConcat && len(n.sub) == 1 {
		n = n.sub[0]
	}
	switch {
	case n.op == opSet && negative:
		return &node{op: opLook, set: n.set.negate(), atEnd: true}, nil
	case n.op == opSet:
		return &node{op: opLook, set: n.set}, nil
	}
	return nil, fmt.Errorf("lookahead at more than one rune: %w", errUnsupported)
}

// class reads a bracketed class after its [.
func (p *regexParser) class() (charset, error) {
	if p.depth++; p.depth > 100 {
		return nil, errors.New("nested deeper than 100 groups")
	}
	defer func() { p.depth-- }()
	negate := p.accept("^")
	var set charset
	for first := true; ; first = false {
		if !p.more() {
			return nil, errors.New("missing ]")
		}
		if !first && p.accept("]") {
			break
		}
		if p.accept("&&") {
			rest, err := p.classRest()
			if err != nil {
				return nil, err
			}
			set = set.intersect(rest)
			break
		}
		item, err := p.classItem()
		if err != nil {
			return nil, err
		}
		set = set.union(item)
	}
	if p.fold {
		set = set.fold()
	}
	if negate {
		set = set.negate()
	}
	return set, nil
}

// classRest reads what follows && up to and including the closing bracket.
func (p *regexParser) classRest() (charset, error) {
	if p.depth++; p.depth > 100 {
		return nil, errors.New("nested deeper than 100 groups")
	}
	defer func() { p.depth-- }()
	var set charset
	for !p.accept("]") {
		if !p.more() {
			return nil, errors.New("missing ]")
		}
		if p.accept("&&") {
			rest, err := p.classRest()
			return set.intersect(rest), err
		}
		item, err := p.classItem()
		if err != nil {
			return nil, err
		}
		set = set.union(item)
	}
	return set, nil
}

// classItem reads a nested class, an escape, a rune or a range of runes.
func (p *regexParser) classItem() (charset, error) {
	if p.accept("[:") {
		return p.posix()
	}
	if p.accept("[") {
		return p.class()
	}
	lo, err := p.classRune()
	if err != nil || len(lo) != 1 || lo[0].lo != lo[0].hi {
		return lo, err
	}
	if p.pos+1 >= len(p.in) || p.in[p.pos] != '-' || p.in[p.pos+1] == ']' || p.in[p.pos+1] == '[' {
		return lo, nil
	}
	p.pos++
	hi, err := p.classRune()
	if err != nil {
		return nil, err
	}
	if len(hi) != 1 || hi[0].lo != hi[0].hi || hi[0].lo < lo[0].lo {
		return nil, fmt.Errorf("bad range in a class at rune %d", p.pos)
	}
	return charset{{lo[0].lo, hi[0].lo}}, nil
}

func (p *regexParser) classRune() (charset, error) {
	if p.accept(`\`) {
		return p.escape(true)
	}
	if !p.more() {
		return nil, errors.New("missing ]")
	}
	r := p.in[p.pos]
	p.pos++
	return charset{{r, r}}, nil
}

// posix reads [:name:] after its [:.
func (p *regexParser) posix() (charset, error) {
	negate := p.accept("^")
	start := p.pos
	for p.more() && p.in[p.pos] != ':' {
		p.pos++
	}
	name := string(p.in[start:p.pos])
	set, ok := propertySet(name)
	if name == "punct" {
		set = categories("P", "S")
	}
	if !ok || !p.accept(":]") {
		return nil, fmt.Errorf("POSIX class %q: %w", name, errUnsupported)
	}
	if negate {
		set = set.negate()
	}
	return set, nil
}

// escape reads what follows a backslash.
func (p *regexParser) escape(inClass bool) (charset, error) {
	if !p.more() {
		return nil, errors.New("pattern ends in a backslash")
	}
	r := p.in[p.pos]
	p.pos++
	switch r {
	case 's':
		return setSpace, nil
	case 'S':
		return setSpace.negate(), nil
	case 'd':
		return setDigit, nil
	case 'D':
		return setDigit.negate(), nil
	case 'w':
		return setWord, nil
	case 'W':
		return setWord.negate(), nil
	case 'n':
		return charset{{'\n', '\n'}}, nil
	case 'r':
		return charset{{'\r', '\r'}}, nil
	case 't':
		return charset{{'\t', '\t'}}, nil
	case 'f':
		return charset{{'\f', '\f'}}, nil
	case 'v':
		return charset{{'\v', '\v'}}, nil
	case 'p', 'P':
		return p.property(r == 'P')
	case 'x', 'u':
		return p.hex(r == 'u')
	}
	if !inClass && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
		return nil, fmt.Errorf(`\%c: %w`, r, errUnsupported)
	}
	return charset{{r, r}}, nil
}

// property reads {Name} or {^Name}, or one letter, after \p.
func (p *regexParser) property(negate bool) (charset, error) {
	name := string(p.peek())
	if p.accept("{") {
		if p.accept("^") {
			negate = !negate
		}
		start := p.pos
		for p.more() && p.in[p.pos] != '}' {
			p.pos++
		}
		name = string(p.in[start:p.pos])
	}
	if !p.more() {
		return nil, errors.New(`unfinished \p`)
	}
	p.pos++
	set, ok := propertySet(name)
	if !ok {
		return nil, fmt.Errorf(`property \p{%s}: %w`, name, errUnsupported)
	}
	if negate {
		set = set.negate()
	}
	return set, nil
}

// hex reads HH or {H…} after \x, and HHHH after \u.
func (p *regexParser) hex(four bool) (charset, error) {
	start, n := p.pos, 2
	if four {
		n = 4
	}
	if !four && p.accept("{") {
		start, n = p.pos, 0
		for p.pos+n < len(p.in) && p.in[p.pos+n] != '}' {
			n++
		}
	}
	if start+n > len(p.in) {
		return nil, errors.New("unfinished hexadecimal escape")
	}
	p.pos = start + n
	v, err := strconv.ParseUint(string(p.in[start:p.pos]), 16, 32)
	if err != nil || v > unicode.MaxRune {
		return nil, fmt.Errorf("bad hexadecimal escape %q", string(p.in[start:p.pos]))
	}
	if start > 0 && p.in[start-1] == '{' && !p.accept("}") {
		return nil, errors.New("unfinished hexadecimal escape")
	}
	return charset{{rune(v), rune(v)}}, nil
}
