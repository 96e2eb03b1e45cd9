package tokenizer

import "unicode/utf8"

// byteRunes maps each byte to the printable rune that GPT-2's byte-level vocabularies spell it with: itself where it
// is printable in Latin-1, else the next rune from U+0100 on. runeBytes is the inverse, -1 where there is none.
var byteRunes, runeBytes = makeByteRunes()

func makeByteRunes() (runes [256]rune, inverse [324]int16) {
	for i := range inverse {
		inverse[i] = -1
	}
	n := rune(256)
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || b >= 0x7F && b <= 0xA0 || b == 0xAD {
			r = n
			n++
		}
		runes[b] = r
		inverse[r] = int16(b)
	}
	return runes, inverse
}

// spellBytes writes each byte of text as its rune.
func spellBytes(text string) string {
	out := make([]byte, 0, len(text)+len(text)/2)
	for i := range len(text) {
		out = utf8.AppendRune(out, byteRunes[text[i]])
	}
	return string(out)
}

// appendUnspelled appends the bytes that the runes of token stand for; ok is false, and dst unchanged, if a rune
// stands for none.
func appendUnspelled(dst []byte, token string) (out []byte, ok bool) {
	start := len(dst)
	for _, r := range token {
		if int(r) >= len(runeBytes) || runeBytes[r] < 0 {
			return dst[:start], false
		}
		dst = append(dst, byte(runeBytes[r]))
	}
	return dst, true
}

// byteToken reads tokens of the form <0xHH>.
func byteToken(token string) (b byte, ok bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	hi, ok1 := hexDigit(token[3])
	lo, ok2 := hexDigit(token[4])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// byteTokenName is the inverse of byteToken.
func byteTokenName(b byte) string {
	const hex = "0123456789ABCDEF"
	return string([]byte{'<', '0', 'x', hex[b>>4], hex[b&15], '>'})
}
