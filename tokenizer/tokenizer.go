// Package tokenizer turns text into token ids and back, incrementally. It reads Hugging Face tokenizer.json files,
// SentencePiece models, tiktoken ranks, Mistral's tekken.json and the vocabulary in GGUF metadata, and gives the same
// ids as the libraries of these formats. It knows nothing of models, chats or sampling. Start with Tokenizer.
package tokenizer

import (
	"context"
	"slices"
	"sync"
)

// Tokenizer is one loaded vocabulary with its rules. It is immutable and safe for concurrent use.
type Tokenizer struct {
	kind, pre string

	vocab  vocabulary
	lookup func() map[string]int32 // token text to id, made on first use

	added           *addedMatcher // in the text as given
	addedNormalized *addedMatcher // in the normalized text
	normalizers     []normalizer
	stages          []stage
	model           model
	prefix, suffix  []int32 // what AddSpecial puts around the text
	pair            []pairPiece
	decode          decodeRules

	bos    int32 // -1: none
	eos    []int32
	addBOS bool
	pool   scratchPool
}

// EncodeOptions configures Encode's handling of special tokens.
type EncodeOptions struct {
	// AddSpecial adds the tokens around the text that the tokenizer's own configuration asks for, such as BOS. A prompt
	// made by a chat template usually has them already.
	AddSpecial bool
	// ParseSpecial turns special tokens that are spelled out in the text into their ids. Without it their text is
	// ordinary text: encode text from an untrusted source that way.
	ParseSpecial bool
}

// Encode returns the ids of text: none of a text on which the tokenizer's own rules fail, as EncodeContext tells.
func (t *Tokenizer) Encode(text string, opts EncodeOptions) []int32 {
	ids, err := t.EncodeContext(context.Background(), text, opts)
	if err != nil {
		return nil
	}
	return ids
}

// EncodeContext returns the ids of text. It ends with ctx, with its cause. Its work is linear in the text, but for a
// logarithm; a tokenizer whose rules would make it more is an error.
func (t *Tokenizer) EncodeContext(ctx context.Context, text string, opts EncodeOptions) ([]int32, error) {
	return t.appendEncode(ctx, make([]int32, 0, len(text)/4+8), text, opts)
}

// VocabSize returns one more than the greatest id. Ids below it may be unassigned.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.text) }

// BOS returns the id of the beginning-of-sequence token, if there is one.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.bos >= 0 }

// EOS returns, in ascending order, every id that ends a generation: end of sequence, of turn, of message.
func (t *Tokenizer) EOS() []int32 { return slices.Clone(t.eos) }

// AddBOS reports whether AddSpecial puts BOS before the text.
func (t *Tokenizer) AddBOS() bool { return t.addBOS }

// IsSpecial reports whether id is a control token, which Decode leaves out when asked to skip special tokens.
func (t *Tokenizer) IsSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.vocab.special) && t.vocab.special[id]
}

// ID returns the id of a token by its text as spelled in the vocabulary ("Ġthe", "▁the", "<|im_end|>").
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.lookup()[token]
	return id, ok
}

// Token returns the text of a token as spelled in the vocabulary, or "" for an unassigned id.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.vocab.text) {
		return ""
	}
	return t.vocab.text[id]
}

// Bytes returns the bytes that a token adds to the text; for a special token its spelling, for an unassigned id nil.
func (t *Tokenizer) Bytes(id int32) []byte {
	if id < 0 || int(id) >= len(t.vocab.text) || t.vocab.text[id] == "" {
		return nil
	}
	if t.vocab.special[id] {
		return []byte(t.vocab.text[id])
	}
	return []byte(t.decode.text[id])
}

// Kind names the algorithm: "bpe", "spm-bpe" (byte-pair encoding with SentencePiece's conventions), "unigram",
// "wordpiece" or "wordlevel".
func (t *Tokenizer) Kind() string { return t.kind }

// PreTokenizer names the way that text is cut before the model: GGUF's name if it has one ("llama-bpe", "qwen2",
// "gpt-2"), else the components of tokenizer.json, or "none".
func (t *Tokenizer) PreTokenizer() string { return t.pre }

// vocabulary holds the properties of each id.
type vocabulary struct {
	text    []string // as the file spells it; "" for unassigned ids
	special []bool
}

func newVocabulary(n int) vocabulary {
	return vocabulary{text: make([]string, n), special: make([]bool, n)}
}

// set assigns an id, growing the vocabulary as needed.
func (v *vocabulary) set(id int32, text string, special bool) {
	for int(id) >= len(v.text) {
		v.text = append(v.text, "")
		v.special = append(v.special, false)
	}
	v.text[id], v.special[id] = text, special
}

// finish completes a tokenizer whose vocabulary, model and rules are set.
func (t *Tokenizer) finish(added []addedToken) {
	var raw, normalized []addedToken
	for _, a := range added {
		if a.content == "" {
			continue
		}
		t.vocab.set(a.id, a.content, a.special)
		if a.normalized {
			for _, n := range t.normalizers {
				a.content = n(a.content)
			}
			if a.content != "" {
				normalized = append(normalized, a)
			}
		} else {
			raw = append(raw, a)
		}
	}
	t.added, t.addedNormalized = newAddedMatcher(raw), newAddedMatcher(normalized)
	t.decode.prepare(&t.vocab, normalized)
	text := t.vocab.text
	t.lookup = sync.OnceValue(func() map[string]int32 {
		ids := make(map[string]int32, len(text))
		for id := len(text) - 1; id >= 0; id-- {
			if text[id] != "" {
				ids[text[id]] = int32(id)
			}
		}
		return ids
	})
}
