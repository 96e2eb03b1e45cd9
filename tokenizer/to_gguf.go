package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ToGGUF returns the GGUF metadata, by key, of the tokenizer in a model's folder (found as by Load), for a model with
// vocab tokens: ids that the tokenizer does not use are padding. It is an error if FromGGUF of the result gives other
// ids on a test text. It supports byte-pair encoding over bytes with one of GGUF's named pre-tokenizers, and
// SentencePiece and its descendants in tokenizer.json.
func ToGGUF(dir string, vocab int) (map[string]any, error) {
	t, err := Load(dir)
	if err != nil {
		return nil, err
	}
	path, err := findIn(dir)
	if err != nil {
		return nil, err
	}
	data, err := readFile(path, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	cfg, err := readConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	meta, err := t.toGGUF(data, cfg, max(vocab, t.VocabSize()))
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s has no form in GGUF: %w", path, err)
	}
	return meta, nil
}

func (t *Tokenizer) toGGUF(data []byte, cfg config, vocab int) (map[string]any, error) {
	w := &ggufWriter{t: t, meta: map[string]any{}}
	w.vocabulary(vocab)
	w.special(cfg)
	var f hfFile
	var m hfModelFile
	if json.Unmarshal(data, &f) != nil || json.Unmarshal(f.Model, &m) != nil {
		spm, err := parseSPM(data)
		if err != nil {
			return nil, errors.New("it is neither tokenizer.json nor a SentencePiece model")
		}
		return w.sentencePiece(spm)
	}
	switch kind := m.kind(); {
	case kind == "BPE" && m.ByteFallback:
		return w.markedBPE(&m)
	case kind == "BPE":
		return w.byteBPE(&m, &f)
	case kind == "Unigram":
		return w.unigram(&m, &f)
	case kind == "WordPiece":
		return w.wordPiece(&m)
	default:
		return nil, fmt.Errorf("its model is of type %s", kind)
	}
}

// ggufWriter collects the metadata of a tokenizer.
type ggufWriter struct {
	t      *Tokenizer
	meta   map[string]any
	tokens []string
	types  []int32
}

func (w *ggufWriter) put(key string, v any) { w.meta[ggufPrefix+key] = v }

// vocabulary lists n tokens with their types.
func (w *ggufWriter) vocabulary(n int) {
	for id := range n {
		token, kind := w.t.Token(int32(id)), typeNormal
		switch {
		case token == "":
			token, kind = fmt.Sprintf("[PAD%d]", id), typeUnused
		case w.t.IsSpecial(int32(id)):
			kind = typeControl
		case w.t.isAdded(int32(id)):
			kind = typeUserDefined
		}
		w.tokens, w.types = append(w.tokens, token), append(w.types, int32(kind))
	}
	w.put("tokens", w.tokens)
	w.put("token_type", w.types)
}

// special names the tokens with a role.
func (w *ggufWriter) special(cfg config) {
	t := w.t
	id := func(key string, token configToken) {
		if id, ok := t.ID(string(token)); ok && token != "" {
			w.put(key, uint32(id))
		}
	}
	id("unknown_token_id", cfg.UNK)
	id("padding_token_id", cfg.PAD)
	if t.bos >= 0 {
		w.put("bos_token_id", uint32(t.bos))
	}
	ends := t.EOS()
	if len(cfg.EOS) > 0 {
		if first, ok := t.ID(string(cfg.EOS[0])); ok && slices.Contains(ends, first) {
			ends = append([]int32{first}, slices.DeleteFunc(ends, func(id int32) bool { return id == first })...)
		}
	}
	for i, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if i < len(ends) {
			w.put(key, uint32(ends[i]))
		}
	}
	w.put("add_bos_token", t.addBOS)
	w.put("add_eos_token", len(t.suffix) == 1 && len(ends) > 0 && t.suffix[0] == ends[0])
}

// byteBPE writes byte-pair encoding over bytes, with the first pre-tokenizer that cuts text alike.
func (w *ggufWriter) byteBPE(m *hfModelFile, f *hfFile) (map[string]any, error) {
	merges, err := m.mergeLines()
	if err != nil {
		return nil, err
	}
	w.put("model", "gpt2")
	w.put("merges", merges)
	names := []string{w.t.pre}
	var splits hfSplitNames
	if f.PreTokenizer != nil {
		if _, err := hfStages(nil, f.PreTokenizer, &splits); err != nil {
			return nil, err
		}
	}
	all := slices.Sorted(maps.Keys(preTokenizers))
	slices.SortStableFunc(all, func(a, b string) int { // those with the same patterns first
		rank := func(name string) int {
			if slices.Equal(preTokenizers[name].patterns, splits.patterns) {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	for _, name := range all {
		if !slices.ContainsFunc(names, func(n string) bool { return preTokenizers[n].same(preTokenizers[name]) }) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if preTokenizers[name].ignoreMerges != m.IgnoreMerges || len(preTokenizers[name].patterns) == 0 {
			continue
		}
		w.put("pre", name)
		if w.differs() == nil {
			return w.meta, nil
		}
	}
	return nil, fmt.Errorf("no pre-tokenizer that GGUF names cuts text as this one does (%s)", w.t.pre)
}

func (p preTokenizer) same(q preTokenizer) bool {
	return slices.Equal(p.patterns, q.patterns) && p.ignoreMerges == q.ignoreMerges
}

// mergeLines returns the merges with a space between their parts.
func (m *hfModelFile) mergeLines() (lines []string, err error) {
	err = mergeList(string(m.Merges), func(left, right string) error {
		lines = append(lines, left+" "+right)
		return nil
	})
	return lines, err
}

// markedBPE writes the byte-pair encoding of SentencePiece from merges: the sooner a token is made, the higher its
// score.
func (w *ggufWriter) markedBPE(m *hfModelFile) (map[string]any, error) {
	scores := make([]float32, len(w.tokens))
	last := float32(-1e9)
	for id := range scores {
		scores[id] = last
		if _, ok := byteToken(w.tokens[id]); ok && w.types[id] == int32(typeNormal) {
			w.types[id] = int32(typeByte)
		}
		if w.tokens[id] == deref(m.UnkToken) {
			w.types[id] = int32(typeUnknown)
			w.put("unknown_token_id", uint32(id))
		}
	}
	ids := w.t.lookup()
	rank := float32(0)
	err := mergeList(string(m.Merges), func(left, right string) error {
		if id, ok := ids[left+right]; ok && scores[id] == last {
			scores[id] = -rank
		}
		rank++
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.put("model", "llama")
	w.put("scores", scores)
	return w.spaced()
}

// spaced finds out whether a space is put before the text.
func (w *ggufWriter) spaced() (map[string]any, error) {
	var err error
	for _, prefix := range []bool{true, false} {
		w.put("add_space_prefix", prefix)
		if err = w.differs(); err == nil {
			return w.meta, nil
		}
	}
	return nil, err
}

// unigram writes a unigram model of tokenizer.json.
func (w *ggufWriter) unigram(m *hfModelFile, f *hfFile) (map[string]any, error) {
	scores := make([]float32, len(w.tokens))
	n := 0
	err := vocabList(string(m.Vocab), func(_ string, score float64) {
		if n < len(scores) {
			scores[n] = float32(score)
		}
		n++
	})
	if err != nil {
		return nil, err
	}
	if m.UnkID != nil {
		w.types[*m.UnkID] = int32(typeUnknown)
		w.put("unknown_token_id", uint32(*m.UnkID))
	}
	w.put("model", "t5")
	w.put("scores", scores)
	if f.Normalizer != nil {
		for _, c := range append(f.Normalizer.Normalizers, *f.Normalizer) {
			if len(c.PrecompiledCharsmap) > 0 {
				w.put("precompiled_charsmap", c.PrecompiledCharsmap)
			}
		}
	}
	return w.collapsed()
}

// wordPiece writes a vocabulary of BERT's. A GGUF marks the tokens that begin a word, not those that continue one, and
// names the tokens around a text.
func (w *ggufWriter) wordPiece(m *hfModelFile) (map[string]any, error) {
	t := w.t
	if len(t.prefix) != 1 || len(t.suffix) != 1 {
		return nil, fmt.Errorf("%d tokens before a text and %d after it; BERT has one of each", len(t.prefix), len(t.suffix))
	}
	for id, token := range w.tokens {
		if rest, ok := strings.CutPrefix(token, "##"); ok {
			w.tokens[id] = rest
		} else if w.types[id] == int32(typeNormal) {
			w.tokens[id] = spaceMark + token
		}
	}
	w.put("model", "bert")
	w.put("cls_token_id", uint32(t.prefix[0]))
	w.put("bos_token_id", uint32(t.prefix[0]))
	w.put("seperator_token_id", uint32(t.suffix[0])) // as the format spells it
	if id, ok := t.ID(deref(m.UnkToken)); ok {
		w.put("unknown_token_id", uint32(id))
	}
	var err error
	for _, rules := range [][2]bool{{true, true}, {false, false}, {true, false}, {false, true}} {
		w.put("normalizer.lowercase", rules[0])
		w.put("normalizer.strip_accents", rules[1])
		if err = w.differs(); err == nil {
			return w.meta, nil
		}
	}
	return nil, err
}

// collapsed finds out whether runs of spaces become one.
func (w *ggufWriter) collapsed() (map[string]any, error) {
	w.put("remove_extra_whitespaces", false)
	if meta, err := w.spaced(); err == nil {
		return meta, nil
	}
	w.put("remove_extra_whitespaces", true)
	return w.spaced()
}

// sentencePiece writes a SentencePiece model.
func (w *ggufWriter) sentencePiece(m *spmModel) (map[string]any, error) {
	scores := make([]float32, len(w.tokens))
	copy(scores, m.scores)
	for id, kind := range m.types {
		w.types[id] = int32(kind)
	}
	if m.unk >= 0 {
		w.put("unknown_token_id", uint32(m.unk))
	}
	w.put("scores", scores)
	switch m.algorithm {
	case 1:
		w.put("model", "t5")
		if len(m.charsmap) > 0 {
			w.put("precompiled_charsmap", m.charsmap)
		}
		return w.collapsed()
	case 2:
		w.put("model", "llama")
		return w.spaced()
	}
	return nil, fmt.Errorf("a SentencePiece model of algorithm %d", m.algorithm)
}

// trying is the test text, which tokenizers treat differently: contractions, numbers, runs of white space, scripts,
// marks, code.
const trying = "Hello world, I'm here; WE'LL see. It's 3 o'clock on 2024-05-17, 1234567 times!!! \n\n\n  \t x  =  y\r\n" +
	"    def f(x):\n\t\treturn x[0]+1\n\t\"s\" # naïve café ÀÉÎõü\n你好，世界！これはペンです。안녕하세요 привет мир " +
	"👩‍👩‍👧 🇩🇪 ﷺ e\u0301 ½ ² Ⅷ ٣٤٥ <b>$9.99</b> a_b-c//d\\e 'quoted' \"text\"   \n   end  "

// differs describes how the metadata's tokenizer differs from its source, on the test text.
func (w *ggufWriter) differs() error {
	t, err := FromGGUF(w.meta)
	if err != nil {
		return err
	}
	return w.t.differs(t)
}

// differs describes how two tokenizers differ on the test text, nil if they do not.
func (t *Tokenizer) differs(other *Tokenizer) error {
	parts := append(strings.SplitAfter(trying, "\n"), trying, "x", " ", "")
	for _, text := range parts {
		for _, o := range []EncodeOptions{{}, {AddSpecial: true}} {
			if a, b := t.Encode(text, o), other.Encode(text, o); !slices.Equal(a, b) {
				return fmt.Errorf("the text %q would become %v, not %v", text, b, a)
			}
		}
	}
	return nil
}
