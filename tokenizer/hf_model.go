package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// hfModelFile is the model of tokenizer.json. Older files lack the type; the fields then decide.
type hfModelFile struct {
	Type         string          `json:"type"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
	UnkToken     *string         `json:"unk_token"`
	UnkID        *int64          `json:"unk_id"`
	Infix        *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Dropout      *float64        `json:"dropout"`
	MaxRunes     *int            `json:"max_input_chars_per_word"`
}

func (m *hfModelFile) kind() string {
	switch {
	case m.Type != "":
		return m.Type
	case len(m.Merges) > 0:
		return "BPE"
	case len(m.Vocab) > 0 && m.Vocab[0] == '[':
		return "Unigram"
	case m.MaxRunes != nil || m.Infix != nil:
		return "WordPiece"
	}
	return "WordLevel"
}

func (t *Tokenizer) hfModel(f *hfFile) error {
	var m hfModelFile
	if err := json.Unmarshal(f.Model, &m); err != nil {
		return err
	}
	if m.Dropout != nil && *m.Dropout != 0 {
		return fmt.Errorf("dropout %g is not supported", *m.Dropout)
	}
	switch m.kind() {
	case "BPE":
		return t.hfBPE(&m, f)
	case "Unigram":
		return t.hfUnigram(&m, f)
	case "WordPiece":
		return t.hfWordPiece(&m, f)
	case "WordLevel":
		ids, err := t.hfVocab(&m)
		t.kind, t.model = "wordlevel", &wordLevel{ids, hfUnk(&m, ids)}
		return err
	}
	return fmt.Errorf("type %q is not supported", m.Type)
}

// hfVocab reads the vocabulary into t.vocab and a map.
func (t *Tokenizer) hfVocab(m *hfModelFile) (map[string]int32, error) {
	ids := map[string]int32{}
	top := -1.0
	err := vocabObject(string(m.Vocab), func(token string, id float64) {
		if top = max(top, id); id >= 0 && id < math.MaxInt32 {
			ids[token] = int32(id)
		} else {
			top = math.Inf(1)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("vocab: %w", err)
	}
	if top > float64(4*len(ids)+1<<16) {
		return nil, fmt.Errorf("vocab: ids out of range for %d tokens", len(ids))
	}
	t.vocab = newVocabulary(int(top) + 1)
	for token, id := range ids {
		if prev := t.vocab.text[id]; prev == "" || token < prev {
			t.vocab.text[id] = token
		}
	}
	return ids, nil
}

func hfUnk(m *hfModelFile, ids map[string]int32) int32 {
	if m.UnkToken != nil {
		if id, ok := ids[*m.UnkToken]; ok {
			return id
		}
	}
	return -1
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (t *Tokenizer) hfBPE(m *hfModelFile, f *hfFile) error {
	ids, err := t.hfVocab(m)
	if err != nil {
		return err
	}
	b := &bpe{vocab: ids, unk: hfUnk(m, ids), fuseUnk: m.FuseUnk, fallback: m.ByteFallback, infix: deref(m.Infix),
		suffix: deref(m.Suffix), ignoreMerges: m.IgnoreMerges, cache: newWordCache()}
	t.kind, t.model = "bpe", b
	if m.ByteFallback {
		t.kind = "spm-bpe"
	}
	spell := func(token string) string { return token }
	last := len(t.stages) - 1
	if last >= 0 && t.stages[last] == (byteLevelStage{}) && !b.fallback && b.infix == "" && b.suffix == "" {
		t.stages = t.stages[:last]
		b.useBytes()
		var buf []byte
		spell = func(token string) string {
			buf, _ = appendUnspelled(buf[:0], token)
			return string(buf)
		}
	} else {
		b.useRunes()
	}
	special := f.special()
	if err := b.hfMerges(m.Merges, ids, spell, special); err != nil {
		return err
	}
	for token := range special {
		if id, ok := ids[token]; ok && b.vocab[spell(token)] == id {
			delete(b.vocab, spell(token))
		}
	}
	return nil
}

// special is the set of the special tokens' texts. Models do not find them in text: only the added tokens do.
func (f *hfFile) special() map[string]bool {
	set := map[string]bool{}
	for _, a := range f.AddedTokens {
		if a.Special {
			set[a.Content] = true
		}
	}
	return set
}

// useBytes turns a vocabulary of spelt bytes into one of raw bytes. Tokens that spell none are beyond the model's
// reach.
func (b *bpe) useBytes() {
	raw := make(map[string]int32, len(b.vocab))
	var buf []byte
	for token, id := range b.vocab {
		var ok bool
		if buf, ok = appendUnspelled(buf[:0], token); ok {
			raw[string(buf)] = id
		}
	}
	b.bytes, b.vocab = true, raw
	for i := range b.byteIDs {
		b.byteIDs[i] = -1
		if id, ok := raw[string([]byte{byte(i)})]; ok {
			b.byteIDs[i] = id
		}
	}
}

// useRunes finds the byte tokens, and whether long text may be cut at word marks.
func (b *bpe) useRunes() {
	for i := range b.byteIDs {
		b.byteIDs[i] = -1
		if id, ok := b.vocab[byteTokenName(byte(i))]; ok {
			b.byteIDs[i] = id
		}
	}
	if _, ok := b.vocab[spaceMark]; ok && b.infix == "" && b.suffix == "" {
		b.chunks = newChunker(b.vocab, spaceMark)
	}
}

// spaceMark is SentencePiece's character for a space.
const spaceMark = "▁"

func (b *bpe) hfMerges(merges json.RawMessage, ids map[string]int32, spell func(string) string,
	special map[string]bool) error {
	if len(merges) == 0 {
		return errors.New("BPE without merges")
	}
	b.pairs = newPairTable()
	rank := uint32(0)
	err := mergeList(string(merges), func(left, right string) error {
		whole := left
		if len(right) >= len(b.infix) {
			whole += right[len(b.infix):]
		}
		l, ok1 := ids[left]
		r, ok2 := ids[right]
		w, ok3 := ids[whole]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("merge %d, %q and %q, is not of tokens in the vocabulary", rank, left, right)
		}
		if special[whole] {
			rank++
			return nil
		}
		if !b.bytes || b.vocab[spell(left)] == l && b.vocab[spell(right)] == r && b.vocab[spell(whole)] == w {
			b.pairs.put(l, r, rank, w, false)
		}
		rank++
		return nil
	})
	if err != nil {
		return fmt.Errorf("merges: %w", err)
	}
	return nil
}

func (t *Tokenizer) hfUnigram(m *hfModelFile, f *hfFile) error {
	var pieces []string
	var scores []float64
	err := vocabList(string(m.Vocab), func(token string, score float64) {
		pieces, scores = append(pieces, token), append(scores, score)
	})
	if err != nil {
		return fmt.Errorf("vocab: %w", err)
	}
	t.vocab = newVocabulary(len(pieces))
	copy(t.vocab.text, pieces)
	special := f.special()
	u := newUnigram(pieces, scores, slices.Min(append(scores, math.Inf(1))), func(id int) bool { return special[pieces[id]] })
	if m.UnkID != nil {
		if *m.UnkID < 0 || *m.UnkID >= int64(len(pieces)) {
			return fmt.Errorf("unk_id %d of %d pieces", *m.UnkID, len(pieces))
		}
		u.unk = int32(*m.UnkID)
	}
	if m.ByteFallback {
		u.useByteTokens(pieces)
	}
	t.kind, t.model = "unigram", u
	return nil
}

// useByteTokens turns byte fallback on if there is a token for every byte.
func (u *unigram) useByteTokens(pieces []string) {
	n := 0
	for id, p := range pieces {
		if b, ok := byteToken(p); ok && p == byteTokenName(b) {
			u.byteIDs[b] = int32(id)
			n++
		}
	}
	u.fallback = n >= 256
}

func (t *Tokenizer) hfWordPiece(m *hfModelFile, f *hfFile) error {
	ids, err := t.hfVocab(m)
	if err != nil {
		return err
	}
	infix := "##"
	if m.Infix != nil {
		infix = *m.Infix
	}
	special := f.special()
	words := slices.Clone(t.vocab.text)
	for id, word := range words {
		if special[word] {
			words[id] = ""
		}
	}
	w := newWordPiece(words, "", infix)
	if w.maxRunes = 100; m.MaxRunes != nil {
		w.maxRunes = *m.MaxRunes
	}
	if w.unk = hfUnk(m, ids); w.unk < 0 {
		return fmt.Errorf("unk_token %q is not in the vocabulary", deref(m.UnkToken))
	}
	t.kind, t.model = "wordpiece", w
	return nil
}
