package model_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
)

func TestEncoders(t *testing.T) {
	for _, name := range golden.Encoders(t) {
		for _, kernels := range cpu.Kernels() {
			t.Run(name+"/"+kernels, func(t *testing.T) {
				g := golden.OpenEncoder(t, name)
				golden.CheckEncoder(t, g, golden.NewRunner(t, g.Ckpt, kernels))
			})
		}
	}
}

// TestEncoderSameBits computes a sequence alone and among others in scattered blocks, with all kernels.
func TestEncoderSameBits(t *testing.T) {
	for _, name := range golden.Encoders(t) {
		t.Run(name, func(t *testing.T) {
			g := golden.OpenEncoder(t, name)
			ids, types := g.Ints(t, "ids_3"), g.Types(t, 3)
			var want [][]float32
			for _, kernels := range cpu.Kernels() {
				r := golden.NewRunner(t, g.Ckpt, kernels)
				rng := rand.New(rand.NewPCG(3, 4))
				hidden, logits := r.Encode(t, ids, types)
				if want == nil {
					want = append(hidden, logits)
				}
				golden.SameBits(t, kernels+" alone", append(hidden, logits), want)
				var table []int32
				for _, block := range rng.Perm(32) {
					table = append(table, int32(block))
				}
				var b compute.Batch
				b.Append(ids[:21], 0, false, r.Tables(table[:2])...)
				b.Append(ids, 0, false, r.Tables(table[2:21])...)
				b.Append(ids[:1], 0, false, r.Tables(table[21:22])...)
				if types != nil {
					b.Types = slices.Concat(types[:21], types, types[:1])
				}
				hidden, logits = r.ForwardEncoder(t, &b, 1)
				golden.SameBits(t, kernels+" among others", append(hidden, logits), want)
			}
		})
	}
}

// TestHidden holds that the hidden states of a decoder are the same however the sequence is cut into steps.
func TestHidden(t *testing.T) {
	g := golden.Open(t, "qwen3_small")
	ids := g.Ints(t, "ids_2")
	r := golden.NewRunner(t, g.Ckpt, "")
	var rows [2][][]float32
	for i, size := range []int{len(ids), 7} {
		for at := 0; at < len(ids); at += size {
			var b compute.Batch
			b.Append(ids[at:min(at+size, len(ids))], at, false, r.Tables(golden.OneSequence)...)
			for row := range b.IDs {
				b.Hidden = append(b.Hidden, int32(row))
			}
			if err := r.Forward(&b); err != nil {
				t.Fatal(err)
			}
			for row := range b.IDs {
				rows[i] = append(rows[i], slices.Clone(r.Hidden(row)))
			}
		}
	}
	golden.SameBits(t, "in steps of 7", rows[1], rows[0])
	// What the head makes of them are the logits.
	logits, head := r.Run(t, ids, 0), golden.Values(t, g.Ckpt, "model.embed_tokens.weight")
	for p, row := range rows[0] {
		for token, want := range logits[p] {
			got := 0.0
			for i, v := range row {
				got += float64(v) * float64(head[token*len(row)+i])
			}
			if !(math.Abs(got-float64(want)) < 1e-4) {
				t.Fatalf("position %d: the head gives token %d %g; its logit is %g", p, token, got, want)
			}
		}
	}
}

func TestEncoderRefuses(t *testing.T) {
	g := golden.OpenEncoder(t, "bert")
	r := golden.NewRunner(t, g.Ckpt, "")
	for want, change := range map[string]func(*compute.Batch){
		"is an encoder, and takes a sequence whole": func(b *compute.Batch) { b.Seqs[0].Start, b.Pos = 2, []int32{2, 3, 4} },
		"an encoder without classes":                func(b *compute.Batch) { b.Logits = []int32{0} },
		"token type 2; bert has 2":                  func(b *compute.Batch) { b.Types = []int32{0, 1, 2} },
		"3 ids and 1 token types":                   func(b *compute.Batch) { b.Types = []int32{0} },
	} {
		var b compute.Batch
		b.Append([]int32{1, 2, 3}, 0, false, r.Tables(golden.OneSequence)...)
		change(&b)
		if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}
