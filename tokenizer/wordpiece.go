package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// wordPiece cuts a word greedily into the longest pieces of the vocabulary (Schuster and Nakajima, 2012). A word that
// cannot be covered is one unk.
type wordPiece struct {
	initial, continuing trie // values are ids
	unk                 int32
	maxRunes            int // longer words are unk; 0: no limit
	cache               *wordCache
}

// newWordPiece builds the model. Tokens that continue a word begin with infix; those that begin one begin with lead.
func newWordPiece(tokens []string, lead, infix string) *wordPiece {
	initial := make([]string, len(tokens))
	continuing := make([]string, len(tokens))
	for i, t := range tokens {
		if rest, ok := strings.CutPrefix(t, lead); ok {
			initial[i] = rest
		}
		if rest, ok := strings.CutPrefix(t, infix); ok && (lead == "" || !strings.HasPrefix(t, lead)) {
			continuing[i] = rest
		}
	}
	return &wordPiece{initial: newTrie(initial), continuing: newTrie(continuing), cache: newWordCache()}
}

// encode implements model.
func (w *wordPiece) encode(s *scratch, word string) {
	if len(word) > maxCachedWord {
		w.encodeWord(s, word)
		return
	}
	slot, ids, ok := w.cache.get(word)
	if ok {
		s.dst = append(s.dst, ids...)
		return
	}
	from := len(s.dst)
	w.encodeWord(s, word)
	w.cache.put(slot, word, s.dst[from:])
}

func (w *wordPiece) encodeWord(s *scratch, word string) {
	from := len(s.dst)
	bad := w.maxRunes > 0 && len(word) > w.maxRunes && utf8.RuneCountInString(word) > w.maxRunes
	for pos, t := 0, &w.initial; pos < len(word) && !bad; t = &w.continuing {
		id, n := t.longest(word[pos:])
		if bad = id < 0; !bad {
			s.dst = append(s.dst, id)
			pos += n
		}
	}
	if bad {
		s.dst = append(s.dst[:from], w.unk)
	}
}

// wordLevel looks whole pieces up.
type wordLevel struct {
	vocab map[string]int32
	unk   int32 // -1: unknown pieces are dropped
}

// encode implements model.
func (w *wordLevel) encode(s *scratch, word string) {
	id, ok := w.vocab[word]
	if !ok {
		id = w.unk
	}
	if id >= 0 {
		s.dst = append(s.dst, id)
	}
}
