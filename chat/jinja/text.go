package jinja

import (
	"unicode"
	"unicode/utf8"
)

// Python's strings are sequences of code points; these functions give Go's that view.

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func runeLen(s string) int { return utf8.RuneCountInString(s) }

// isSpace is Python's str.isspace of one character.
func isSpace(r rune) bool {
	return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f || r >= utf8.RuneSelf && unicode.IsSpace(r)
}

// sliceBounds resolves the bounds of a slice over n elements as Python does. Absent bounds are nil.
func sliceBounds(lo, hi, step *int64, n int64) (start, stop, by int64) {
	by = 1
	if step != nil {
		by = *step
	}
	clip := func(p *int64, absent int64) int64 {
		if p == nil {
			return absent
		}
		v := *p
		if v < 0 {
			v += n
		}
		if by < 0 {
			return max(-1, min(v, n-1))
		}
		return max(0, min(v, n))
	}
	if by < 0 {
		return clip(lo, n-1), clip(hi, -1), by
	}
	return clip(lo, 0), clip(hi, n), by
}

// sliceText cuts code points out of s. The bounds are those of sliceBounds.
func sliceText(s string, start, stop, by int64) string {
	if by == 1 && isASCII(s) {
		if start >= stop {
			return ""
		}
		return s[start:stop]
	}
	runes := []rune(s)
	var out []rune
	eachSlice(start, stop, by, func(i int64) bool {
		out = append(out, runes[i])
		return true
	})
	return string(out)
}

// eachSlice visits start, start+by, … before stop, until visit returns false.
func eachSlice(start, stop, by int64, visit func(i int64) bool) {
	for i := start; by > 0 && i < stop || by < 0 && i > stop; {
		next := i + by
		if !visit(i) || by > 0 != (next > i) { // next has overflowed
			return
		}
		i = next
	}
}

// titleCase is Python's str.title or, if the whole text counts as one word, str.capitalize.
func titleCase(s string, whole bool) string {
	out := make([]rune, 0, len(s))
	inWord := false
	for _, r := range s {
		switch {
		case inWord:
			out = append(out, unicode.ToLower(r))
		default:
			out = append(out, unicode.ToTitle(r))
		}
		inWord = whole || unicode.IsLetter(r)
	}
	return string(out)
}
