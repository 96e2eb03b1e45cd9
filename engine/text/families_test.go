package text_test

import (
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestLargestBatch computes the largest batch of models of all kinds.
func TestLargestBatch(t *testing.T) {
	dev, err := compute.Open("cpu", compute.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	check := func(name string, ckpt *weights.Checkpoint) {
		loaded, err := loader.Model(ckpt, dev, nil)
		if err != nil {
			t.Fatal(err)
		}
		loaded.MakeSlots(2)
		if err := text.Measure(loaded, text.Options{Name: name, TokenBudget: 50, MaxSeqs: 3, BlockTokens: 16}, dev); err != nil {
			t.Error(err)
		}
	}
	for _, name := range golden.Committed(t) {
		check(name, golden.Open(t, name).Ckpt)
	}
	for _, name := range golden.Encoders(t) {
		check(name, golden.OpenEncoder(t, name).Ckpt)
	}
}
