package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writeFolder makes a model folder of files given by name.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tinyJSON is a tokenizer.json with the given fields beside a model of a few tokens.
func tinyJSON(fields string) string {
	return `{"added_tokens": [{"id": 0, "content": "<s>", "special": true}, {"id": 1, "content": "</s>", "special": true},
		{"id": 2, "content": "<|im_end|>", "special": true}, {"id": 3, "content": "<think>", "special": false}],` + fields + `
		"model": {"type": "BPE", "vocab": {"a": 4, "b": 5, "ab": 6, "Ã": 7, "©": 8}, "merges": ["a b"]}}`
}

func TestFolder(t *testing.T) {
	bos := `"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
		{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>": {"ids": [0]}}},`
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []int32 // of "ab" with special tokens
		eos   []int32
		bos   int32
	}{
		{"bare", map[string]string{"tokenizer.json": tinyJSON("")}, []int32{6}, []int32{2}, -1},
		{"template", map[string]string{"tokenizer.json": tinyJSON(bos)}, []int32{0, 6}, []int32{2}, 0},
		{"template of added", map[string]string{"tokenizer.json": strings.ReplaceAll(tinyJSON(strings.Replace(bos, "[0]", "[9]", 1)),
			`{"id": 0, "content": "<s>"`, `{"id": 9, "content": "<s>"`)}, []int32{9, 6}, []int32{2}, 9},
		{"config adds", map[string]string{"tokenizer.json": tinyJSON(""), "tokenizer_config.json": `{"add_bos_token": true,
			"add_eos_token": true, "bos_token": "<s>", "eos_token": {"content": "</s>"}}`}, []int32{0, 6, 1}, []int32{1, 2}, 0},
		{"config removes", map[string]string{"tokenizer.json": tinyJSON(bos),
			"tokenizer_config.json": `{"add_bos_token": false, "bos_token": "<s>", "eos_token": null}`}, []int32{6}, []int32{2}, 0},
		{"special map", map[string]string{"tokenizer.json": tinyJSON(""),
			"special_tokens_map.json": `{"bos_token": {"content": "<s>"}, "eos_token": "</s>"}`}, []int32{6}, []int32{1, 2}, 0},
		{"generation config", map[string]string{"tokenizer.json": tinyJSON(""),
			"generation_config.json": `{"eos_token_id": [1, 6]}`}, []int32{6}, []int32{1, 2, 6}, -1},
		{"config", map[string]string{"tokenizer.json": tinyJSON(""), "config.json": `{"eos_token_id": 1}`}, []int32{6},
			[]int32{1, 2}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tok, err := Load(writeFolder(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			if got := tok.Encode("ab", EncodeOptions{AddSpecial: true}); !cmp.Equal(got, c.want) {
				t.Errorf("ids %d, want %d", got, c.want)
			}
			if got := tok.EOS(); !cmp.Equal(got, c.eos) {
				t.Errorf("EOS %d, want %d", got, c.eos)
			}
			if id, ok := tok.BOS(); ok != (c.bos >= 0) || ok && id != c.bos {
				t.Errorf("BOS %d, %v, want %d", id, ok, c.bos)
			}
			if got := tok.AddBOS(); got != slices.Contains(c.want, max(c.bos, 0)) {
				t.Errorf("AddBOS is %v", got)
			}
		})
	}
}

func TestSpecialText(t *testing.T) {
	tok, err := loadHF([]byte(tinyJSON("")), config{})
	if err != nil {
		t.Fatal(err)
	}
	text := "ab<s>a<think>"
	if got, want := tok.Encode(text, EncodeOptions{ParseSpecial: true}), []int32{6, 0, 4, 3}; !cmp.Equal(got, want) {
		t.Errorf("parsed: %d, want %d", got, want)
	}
	if got, want := tok.Encode(text, EncodeOptions{}), []int32{6, 4, 3}; !cmp.Equal(got, want) {
		t.Errorf("not parsed: %d, want %d", got, want)
	}
	if !tok.IsSpecial(0) || tok.IsSpecial(3) || tok.IsSpecial(-1) || tok.IsSpecial(99) {
		t.Error("IsSpecial")
	}
	if got := tok.Decode([]int32{0, 6, 3, 99, -5}, true); got != "ab <think>" {
		t.Errorf("decoded %q", got)
	}
	if id, ok := tok.ID("ab"); !ok || id != 6 || tok.Token(6) != "ab" || string(tok.Bytes(2)) != "<|im_end|>" || tok.Bytes(9) != nil {
		t.Error("ID, Token or Bytes")
	}
}

func TestErrorsNameTheCause(t *testing.T) {
	gguf := func(model, pre string) error {
		_, err := FromGGUF(map[string]any{"tokenizer.ggml.model": model, "tokenizer.ggml.pre": pre,
			"tokenizer.ggml.tokens": []string{"a", "b", "ab"}, "tokenizer.ggml.merges": []string{"a b"}})
		return err
	}
	file := func(fields string) error {
		_, err := Load(filepath.Join(writeFolder(t, map[string]string{"tokenizer.json": fields}), "tokenizer.json"))
		return err
	}
	ranks := func(name, text string) error {
		_, err := Load(filepath.Join(writeFolder(t, map[string]string{name: text}), name))
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{gguf("gpt2", "zebra-7"), `pre-tokenizer "zebra-7"`},
		{gguf("rwkv", ""), `"rwkv" is not supported`},
		{file(tinyJSON(`"pre_tokenizer": {"type": "Zebra"},`)), "pre_tokenizer: Zebra is not supported"},
		{file(tinyJSON(`"normalizer": {"type": "Sequence", "normalizers": [{"type": "Zebra"}]},`)), "normalizer: Zebra"},
		{file(tinyJSON(`"decoder": {"type": "CTC"},`)), "decoder: CTC is not supported"},
		{file(tinyJSON(`"post_processor": {"type": "Zebra"},`)), "post_processor: Zebra"},
		{file(tinyJSON(`"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"},`)), `pattern "(a"`},
		{file(`{"model": {"type": "Zebra", "vocab": {}}}`), `model: type "Zebra"`},
		{file(`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a c"]}}`), `"a" and "c"`},
		{file(`{"model": {"type": "BPE", "vocab": {"a": 900000000}, "merges": []}}`), "out of range"},
		{file(`{}`), `no "model"`},
		{file(""), "empty"},
		{ranks("zebra.tiktoken", "YQ== 0\nYg== 1\n"), `"zebra.tiktoken" with 2 ranks`},
		{ranks("llama-3.tiktoken", "YQ== 0\nYg==\n"), "line 2"},
		{ranks("tokenizer.model", "\x0a\xff\xff"), "protobuf"},
		{ranks("tekken.json", `{"config": {}, "vocab": [{"rank": 0}]}`), "tekken.json: 0 tokens"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v\nlacks %q", c.err, c.want)
		}
	}
}

// TestStreaming cuts characters at every byte.
func TestStreaming(t *testing.T) {
	for _, name := range []string{"llama3", "gpt2", "llama2", "unigram-bytes", "spm-bpe"} {
		t.Run(name, func(t *testing.T) {
			_, tok := readLibraryFile(t, name)
			for _, text := range []string{"😀é字", "a😀", "👩‍👩‍👧‍👦 किमपि"} {
				ids := tok.Encode(text, EncodeOptions{})
				if got := stream(t, tok, ids, false); got != strings.TrimPrefix(tok.Decode(ids, false), "") || !strings.Contains(got, text) {
					t.Errorf("streamed %q, want %q", got, text)
				}
				got := stream(t, tok, ids[:len(ids)-1], false)
				if cut := strings.TrimRight(got, "\uFFFD"); got != strings.ToValidUTF8(got, "") || !strings.Contains(" "+text, cut) {
					t.Errorf("streamed without its end: %q", got)
				}
			}
		})
	}
}

// TestDecodeInvalid follows Unicode's practice of one U+FFFD for each longest beginning of a character, and for byte
// tokens one for each.
func TestDecodeInvalid(t *testing.T) {
	tok, err := loadHF([]byte(tinyJSON(`"decoder": {"type": "ByteLevel"},`)), config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ids  []int32
		want string
	}{
		{[]int32{7, 8}, "é"}, {[]int32{7}, "\uFFFD"}, {[]int32{7, 4}, "\uFFFDa"}, {[]int32{8, 8}, "\uFFFD\uFFFD"},
		{[]int32{7, 7, 8}, "\uFFFDé"},
	} {
		if got := tok.Decode(c.ids, false); got != c.want {
			t.Errorf("%d decoded %q, want %q", c.ids, got, c.want)
		}
		if got := stream(t, tok, c.ids, false); got != c.want {
			t.Errorf("%d streamed %q, want %q", c.ids, got, c.want)
		}
	}
}

// TestConcurrentUse encodes with one tokenizer from several goroutines; the race detector watches.
func TestConcurrentUse(t *testing.T) {
	for _, name := range libraryFiles {
		f, tok := readLibraryFile(t, name)
		var want [][]int32
		for _, c := range f.Cases {
			want = append(want, tok.Encode(c.Text, EncodeOptions{}))
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i, c := range f.Cases {
					if got := tok.Encode(c.Text, EncodeOptions{}); !slices.Equal(got, want[i]) {
						t.Errorf("%s: %q\n got %d\nwant %d", name, c.Text, got, want[i])
					}
					tok.ID(c.Text)
				}
			})
		}
		wg.Wait()
	}
}

// TestLongRuns encodes a megabyte without a place to cut. Work that grew with its square would take hours.
func TestLongRuns(t *testing.T) {
	for _, name := range []string{"bert", "deepseek", "groups", "llama2", "llama3", "spm-bpe", "spm-unigram"} {
		_, tok := readLibraryFile(t, name)
		for _, unit := range []string{"a", " ", "7", "字"} {
			text := strings.Repeat(unit, 1<<20/len(unit)) + "x"
			ids := tok.Encode(text, EncodeOptions{})
			if got := tok.Decode(ids, false); name == "llama3" && got != text {
				t.Errorf("%s: 1 MB of %q does not come back", name, unit)
			}
		}
	}
}
