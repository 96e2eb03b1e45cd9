package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// decodeRules turn tokens into text. Every rule but the last few looks at one token at a time, so the text that a token
// adds is known in advance.
type decodeRules struct {
	steps     []decodeStep
	byteLevel bool // tokens spell bytes by GPT-2's runes
	fallback  bool // tokens <0xHH> are bytes
	spaced    bool // tokens are joined by spaces
	strip     int  // how many of stripRune are cut off the start of the text
	stripRune rune
	suffix    string            // a mark of a word's end: a space, but nothing at the end of the text
	cleanup   bool              // spaces before punctuation are removed from the whole text
	verbatim  func(id int) bool // tokens whose text is not looked into; nil for none

	text   []string // by id: what the token adds to the text
	first  []string // the same at the start of the text; nil if text serves
	isByte []bool   // by id: a token <0xHH>; nil without fallback
}

// decodeStep is one step over one token; first means that it begins the text.
type decodeStep func(token string, first bool) string

// prepare applies the steps to the vocabulary. Added tokens that are matched after normalization decode to their
// normalized form.
func (r *decodeRules) prepare(v *vocabulary, normalized []addedToken) {
	tokens := v.text
	if len(normalized) > 0 {
		tokens = append([]string(nil), v.text...)
		for _, a := range normalized {
			tokens[a.id] = a.content
		}
	}
	positional := r.spaced || len(r.steps) > 0
	r.text = make([]string, len(tokens))
	if r.fallback {
		r.isByte = make([]bool, len(tokens))
	}
	var blob []byte
	for id, tok := range tokens {
		if r.verbatim != nil && r.verbatim(id) {
			r.text[id] = tok
			continue
		}
		r.text[id] = r.apply(tok, false, &blob)
		if r.fallback {
			_, r.isByte[id] = byteToken(tok)
		}
	}
	if !positional {
		return
	}
	for id, tok := range tokens {
		if f := r.apply(tok, true, &blob); f != r.text[id] && r.first == nil {
			r.first = append([]string(nil), r.text...)
			r.first[id] = f
		} else if r.first != nil {
			r.first[id] = f
		}
	}
}

func (r *decodeRules) apply(tok string, first bool, blob *[]byte) string {
	if tok == "" {
		return ""
	}
	if r.byteLevel {
		out, ok := appendUnspelled((*blob)[:0], tok)
		*blob = out
		if ok && string(out) != tok {
			tok = string(out)
		}
	}
	for _, step := range r.steps {
		tok = step(tok, first)
	}
	if r.fallback {
		if b, ok := byteToken(tok); ok {
			return string([]byte{b})
		}
	}
	if r.spaced && !first {
		tok = " " + tok
	}
	return tok
}

// Decode returns the text of ids, without special tokens if skipSpecial is set. Bytes that are not UTF-8 become U+FFFD;
// ids out of range add nothing.
func (t *Tokenizer) Decode(ids []int32, skipSpecial bool) string {
	d := Decoder{t: t, skip: skipSpecial, strip: t.decode.strip, whole: true}
	var out []byte
	for _, id := range ids {
		out = d.append(out, id)
	}
	return string(d.flush(out))
}

// Decoder turns ids into text as they arrive. Its outputs, concatenated, equal Decode of all the ids, with one
// exception: a run of byte tokens that is not UTF-8 as a whole keeps its valid characters. To continue a text whose ids
// are known, pass those first and drop the output. A Decoder serves one goroutine.
type Decoder struct {
	t       *Tokenizer
	skip    bool
	whole   bool   // Decode: runs of byte tokens are judged as a whole
	started bool   // a token has been seen
	strip   int    // runes still to cut off the start
	tail    []byte // bytes that may yet become a character; with whole, the run of byte tokens
	pending string // a token with a word-end mark, whose spelling depends on whether another follows
	held    []byte // text that awaits cleanup
}

// Decoder returns a streaming decoder.
func (t *Tokenizer) Decoder(skipSpecial bool) *Decoder {
	return &Decoder{t: t, skip: skipSpecial, strip: t.decode.strip}
}

// Next takes the next id and returns the text that is now certain: whole UTF-8 characters only, possibly none.
func (d *Decoder) Next(id int32) string { return string(d.append(nil, id)) }

// Flush returns the rest, with bytes of incomplete characters as U+FFFD, and resets the decoder.
func (d *Decoder) Flush() string {
	rest := string(d.flush(nil))
	*d = Decoder{t: d.t, skip: d.skip, whole: d.whole, strip: d.t.decode.strip}
	return rest
}

func (d *Decoder) append(out []byte, id int32) []byte {
	r := &d.t.decode
	if id < 0 || int(id) >= len(r.text) || d.skip && d.t.vocab.special[id] {
		return out
	}
	if d.t.vocab.text[id] == "" {
		return out
	}
	text := r.text[id]
	if !d.started && r.first != nil {
		text = r.first[id]
	}
	d.started = true
	if r.suffix != "" {
		text, d.pending = strings.ReplaceAll(d.pending, r.suffix, " "), text
	}
	return d.write(out, text, r.fallback && r.isByte[id])
}

// write adds the text of one token.
func (d *Decoder) write(out []byte, text string, isByte bool) []byte {
	r := &d.t.decode
	for d.strip > 0 && text != "" {
		c, size := utf8.DecodeRuneInString(text)
		if c != r.stripRune {
			d.strip = 0
			break
		}
		text = text[size:]
		d.strip--
	}
	if r.cleanup {
		d.held = append(d.held, text...)
		return out
	}
	if r.fallback && !isByte || d.whole && r.fallback {
		if !isByte {
			out = append(d.flushTail(out), text...)
		} else {
			d.tail = append(d.tail, text...)
		}
		return out
	}
	if len(d.tail) == 0 && utf8.ValidString(text) {
		return append(out, text...)
	}
	d.tail = append(d.tail, text...)
	out, n := appendValid(out, d.tail, false, r.fallback)
	d.tail = append(d.tail[:0], d.tail[n:]...)
	return out
}

// flushTail writes the bytes that no further byte can complete.
func (d *Decoder) flushTail(out []byte) []byte {
	if d.whole && d.t.decode.fallback && !utf8.Valid(d.tail) {
		for range d.tail {
			out = append(out, string(utf8.RuneError)...)
		}
	} else {
		out, _ = appendValid(out, d.tail, true, d.t.decode.fallback)
	}
	d.tail = d.tail[:0]
	return out
}

func (d *Decoder) flush(out []byte) []byte {
	r := &d.t.decode
	if r.suffix != "" {
		out = d.write(out, strings.ReplaceAll(d.pending, r.suffix, ""), false)
	}
	out = d.flushTail(out)
	if r.cleanup {
		out = append(out, cleanUp.Replace(strings.ToValidUTF8(string(d.held), "\uFFFD"))...)
	}
	return out
}

// appendValid appends src with U+FFFD for what is not UTF-8: for each byte, or for each longest beginning of a
// character. Unless final, it stops before an unfinished character; n is how much of src it used.
func appendValid(dst, src []byte, final, perByte bool) (out []byte, n int) {
	for n < len(src) {
		r, size := utf8.DecodeRune(src[n:])
		if r != utf8.RuneError || size > 1 {
			dst = append(dst, src[n:n+size]...)
			n += size
			continue
		}
		if !final && !utf8.FullRune(src[n:]) {
			break
		}
		for !perByte && n+size < len(src) && !utf8.FullRune(src[n:n+size+1]) {
			size++
		}
		dst = append(dst, string(utf8.RuneError)...)
		n += size
	}
	return dst, n
}

// cleanUp removes the spaces that word-by-word decoding leaves before punctuation and English contractions.
var cleanUp = cleaner{
	" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " 's", "'s", " 've", "'ve",
	" 're", "'re",
}

// cleanUpToken is the same over one token.
var cleanUpToken = cleaner{
	" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't", "n't", " 'm", "'m", " do not", " don't", " 's", "'s",
	" 've", "'ve", " 're", "'re",
}

// cleaner is a list of replacements, made one after the other over the whole text.
type cleaner []string

func (c cleaner) Replace(text string) string {
	for i := 0; i < len(c); i += 2 {
		text = strings.ReplaceAll(text, c[i], c[i+1])
	}
	return text
}
