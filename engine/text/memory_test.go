package text

import (
	"math"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// TestPlansAddUp holds that a model's plan leaves what others may come to take, whether they have taken it or not.
func TestPlansAddUp(t *testing.T) {
	a, b := new(Model), new(Model)
	var p plans
	left := func(free, loaded, want int64) {
		t.Helper()
		if got := p.left(free, loaded); got != want {
			t.Errorf("of %d that are free with %d loaded, %d are left; want %d", free, loaded, got, want)
		}
	}
	left(1000, 0, 1000) // before a is loaded
	left(900, 100, 900) // after
	p.add(a, 600)
	left(900, 0, 400) // a has touched nothing but its weights
	left(350, 0, 350) // others have taken more
	left(700, 200, 200)
	p.add(b, 300)
	left(700, 0, 100)
	left(100, 0, 100) // both have touched all
	left(400, 500, 0)
	p.drop(a)
	left(900, 0, 700)
	p.drop(b)
	left(1200, 0, 1200)
}

// TestSecondModel holds that a second model's KV cache is planned in what the first one's leaves, though that has not
// been touched.
func TestSecondModel(t *testing.T) {
	open := func(o Options) (*Model, error) {
		ckpt, err := builtin.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer ckpt.Close()
		return Open(ckpt, o)
	}
	first, err := open(Options{Name: "first", Device: "cpu", KVBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	hostPlans.add(first, math.MaxInt64/2)
	if m, err := open(Options{Name: "second", Device: "cpu", KVBytes: 64 << 20}); err == nil {
		m.Close()
		t.Error("a second model opens though the first may take all memory")
	} else if !strings.Contains(err.Error(), "second does not fit") {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if m, err := open(Options{Name: "second", Device: "cpu", KVBytes: 64 << 20}); err != nil {
		t.Errorf("after the first is closed: %v", err)
	} else if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// TestHostTierBesideDevice holds that blocks in the host's memory are planned there, if the model is on another device.
func TestHostTierBesideDevice(t *testing.T) {
	refusing = true
	defer func() { refusing = false }()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	_, err = Open(ckpt, Options{Name: "mini", Device: "refuser", KVBytes: 16 << 20, HostKVBytes: 1 << 50})
	if err == nil || !strings.Contains(err.Error(), "host-kv-bytes") {
		t.Errorf("a tier larger than the host's memory: %v", err)
	}
}
