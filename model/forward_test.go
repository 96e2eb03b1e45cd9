package model_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestSameBitsHoweverComputed computes one sequence in one batch, and again in random pieces beside random other
// sequences, in scattered blocks, by every implementation of the kernels: all logits must be equal to the last bit.
// Where there are better kernels, or with -short, the portable ones, which are slow, compute the beginning of it.
func TestSameBitsHoweverComputed(t *testing.T) {
	const blockTokens, blocks, beginning = 16, 32, 50
	length := 150
	if testing.Short() && len(cpu.Kernels()) == 1 {
		length = beginning
	}
	const folder = "quantized/"
	names := append(golden.Names(t), golden.Packed, "kvasir-mini")
	for _, name := range golden.Quantized(t) {
		names = append(names, folder+name)
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			kv := cpu.KVTypes[i%len(cpu.KVTypes)] // every type with some models
			ckpt := golden.OpenMini(t)
			if quantized, ok := strings.CutPrefix(name, folder); ok {
				ckpt = golden.OpenQuantized(t, quantized).Ckpt
			} else if name != "kvasir-mini" {
				ckpt = golden.Open(t, name).Ckpt
			} else if testing.Short() {
				t.Skip("the portable kernels take seconds for the built-in model; left out by -short")
			}
			var want [][]float32
			for _, kernels := range cpu.Kernels() {
				r := golden.NewRunner(t, ckpt, kernels)
				r.Model.KVType = kv
				r = golden.RunnerOf(t, r.Model, r.Device)
				rng := rand.New(rand.NewPCG(1, 2))
				ids := make([]int32, min(length, r.Model.Spec.Context))
				for i := range ids {
					ids[i] = int32(rng.IntN(r.Model.Spec.Vocab))
				}
				if want == nil {
					want = r.Run(t, ids, 0)
				}
				compared := len(want)
				if len(cpu.Kernels()) > 1 && kernels == "portable" {
					compared = min(beginning, compared)
				}
				scatter(t, r, rng, ids, want[:compared])
			}
		})
	}
}

// scatter computes the first len(want) of ids in random pieces and compares the logits of each.
func scatter(t *testing.T, r *golden.Runner, rng *rand.Rand, ids []int32, want [][]float32) {
	t.Helper()
	table := make([]int32, 0, 32)
	for _, b := range rng.Perm(32) {
		table = append(table, int32(b))
	}
	mine, others := table[:10], table[10:]
	for at := 0; at < len(want); {
		n := min(1+rng.IntN(40), len(want)-at)
		var b compute.Batch
		before := rng.IntN(3)
		for i := range before {
			b.Append(ids[:1+rng.IntN(30)], 0, rng.IntN(2) == 0, r.Tables(others[i*2:i*2+2])...)
		}
		row := b.Rows()
		b.Append(ids[at:at+n], at, false, r.Tables(mine)...)
		first := len(b.Logits)
		for i := range n {
			b.Logits = append(b.Logits, int32(row+i))
		}
		b.Append(ids[:5], 0, true, r.Tables(others[10:11])...)
		for i := range b.Seqs {
			b.Seqs[i].Long = i == before && r.Model.Spec.Long(len(ids))
			b.Seqs[i].State = int32((i + len(b.Seqs) - before) % len(b.Seqs))
		}
		if err := r.Forward(&b); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			for j, v := range r.Logits(first + i) {
				if math.Float32bits(v) != math.Float32bits(want[at+i][j]) {
					t.Fatalf("%s: position %d, computed with %d others in a piece of %d: logit %d is %g; want %g", r.Device.Name(), at+i, before+1, n, j, v, want[at+i][j])
				}
			}
		}
		at += n
	}
}

func TestForwardAllocatesNothing(t *testing.T) {
	for name, ckpt := range map[string]*weights.Checkpoint{"kvasir-mini": golden.OpenMini(t), golden.Packed: golden.Open(t, golden.Packed).Ckpt} {
		t.Run(name, func(t *testing.T) { allocatesNothing(t, golden.NewRunner(t, ckpt, "")) })
	}
}

func allocatesNothing(t *testing.T, r *golden.Runner) {
	t.Helper()
	var b compute.Batch
	pos, tables := 0, r.Tables(golden.OneSequence)
	step := func() {
		b.Reset()
		b.Append([]int32{5}, pos, true, tables...)
		if err := r.Forward(&b); err != nil {
			t.Fatal(err)
		}
		pos++
	}
	for range 100 { // until scratch memory has grown
		step()
	}
	if n := testing.AllocsPerRun(50, step); n != 0 {
		t.Errorf("a decode step allocates %v times", n)
	}
}

// edits make a table of slot 0.
func edits(table ...int32) (all []compute.TableEdit) {
	for at, block := range table {
		all = append(all, compute.TableEdit{At: int32(at), Block: block})
	}
	return all
}

func TestForwardRefusesBadBatches(t *testing.T) {
	r := golden.NewRunner(t, golden.Open(t, "llama").Ckpt, "")
	for name, test := range map[string]struct {
		b    compute.Batch
		want string
	}{
		"empty":        {compute.Batch{}, "want 1 to 512"},
		"vocabulary":   {compute.Batch{IDs: []int32{256}, Pos: []int32{0}, Seqs: []compute.Seq{{Rows: 1}}, Edits: edits(golden.OneSequence...)}, "outside the vocabulary of 256"},
		"no block":     {compute.Batch{IDs: []int32{1}, Pos: []int32{16}, Seqs: []compute.Seq{{Rows: 1, Start: 16, Slot: 5}}, Edits: []compute.TableEdit{{Slot: 5}}}, "need 2 blocks"},
		"wrong block":  {compute.Batch{IDs: []int32{1}, Pos: []int32{0}, Seqs: []compute.Seq{{Rows: 1}}, Edits: edits(32)}, "outside the cache of 32"},
		"logits order": {compute.Batch{IDs: []int32{1}, Pos: []int32{0}, Seqs: []compute.Seq{{Rows: 1}}, Edits: edits(golden.OneSequence...), Logits: []int32{0, 0}}, "out of order"},
	} {
		if err := r.Forward(&test.b); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v; want %q", name, err, test.want)
		}
	}
}

// TestNoPositionsLeft runs batches beyond the learned positions, and where a dynamic rope would change.
func TestNoPositionsLeft(t *testing.T) {
	for name, want := range map[string]string{
		"gpt2_wide":     "position 160; gpt2 has 160 learned positions",
		"llama_dynamic": "position 512; the dynamic rope of this llama changes beyond 512 positions",
	} {
		g := golden.Open(t, name)
		r := golden.NewRunner(t, g.Ckpt, "")
		at := int32(r.Model.Spec.Context)
		b := compute.Batch{IDs: []int32{1}, Pos: []int32{at}, Seqs: []compute.Seq{{Rows: 1, Start: at}}}
		if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", name, err, want)
		}
	}
}

// The benchmarks report tokens a second of the built-in model on two threads, the rate at which its weights are read in
// decoding, and the multiply-adds of prefill, counted as two.
func BenchmarkDecode(b *testing.B) {
	r := golden.NewRunner(b, golden.OpenMini(b), "")
	var batch compute.Batch
	ids, pos, tables := []int32{5}, 0, r.Tables(golden.OneSequence)
	for b.Loop() {
		batch.Reset()
		batch.Append(ids, pos%500, true, tables...)
		if err := r.Forward(&batch); err != nil {
			b.Fatal(err)
		}
		pos++
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(1/seconds, "tokens/s")
	b.ReportMetric(float64(r.Model.Bytes)/seconds/1e9, "GB/s")
}

func BenchmarkPrefill512(b *testing.B) {
	r := golden.NewRunner(b, golden.OpenMini(b), "")
	var batch compute.Batch
	ids := make([]int32, 512)
	batch.Append(ids, 0, true, r.Tables(golden.OneSequence)...)
	for b.Loop() {
		if err := r.Forward(&batch); err != nil {
			b.Fatal(err)
		}
	}
	seconds := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(512/seconds, "tokens/s")
	b.ReportMetric(2*512*float64(r.Model.Bytes)/seconds/1e9, "Gop/s")
}
