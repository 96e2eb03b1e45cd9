package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// spmModel is the relevant part of SentencePiece's ModelProto (sentencepiece_model.proto).
type spmModel struct {
	pieces []string
	scores []float32
	types  []tokenType

	algorithm         int // 1 unigram, 2 BPE, 3 word, 4 char
	byteFallback      bool
	spaceSuffix       bool // treat_whitespace_as_suffix
	unk, bos, eos     int32
	charsmap          []byte
	dummyPrefix       bool
	removeExtraSpaces bool
	escapeSpaces      bool
}

// tokenType is the type of a piece, numbered as SentencePiece and GGUF do.
type tokenType uint8

const (
	typeNormal      tokenType = 1
	typeUnknown     tokenType = 2
	typeControl     tokenType = 3
	typeUserDefined tokenType = 4
	typeUnused      tokenType = 5
	typeByte        tokenType = 6
)

func parseSPM(data []byte) (*spmModel, error) {
	m := &spmModel{algorithm: 1, unk: 0, bos: 1, eos: 2, dummyPrefix: true, removeExtraSpaces: true, escapeSpaces: true}
	err := protoFields(data, func(f protoField) error {
		switch {
		case f.wire != 2:
			return nil
		case f.number == 1:
			return m.parsePiece(f.bytes)
		case f.number == 2:
			return protoFields(f.bytes, m.trainerField)
		case f.number == 3:
			return protoFields(f.bytes, m.normalizerField)
		}
		return nil
	})
	if err == nil && len(m.pieces) == 0 {
		err = errors.New("no pieces")
	}
	if m.unk < 0 || int(m.unk) >= len(m.pieces) {
		m.unk = -1
	}
	return m, err
}

func (m *spmModel) parsePiece(msg []byte) error {
	piece, score, kind := "", float32(0), typeNormal
	err := protoFields(msg, func(f protoField) error {
		switch f.number {
		case 1:
			piece = string(f.bytes)
		case 2:
			score = f.float32()
		case 3:
			kind = tokenType(f.value)
		}
		return nil
	})
	m.pieces, m.scores, m.types = append(m.pieces, piece), append(m.scores, score), append(m.types, kind)
	return err
}

func (m *spmModel) trainerField(f protoField) error {
	switch f.number {
	case 3:
		m.algorithm = int(f.value)
	case 24:
		m.spaceSuffix = f.value != 0
	case 35:
		m.byteFallback = f.value != 0
	case 40:
		m.unk = int32(f.value)
	case 41:
		m.bos = int32(f.value)
	case 42:
		m.eos = int32(f.value)
	}
	return nil
}

func (m *spmModel) normalizerField(f protoField) error {
	switch f.number {
	case 2:
		m.charsmap = f.bytes
	case 3:
		m.dummyPrefix = f.value != 0
	case 4:
		m.removeExtraSpaces = f.value != 0
	case 5:
		m.escapeSpaces = f.value != 0
	}
	return nil
}

// loadSPM reads a SentencePiece tokenizer.model.
func loadSPM(data []byte, cfg config) (*Tokenizer, error) {
	m, err := parseSPM(data)
	if err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	t := &Tokenizer{bos: -1, pre: "none"}
	n := int32(len(m.pieces))
	t.vocab = newVocabulary(len(m.pieces))
	var added, userDefined []addedToken
	for id, piece := range m.pieces {
		special := m.types[id] == typeControl || m.types[id] == typeUnknown
		t.vocab.text[id], t.vocab.special[id] = piece, special
		switch m.types[id] {
		case typeControl, typeUnknown:
			added = append(added, addedToken{content: piece, id: int32(id), special: true})
		case typeUserDefined:
			if piece != "" {
				userDefined = append(userDefined, addedToken{content: piece, id: int32(id), normalized: true})
			}
		}
	}
	if m.algorithm == 2 { // unigram models weigh them against other pieces
		added = append(added, userDefined...)
	}
	if err := t.spmAlgorithm(m); err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	table, err := parseCharsmap(m.charsmap)
	if err != nil {
		return nil, fmt.Errorf("SentencePiece model: %w", err)
	}
	norm := &spmNormalizer{model: m, table: table, userDefined: newAddedMatcher(userDefined)}
	t.decode.spmRules(m.dummyPrefix && !m.spaceSuffix)
	t.finish(append(added, cfg.addedTokens(len(m.pieces))...))
	t.normalizers = []normalizer{norm.normalize} // after finish: the text of user-defined pieces is normalized already
	if m.bos >= 0 && m.bos < n {
		t.bos = m.bos
	}
	if m.eos >= 0 && m.eos < n {
		t.eos = []int32{m.eos}
	}
	if t.bos >= 0 && orDefault(cfg.AddBOS, m.algorithm == 2) {
		t.prefix = []int32{t.bos}
	}
	if len(t.eos) > 0 && orDefault(cfg.AddEOS, m.algorithm == 1) {
		t.suffix = slices.Clone(t.eos)
	}
	cfg.AddBOS, cfg.AddEOS = nil, nil
	return t, t.configure(cfg)
}

// addedTokens returns the tokens that tokenizer_config.json adds to a vocabulary of n; ids far beyond it are left out.
func (c config) addedTokens(n int) []addedToken {
	var added []addedToken
	for key, a := range c.Added {
		var id int32
		if _, err := fmt.Sscan(key, &id); err != nil || id < 0 || int(id) > 4*n+1<<16 {
			continue
		}
		added = append(added, addedToken{content: a.Content, id: id, special: a.Special, singleWord: a.SingleWord,
			lstrip: a.LStrip, rstrip: a.RStrip})
	}
	return added
}

// spmRules decodes as SentencePiece does: marks are spaces, and the dummy prefix goes.
func (r *decodeRules) spmRules(prefix bool) {
	r.steps = append(r.steps, func(token string, _ bool) string { return strings.ReplaceAll(token, spaceMark, " ") })
	r.fallback = true
	if prefix {
		r.strip, r.stripRune = 1, ' '
	}
}

func (t *Tokenizer) spmAlgorithm(m *spmModel) error {
	switch m.algorithm {
	case 1:
		scores := make([]float64, len(m.scores))
		// SentencePiece takes the maximum of the scores and C's FLT_MIN, and log-probabilities are below it: a
		// user-defined piece has -0.1, more than nearly any other spelling of its text.
		lowest, highest := math.Inf(1), 0x1p-126
		for i, s := range m.scores {
			scores[i] = float64(s)
			if m.types[i] == typeNormal {
				lowest, highest = min(lowest, scores[i]), max(highest, scores[i])
			}
		}
		for i := range scores {
			if m.types[i] == typeUserDefined {
				scores[i] = float64(float32(len(m.pieces[i]))*float32(highest)) - 0.1
			}
		}
		u := newUnigram(m.pieces, scores, lowest, func(id int) bool {
			return m.types[id] != typeNormal && m.types[id] != typeUserDefined
		})
		u.single, u.unk = true, m.unk
		if m.byteFallback {
			u.useByteTokens(m.pieces)
		}
		t.kind, t.model = "unigram", u
		return nil
	case 2:
		b := newSPMBPE(m.pieces, m.scores, m.types, m.byteFallback, m.unk)
		t.kind, t.model = "spm-bpe", b
		return nil
	}
	return fmt.Errorf("model type %d is not supported (1 is unigram, 2 is BPE)", m.algorithm)
}

// newSPMBPE builds byte-pair encoding in which the pair that spells the piece of the greatest score merges first.
// Control, unknown and byte pieces are never spelt by text.
func newSPMBPE(pieces []string, scores []float32, types []tokenType, fallback bool, unk int32) *bpe {
	b := &bpe{vocab: make(map[string]int32, len(pieces)), prio: make([]uint32, len(pieces)), fallback: fallback, unk: unk,
		fuseUnk: true, cache: newWordCache()}
	for i := range b.byteIDs {
		b.byteIDs[i] = -1
	}
	for id, p := range pieces {
		b.prio[id] = neverMerged
		switch types[id] {
		case typeControl, typeUnknown:
			continue
		case typeByte:
			if c, ok := byteToken(p); ok {
				b.byteIDs[c] = int32(id)
			}
			continue
		}
		if _, dup := b.vocab[p]; dup || p == "" {
			continue
		}
		b.vocab[p] = int32(id)
		b.maxLen = max(b.maxLen, len(p))
		b.prio[id] = min(descending(scores[id]), neverMerged-1)
	}
	if _, ok := b.vocab[spaceMark]; ok {
		b.chunks = newChunker(b.vocab, spaceMark)
	}
	return b
}

// descending maps a float to an integer of the opposite order.
func descending(f float32) uint32 {
	if f == 0 {
		f = 0 // -0 equals 0
	}
	bits := math.Float32bits(f)
	if bits>>31 == 1 {
		return bits
	}
	return ^bits &^ (1 << 31)
}

// spmNormalizer is SentencePiece's Normalizer: the table's longest keys are replaced, spaces are marked, extra ones
// removed, and one put before (or after) the text. The text of user-defined pieces stays as it is.
type spmNormalizer struct {
	model       *spmModel
	table       *charsmap
	userDefined *addedMatcher
}

// next takes one unit off text and returns what it becomes.
func (n *spmNormalizer) next(text string) (unit string, length int) {
	if n.userDefined != nil && n.userDefined.first[text[0]] {
		if _, k := n.userDefined.trie.longest(text); k > 0 {
			return text[:k], k
		}
	}
	if n.table != nil {
		if r, k, ok := n.table.prefix(text, false); ok {
			return r, k
		}
	}
	if text[0] < utf8.RuneSelf {
		return text[:1], 1
	}
	_, size := utf8.DecodeRuneInString(text)
	return text[:size], size
}

func (n *spmNormalizer) normalize(text string) string {
	m := n.model
	mark := " "
	if m.escapeSpaces {
		mark = spaceMark
	}
	for m.removeExtraSpaces && text != "" {
		unit, k := n.next(text)
		if unit != " " {
			break
		}
		text = text[k:]
	}
	if text == "" {
		return ""
	}
	if n.table == nil && n.userDefined == nil && !m.removeExtraSpaces && m.dummyPrefix && !m.spaceSuffix {
		return strings.ReplaceAll(" "+text, " ", mark)
	}
	out := make([]byte, 0, len(text)+len(text)/4)
	if m.dummyPrefix && !m.spaceSuffix {
		out = append(out, mark...)
	}
	afterSpace := m.removeExtraSpaces
	for text != "" {
		unit, k := n.next(text)
		text = text[k:]
		for afterSpace && strings.HasPrefix(unit, " ") {
			unit = unit[1:]
		}
		if unit == "" {
			continue
		}
		for i := range len(unit) {
			if unit[i] == ' ' {
				out = append(out, mark...)
			} else {
				out = append(out, unit[i])
			}
		}
		afterSpace = m.removeExtraSpaces && strings.HasSuffix(unit, " ")
	}
	normalized := string(out)
	if m.removeExtraSpaces {
		for strings.HasSuffix(normalized, mark) {
			normalized = normalized[:len(normalized)-len(mark)]
		}
	}
	if m.dummyPrefix && m.spaceSuffix {
		normalized += mark
	}
	return normalized
}
