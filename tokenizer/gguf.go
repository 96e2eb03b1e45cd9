package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ggufMeta reads typed values out of GGUF metadata.
type ggufMeta struct {
	values map[string]any
	err    error // the first value of a wrong type
}

const ggufPrefix = "tokenizer.ggml."

func (m *ggufMeta) wrong(key, want string) {
	if m.err == nil {
		m.err = fmt.Errorf("%s is a %T, not %s", key, m.values[ggufPrefix+key], want)
	}
}

func (m *ggufMeta) str(key string) string {
	v, ok := m.values[ggufPrefix+key]
	s, isString := v.(string)
	if ok && !isString {
		m.wrong(key, "a string")
	}
	return s
}

func (m *ggufMeta) boolean(key string, def bool) bool {
	v, ok := m.values[ggufPrefix+key]
	b, isBool := v.(bool)
	if !ok {
		return def
	}
	if !isBool {
		m.wrong(key, "a bool")
	}
	return b
}

// id returns a token id, or def where there is none or it is out of the vocabulary of n.
func (m *ggufMeta) id(key string, n int, def int32) int32 {
	v, ok := m.values[ggufPrefix+key]
	var id int64
	switch x := v.(type) {
	case uint32:
		id = int64(x)
	case int32:
		id = int64(x)
	case uint64:
		id = int64(min(x, math.MaxInt64))
	case int64:
		id = x
	case uint16:
		id = int64(x)
	case uint8:
		id = int64(x)
	default:
		if ok {
			m.wrong(key, "an integer")
		}
		id = int64(def)
	}
	if id < 0 || id >= int64(n) {
		return -1
	}
	return int32(id)
}

func (m *ggufMeta) strings(key string) []string {
	v, ok := m.values[ggufPrefix+key]
	s, isStrings := v.([]string)
	if ok && !isStrings {
		m.wrong(key, "an array of strings")
	}
	return s
}

func (m *ggufMeta) scores(n int) []float32 {
	const key = "scores"
	v, ok := m.values[ggufPrefix+key]
	out := make([]float32, n)
	switch x := v.(type) {
	case []float32:
		if copy(out, x) < n {
			m.err = errors.Join(m.err, fmt.Errorf("%d scores for %d tokens", len(x), n))
		}
	case []int32:
		for i := range min(n, len(x)) {
			out[i] = float32(x[i])
		}
	default:
		if ok {
			m.wrong(key, "an array of float32")
		}
	}
	return out
}

func (m *ggufMeta) types(n int) []tokenType {
	const key = "token_type"
	v, ok := m.values[ggufPrefix+key]
	out := slices.Repeat([]tokenType{typeNormal}, n)
	switch x := v.(type) {
	case []int32:
		for i := range min(n, len(x)) {
			out[i] = tokenType(x[i])
		}
	case []uint32:
		for i := range min(n, len(x)) {
			out[i] = tokenType(x[i])
		}
	default:
		if ok {
			m.wrong(key, "an array of int32")
		}
	}
	return out
}

func (m *ggufMeta) bytes(key string) []byte {
	v, ok := m.values[ggufPrefix+key]
	switch x := v.(type) {
	case []byte:
		return x
	case []int8:
		out := make([]byte, len(x))
		for i, b := range x {
			out[i] = byte(b)
		}
		return out
	}
	if ok {
		m.wrong(key, "an array of bytes")
	}
	return nil
}

// FromGGUF builds a tokenizer from GGUF metadata: the keys tokenizer.ggml.*, with values of the Go types string, bool,
// uint32 (or another integer), []string, []float32, []int32 and []uint8. It follows llama.cpp, except that ordinary
// text never yields control tokens. Unknown values of tokenizer.ggml.model and tokenizer.ggml.pre are errors that name
// them.
func FromGGUF(meta map[string]any) (*Tokenizer, error) {
	t, err := fromGGUF(&ggufMeta{values: meta}, meta)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: GGUF: %w", err)
	}
	return t, nil
}

// ggufVocab is the vocabulary of a GGUF file, with which the models are built.
type ggufVocab struct {
	tokens []string
	types  []tokenType
	meta   *ggufMeta
}

func fromGGUF(m *ggufMeta, meta map[string]any) (*Tokenizer, error) {
	v := &ggufVocab{tokens: m.strings("tokens"), meta: m}
	if len(v.tokens) == 0 {
		return nil, errors.Join(m.err, errors.New("no tokenizer.ggml.tokens"))
	}
	n := len(v.tokens)
	v.types = m.types(n)
	t := &Tokenizer{vocab: newVocabulary(n), bos: m.id("bos_token_id", n, -1), pre: "none"}
	added := v.added(t, meta)
	var err error
	addBOS, addEOS := false, false
	switch kind := m.str("model"); kind {
	case "llama":
		addBOS = true
		t.ggufSPM(v)
	case "gpt2", "gemma4":
		addBOS, err = t.ggufBPE(v, kind)
	case "bert":
		err = t.ggufBERT(v)
	case "t5":
		addEOS = true
		err = t.ggufUnigram(v)
	default:
		err = fmt.Errorf("tokenizer.ggml.model %q is not supported", kind)
	}
	if err = errors.Join(err, m.err); err != nil {
		return nil, err
	}
	t.finish(added)
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if id := m.id(key, n, -1); id >= 0 {
			t.eos = append(t.eos, id)
		}
	}
	if m.boolean("add_bos_token", addBOS) && t.bos >= 0 && t.kind != "wordpiece" {
		t.prefix = []int32{t.bos}
	}
	if eos := m.id("eos_token_id", n, -1); m.boolean("add_eos_token", addEOS) && eos >= 0 && t.kind != "wordpiece" {
		t.suffix = []int32{eos}
	}
	t.finishSpecial()
	return t, m.err
}

// added fills t's vocabulary and lists the tokens that are taken out of the text first.
func (v *ggufVocab) added(t *Tokenizer, meta map[string]any) []addedToken {
	name, _ := meta["general.name"].(string)
	name = strings.ToLower(name)
	phi3 := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	var added []addedToken
	for id, token := range v.tokens {
		if token == "" {
			token = fmt.Sprintf("[EMPTY_%d]", id)
		}
		t.vocab.text[id] = token
		kind := v.types[id]
		if slices.Contains(endOfGeneration, token) && kind == typeNormal {
			kind = typeControl
		}
		if kind != typeControl && kind != typeUnknown && kind != typeUserDefined {
			continue
		}
		a := addedToken{content: token, id: int32(id), special: kind != typeUserDefined}
		switch token {
		case "<unk>", "<s>", "<|endoftext|>":
		case "<mask>", "[MASK]":
			pre := v.meta.str("pre")
			a.lstrip = strings.HasPrefix(pre, "jina-v2") || strings.Contains(name, "modern-bert")
		default:
			a.rstrip = phi3
		}
		t.vocab.special[id] = a.special
		added = append(added, a)
	}
	return added
}

func (t *Tokenizer) ggufSPM(v *ggufVocab) {
	n := len(v.tokens)
	if t.bos < 0 {
		t.bos = v.meta.id("bos_token_id", n, 1)
	}
	t.kind, t.model = "spm-bpe", newSPMBPE(v.tokens, v.meta.scores(n), v.types, true, v.meta.id("unknown_token_id", n, 0))
	prefix := v.meta.boolean("add_space_prefix", true)
	if prefix {
		t.normalizers = append(t.normalizers, prependText(" "))
	}
	t.normalizers = append(t.normalizers, replaceText(" ", spaceMark))
	t.decode.spmRules(prefix)
}

func (t *Tokenizer) ggufBPE(v *ggufVocab, model string) (addBOS bool, err error) {
	pre := v.meta.str("pre")
	if pre == "" {
		pre = "default"
	}
	if model == "gemma4" {
		pre = "gemma4"
	}
	ids := make(map[string]int32, len(v.tokens))
	for id, token := range v.tokens {
		if _, dup := ids[token]; !dup && token != "" && !t.vocab.special[id] {
			ids[token] = int32(id)
		}
	}
	b := &bpe{vocab: ids, unk: -1, cache: newWordCache()}
	t.kind, t.model, t.pre = "bpe", b, pre
	merges := v.meta.strings("merges")
	if len(merges) == 0 && pre != "kimi-k2" {
		return false, errors.New("no tokenizer.ggml.merges")
	}
	b.ggufMerges(merges)
	switch pre {
	case "gemma4", "granite-embed-multi-311m", "sarvam-moe":
		return t.ggufMarked(b, pre)
	}
	p, ok := preTokenizers[pre]
	if !ok {
		return false, fmt.Errorf("pre-tokenizer %q (tokenizer.ggml.pre) is not known", pre)
	}
	t.stages, err = p.stages()
	b.useBytes()
	b.ignoreMerges = p.ignoreMerges
	if len(merges) == 0 {
		b.useRanks(len(v.tokens))
	}
	t.decode.byteLevel = true
	t.decode.verbatim = func(id int) bool { return v.types[id] == typeUserDefined || v.types[id] == typeControl }
	return p.addBOS, err
}

// ggufMarked sets byte-pair encoding over marked spaces, with byte fallback, between line breaks.
func (t *Tokenizer) ggufMarked(b *bpe, pre string) (addBOS bool, err error) {
	t.stages, err = preTokenizer{patterns: []string{patternNewlineRuns}}.stages()
	t.normalizers = []normalizer{replaceText(" ", spaceMark)}
	b.fallback, b.ignoreMerges = true, pre == "gemma4"
	b.useRunes()
	t.kind = "spm-bpe"
	t.decode.spmRules(false)
	return pre == "gemma4", err
}

// ggufMerges reads "a b" merges; those of tokens that do not exist can never apply.
func (b *bpe) ggufMerges(merges []string) {
	b.pairs = newPairTable()
	for rank, line := range merges {
		if len(line) < 3 {
			continue
		}
		i := strings.IndexByte(line[1:], ' ')
		if i < 0 {
			continue
		}
		left, right := line[:i+1], line[i+2:]
		l, ok1 := b.vocab[left]
		r, ok2 := b.vocab[right]
		w, ok3 := b.vocab[left+right]
		if ok1 && ok2 && ok3 {
			b.pairs.put(l, r, uint32(rank), w, true)
		}
	}
}

// useRanks merges by token id, for vocabularies without merges.
func (b *bpe) useRanks(n int) {
	b.pairs = nil
	b.prio = make([]uint32, n)
	for id := range b.prio {
		b.prio[id] = uint32(id)
	}
	for token := range b.vocab {
		b.maxLen = max(b.maxLen, len(token))
	}
}

func (t *Tokenizer) ggufBERT(v *ggufVocab) error {
	n := len(v.tokens)
	w := newWordPiece(v.tokens, spaceMark, "")
	if w.unk = v.meta.id("unknown_token_id", n, 100); w.unk < 0 {
		return fmt.Errorf("no unknown token in a vocabulary of %d", n)
	}
	lower := v.meta.boolean("normalizer.lowercase", true)
	accents := v.meta.boolean("normalizer.strip_accents", lower)
	t.normalizers = []normalizer{bertRules{clean: true, chinese: true, lower: lower, accents: accents}.normalize}
	t.stages = []stage{&splitter{find: setFinder(setSpace, false), behavior: splitRemoved},
		&splitter{find: setFinder(setPunct, false)}}
	t.kind, t.model, t.pre = "wordpiece", w, "BertPreTokenizer"
	if t.bos < 0 {
		t.bos = v.meta.id("cls_token_id", n, 101)
	}
	sep := v.meta.id("seperator_token_id", n, 102)
	if t.bos < 0 || sep < 0 {
		return fmt.Errorf("no CLS or SEP token in a vocabulary of %d", n)
	}
	t.prefix, t.suffix, t.pair = []int32{t.bos}, []int32{sep}, bertPair(t.bos, sep)
	t.decode.steps = []decodeStep{func(token string, first bool) string {
		if rest, ok := strings.CutPrefix(token, spaceMark); ok && first {
			return rest
		}
		return strings.Replace(token, spaceMark, " ", 1)
	}}
	return nil
}

func (t *Tokenizer) ggufUnigram(v *ggufVocab) error {
	n := len(v.tokens)
	scores := make([]float64, n)
	lowest := math.Inf(1)
	for i, s := range v.meta.scores(n) {
		scores[i] = float64(s)
		switch v.types[i] {
		case typeNormal:
			lowest = min(lowest, scores[i])
		case typeUserDefined:
			scores[i] = 0
		}
	}
	u := newUnigram(v.tokens, scores, lowest, func(id int) bool {
		return v.types[id] != typeNormal && v.types[id] != typeUserDefined && v.types[id] != typeUnused
	})
	u.unk = v.meta.id("unknown_token_id", n, 2)
	t.kind, t.model = "unigram", u
	table, err := parseCharsmap(v.meta.bytes("precompiled_charsmap"))
	if err != nil {
		return err
	}
	extra := v.meta.boolean("remove_extra_whitespaces", false)
	prefix := v.meta.boolean("add_space_prefix", false)
	norm := &spmNormalizer{table: table, model: &spmModel{dummyPrefix: prefix || extra, removeExtraSpaces: extra,
		escapeSpaces: true}}
	t.normalizers = []normalizer{norm.normalize}
	t.decode.spmRules(prefix)
	return nil
}
