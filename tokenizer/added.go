package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// addedToken is a token that is taken out of the text before the model sees it.
type addedToken struct {
	content    string
	id         int32
	special    bool // a control token: matched only with ParseSpecial, left out when decoding
	singleWord bool // matched only where no word rune touches it
	lstrip     bool // takes the white space before it
	rstrip     bool // takes the white space after it
	normalized bool // matched in the normalized text
}

// addedMatcher finds added tokens: leftmost, and of those at one place the longest. A nil matcher finds none.
type addedMatcher struct {
	tokens []addedToken
	trie   trie // values index tokens
	first  [256]bool
	only   int // the one byte that tokens begin with, or -1
}

func newAddedMatcher(tokens []addedToken) *addedMatcher {
	if len(tokens) == 0 {
		return nil
	}
	m := &addedMatcher{tokens: tokens, only: int(tokens[0].content[0])}
	keys := make([]string, len(tokens))
	for i, t := range tokens {
		keys[i] = t.content
		m.first[t.content[0]] = true
		if int(t.content[0]) != m.only {
			m.only = -1
		}
	}
	m.trie = newTrie(keys)
	return m
}

// find returns the next token at or after pos.
func (m *addedMatcher) find(text string, pos int) (start, end int, token *addedToken) {
	for ; pos < len(text); pos++ {
		if m.only >= 0 {
			i := strings.IndexByte(text[pos:], byte(m.only))
			if i < 0 {
				break
			}
			pos += i
		} else if !m.first[text[pos]] {
			continue
		}
		if v, n := m.trie.longest(text[pos:]); v >= 0 {
			return pos, pos + n, &m.tokens[v]
		}
	}
	return 0, 0, nil
}

// split calls on for each added token (with its id) and each stretch of text between them (with id -1); at is where
// the stretch begins. The empty text is one empty stretch.
func (m *addedMatcher) split(text string, special bool, on func(seg string, id int32, at int)) {
	if m == nil {
		on(text, -1, 0)
		return
	}
	done := 0
	for pos := 0; pos < len(text); {
		start, end, tok := m.find(text, pos)
		if tok == nil {
			break
		}
		pos = end
		if tok.special && !special || tok.singleWord && touchesWord(text, start, end) {
			continue
		}
		if tok.lstrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], isSpace)))
		}
		if tok.rstrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], isSpace))
			pos = end
		}
		if start > done {
			on(text[done:start], -1, done)
		}
		on(text[start:end], tok.id, start)
		done = end
	}
	if done < len(text) || len(text) == 0 {
		on(text[done:], -1, done)
	}
}

func touchesWord(text string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:start])
	after, _ := utf8.DecodeRuneInString(text[end:])
	return start > 0 && setRustWord.has(before) || end < len(text) && setRustWord.has(after)
}

func isSpace(r rune) bool {
	if r < 0x80 {
		return r == ' ' || r >= '\t' && r <= '\r'
	}
	return setSpace.has(r)
}
