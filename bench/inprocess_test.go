package bench

import (
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/text"
)

func TestInProcess(t *testing.T) {
	shape := tiny
	shape.Vocab = 1024
	ckpt, err := Random(shape, "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	var steps Steps
	m, err := text.Open(ckpt, text.Options{Name: "tiny", Observer: &steps, Compute: compute.Options{Threads: 1}, Context: 512, KVBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	cs, err := Fixed{Conversations: 6, Turns: 2, Input: 64, Output: 9, Shared: 0.5, Groups: 1}.Make(1)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Load(t.Context(), InProcess{Model: m}, cs, LoadOptions{Clients: 1, Duration: time.Minute, Steps: &steps})
	if err != nil {
		t.Fatal(err)
	}
	// The first turn of all but one conversation finds 32 tokens; each second turn of 64+9+32 finds the 72 that were
	// computed, in whole blocks of 16.
	if rep.Requests != 12 || rep.Failed != 0 || rep.Generated != 12*9 || rep.Prompt != 6*(64+105) || rep.HitRate != float64(5*32+6*64)/(6*169) {
		t.Errorf("%+v", rep)
	}
	// Every step computes a prompt or decodes a token of the only sequence; the first token of an answer comes with its
	// prompt.
	if s := rep.Steps; s.All.Count != 12*9 || s.Equal.Count != 12*8 || s.Seqs != 1 || s.Equal.Max <= 0 {
		t.Errorf("steps: %+v", s)
	}
}
