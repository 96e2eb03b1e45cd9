package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites text before it is cut.
type normalizer func(text string) string

// Bounds on the bytes that a byte of text may become, far above those of known tokenizers.
const (
	maxGrowth  = 16 // in all; NFKC makes up to 11
	maxReplace = 8  // in one replacement
)

func unicodeForm(f norm.Form) normalizer {
	return func(text string) string {
		if isASCII(text) {
			return text
		}
		return f.String(text)
	}
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lowercase maps rune by rune, with the one rune whose lower case is always two.
func lowercase(text string) string {
	if strings.ContainsRune(text, 'İ') {
		text = strings.ReplaceAll(text, "İ", "i\u0307")
	}
	return strings.Map(func(r rune) rune {
		if r < 0x80 {
			if r >= 'A' && r <= 'Z' {
				r += 'a' - 'A'
			}
			return r
		}
		return unicode.ToLower(r)
	}, text)
}

// dropSet removes the runes of a set.
func dropSet(s charset) normalizer {
	return func(text string) string {
		return strings.Map(func(r rune) rune {
			if r >= 0x80 && s.has(r) {
				return -1
			}
			return r
		}, text)
	}
}

func stripSpace(left, right bool) normalizer {
	return func(text string) string {
		if left {
			text = strings.TrimLeftFunc(text, isSpace)
		}
		if right {
			text = strings.TrimRightFunc(text, isSpace)
		}
		return text
	}
}

func prependText(prefix string) normalizer {
	return func(text string) string {
		if text == "" {
			return text
		}
		return prefix + text
	}
}

func replaceText(old, content string) normalizer {
	return func(text string) string { return strings.ReplaceAll(text, old, content) }
}

func replaceMatches(f finder, content string) normalizer {
	return func(text string) string {
		var out strings.Builder
		prev := 0
		_ = f.each(text, func(start, end int) { // which is no backtracking
			out.WriteString(text[prev:start])
			out.WriteString(content)
			prev = end
		})
		if prev == 0 && out.Len() == 0 {
			return text
		}
		out.WriteString(text[prev:])
		return out.String()
	}
}

// bertRules are the choices of BERT's basic tokenizer.
type bertRules struct{ clean, chinese, accents, lower bool }

var (
	// setControl is the set that BERT's cleaning removes, except tabs and line breaks.
	setControl = tableSet(unicode.Cc, unicode.Cf, unicode.Co).union(charsetOf(runeRange{0xFFFD, 0xFFFD}))
	setChinese = charsetOf(runeRange{0x4E00, 0x9FFF}, runeRange{0x3400, 0x4DBF}, runeRange{0x20000, 0x2A6DF},
		runeRange{0x2A700, 0x2B73F}, runeRange{0x2B740, 0x2B81F}, runeRange{0x2B920, 0x2CEAF}, runeRange{0xF900, 0xFAFF},
		runeRange{0x2F800, 0x2FA1F})
	setAccent = tableSet(unicode.Mn).intersect(hexSet(accentSince8).negate())
)

// normalize cleans the text, sets Chinese characters apart, removes accents and lowers the case.
func (b bertRules) normalize(text string) string {
	if isASCII(text) {
		return b.ascii(text)
	}
	if b.clean || b.chinese {
		var out strings.Builder
		out.Grow(len(text))
		for _, r := range text {
			switch {
			case r > ' ' && r < 0x7F:
				out.WriteByte(byte(r))
			case b.clean && setControl.has(r) && r != '\t' && r != '\n' && r != '\r':
			case b.clean && isSpace(r):
				out.WriteByte(' ')
			case b.chinese && r >= 0x3400 && setChinese.has(r):
				out.WriteByte(' ')
				out.WriteRune(r)
				out.WriteByte(' ')
			default:
				out.WriteRune(r)
			}
		}
		text = out.String()
	}
	if b.accents {
		text = dropAccents(norm.NFD.String(text))
	}
	if b.lower {
		text = lowercase(text)
	}
	return text
}

var dropAccents = dropSet(setAccent)

func (b bertRules) ascii(text string) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		if b.clean && (c < ' ' || c == 0x7F) {
			if c != '\t' && c != '\n' && c != '\r' {
				continue
			}
			c = ' '
		}
		if b.lower && c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}

// nmt is the cleaning of Google's NMT rules.
func nmt(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 1 && r <= 8, r == 0xB, r >= 0xE && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
			return -1
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F, r == 0x2028, r == 0x2029,
			r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	}, text)
}
