package events

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/kv"
)

// recorded reads batches that msgspec made.
func recorded(t testing.TB, file string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var text map[string]string
	if err := json.Unmarshal(data, &text); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for name, s := range text {
		if out[name], err = hex.DecodeString(s); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// low is what is left of name(n) as a number.
func low(n int) (x uint64) {
	for _, b := range name(n) {
		x = x<<8 | uint64(b)
	}
	return x
}

func TestDecode(t *testing.T) {
	tokens := []int32{0, 127, 128, 255, 256, 65535, 65536, 200000}
	back := []int32{200000, 65536, 65535, 256, 255, 128, 127, 0}
	two := make([]int32, 16)
	for i := range two {
		two[i] = int32(100 + i)
	}
	pirate := []string{"model", "m", "adapter", "pirate", "adapter-id", strings.Repeat("ab", 32), "rope", "long", strings.Repeat("s", 300)}
	stored := func(n int, parent uint64, tokens []int32) Told {
		return Told{Names: []uint64{low(n)}, Parent: parent, Tokens: tokens, BlockTokens: 8}
	}
	keyed, later, grouped := stored(3, 0, tokens), stored(4, low(3), tokens), stored(5, 0, tokens)
	keyed.Adapter, keyed.Keys, later.Adapter = "pirate", [][]string{pirate}, "pirate"
	grouped.Group, grouped.Windowed = 1, true
	salted := stored(3, 0, tokens)
	salted.Keys = [][]string{{strings.Repeat("s", 40)}}
	want := map[string][]Told{
		"plain":   {stored(1, 0, tokens), stored(2, low(1), back), {Kind: kv.Removed, Names: []uint64{low(1)}}, {Kind: kv.Cleared}},
		"salt":    {salted},
		"adapter": {keyed, later},
		"groups":  {stored(5, 0, tokens), grouped, {Kind: kv.Removed, Names: []uint64{low(5)}, Group: 1}},
	}
	for i := range 20 {
		want["many"] = append(want["many"], Told{Kind: kv.Removed, Names: []uint64{low(i)}})
	}
	all := recorded(t, "batches.json")
	for title, told := range want {
		for _, kind := range []string{"int/", "bytes/"} {
			if got, _, err := decode(all[kind+title]); err != nil || !reflect.DeepEqual(got, told) {
				t.Errorf("%s: %v\ngot  %+v\nwant %+v", kind+title, err, got, told)
			}
		}
	}
	maps := stored(1, low(2), two[:8])
	maps.Keys = [][]string{nil}
	want = map[string][]Told{
		"vllm 0.9": {
			{Names: []uint64{^uint64(4), 1 << 63}, Tokens: two, BlockTokens: 8}, {Kind: kv.Removed, Names: []uint64{^uint64(4)}},
		},
		"sglang": {
			{Names: []uint64{7, 8}, Parent: 6, Tokens: two, BlockTokens: 8},
			{Names: []uint64{9}, Parent: 8, Tokens: two[:8], BlockTokens: 8, Elsewhere: true},
		},
		"vllm images": {{
			Names: []uint64{low(1), low(2)}, Tokens: two, BlockTokens: 8, Adapter: "pirate",
			Keys: [][]string{{"pirate", "image-hash", "3", "salt"}, {"pirate"}},
		}},
		"vllm maps": {maps, {Kind: kv.Cleared}},
		"sglang 0.5.23": { // which tells the salt of each block
			{Names: []uint64{7, 8}, Tokens: two, BlockTokens: 8, Keys: [][]string{{"salt"}, nil}},
			{Names: []uint64{9}, Parent: 8, Tokens: two[:8], BlockTokens: 8},
		},
		"vllm 0.32": {{
			Names: []uint64{4210220289788938897}, Tokens: slices.Repeat([]int32{5}, 128), BlockTokens: 128, Keys: [][]string{{"salt"}},
		}},
	}
	ranks := map[string]int{"sglang": 3}
	for title, payload := range recorded(t, "others.json") {
		got, rank, err := decode(payload)
		if err != nil || !reflect.DeepEqual(got, want[title]) || rank != ranks[title] {
			t.Errorf("%s: rank %d, %v\ngot  %+v\nwant %+v", title, rank, err, got, want[title])
		}
	}
}

// TestDecodeRefuses holds that what is no batch is an error, at whatever byte it ends.
func TestDecodeRefuses(t *testing.T) {
	for _, file := range []string{"batches.json", "others.json"} {
		for title, payload := range recorded(t, file) {
			for n := range payload {
				if _, _, err := decode(payload[:n]); err == nil {
					t.Errorf("%s: %d of %d bytes are taken for a batch", title, n, len(payload))
				}
			}
		}
	}
	for payload, want := range map[string]string{
		"\x91\x01":          "a batch of 1 fields",
		"\xc0":              "want an array",
		"\x92\x01\x91\xa1x": "want an array",
		"\x92\x01\x91\x95\xabBlockStored\x91\x01\xc0\x91\x05\x02":      "1 blocks of 2 tokens were stored with 1 tokens",
		"\x92\x01\x91\x95\xabBlockStored\x91\x01\xc0\x91\x05\x00":      "1 blocks of 0 tokens",
		"\x92\x01\x91\x92\xacBlockRemoved\xdd\xff\xff\xff\xff":         "ends within a value",
		"\x92\x01\x91\x92\xa1x" + strings.Repeat("\x91", 100) + "\x01": "nested more than 16 deep",
		"\x92\x01\x91\x92\xacBlockRemoved\x91\xc3":                     "want an integer",
	} {
		if _, _, err := decode([]byte(payload)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v; want %q", payload, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, file := range []string{"batches.json", "others.json"} {
		for _, payload := range recorded(f, file) {
			f.Add(payload)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		told, _, err := decode(payload)
		for _, e := range told {
			if err == nil && e.Kind == kv.Stored && len(e.Tokens) != len(e.Names)*e.BlockTokens {
				t.Errorf("%d tokens of %d blocks", len(e.Tokens), len(e.Names))
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	var list []kv.Event
	for i := range 64 {
		list = append(list, kv.Event{Name: name(i), Parent: name(i + 1), Tokens: make([]int32, 16)})
	}
	payload := Encoding{BlockTokens: 16}.AppendBatch(nil, 1, list)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if told, _, err := decode(payload); err != nil || len(told) != 64 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
}
