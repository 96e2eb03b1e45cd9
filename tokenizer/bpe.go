package tokenizer

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// bpe is byte-pair encoding (Sennrich et al., 2016): a piece begins as its runes (or bytes), and the neighbours of the
// best rank, leftmost first, are merged until no pair has a rank. A pair's rank comes from a table of merges
// (tokenizer.json, GGUF), or is the priority of the token that the pair spells (tiktoken ranks, SentencePiece scores).
// A heap of candidates makes it O(n log n).
type bpe struct {
	vocab  map[string]int32
	pairs  *pairTable // nil: ranks come from prio
	prio   []uint32   // by id: lower merges first; neverMerged
	maxLen int        // bytes of the longest token

	bytes    bool       // symbols begin as bytes, and vocab's keys are raw bytes
	byteIDs  [256]int32 // bytes: the token of each byte; else the token <0xHH>; -1 where there is none
	fallback bool       // a rune without a token becomes its bytes' tokens

	unk     int32 // -1: a rune without a token is dropped
	fuseUnk bool  // a run of them becomes one unk

	ignoreMerges bool   // a piece that is a token is that token
	infix        string // continuing_subword_prefix
	suffix       string // end_of_word_suffix

	chunks *chunker
	cache  *wordCache
}

const neverMerged = math.MaxUint32

// symbol is a token in the making: text[start:start of next]. id is -1 for text without a token.
type symbol struct {
	id, prev, next, start int32
}

// candidate is a possible merge of the symbol at pos with its successor, spanning size bytes.
type candidate struct {
	key      uint64 // rank<<32 | pos
	size, id int32
}

// encode implements model.
func (b *bpe) encode(s *scratch, text string) {
	if b.ignoreMerges {
		if id, ok := b.vocab[text]; ok {
			s.dst = append(s.dst, id)
			return
		}
	}
	if b.chunks == nil {
		b.encodeCached(s, text)
		return
	}
	for len(text) > 0 {
		n := b.chunks.next(text)
		b.encodeCached(s, text[:n])
		text = text[n:]
	}
}

func (b *bpe) encodeCached(s *scratch, word string) {
	if len(word) > maxCachedWord {
		b.encodeWord(s, word)
		return
	}
	slot, ids, ok := b.cache.get(word)
	if ok {
		s.dst = append(s.dst, ids...)
		return
	}
	from := len(s.dst)
	b.encodeWord(s, word)
	if s.err == nil {
		b.cache.put(slot, word, s.dst[from:])
	}
}

func (b *bpe) encodeWord(s *scratch, word string) {
	s.syms, s.heap = slices.Grow(s.syms[:0], utf8.RuneCountInString(word)), s.heap[:0]
	if b.bytes {
		b.splitBytes(s, word)
	} else {
		b.splitRunes(s, word)
	}
	if len(s.syms) == 0 {
		return
	}
	s.syms[len(s.syms)-1].next = -1
	b.mergeAll(s, word)
	end := int32(len(word))
	for i := int32(0); i >= 0; i = s.syms[i].next {
		sym := &s.syms[i]
		if sym.id >= 0 {
			s.dst = append(s.dst, sym.id)
			continue
		}
		stop := end
		if sym.next >= 0 {
			stop = s.syms[sym.next].start
		}
		b.spell(s, word[sym.start:stop])
	}
}

func (s *scratch) addSymbol(id int32, start int) {
	n := int32(len(s.syms))
	s.syms = append(s.syms, symbol{id: id, prev: n - 1, next: n + 1, start: int32(start)})
}

func (b *bpe) splitBytes(s *scratch, word string) {
	for i := range len(word) {
		if id := b.byteIDs[word[i]]; id >= 0 {
			s.addSymbol(id, i)
		} else {
			b.addUnknown(s, i)
		}
	}
}

// addUnknown adds the tokens for a rune or byte without a token.
func (b *bpe) addUnknown(s *scratch, start int) {
	if b.unk < 0 || b.fuseUnk && len(s.syms) > 0 && s.syms[len(s.syms)-1].id == b.unk {
		return
	}
	s.addSymbol(b.unk, start)
}

func (b *bpe) splitRunes(s *scratch, word string) {
	for i := 0; i < len(word); {
		_, size := utf8.DecodeRuneInString(word[i:])
		key := word[i : i+size]
		if b.infix != "" && i > 0 {
			key = b.infix + key
		}
		if b.suffix != "" && i+size == len(word) {
			key += b.suffix
		}
		id, ok := b.vocab[key]
		switch {
		case ok:
			s.addSymbol(id, i)
		case b.pairs == nil:
			s.addSymbol(-1, i) // its text may still merge
		case b.fallback && b.spellable(key):
			for j := range len(key) {
				s.addSymbol(b.byteIDs[key[j]], min(i+j, i+size-1))
			}
		default:
			b.addUnknown(s, i)
		}
		i += size
	}
}

func (b *bpe) spellable(text string) bool {
	for i := range len(text) {
		if b.byteIDs[text[i]] < 0 {
			return false
		}
	}
	return true
}

// spell appends the tokens for text that no token covers.
func (b *bpe) spell(s *scratch, text string) {
	if b.fallback && b.spellable(text) {
		for i := range len(text) {
			s.dst = append(s.dst, b.byteIDs[text[i]])
		}
		return
	}
	if b.unk >= 0 && !(b.fuseUnk && len(s.dst) > 0 && s.dst[len(s.dst)-1] == b.unk) {
		s.dst = append(s.dst, b.unk)
	}
}

// propose puts the merge of symbol left and its successor on the heap, if there is one.
func (b *bpe) propose(s *scratch, word string, left int32) {
	l := &s.syms[left]
	if l.next < 0 {
		return
	}
	r := &s.syms[l.next]
	end := int32(len(word))
	if r.next >= 0 {
		end = s.syms[r.next].start
	}
	c := candidate{size: end - l.start}
	var rank uint32
	if b.pairs != nil {
		m, ok := b.pairs.get(l.id, r.id)
		if !ok {
			return
		}
		rank, c.id = m.rank, m.id
	} else {
		if int(c.size) > b.maxLen {
			return
		}
		id, ok := b.vocab[word[l.start:end]]
		if !ok || b.prio[id] == neverMerged {
			return
		}
		rank, c.id = b.prio[id], id
	}
	c.key = uint64(rank)<<32 | uint64(left)
	s.heap.push(c)
}

func (b *bpe) mergeAll(s *scratch, word string) {
	for i := range len(s.syms) - 1 {
		b.propose(s, word, int32(i))
	}
	const dead = -2 // id of a symbol that was merged into its predecessor
	for len(s.heap) > 0 && s.proceed(0) {
		c := s.heap.pop()
		left := int32(uint32(c.key))
		l := &s.syms[left]
		if l.id == dead || l.next < 0 {
			continue
		}
		r := &s.syms[l.next]
		end := int32(len(word))
		if r.next >= 0 {
			end = s.syms[r.next].start
		}
		if end-l.start != c.size {
			continue // a neighbour has changed since
		}
		l.id, l.next = c.id, r.next
		r.id = dead
		if l.next >= 0 {
			s.syms[l.next].prev = left
		}
		if l.prev >= 0 {
			b.propose(s, word, l.prev)
		}
		b.propose(s, word, left)
	}
}

// mergeHeap is a binary heap, least key first.
type mergeHeap []candidate

func (h *mergeHeap) push(c candidate) {
	*h = append(*h, c)
	a := *h
	i := len(a) - 1
	for i > 0 {
		p := (i - 1) / 2
		if a[p].key <= c.key {
			break
		}
		a[i] = a[p]
		i = p
	}
	a[i] = c
}

func (h *mergeHeap) pop() candidate {
	a := *h
	top := a[0]
	n := len(a) - 1
	c := a[n]
	a = a[:n]
	*h = a
	i := 0
	for {
		k := 2*i + 1
		if k >= n {
			break
		}
		if k+1 < n && a[k+1].key < a[k].key {
			k++
		}
		if a[k].key >= c.key {
			break
		}
		a[i] = a[k]
		i = k
	}
	if n > 0 {
		a[i] = c
	}
	return top
}

// pairTable maps pairs of ids to what they merge into: open addressing, at most half full.
type pairTable struct {
	slots []pairSlot
	shift uint
	count int
}

type pairSlot struct {
	key  uint64
	rank uint32
	id   int32 // -1: empty
}

func newPairTable() *pairTable {
	t := &pairTable{}
	t.resize(10)
	return t
}

func (t *pairTable) resize(bits uint) {
	old := t.slots
	t.slots, t.shift = make([]pairSlot, 1<<bits), 64-bits
	for i := range t.slots {
		t.slots[i].id = -1
	}
	for _, s := range old {
		if s.id >= 0 {
			*t.slot(s.key) = s
		}
	}
}

func (t *pairTable) slot(key uint64) *pairSlot {
	i := key * 0x9E3779B97F4A7C15 >> t.shift
	for {
		s := &t.slots[i]
		if s.id < 0 || s.key == key {
			return s
		}
		i = (i + 1) & uint64(len(t.slots)-1)
	}
}

// put records a merge. Of equal pairs the last wins, or with keep the first.
func (t *pairTable) put(a, b int32, rank uint32, id int32, keep bool) {
	key := uint64(uint32(a))<<32 | uint64(uint32(b))
	s := t.slot(key)
	if s.id < 0 {
		if t.count++; 2*t.count > len(t.slots) {
			t.resize(64 - t.shift + 1)
			s = t.slot(key)
		}
	} else if keep {
		return
	}
	*s = pairSlot{key, rank, id}
}

func (t *pairTable) get(a, b int32) (*pairSlot, bool) {
	s := t.slot(uint64(uint32(a))<<32 | uint64(uint32(b)))
	return s, s.id >= 0
}

// chunker cuts text before a word mark (▁) where no token spans the cut, so that long text can be encoded word by word:
// no merge can cross such a place, so the ids are those of the whole text.
type chunker struct {
	mark  string
	ascii [128]bool // runes that precede a mark inside some token
	other map[rune]bool
}

func newChunker(vocab map[string]int32, mark string) *chunker {
	c := &chunker{mark: mark, other: map[rune]bool{}}
	for token := range vocab {
		for i := 1; i < len(token); {
			k := strings.Index(token[i:], mark)
			if k < 0 {
				break
			}
			i += k
			if r, _ := utf8.DecodeLastRuneInString(token[:i]); r < 0x80 {
				c.ascii[r] = true
			} else {
				c.other[r] = true
			}
			i++
		}
	}
	return c
}

// next returns the length of the first chunk of text.
func (c *chunker) next(text string) int {
	for i := 1; i < len(text); {
		k := strings.Index(text[i:], c.mark)
		if k < 0 {
			break
		}
		i += k
		r, _ := utf8.DecodeLastRuneInString(text[:i])
		if r < 0x80 && !c.ascii[r] || r >= 0x80 && !c.other[r] {
			return i
		}
		i++
	}
	return len(text)
}
