package tokenizer

import (
	"encoding/json"
	"slices"
	"testing"
)

// checkGemma holds decoding against Gemma's goldens. The reference data lacks Gemma's vocabulary, hence its merges:
// what text encodes to cannot be known, but every id that occurs is named by its token.
func checkGemma(t *testing.T, cases map[string]goldenCase) {
	t.Helper()
	vocab := map[string]int32{"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3}
	dense := map[int32]int32{2: 2}
	for name, c := range cases {
		tokens := slices.DeleteFunc(c.Tokens, func(s string) bool { return s == "<bos>" })
		if len(c.IDs) != len(tokens)+1 {
			t.Fatalf("%s has %d tokens and %d ids", name, len(tokens), len(c.IDs))
		}
		for i, tok := range tokens {
			if _, ok := vocab[tok]; !ok {
				vocab[tok] = int32(len(vocab))
			}
			dense[c.IDs[i+1]] = vocab[tok]
		}
		for i, id := range c.IDs {
			c.IDs[i] = dense[id]
		}
	}
	type object = map[string]any
	data, err := json.Marshal(object{
		"normalizer":   object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"},
		"added_tokens": []any{object{"id": 2, "content": "<bos>", "special": true}},
		"decoder": object{"type": "Sequence", "decoders": []any{
			object{"type": "Replace", "pattern": object{"String": "▁"}, "content": " "},
			object{"type": "ByteFallback"}, object{"type": "Fuse"}}},
		"model": object{"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>", "vocab": vocab,
			"merges": []any{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := loadHF(data, config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		if got := tok.Decode(c.IDs, false); got != c.Decoded {
			t.Errorf("%s: decoded %q\n    want %q", name, got, c.Decoded)
		}
	}
}
