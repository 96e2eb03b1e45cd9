package tokenizer

import (
	"os"
	"path/filepath"
	"testing"
)

// tryOut uses a tokenizer that came out of fuzzed bytes: whatever it is, nothing may panic.
func tryOut(tok *Tokenizer) {
	const text = "a b  <s>é字😀\r\n1234 it's ▁<0x41>\xff\x00"
	for _, o := range []EncodeOptions{{}, {AddSpecial: true, ParseSpecial: true}} {
		ids := tok.Encode(text, o)
		tok.Decode(ids, true)
		d := tok.Decoder(false)
		for _, id := range ids {
			d.Next(id)
			tok.Bytes(id)
		}
		d.Flush()
	}
	tok.EOS()
	tok.ID("a")
}

func FuzzTokenizerJSON(f *testing.F) {
	for _, name := range libraryFiles {
		if file, _ := readLibraryFile(f, name); file.Tokenizer != nil {
			f.Add([]byte(file.Tokenizer))
		}
	}
	f.Add([]byte(tinyJSON("")))
	f.Add([]byte(`{"config": {"pattern": "a", "default_vocab_size": 256, "default_num_special_tokens": 3}, "vocab": [{"rank": 0, "token_bytes": "YQ=="}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if tok, err := load(data, "tokenizer.json", config{}); err == nil {
			tryOut(tok)
		}
	})
}

func FuzzSentencePieceModel(f *testing.F) {
	for _, name := range []string{"spm-bpe.model", "spm-unigram.model"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if tok, err := loadSPM(data, config{}); err == nil {
			tryOut(tok)
		}
	})
}

func FuzzTiktoken(f *testing.F) {
	f.Add([]byte("YQ== 0\nYg== 1\r\nYWI= 2\n"))
	f.Add([]byte("YQ== 99999999\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if tok, err := loadTiktoken(data, "llama-3", config{}); err == nil {
			tryOut(tok)
		}
	})
}

// FuzzEncodeDecode: byte-level vocabularies give every text back, byte for byte where it is UTF-8.
func FuzzEncodeDecode(f *testing.F) {
	var toks []*Tokenizer
	for _, name := range []string{"llama3", "falcon", "groups"} {
		_, tok := readLibraryFile(f, name)
		toks = append(toks, tok)
	}
	for _, seed := range []string{"", "Hello world", "  \t\n x", "é\u0301字😀", "\xff\xc3", "1234567", "<|end|><s>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			for _, parse := range []bool{false, true} {
				var raw []byte
				ids := tok.Encode(text, EncodeOptions{ParseSpecial: parse})
				for _, id := range ids {
					raw = append(raw, tok.Bytes(id)...)
				}
				if string(raw) != text {
					t.Fatalf("%q came back as %q (%d)", text, raw, ids)
				}
				if got := stream(t, tok, ids, false); got != tok.Decode(ids, false) {
					t.Fatalf("%q streamed as %q, decoded as %q", text, got, tok.Decode(ids, false))
				}
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, p := range preTokenizers {
		for _, pattern := range p.patterns {
			f.Add(pattern, "it's 1234  \n字é")
		}
	}
	f.Add(`(?<=a)b|[^[:alpha:]\p{^L}&&[a-z]]{2,}?`, "ab")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		d, err := compileDFA(pattern)
		if err != nil {
			return
		}
		prev := 0
		d.each(text, func(start, end int) {
			if start < prev || end <= start || end > len(text) {
				t.Fatalf("match [%d, %d) after %d", start, end, prev)
			}
			prev = end
		})
	})
}
