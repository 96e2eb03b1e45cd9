package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/quant"
)

// encoders returns the names of the checkpoints in testdata/encoders.
func encoders(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("testdata", "encoders"))
	if err != nil || len(entries) < 4 {
		t.Fatalf("testdata/encoders has %v (%v); want 4", entries, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func openEncoder(t *testing.T, name string) golden {
	t.Helper()
	dir := filepath.Join("testdata", "encoders", name)
	return golden{openCheckpoint(t, dir, "model.safetensors"), openCheckpoint(t, dir, "golden.safetensors")}
}

// types returns the token types of sequence i, nil where the golden has none.
func (g golden) types(t *testing.T, i int) []int32 {
	if _, ok := g.data.Tensor(fmt.Sprintf("types_%d", i)); !ok {
		return nil
	}
	return g.ints(t, fmt.Sprintf("types_%d", i))
}

// encode computes a sequence alone and returns the hidden states of all its rows, and the logits of the first, if there are
// classes.
func encode(t *testing.T, r *Runner, ids, types []int32) (hidden [][]float32, logits []float32) {
	t.Helper()
	var b compute.Batch
	b.Append(ids, 0, false, tables(r, oneSequence)...)
	b.Types = types
	return forwardEncoder(t, r, &b, 0)
}

// forwardEncoder computes a batch and returns what belongs to one of its sequences.
func forwardEncoder(t *testing.T, r *Runner, b *compute.Batch, seq int) (hidden [][]float32, logits []float32) {
	t.Helper()
	s := b.Seqs[seq]
	for row := s.Row; row < s.Row+s.Rows; row++ {
		b.Hidden = append(b.Hidden, row)
	}
	if r.m.Spec.Classes > 0 {
		b.Logits = append(b.Logits, s.Row)
	}
	if err := r.Forward(b); err != nil {
		t.Fatal(err)
	}
	for i := range b.Hidden {
		hidden = append(hidden, slices.Clone(r.Hidden(i)))
	}
	if r.m.Spec.Classes > 0 {
		logits = slices.Clone(r.Logits(0))
	}
	return hidden, logits
}

func TestEncoders(t *testing.T) {
	for _, name := range encoders(t) {
		for _, kernels := range cpu.Kernels() {
			t.Run(name+"/"+kernels, func(t *testing.T) {
				g := openEncoder(t, name)
				checkEncoder(t, g, newRunner(t, g.ckpt, kernels))
			})
		}
	}
}

// TestEncodersGGUF writes the encoders that a GGUF can say, and back.
func TestEncodersGGUF(t *testing.T) {
	for _, name := range []string{"bert", "roberta"} {
		t.Run(name, func(t *testing.T) {
			g := openEncoder(t, name)
			ckpt := asGGUF(t, g.ckpt, quant.F32)
			checkSame(t, g.ckpt, ckpt)
			checkEncoder(t, g, newRunner(t, ckpt, ""))
			back := asSafetensors(t, ckpt)
			checkSame(t, g.ckpt, back)
			checkEncoder(t, g, newRunner(t, back, ""))
		})
	}
}

// checkEncoder compares every sequence of a golden.
func checkEncoder(t *testing.T, g golden, r *Runner) {
	t.Helper()
	worst := 0.0
	compare := func(name string, got []float32) {
		want := g.floats(t, name)
		for i, w := range want {
			worst = max(worst, math.Abs(float64(got[len(got)-len(want)+i]-w)))
		}
	}
	for i := range 4 {
		hidden, logits := encode(t, r, g.ints(t, fmt.Sprintf("ids_%d", i)), g.types(t, i))
		compare(fmt.Sprintf("hidden_%d", i), slices.Concat(hidden...))
		if logits != nil {
			compare(fmt.Sprintf("logits_%d", i), logits)
		}
	}
	t.Logf("max abs error %.2g", worst)
	if !(worst <= maxLogitError) {
		t.Errorf("max abs error %g; want at most %g", worst, maxLogitError)
	}
}

// TestEncoderSameBits computes a sequence alone and among others in scattered blocks, with all kernels.
func TestEncoderSameBits(t *testing.T) {
	for _, name := range encoders(t) {
		t.Run(name, func(t *testing.T) {
			g := openEncoder(t, name)
			ids, types := g.ints(t, "ids_3"), g.types(t, 3)
			var want [][]float32
			for _, kernels := range cpu.Kernels() {
				r := newRunner(t, g.ckpt, kernels)
				rng := rand.New(rand.NewPCG(3, 4))
				hidden, logits := encode(t, r, ids, types)
				if want == nil {
					want = append(hidden, logits)
				}
				sameRows(t, kernels+" alone", append(hidden, logits), want)
				var table []int32
				for _, block := range rng.Perm(32) {
					table = append(table, int32(block))
				}
				var b compute.Batch
				b.Append(ids[:21], 0, false, tables(r, table[:2])...)
				b.Append(ids, 0, false, tables(r, table[2:21])...)
				b.Append(ids[:1], 0, false, tables(r, table[21:22])...)
				if types != nil {
					b.Types = slices.Concat(types[:21], types, types[:1])
				}
				hidden, logits = forwardEncoder(t, r, &b, 1)
				sameRows(t, kernels+" among others", append(hidden, logits), want)
			}
		})
	}
}

func sameRows(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	for i := range want {
		for j, w := range want[i] {
			if math.Float32bits(got[i][j]) != math.Float32bits(w) {
				t.Fatalf("%s: row %d: value %d is %g; want %g", what, i, j, got[i][j], w)
			}
		}
	}
}

// TestHidden holds that the hidden states of a decoder are the same however the sequence is cut into steps.
func TestHidden(t *testing.T) {
	g := openGolden(t, "qwen3_small")
	ids := g.ints(t, "ids_2")
	r := newRunner(t, g.ckpt, "")
	var rows [2][][]float32
	for i, size := range []int{len(ids), 7} {
		for at := 0; at < len(ids); at += size {
			var b compute.Batch
			b.Append(ids[at:min(at+size, len(ids))], at, false, tables(r, oneSequence)...)
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
	sameRows(t, "in steps of 7", rows[1], rows[0])
	// What the head makes of them are the logits.
	logits, head := run(t, r, ids, 0), values(t, g.ckpt, "model.embed_tokens.weight")
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
	g := openEncoder(t, "bert")
	r := newRunner(t, g.ckpt, "")
	for want, change := range map[string]func(*compute.Batch){
		"is an encoder, and takes a sequence whole": func(b *compute.Batch) { b.Seqs[0].Start, b.Pos = 2, []int32{2, 3, 4} },
		"an encoder without classes":                func(b *compute.Batch) { b.Logits = []int32{0} },
		"token type 2; bert has 2":                  func(b *compute.Batch) { b.Types = []int32{0, 1, 2} },
		"3 ids and 1 token types":                   func(b *compute.Batch) { b.Types = []int32{0} },
	} {
		var b compute.Batch
		b.Append([]int32{1, 2, 3}, 0, false, tables(r, oneSequence)...)
		change(&b)
		if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}
