package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// libraryCase is the result of the tokenizers or sentencepiece library for a text; see testdata/generate.py.
type libraryCase struct {
	Text    string  `json:"text"`
	IDs     []int32 `json:"ids"`     // special tokens in the text are parsed
	Special []int32 `json:"special"` // and added
	Plain   []int32 `json:"plain"`   // not parsed
	Decoded *string `json:"decoded"` // of Special
	Skipped *string `json:"skipped"` // the same without special tokens
}

type libraryFile struct {
	Tokenizer json.RawMessage `json:"tokenizer"`
	Cases     []libraryCase   `json:"cases"`
}

func readLibraryFile(tb testing.TB, name string) (f libraryFile, tok *Tokenizer) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && f.Tokenizer == nil {
		tok, err = Load(filepath.Join("testdata", name+".model"))
	} else if err == nil {
		tok, err = loadHF(f.Tokenizer, config{})
	}
	if err != nil {
		tb.Fatal(err)
	}
	return f, tok
}

var libraryFiles = []string{"bert", "clip", "deepseek", "falcon", "gemma", "gpt2", "groups", "llama2", "llama3", "mistral",
	"o200k", "spm-bpe", "spm-symbols", "spm-unigram", "suffix", "t5", "unigram-bytes", "wordlevel", "words"}

// TestLibraries holds encoding and decoding against the libraries that the formats come from.
func TestLibraries(t *testing.T) {
	for _, name := range libraryFiles {
		t.Run(name, func(t *testing.T) {
			f, tok := readLibraryFile(t, name)
			if len(f.Cases) < 20 {
				t.Fatalf("%d cases", len(f.Cases))
			}
			same := func(what, text string, got, want []int32) {
				t.Helper()
				if len(got)+len(want) > 0 && !cmp.Equal(got, want) {
					t.Errorf("%s of %q\n got %d\nwant %d", what, text, got, want)
				}
			}
			for _, c := range f.Cases {
				if c.IDs != nil {
					same("ids", c.Text, tok.Encode(c.Text, EncodeOptions{ParseSpecial: true}), c.IDs)
					same("special ids", c.Text, tok.Encode(c.Text, EncodeOptions{ParseSpecial: true, AddSpecial: true}), c.Special)
				}
				if c.Plain != nil {
					same("plain ids", c.Text, tok.Encode(c.Text, EncodeOptions{}), c.Plain)
				}
				checkDecoded(t, tok, c.Special, false, c.Decoded)
				checkDecoded(t, tok, c.Special, true, c.Skipped)
			}
		})
	}
}

func checkDecoded(t *testing.T, tok *Tokenizer, ids []int32, skip bool, want *string) {
	t.Helper()
	if want == nil {
		return
	}
	if got := tok.Decode(ids, skip); got != *want {
		t.Errorf("decoded %d\n got %q\nwant %q", ids, got, *want)
	}
	if got := stream(t, tok, ids, skip); got != *want {
		t.Errorf("streamed %d\n got %q\nwant %q", ids, got, *want)
	}
}

// stream decodes one id at a time and fails if anything but whole characters comes out on the way.
func stream(t *testing.T, tok *Tokenizer, ids []int32, skip bool) string {
	t.Helper()
	var out strings.Builder
	d := tok.Decoder(skip)
	for _, id := range ids {
		s := d.Next(id)
		if s != strings.ToValidUTF8(s, "") {
			t.Errorf("token %d yields %q, which is not UTF-8", id, s)
		}
		out.WriteString(s)
	}
	out.WriteString(d.Flush())
	return out.String()
}
