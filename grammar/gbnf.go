package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// syntax is a part of a grammar in GBNF or EBNF.
type syntax struct {
	op     syntaxOp
	set    runeSet   // synSet
	text   string    // synText: bytes; synRule: its name
	parts  []*syntax // synSeq, synChoice; one for synMany
	lo, hi int32     // synMany; hi is -1 for no limit
}

type syntaxOp uint8

const (
	synText syntaxOp = iota
	synSet
	synRule
	synSeq
	synChoice
	synMany
)

// grammarParser reads llama.cpp's GBNF, which has the EBNF of xgrammar within it: name ::= alternatives, "text",
// [class], name, (group), * + ? {n,m}, <token>, # comments.
type grammarParser struct {
	text  string
	at    int
	depth int
	most  int // depth
	v     *Vocab
	rules map[string]*syntax
	order []string
}

func (p *grammarParser) errorf(format string, args ...any) error {
	line := 1 + strings.Count(p.text[:min(p.at, len(p.text))], "\n")
	return &Error{Path: "line " + strconv.Itoa(line), Problem: fmt.Sprintf(format, args...)}
}

// parse reads all rules.
func (p *grammarParser) parse() error {
	if !utf8.ValidString(p.text) {
		return &Error{Problem: "is not UTF-8"}
	}
	for p.space(); p.at < len(p.text); p.space() {
		name, ok := p.header()
		if !ok {
			return p.errorf("want a rule: name ::= what it matches")
		}
		if p.rules[name] != nil {
			return p.errorf("the rule %s is defined twice", name)
		}
		x, err := p.choice()
		if err != nil {
			return err
		}
		p.rules[name] = x
		p.order = append(p.order, name)
	}
	return nil
}

// space skips white space and comments.
func (p *grammarParser) space() {
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			p.at++
		case c == '#' || strings.HasPrefix(p.text[p.at:], "//"):
			for p.at < len(p.text) && p.text[p.at] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

func nameByte(c byte) bool {
	return c == '-' || c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// name reads the name of a rule.
func (p *grammarParser) name() string {
	from := p.at
	for p.at < len(p.text) && nameByte(p.text[p.at]) && (p.at > from || p.text[p.at] != '.') {
		p.at++
	}
	return p.text[from:p.at]
}

// header reads the beginning of a rule, or nothing.
func (p *grammarParser) header() (string, bool) {
	from := p.at
	name := p.name()
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
	if name == "" || !strings.HasPrefix(p.text[p.at:], "::=") {
		p.at = from
		return "", false
	}
	p.at += len("::=")
	return name, true
}

func (p *grammarParser) choice() (*syntax, error) {
	if p.depth++; p.depth > p.most {
		return nil, p.errorf("groups are nested more than %d deep", p.most)
	}
	defer func() { p.depth-- }()
	var list []*syntax
	for {
		x, err := p.sequence()
		if err != nil {
			return nil, err
		}
		list = append(list, x)
		if p.at >= len(p.text) || p.text[p.at] != '|' {
			break
		}
		p.at++
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return &syntax{op: synChoice, parts: list}, nil
}

// sequence reads up to a |, a ), the next rule or the end.
func (p *grammarParser) sequence() (*syntax, error) {
	x := &syntax{op: synSeq}
	for p.space(); p.at < len(p.text) && p.text[p.at] != '|' && p.text[p.at] != ')'; p.space() {
		from := p.at
		if _, ok := p.header(); ok {
			p.at = from
			break
		}
		y, err := p.atom()
		if err != nil {
			return nil, err
		}
		for more := true; more; {
			if y, more, err = p.suffix(y); err != nil {
				return nil, err
			}
		}
		x.parts = append(x.parts, y)
	}
	return x, nil
}

func (p *grammarParser) suffix(x *syntax) (*syntax, bool, error) {
	if p.at >= len(p.text) {
		return x, false, nil
	}
	y := &syntax{op: synMany, parts: []*syntax{x}, hi: -1}
	switch p.text[p.at] {
	case '*':
	case '+':
		y.lo = 1
	case '?':
		y.hi = 1
	case '{':
		end := strings.IndexByte(p.text[p.at:], '}')
		if end < 0 {
			return nil, false, p.errorf("a { has no }")
		}
		from, to, two := strings.Cut(strings.ReplaceAll(p.text[p.at+1:p.at+end], " ", ""), ",")
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if from == "" && two {
			err1 = nil
		}
		if !two {
			hi, err2 = lo, nil
		} else if to == "" {
			hi, err2 = -1, nil
		}
		if err1 != nil || err2 != nil || lo < 0 || lo > mostCount || hi > mostCount || hi >= 0 && hi < lo {
			return nil, false, p.errorf("want {n}, {n,} or {n,m} with n and m up to %d", mostCount)
		}
		y.lo, y.hi = int32(lo), int32(hi)
		p.at += end
	default:
		return x, false, nil
	}
	p.at++
	return y, true, nil
}

func (p *grammarParser) atom() (*syntax, error) {
	switch c := p.text[p.at]; {
	case c == '"' || c == '\'':
		return p.quoted(c)
	case c == '[':
		return p.class()
	case c == '.':
		p.at++
		return &syntax{op: synSet, set: runeSet{{0, unicode.MaxRune}}}, nil
	case c == '(':
		p.at++
		x, err := p.choice()
		if err != nil {
			return nil, err
		}
		if p.at >= len(p.text) || p.text[p.at] != ')' {
			return nil, p.errorf("a ( has no )")
		}
		p.at++
		return x, nil
	case c == '<':
		end := strings.IndexByte(p.text[p.at:], '>')
		if end < 0 {
			return nil, p.errorf("a < has no >")
		}
		name := p.text[p.at : p.at+end+1]
		id, ok := p.v.token(name)
		if !ok {
			return nil, p.errorf("%s is no special token of the vocabulary", short100(name))
		}
		p.at += end + 1
		return &syntax{op: synText, text: spell(id)}, nil
	}
	if name := p.name(); name != "" {
		return &syntax{op: synRule, text: name}, nil
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return nil, p.errorf("%q begins nothing that a rule may have", r)
}

// token returns the special token that <name>, <[id]> or its spelling without brackets means.
func (v *Vocab) token(name string) (int32, bool) {
	if id, ok := v.special[name]; ok {
		return id, true
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(name, "<"), ">")
	if strings.HasPrefix(inner, "[") && strings.HasSuffix(inner, "]") {
		id, err := strconv.Atoi(inner[1 : len(inner)-1])
		return int32(id), err == nil && id >= 0 && id < v.size && v.tokens[id].Special
	}
	id, ok := v.special[inner]
	return id, ok
}

func (p *grammarParser) quoted(quote byte) (*syntax, error) {
	var out []byte
	for p.at++; p.at < len(p.text) && p.text[p.at] != quote; {
		r, raw, err := p.character()
		if err != nil {
			return nil, err
		}
		if raw {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	if p.at >= len(p.text) {
		return nil, p.errorf("a text has no end")
	}
	p.at++
	return &syntax{op: synText, text: string(out)}, nil
}

// character reads one character or escape. Raw is a byte of its own: \x80 to \xFF.
func (p *grammarParser) character() (r rune, raw bool, err error) {
	r, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	if r != '\\' {
		return r, false, nil
	}
	if p.at >= len(p.text) {
		return 0, false, p.errorf("a backslash ends the grammar")
	}
	r, n = utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	if digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[r]; digits > 0 {
		if p.at+digits > len(p.text) {
			return 0, false, p.errorf("an escape has no end")
		}
		c, err := strconv.ParseUint(p.text[p.at:p.at+digits], 16, 32)
		if err != nil || c > unicode.MaxRune || c >= 0xD800 && c < 0xE000 {
			return 0, false, p.errorf(`\%c%s is no character`, r, p.text[p.at:p.at+digits])
		}
		p.at += digits
		return rune(c), digits == 2 && c >= 0x80 && c < mark, nil
	}
	if c, ok := map[rune]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'v': '\v', 'a': 7, 'b': '\b', '0': 0}[r]; ok {
		return c, false, nil
	}
	if unicode.IsLetter(r) || unicode.IsDigit(r) {
		return 0, false, p.errorf(`\%c is no escape`, r)
	}
	return r, false, nil
}

func (p *grammarParser) class() (*syntax, error) {
	p.at++
	negate := strings.HasPrefix(p.text[p.at:], "^")
	if negate {
		p.at++
	}
	var set runeSet
	for {
		if p.at >= len(p.text) {
			return nil, p.errorf("a [ has no ]")
		}
		if p.text[p.at] == ']' {
			p.at++
			break
		}
		if s, ok := map[string]runeSet{`\d`: digitRunes, `\w`: wordRunes, `\s`: spaceRunes}[p.text[p.at:min(p.at+2, len(p.text))]]; ok {
			p.at += 2
			set = append(set, s...)
			continue
		}
		lo, _, err := p.character()
		if err != nil {
			return nil, err
		}
		hi := lo
		if strings.HasPrefix(p.text[p.at:], "-") && !strings.HasPrefix(p.text[p.at:], "-]") {
			p.at++
			if p.at >= len(p.text) {
				return nil, p.errorf("a [ has no ]")
			}
			if hi, _, err = p.character(); err != nil {
				return nil, err
			}
		}
		if hi < lo {
			return nil, p.errorf("a class has a range that ends before it begins")
		}
		set = append(set, runeRange{lo, hi})
	}
	if set = set.norm(); negate {
		set = set.negate()
	}
	return &syntax{op: synSet, set: set}, nil
}

// grammarMaker makes expressions of rules.
type grammarMaker struct {
	a     *arena
	rules map[string]*syntax
	made  map[string]id // rules are made when they are first used
	depth int
	most  int
}

// compileGrammar returns the expression of the rule root.
func compileGrammar(a *arena, v *Vocab, text string, l Limits) (id, error) {
	p := &grammarParser{text: text, most: l.Depth, v: v, rules: map[string]*syntax{}}
	if err := p.parse(); err != nil {
		return none, err
	}
	if p.rules["root"] == nil {
		return none, &Error{Problem: "has no rule root"}
	}
	for _, name := range p.order {
		p.rules[name].straighten(name)
	}
	m := &grammarMaker{a: a, rules: p.rules, made: map[string]id{}, most: 16 * l.Depth}
	return m.rule("root")
}

// straighten turns name ::= name tail | other into name ::= other tail*, which begins without itself.
func (s *syntax) straighten(name string) {
	begins := func(x *syntax) bool {
		return x.op == synSeq && len(x.parts) > 1 && x.parts[0].op == synRule && x.parts[0].text == name
	}
	if s.op != synChoice || !slices.ContainsFunc(s.parts, begins) {
		return
	}
	tails, others := &syntax{op: synChoice}, &syntax{op: synChoice}
	for _, x := range s.parts {
		if begins(x) {
			tails.parts = append(tails.parts, &syntax{op: synSeq, parts: x.parts[1:]})
		} else {
			others.parts = append(others.parts, x)
		}
	}
	*s = syntax{op: synSeq, parts: []*syntax{others, {op: synMany, parts: []*syntax{tails}, hi: -1}}}
}

func (m *grammarMaker) rule(name string) (id, error) {
	if x, ok := m.made[name]; ok {
		return x, nil
	}
	body := m.rules[name]
	if body == nil {
		return none, &Error{Path: name, Problem: "is used, and no rule defines it"}
	}
	if m.depth++; m.depth > m.most {
		return none, &Error{Path: name, Problem: fmt.Sprintf("rules are nested more than %d deep", m.most)}
	}
	defer func() { m.depth-- }()
	r := m.a.rule()
	m.made[name] = r
	x, err := m.make(body)
	m.a.define(r, x)
	if m.a.isTerm(x) {
		m.made[name] = x
	}
	return m.made[name], err
}

// make returns the expression of a part: a term where all in it are.
func (m *grammarMaker) make(s *syntax) (id, error) {
	a := m.a
	switch s.op {
	case synText:
		return a.literal(s.text), nil
	case synSet:
		return a.runes(s.set), nil
	case synRule:
		return m.rule(s.text)
	}
	list, terms := make([]id, len(s.parts)), true
	for i, q := range s.parts {
		x, err := m.make(q)
		if err != nil {
			return none, err
		}
		list[i] = x
		terms = terms && a.isTerm(x)
	}
	switch {
	case s.op == synSeq && terms:
		return a.cat(list...), nil
	case s.op == synSeq:
		return a.seq(list...), nil
	case s.op == synChoice && terms:
		return a.alt(list...), nil
	case s.op == synChoice:
		return a.choice(list...), nil
	case terms:
		return a.rep(list[0], s.lo, s.hi), nil
	}
	return a.many(list[0], s.lo, s.hi), nil
}
