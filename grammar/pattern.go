package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern is a parsed regular expression.
type pattern struct {
	op     patternOp
	set    runeSet    // opSet
	parts  []*pattern // opCat, opAlt; one for opRep and opLook
	lo, hi int32      // opRep; hi is -1 for no limit
	negate bool       // opLook
}

type patternOp uint8

const (
	opSet   patternOp = iota // one character of a set
	opCat                    // one after the other
	opAlt                    // any
	opRep                    // repeated
	opStart                  // ^
	opEnd                    // $
	opLook                   // (?=x), (?!x)
)

// dialect is how a regular expression is read.
type dialect struct {
	dot   runeSet // what . leaves out
	depth int     // most nesting
}

// mostCount bounds the numbers of {n,m}.
const mostCount = 100_000

// patternParser reads the syntax of ECMA 262, which Python's and RE2's share to a large part.
type patternParser struct {
	text  string
	at    int
	d     dialect
	depth int
	fold  bool // without case
}

func parsePattern(text string, d dialect) (*pattern, error) {
	p := &patternParser{text: text, d: d}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("is not UTF-8")
	}
	x, err := p.alternatives()
	if err == nil && p.at < len(text) {
		err = p.errorf("has a ) without a (")
	}
	return x, err
}

func (p *patternParser) errorf(format string, args ...any) error {
	return fmt.Errorf("%s at byte %d of %q", fmt.Sprintf(format, args...), p.at, short100(p.text))
}

func short100(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

func (p *patternParser) more() bool { return p.at < len(p.text) }
func (p *patternParser) peek() byte {
	if p.more() {
		return p.text[p.at]
	}
	return 0
}

func (p *patternParser) take(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

func (p *patternParser) rune() rune {
	r, n := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += n
	return r
}

func (p *patternParser) alternatives() (*pattern, error) {
	if p.depth++; p.depth > p.d.depth {
		return nil, p.errorf("is nested more than %d deep", p.d.depth)
	}
	defer func() { p.depth-- }()
	var list []*pattern
	for {
		x := &pattern{op: opCat}
		for p.more() && p.peek() != '|' && p.peek() != ')' {
			y, err := p.repeated()
			if err != nil {
				return nil, err
			}
			x.parts = append(x.parts, y)
		}
		list = append(list, x)
		if !p.take("|") {
			break
		}
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return &pattern{op: opAlt, parts: list}, nil
}

func (p *patternParser) repeated() (*pattern, error) {
	x, err := p.atom()
	for n := 0; err == nil && p.more(); n++ {
		lo, hi := int32(0), int32(-1)
		switch {
		case p.take("*"):
		case p.take("+"):
			lo = 1
		case p.take("?"):
			hi = 1
		case p.peek() == '{':
			var ok bool
			if lo, hi, ok, err = p.counts(); err != nil || !ok {
				return x, err
			}
		default:
			return x, nil
		}
		if n > 0 {
			return nil, p.errorf("repeats a repetition")
		}
		if x.op == opStart || x.op == opEnd || x.op == opLook {
			return nil, p.errorf("repeats what matches no character")
		}
		if p.take("+") {
			return nil, p.errorf("has a possessive repetition, which is not supported,")
		}
		p.take("?") // lazy or not, the same strings match
		x = &pattern{op: opRep, parts: []*pattern{x}, lo: lo, hi: hi}
	}
	return x, err
}

// counts reads {n}, {n,} or {n,m}; anything else in braces is text.
func (p *patternParser) counts() (lo, hi int32, ok bool, err error) {
	end := strings.IndexByte(p.text[p.at:], '}')
	if end < 0 {
		return 0, 0, false, nil
	}
	from, to, two := strings.Cut(p.text[p.at+1:p.at+end], ",")
	number := func(s string) (int32, bool) {
		if s == "" || strings.Trim(s, "0123456789") != "" {
			return 0, false
		}
		n, err := strconv.Atoi(s)
		if err != nil || n > mostCount {
			n = mostCount + 1
		}
		return int32(n), true
	}
	if lo, ok = number(from); !ok {
		return 0, 0, false, nil
	}
	hi = lo
	if two {
		if hi, ok = number(to); to == "" {
			hi = -1
		} else if !ok {
			return 0, 0, false, nil
		}
	}
	switch {
	case lo > mostCount || hi > mostCount:
		return 0, 0, false, p.errorf("repeats more than %d times", mostCount)
	case hi >= 0 && hi < lo:
		return 0, 0, false, p.errorf("has a repetition whose least number is above its most")
	}
	p.at += end + 1
	return lo, hi, true, nil
}

func (p *patternParser) atom() (*pattern, error) {
	switch {
	case p.take("("):
		return p.group()
	case p.take("["):
		return p.class()
	case p.take("."):
		return &pattern{op: opSet, set: p.d.dot.negate()}, nil
	case p.take("^"):
		return &pattern{op: opStart}, nil
	case p.take("$"):
		return &pattern{op: opEnd}, nil
	case p.peek() == '*' || p.peek() == '+' || p.peek() == '?':
		return nil, p.errorf("repeats nothing")
	case p.take(`\`):
		switch {
		case p.take("A"):
			return &pattern{op: opStart}, nil
		case p.take("z"), p.take("Z"):
			return &pattern{op: opEnd}, nil
		case p.peek() == 'b' || p.peek() == 'B':
			return nil, p.errorf(`has \%c, which is not supported,`, p.peek())
		case p.peek() >= '1' && p.peek() <= '9' || p.peek() == 'k':
			return nil, p.errorf("has a back-reference, which is not supported,")
		}
		s, err := p.escape()
		return p.one(s), err
	}
	r := p.rune()
	return p.one(runeSet{{r, r}}), nil
}

// one is a character of a set, in both cases where case does not count.
func (p *patternParser) one(s runeSet) *pattern {
	if p.fold {
		for _, r := range s {
			for c := r.lo; c <= min(r.hi, r.lo+0x3000); c++ {
				for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
					s = append(s, runeRange{f, f})
				}
			}
		}
	}
	return &pattern{op: opSet, set: s.norm()}
}

func (p *patternParser) group() (*pattern, error) {
	op, negate, fold := opCat, false, p.fold
	switch {
	case p.take("?:"):
	case p.take("?="):
		op = opLook
	case p.take("?!"):
		op, negate = opLook, true
	case p.take("?i:"):
		p.fold = true
	case p.take("?i)"):
		p.fold = true
		return &pattern{op: opCat}, nil
	case p.take("?<=") || p.take("?<!"):
		return nil, p.errorf("looks behind, which is not supported,")
	case p.take("?P<") || p.take("?<"):
		end := strings.IndexByte(p.text[p.at:], '>')
		if end < 0 {
			return nil, p.errorf("has a group whose name does not end")
		}
		p.at += end + 1
	case p.peek() == '?':
		return nil, p.errorf("has a kind of group that is not supported")
	}
	x, err := p.alternatives()
	p.fold = fold
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, p.errorf("has a ( without a )")
	}
	return &pattern{op: op, parts: []*pattern{x}, negate: negate}, nil
}

func (p *patternParser) class() (*pattern, error) {
	negate := p.take("^")
	var set runeSet
	for first := true; ; first = false {
		if !p.more() {
			return nil, p.errorf("has a [ without a ]")
		}
		if first && p.peek() == ']' {
			return nil, p.errorf("has an empty class, or a ] in one without a backslash")
		}
		if p.take("]") {
			break
		}
		lo, err := p.member()
		if err != nil {
			return nil, err
		}
		if p.peek() == '-' && p.at+1 < len(p.text) && p.text[p.at+1] != ']' && len(lo) == 1 && lo[0].lo == lo[0].hi {
			p.at++
			hi, err := p.member()
			if err != nil {
				return nil, err
			}
			if len(hi) != 1 || hi[0].lo != hi[0].hi { // [a-\d]: the - is text
				set = append(append(set, lo...), append(hi, runeRange{'-', '-'})...)
				continue
			}
			if hi[0].lo < lo[0].lo {
				return nil, p.errorf("has a range that ends before it begins")
			}
			lo[0].hi = hi[0].lo
		}
		set = append(set, lo...)
	}
	x := p.one(set)
	if negate {
		x.set = x.set.negate()
	}
	return x, nil
}

// member reads one character or escape of a class.
func (p *patternParser) member() (runeSet, error) {
	if p.take(`\`) {
		if p.take("b") {
			return runeSet{{'\b', '\b'}}, nil
		}
		return p.escape()
	}
	if strings.HasPrefix(p.text[p.at:], "[:") {
		if end := strings.Index(p.text[p.at:], ":]"); end > 0 {
			return nil, p.errorf("has a class of POSIX, which is not supported,")
		}
	}
	r := p.rune()
	return runeSet{{r, r}}, nil
}

var (
	digitRunes = runeSet{{'0', '9'}}
	wordRunes  = runeSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	spaceRunes = runeSet{{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
		{0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}}
	controls = map[rune]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'v': '\v', 'a': 7, '0': 0, 'e': 27}
)

// escape reads what follows a backslash and stands for one character.
func (p *patternParser) escape() (runeSet, error) {
	if !p.more() {
		return nil, p.errorf("ends in a backslash")
	}
	r := p.rune()
	switch r {
	case 'd':
		return digitRunes.norm(), nil
	case 'D':
		return digitRunes.negate(), nil
	case 'w':
		return wordRunes.norm(), nil
	case 'W':
		return wordRunes.negate(), nil
	case 's':
		return spaceRunes.norm(), nil
	case 'S':
		return spaceRunes.negate(), nil
	case 'p', 'P':
		return p.property(r == 'P')
	case 'x':
		return p.hex(2)
	case 'u':
		s, err := p.hex(4)
		if err == nil && len(s) == 1 && s[0].lo >= 0xD800 && s[0].lo < 0xDC00 && p.take(`\u`) {
			low, err := p.hex(4)
			if err != nil {
				return nil, err
			}
			c := 0x10000 + (s[0].lo-0xD800)<<10 + (low[0].lo - 0xDC00)
			return runeSet{{c, c}}, nil
		}
		return s, err
	case 'c':
		if c := p.peek() &^ 0x20; c >= 'A' && c <= 'Z' {
			p.at++
			return runeSet{{rune(c - '@'), rune(c - '@')}}, nil
		}
	}
	if c, ok := controls[r]; ok {
		return runeSet{{c, c}}, nil
	}
	if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
		return nil, p.errorf(`has \%c, which is not supported,`, r)
	}
	return runeSet{{r, r}}, nil
}

func (p *patternParser) hex(n int) (runeSet, error) {
	text := ""
	if p.take("{") {
		end := strings.IndexByte(p.text[p.at:], '}')
		if end < 0 {
			return nil, p.errorf("has an escape that does not end")
		}
		text = p.text[p.at : p.at+end]
		p.at += end + 1
	} else if p.at+n <= len(p.text) {
		text = p.text[p.at : p.at+n]
		p.at += n
	}
	c, err := strconv.ParseUint(text, 16, 32)
	if err != nil || c > unicode.MaxRune {
		return nil, p.errorf("has an escape of no character")
	}
	return runeSet{{rune(c), rune(c)}}, nil
}

// property reads {L}, {Lu}, {Script=Greek}, L and the like after \p.
func (p *patternParser) property(negate bool) (runeSet, error) {
	name := ""
	if p.take("{") {
		end := strings.IndexByte(p.text[p.at:], '}')
		if end < 0 {
			return nil, p.errorf(`has a \p that does not end`)
		}
		name = p.text[p.at : p.at+end]
		p.at += end + 1
	} else if p.more() {
		name = string(p.rune())
	}
	if key, value, ok := strings.Cut(name, "="); ok && (key == "Script" || key == "sc" || key == "General_Category" || key == "gc") {
		name = value
	}
	if long, ok := map[string]string{"Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Number": "N",
		"Decimal_Number": "Nd", "Punctuation": "P", "Symbol": "S", "Separator": "Z", "Mark": "M"}[name]; ok {
		name = long
	}
	t := unicode.Categories[name]
	if t == nil {
		t = unicode.Scripts[name]
	}
	if t == nil {
		return nil, p.errorf(`has \p{%s}, which is not known,`, name)
	}
	var set runeSet
	for _, r := range t.R16 {
		for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
			set = append(set, runeRange{c, c})
			if r.Stride == 1 {
				set[len(set)-1].hi = rune(r.Hi)
				break
			}
		}
	}
	for _, r := range t.R32 {
		for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
			set = append(set, runeRange{c, c})
			if r.Stride == 1 {
				set[len(set)-1].hi = rune(r.Hi)
				break
			}
		}
	}
	if set = set.norm(); negate {
		set = set.negate()
	}
	return set, nil
}
