package text

import (
	"errors"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/model/family"
)

// TestMemoryOfAModel holds that a model takes what it may and no more, that it is refused what is too little, and that
// what it is said to need before it is loaded is near what it takes.
func TestMemoryOfAModel(t *testing.T) {
	const room = 400 << 20
	m := openMini(t, Options{Memory: room, TokenBudget: 64, MaxSeqs: 16})
	if m.Size() > room || m.Size() < m.Bytes+m.KVBytes || m.KVBytes < 32<<20 {
		t.Errorf("it takes %d bytes of %d, %d of them for the KV cache", m.Size(), room, m.KVBytes)
	}
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ckpt, Options{Name: "mini", Memory: 8 << 20, Device: "cpu"}); err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("within 8 MiB: %v", err)
	}
	spec, err := family.Read(ckpt)
	if err != nil {
		t.Fatal(err)
	}
	least := openMini(t, Options{TokenBudget: 64, MaxSeqs: 1}).Size()
	if need := Need(spec, ckpt.Size(), Options{TokenBudget: 64}); need < least/2 || need > 2*least {
		t.Errorf("it needs %d bytes, and takes %d with a cache of one request", need, least)
	}
	if free, err := Room(Options{Device: "cpu"}); err != nil || free <= 0 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
}

// TestContextOfARequest holds that a request can ask for less than the model's context, and that its answer then gets
// what the prompt leaves.
func TestContextOfARequest(t *testing.T) {
	m := openMini(t, Options{})
	r := request()
	r.Prompt, r.IgnoreEOS, r.Context, r.Sampling = "one two three four", true, 16, m.Defaults
	p, err := m.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{0, 100, 3} {
		r.MaxTokens = most
		want := 16 - p.Len()
		if most == 3 {
			want = 3
		}
		if _, ids, last := answer(t, m, r); len(ids) != want || last.Finish != "length" {
			t.Errorf("of at most %d tokens %d came, and %s; want %d", most, len(ids), last.Finish, want)
		}
	}
	r.Context = p.Len()
	var long *LengthError
	if _, err := m.Prepare(t.Context(), r); !errors.As(err, &long) || long.Context != p.Len() {
		t.Errorf("%v", err)
	}
}
