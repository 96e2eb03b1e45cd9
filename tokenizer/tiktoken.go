package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// looksLikeRanks reports whether data begins with a line of tiktoken's format: base64, a space, a number.
func looksLikeRanks(data []byte) bool {
	line, _, _ := bytes.Cut(data[:min(len(data), 4096)], []byte("\n"))
	_, _, err := parseRank(bytes.TrimRight(line, "\r"), nil)
	return err == nil
}

func parseRank(line, buf []byte) (token []byte, rank int, err error) {
	word, number, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return nil, 0, errors.New("not a token and a rank")
	}
	if token, err = base64.StdEncoding.AppendDecode(buf, word); err != nil {
		return nil, 0, err
	}
	rank, err = strconv.Atoi(string(number))
	return token, rank, err
}

// tiktokenEncoding is the part of an encoding that a file of ranks lacks: how text is cut, and the special tokens.
type tiktokenEncoding struct {
	name    string // what the file's name contains, in lower case
	ranks   int    // how many ranks the file has
	pre     string // for PreTokenizer
	pattern string
	special func(ranks int) []string // by id from ranks on; "" leaves one out
	bos     string
	eos     []string
}

var tiktokenEncodings = []tiktokenEncoding{
	{"llama-3", 128000, "llama-bpe", patternLlama3, llama3Special, "<|begin_of_text|>", []string{"<|end_of_text|>"}},
	{"qwen", 151643, "qwen2", patternQwen2, qwenSpecial, "", []string{"<|endoftext|>"}},
	{"cl100k", 100256, "cl100k", patternCl100k, cl100kSpecial, "", []string{"<|endoftext|>"}},
	{"o200k", 199998, "gpt-4o", patternO200k, o200kSpecial, "", []string{"<|endoftext|>"}},
	{"p50k", 50280, "gpt-2", patternGPT2, nil, "", []string{"<|endoftext|>"}},
	{"r50k", 50256, "gpt-2", patternGPT2, nil, "", []string{"<|endoftext|>"}},
	{"kimi", 163584, "kimi-k2", patternKimi, kimiSpecial, "[BOS]", []string{"[EOS]"}},
}

func llama3Special(int) []string {
	list := []string{"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
		"<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
		"<|eot_id|>", "<|python_tag|>"}
	for i := 3; len(list) < 256; i++ {
		list = append(list, fmt.Sprintf("<|reserved_special_token_%d|>", i))
	}
	return list
}

func qwenSpecial(int) []string {
	list := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	for i := range 205 {
		list = append(list, fmt.Sprintf("<|extra_%d|>", i))
	}
	return list
}

func cl100kSpecial(int) []string {
	list := make([]string, 21)
	copy(list[1:], []string{"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"})
	list[20] = "<|endofprompt|>"
	return list
}

func o200kSpecial(int) []string {
	list := make([]string, 21)
	list[1], list[20] = "<|endoftext|>", "<|endofprompt|>"
	return list
}

func kimiSpecial(int) []string {
	list := []string{"[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "", "<|start_header_id|>",
		"<|end_header_id|>", "", "[EOT]", "<|im_system|>"}
	return append(list, make([]string, 256-len(list))...)
}

// findEncoding detects the encoding by the file's name, else by the number of ranks.
func findEncoding(name string, ranks int) (tiktokenEncoding, error) {
	for _, e := range tiktokenEncodings {
		if strings.Contains(name, e.name) {
			return e, nil
		}
	}
	for _, e := range tiktokenEncodings {
		if e.ranks == ranks {
			return e, nil
		}
	}
	return tiktokenEncoding{}, fmt.Errorf("tiktoken ranks: nothing tells the pre-tokenizer of %q with %d ranks", name, ranks)
}

// loadTiktoken reads a file of ranks.
func loadTiktoken(data []byte, name string, cfg config) (*Tokenizer, error) {
	tokens := map[string]int32{}
	top := 0
	var buf []byte
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if line = bytes.TrimRight(line, "\r"); len(line) == 0 {
			continue
		}
		token, rank, err := parseRank(line, buf[:0])
		if err != nil || rank < 0 || len(token) == 0 {
			return nil, fmt.Errorf("tiktoken ranks: line %d: %q is not a token in base64 and its rank", n, line)
		}
		buf = token
		if rank > 1<<24 {
			return nil, fmt.Errorf("tiktoken ranks: line %d: rank %d is out of range", n, rank)
		}
		top = max(top, rank+1)
		tokens[string(token)] = int32(rank)
	}
	if top > 4*len(tokens)+1<<16 {
		return nil, fmt.Errorf("tiktoken ranks: rank %d in a list of %d", top-1, len(tokens))
	}
	enc, err := findEncoding(name, len(tokens))
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{bos: -1, pre: enc.pre}
	if err := t.rankModel(tokens, 0, enc.pattern); err != nil {
		return nil, err
	}
	added := cfg.addedTokens(len(tokens))
	if enc.special != nil && len(added) == 0 {
		for i, text := range enc.special(len(tokens)) {
			added = append(added, addedToken{content: text, id: int32(len(tokens) + i), special: true})
		}
	} else if len(added) == 0 {
		added = []addedToken{{content: "<|endoftext|>", id: 50256, special: true}}
	}
	t.finish(added)
	for _, eos := range enc.eos {
		if id, ok := t.ID(eos); ok {
			t.eos = append(t.eos, id)
		}
	}
	if id, ok := t.ID(enc.bos); ok && enc.bos != "" {
		t.bos = id
		if enc.pre == "llama-bpe" {
			t.prefix = []int32{id}
		}
	}
	return t, t.configure(cfg)
}

// rankModel sets byte-pair encoding by ranks: the pair that spells the token of the least rank merges first. A token's
// id is its rank plus offset.
func (t *Tokenizer) rankModel(tokens map[string]int32, offset int32, pattern string) error {
	f, err := compilePattern(pattern)
	if err != nil {
		return err
	}
	b := &bpe{vocab: make(map[string]int32, len(tokens)), bytes: true, unk: -1, ignoreMerges: true, cache: newWordCache()}
	for i := range b.byteIDs {
		b.byteIDs[i] = -1
	}
	for token, rank := range tokens {
		id := rank + offset
		b.vocab[token] = id
		b.maxLen = max(b.maxLen, len(token))
		if len(token) == 1 {
			b.byteIDs[token[0]] = id
		}
		t.vocab.set(id, spellBytes(token), false)
	}
	for i, id := range b.byteIDs {
		if id < 0 {
			return fmt.Errorf("ranks: byte 0x%02X has no token", i)
		}
	}
	b.prio = make([]uint32, len(t.vocab.text))
	for id := range b.prio {
		b.prio[id] = uint32(id)
	}
	t.kind, t.model, t.stages, t.decode.byteLevel = "bpe", b, []stage{&splitter{find: f}}, true
	return nil
}

// tekkenFile is Mistral's tekken.json.
type tekkenFile struct {
	Config struct {
		Pattern    string `json:"pattern"`
		VocabSize  int    `json:"default_vocab_size"`
		NumSpecial int    `json:"default_num_special_tokens"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes []byte `json:"token_bytes"`
	} `json:"vocab"`
	Special []struct {
		Rank int    `json:"rank"`
		Text string `json:"token_str"`
	} `json:"special_tokens"`
}

// tekkenSpecial are the special tokens of files that do not list them.
var tekkenSpecial = []string{"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
	"[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
	"[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"}

// loadTekken reads tekken.json: special tokens have the first ids, ranks follow.
func loadTekken(data []byte, cfg config) (*Tokenizer, error) {
	var f tekkenFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tekken.json: %w", err)
	}
	ordinary := f.Config.VocabSize - f.Config.NumSpecial
	if ordinary < 256 || ordinary > len(f.Vocab) || f.Config.NumSpecial < len(f.Special) || f.Config.NumSpecial < 3 ||
		f.Config.NumSpecial > 1<<16 {
		return nil, fmt.Errorf("tekken.json: %d tokens of which %d special, with %d ranks and %d special tokens given",
			f.Config.VocabSize, f.Config.NumSpecial, len(f.Vocab), len(f.Special))
	}
	tokens := make(map[string]int32, ordinary)
	for i, v := range f.Vocab[:ordinary] {
		if v.Rank != i || len(v.Bytes) == 0 {
			return nil, fmt.Errorf("tekken.json: entry %d has rank %d and %d bytes", i, v.Rank, len(v.Bytes))
		}
		tokens[string(v.Bytes)] = int32(i)
	}
	t := &Tokenizer{bos: -1, pre: patternNames[f.Config.Pattern]}
	if t.pre == "" {
		t.pre = "tekken"
	}
	if err := t.rankModel(tokens, int32(f.Config.NumSpecial), f.Config.Pattern); err != nil {
		return nil, fmt.Errorf("tekken.json: %w", err)
	}
	names := make([]string, f.Config.NumSpecial)
	for i := range names {
		names[i] = fmt.Sprintf("<SPECIAL_%d>", i)
	}
	if len(f.Special) == 0 {
		copy(names, tekkenSpecial)
	}
	for _, s := range f.Special {
		if s.Rank < 0 || s.Rank >= len(names) {
			return nil, fmt.Errorf("tekken.json: special token %q has rank %d of %d", s.Text, s.Rank, len(names))
		}
		names[s.Rank] = s.Text
	}
	var added []addedToken
	for id, text := range names {
		added = append(added, addedToken{content: text, id: int32(id), special: true})
	}
	t.finish(added)
	if id, ok := t.ID("</s>"); ok {
		t.eos = []int32{id}
	}
	if id, ok := t.ID("<s>"); ok {
		t.bos, t.prefix = id, []int32{id}
	}
	return t, t.configure(cfg)
}
