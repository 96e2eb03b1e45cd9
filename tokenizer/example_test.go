package tokenizer_test

import (
	"fmt"
	"os"

	"github.com/kvasir-llm/kvasir/tokenizer"
)

// A tokenizer.json with a merge: "lo" is one token, and the decoder yields text as soon as it is whole.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := `{"version": "1.0", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"decoder": {"type": "ByteLevel"},
		"model": {"type": "BPE", "vocab": {"h": 0, "l": 1, "o": 2, "e": 3, "lo": 4}, "merges": ["l o"]}}`
	if err := os.WriteFile(dir+"/tokenizer.json", []byte(file), 0o600); err != nil {
		panic(err)
	}
	t, err := tokenizer.Load(dir)
	if err != nil {
		panic(err)
	}
	ids := t.Encode("hello", tokenizer.EncodeOptions{})
	fmt.Println(ids, t.Decode(ids, true))
	// Output:
	// [0 3 1 4] hello
}
