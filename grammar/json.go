package grammar

import "unicode/utf8"

// prelude is the expressions of JSON that every grammar begins with.
type prelude struct {
	char   id    // one character of a string, escaped in any way
	plain  id    // one character of a string, where ASCII is not escaped without need
	ws     id    // white space, perhaps none
	gap    id    // a space, or none
	str    id    // any string with its quotes
	number id    // any number
	name   [2]id // any name with its quotes and colon; [1] is compact
	any    [2]id // any value; [1] is compact
	object [2]id // any object
}

func newPrelude(a *arena) prelude {
	var p prelude
	every := runeSet{{0, utf8.MaxRune}}
	p.plain = a.quoted(every)
	p.char = a.alt(p.plain, a.before(`\`, a.unicode(every)))
	p.str = a.before(`"`, a.cat(a.star(p.char), a.literal(`"`)))
	var space byteSet
	for _, b := range []byte(" \t\n\r") {
		space.add(b, b)
	}
	p.ws, p.gap = a.star(a.set(space)), a.optional(a.literal(" "))
	p.number = a.cat(a.optional(a.literal("-")), a.whole(), a.fraction(), a.exponent())
	for i := range p.any {
		ws, gap := p.ws, p.ws
		if i == 1 {
			ws, gap = empty, p.gap
		}
		p.any[i] = a.rule()
		p.name[i] = a.cat(a.literal(`"`), a.star(p.plain), a.literal(`"`), ws, a.literal(":"), gap)
		comma := a.cat(ws, a.literal(","), gap)
		list := func(x id) id { return a.choice(empty, a.seq(x, a.many(a.seq(comma, x), 0, -1))) }
		array := a.seq(a.cat(a.literal("["), ws), list(p.any[i]), a.cat(ws, a.literal("]")))
		member := a.seq(p.name[i], p.any[i])
		p.object[i] = a.seq(a.cat(a.literal("{"), ws), list(member), a.cat(ws, a.literal("}")))
		a.define(p.any[i], a.choice(a.alt(a.literal("null"), a.literal("true"), a.literal("false")), p.number, p.str, array, p.object[i]))
	}
	return p
}

// Numbers as JSON writes them, part by part (RFC 8259, section 6).
func (a *arena) digit() id    { return a.bytes('0', '9') }
func (a *arena) whole() id    { return a.alt(a.literal("0"), a.cat(a.bytes('1', '9'), a.star(a.digit()))) }
func (a *arena) fraction() id { return a.optional(a.cat(a.literal("."), a.rep(a.digit(), 1, -1))) }
func (a *arena) exponent() id {
	var e, sign byteSet
	e.add('e', 'e')
	e.add('E', 'E')
	sign.add('+', '+')
	sign.add('-', '-')
	return a.optional(a.cat(a.set(e), a.optional(a.set(sign)), a.rep(a.digit(), 1, -1)))
}

// short are the characters that a backslash and a letter stand for in a string of JSON.
var short = map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// quoted matches one character of s as a string of JSON has it. Only what is not printable ASCII may be written \uXXXX.
func (a *arena) quoted(s runeSet) id {
	s = s.norm()
	parts := []id{a.runes(s.minus(runeSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}))}
	for r, text := range short {
		if s.has(r) {
			parts = append(parts, a.literal(text))
		}
	}
	if rare := s.minus(runeSet{{' ', '~'}}); len(rare) > 0 {
		parts = append(parts, a.before(`\`, a.unicode(rare)))
	}
	return a.alt(parts...)
}

// unicode matches the escape of one character of s after its backslash: uXXXX, or two of them for a pair of surrogates.
func (a *arena) unicode(s runeSet) id {
	var parts []id
	hex := func(lo, hi rune) id { return a.before("u", a.hex(lo, hi, 4)) }
	add := func(lo, hi rune) {
		if lo <= hi {
			parts = append(parts, hex(lo, hi))
		}
	}
	pair := func(h1, h2, l1, l2 rune) {
		if h1 <= h2 {
			parts = append(parts, a.cat(hex(0xD800+h1, 0xD800+h2), a.literal(`\`), hex(0xDC00+l1, 0xDC00+l2)))
		}
	}
	for _, r := range s.norm() {
		add(r.lo, min(r.hi, 0xD7FF))
		add(max(r.lo, 0xE000), min(r.hi, 0xFFFF))
		lo, hi := max(r.lo, 0x10000)-0x10000, r.hi-0x10000
		switch h1, h2 := lo>>10, hi>>10; {
		case lo > hi:
		case h1 == h2:
			pair(h1, h1, lo&0x3FF, hi&0x3FF)
		default:
			pair(h1, h1, lo&0x3FF, 0x3FF)
			pair(h1+1, h2-1, 0, 0x3FF)
			pair(h2, h2, 0, hi&0x3FF)
		}
	}
	return a.alt(parts...)
}

// hex matches the numbers from lo to hi in n hexadecimal digits.
func (a *arena) hex(lo, hi rune, n int) id {
	if n == 0 {
		return empty
	}
	one := rune(1) << (4 * (n - 1)) // what the first digit counts
	digit := func(from, to rune) id {
		var s byteSet
		for d := from; d <= to; d++ {
			s.add("0123456789abcdef"[d], "0123456789abcdef"[d])
			s.add("0123456789ABCDEF"[d], "0123456789ABCDEF"[d])
		}
		return a.set(s)
	}
	from, to := lo/one, hi/one
	if from == to {
		return a.cat2(digit(from, from), a.hex(lo%one, hi%one, n-1))
	}
	var parts []id
	if lo%one != 0 {
		parts = append(parts, a.cat2(digit(from, from), a.hex(lo%one, one-1, n-1)))
		from++
	}
	if hi%one != one-1 {
		parts = append(parts, a.cat2(digit(to, to), a.hex(0, hi%one, n-1)))
		to--
	}
	if from <= to {
		parts = append(parts, a.cat2(digit(from, to), a.hex(0, one-1, n-1)))
	}
	return a.alt(parts...)
}

// quotedText matches the text of a string of JSON in any of the ways that quoted has.
func (a *arena) quotedText(s string) id {
	x := empty
	runes := []rune(s)
	for i := len(runes) - 1; i >= 0; i-- {
		x = a.cat2(a.quoted(runeSet{{runes[i], runes[i]}}), x)
	}
	return x
}

// quote returns the text of a string of JSON in the one way that is written, without its quotes.
func quote(s string) string {
	out := make([]byte, 0, len(s)+8)
	for _, r := range s {
		switch text, ok := short[r]; {
		case ok && r != '/':
			out = append(out, text...)
		case r < ' ':
			out = append(out, `\u00`...)
			out = append(out, "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}
