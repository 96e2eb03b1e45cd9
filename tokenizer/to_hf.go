package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ToHF returns the files tokenizer.json and tokenizer_config.json (without a chat template) of the tokenizer in GGUF
// metadata, whose keys FromGGUF reads. It is an error if Load of the result gives other ids on a test text.
func ToHF(meta map[string]any) (tokenizerJSON []byte, tokenizerConfig map[string]any, err error) {
	t, err := FromGGUF(meta)
	if err != nil {
		return nil, nil, err
	}
	m := &ggufMeta{values: meta}
	v := &ggufVocab{tokens: m.strings("tokens"), meta: m}
	v.types = m.types(len(v.tokens))
	f, err := v.hfFile(t)
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer: the GGUF's tokenizer has no form in tokenizer.json: %w", err)
	}
	said := v.hfConfig(t)
	data, err := json.Marshal(f)
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(said)
	if err != nil {
		return nil, nil, err
	}
	var cfg config
	if err := json.Unmarshal(text, &cfg); err != nil {
		return nil, nil, err
	}
	back, err := loadHF(data, cfg)
	if err == nil {
		err = t.differs(back)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer: the GGUF's tokenizer has no form in tokenizer.json: %w", err)
	}
	return data, said, nil
}

// object is a JSON object. The order of its keys carries no meaning in tokenizer.json.
type object = map[string]any

func (v *ggufVocab) hfFile(t *Tokenizer) (object, error) {
	f := object{"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "added_tokens": v.hfAdded(t),
		"post_processor": v.hfPostProcessor(t)}
	var err error
	switch kind := v.meta.str("model"); kind {
	case "gpt2":
		err = v.hfByteBPE(f)
	case "llama":
		v.hfMarkedBPE(f)
	default:
		err = fmt.Errorf("its model is %q", kind)
	}
	return f, errors.Join(err, v.meta.err)
}

// hfAdded lists the tokens that are taken out of the text first.
func (v *ggufVocab) hfAdded(t *Tokenizer) []hfAddedToken {
	added := []hfAddedToken{}
	for id, kind := range v.types {
		if kind == typeControl || kind == typeUserDefined || kind == typeUnknown || t.IsSpecial(int32(id)) {
			added = append(added, hfAddedToken{ID: int64(id), Content: v.tokens[id], Special: kind != typeUserDefined})
		}
	}
	return added
}

// hfPostProcessor puts BOS before and EOS after the text.
func (v *ggufVocab) hfPostProcessor(t *Tokenizer) any {
	sequence := func(id string, kind int) object { return object{"Sequence": object{"id": id, "type_id": kind}} }
	tokens := object{}
	around := func(id string, kind int) []object {
		var list []object
		for _, special := range t.prefix {
			tokens[v.tokens[special]] = object{"id": v.tokens[special], "ids": []int32{special}, "tokens": []string{v.tokens[special]}}
			list = append(list, object{"SpecialToken": object{"id": v.tokens[special], "type_id": kind}})
		}
		list = append(list, sequence(id, kind))
		for _, special := range t.suffix {
			tokens[v.tokens[special]] = object{"id": v.tokens[special], "ids": []int32{special}, "tokens": []string{v.tokens[special]}}
			list = append(list, object{"SpecialToken": object{"id": v.tokens[special], "type_id": kind}})
		}
		return list
	}
	if len(t.prefix)+len(t.suffix) == 0 {
		return nil
	}
	single := around("A", 0)
	return object{"type": "TemplateProcessing", "single": single, "pair": append(slices.Clone(single), around("B", 1)...), "special_tokens": tokens}
}

// vocabulary maps tokens to ids; of two with one text, the first counts.
func (v *ggufVocab) vocabulary() map[string]int {
	ids := map[string]int{}
	for id, token := range v.tokens {
		if _, dup := ids[token]; !dup {
			ids[token] = id
		}
	}
	return ids
}

func (v *ggufVocab) hfByteBPE(f object) error {
	p, ok := preTokenizers[cmp.Or(v.meta.str("pre"), "default")]
	if !ok {
		return fmt.Errorf("its pre-tokenizer is %q", v.meta.str("pre"))
	}
	var list []object
	for _, pattern := range p.patterns {
		list = append(list, object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated", "invert": false})
	}
	bytes := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": append(list, bytes)}
	f["decoder"] = object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}
	ids := v.vocabulary()
	merges := [][2]string{}
	for _, line := range v.meta.strings("merges") {
		if len(line) < 3 {
			continue
		}
		i := strings.IndexByte(line[1:], ' ')
		if i < 0 {
			continue
		}
		left, right := line[:i+1], line[i+2:]
		if has(ids, left) && has(ids, right) && has(ids, left+right) {
			merges = append(merges, [2]string{left, right})
		}
	}
	f["model"] = object{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
		"fuse_unk": false, "byte_fallback": false, "ignore_merges": p.ignoreMerges, "vocab": ids, "merges": merges}
	return nil
}

func has(ids map[string]int, token string) bool { _, ok := ids[token]; return ok }

// hfMarkedBPE writes the byte-pair encoding of SentencePiece: every way to make a token of two, by the token's score.
func (v *ggufVocab) hfMarkedBPE(f object) {
	ids, scores := v.vocabulary(), v.meta.scores(len(v.tokens))
	type merge struct {
		left, right string
		whole       int
	}
	var found []merge
	for id, token := range v.tokens {
		if v.types[id] != typeNormal && v.types[id] != typeUserDefined {
			continue
		}
		for i := range token {
			if i > 0 && has(ids, token[:i]) && has(ids, token[i:]) && utf8.ValidString(token) {
				found = append(found, merge{token[:i], token[i:], id})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b merge) int {
		return cmp.Or(cmp.Compare(scores[b.whole], scores[a.whole]), cmp.Compare(ids[a.left], ids[b.left]), cmp.Compare(ids[a.right], ids[b.right]))
	})
	merges := make([][2]string, len(found))
	for i, m := range found {
		merges[i] = [2]string{m.left, m.right}
	}
	normalizers := []object{{"type": "Replace", "pattern": object{"String": " "}, "content": spaceMark}}
	decoders := []object{{"type": "Replace", "pattern": object{"String": spaceMark}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}}
	if v.meta.boolean("add_space_prefix", true) {
		normalizers = append([]object{{"type": "Prepend", "prepend": spaceMark}}, normalizers...)
		decoders = append(decoders, object{"type": "Strip", "content": " ", "start": 1, "stop": 0})
	}
	f["normalizer"] = object{"type": "Sequence", "normalizers": normalizers}
	f["pre_tokenizer"] = nil
	f["decoder"] = object{"type": "Sequence", "decoders": decoders}
	var unknown any
	if id := v.meta.id("unknown_token_id", len(v.tokens), 0); id >= 0 {
		unknown = v.tokens[id]
	}
	f["model"] = object{"type": "BPE", "dropout": nil, "unk_token": unknown, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
		"fuse_unk": true, "byte_fallback": true, "ignore_merges": false, "vocab": ids, "merges": merges}
}

// hfConfig returns tokenizer_config.json.
func (v *ggufVocab) hfConfig(t *Tokenizer) map[string]any {
	c := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
		"add_bos_token": t.addBOS, "add_eos_token": len(t.suffix) > 0}
	for key, name := range map[string]string{"bos_token_id": "bos_token", "eos_token_id": "eos_token", "unknown_token_id": "unk_token", "padding_token_id": "pad_token"} {
		if id := v.meta.id(key, len(v.tokens), -1); id >= 0 {
			c[name] = v.tokens[id]
		}
	}
	return c
}
