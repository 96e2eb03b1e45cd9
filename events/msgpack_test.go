package events

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// name is as in make_batches.py.
func name(n int) (h kv.Hash) {
	for i := range h {
		h[i] = byte(n*7 + i)
	}
	return h
}

// TestBatches compares batches with those that msgspec makes.
func TestBatches(t *testing.T) {
	data, err := os.ReadFile("testdata/batches.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	tokens := []int32{0, 127, 128, 255, 256, 65535, 65536, 200000}
	back := slices.Clone(tokens)
	slices.Reverse(back)
	pirate := kv.Keys{Model: "m", AdapterName: "pirate", AdapterID: strings.Repeat("ab", 32), Long: true, Salt: strings.Repeat("s", 300)}
	cases := map[string][]kv.Event{
		"plain": {
			{Name: name(1), Tokens: tokens}, {Name: name(2), Parent: name(1), Tokens: back},
			{Kind: kv.Removed, Name: name(1)}, {Kind: kv.Cleared},
		},
		"salt": {{Name: name(3), Tokens: tokens, Keys: kv.Keys{Salt: strings.Repeat("s", 40)}}},
		"adapter": {
			{Name: name(3), Tokens: tokens, Keys: pirate},
			{Name: name(4), Parent: name(3), Tokens: tokens, Keys: pirate},
		},
		"groups": {{Name: name(5), Tokens: tokens}, {Name: name(5), Tokens: tokens, Group: 1}, {Kind: kv.Removed, Name: name(5), Group: 1}},
	}
	for i := range 20 {
		cases["many"] = append(cases["many"], kv.Event{Kind: kv.Removed, Name: name(i)})
	}
	if len(want) != 2*len(cases) {
		t.Fatalf("%d batches for %d cases", len(want), len(cases))
	}
	for title, payload := range want {
		kind, which, _ := strings.Cut(title, "/")
		c := Encoding{BlockTokens: 8, Groups: []kv.Group{{}, {Window: 1024}}, Bytes: kind == "bytes"}
		if got := hex.EncodeToString(c.AppendBatch(nil, 1700000000.25, cases[which])); got != payload {
			t.Errorf("%s:\ngot  %s\nwant %s", title, got, payload)
		}
	}
}
