package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
)

// TestTrees computes random trees of tokens after a prompt, beside other sequences: the logits of each row are to the
// last bit those of the row's path computed as a sequence. Then a path is brought together, and the token after it has
// the logits that it has after that sequence.
func TestTrees(t *testing.T) {
	for i, name := range golden.Names(t) {
		kernels := cpu.Kernels()
		if name != "llama" {
			kernels = kernels[:1]
		}
		for _, k := range kernels {
			t.Run(name+", "+k, func(t *testing.T) {
				r := golden.NewRunner(t, golden.Open(t, name).Ckpt, k)
				if !r.Trees() {
					if r.Model.Spec.KVLayers() != nil && !r.Model.Spec.Recurrent() {
						t.Error("trees are refused")
					}
					return
				}
				types := []int{i % len(cpu.KVTypes)}
				if name == "llama" || strings.HasPrefix(name, "deepseek") && !testing.Short() {
					types = []int{0, 1, 2, 3, 4}
				}
				for _, typ := range types {
					r.Model.KVType = cpu.KVTypes[typ]
					runTrees(t, golden.RunnerOf(t, r.Model, r.Device), rand.New(rand.NewPCG(7, uint64(i))))
				}
			})
		}
	}
}

// tree is a prompt, the token after it and a tree of tokens after that.
type tree struct {
	prompt, tokens []int32 // the first of tokens is not of the tree
	parents        []int32
}

func randomTree(rng *rand.Rand, vocab, prompt, rows int) tree {
	var x tree
	for range prompt {
		x.prompt = append(x.prompt, int32(rng.IntN(vocab)))
	}
	x.tokens = []int32{int32(rng.IntN(vocab))}
	for i := range rows {
		x.tokens = append(x.tokens, int32(rng.IntN(vocab)))
		x.parents = append(x.parents, int32(i-1-min(rng.IntN(4), i)))
	}
	return x
}

// path returns the rows that row n of tokens comes from and itself, without the first.
func (x *tree) path(n int) (rows []int32) {
	for at := int32(n) - 1; at >= 0; at = x.parents[at] {
		rows = append(rows, at)
	}
	slices.Reverse(rows)
	return rows
}

// sequence returns the tokens that a path ends.
func (x *tree) sequence(path []int32) []int32 {
	all := append(slices.Clone(x.prompt), x.tokens[0])
	for _, n := range path {
		all = append(all, x.tokens[1+n])
	}
	return all
}

func runTrees(t *testing.T, r *golden.Runner, rng *rand.Rand) {
	t.Helper()
	const blockTokens = 16
	for _, rows := range []int{3, 9, 20} {
		x := randomTree(rng, r.Model.Spec.Vocab, 1+rng.IntN(40), rows)
		start := len(x.prompt)
		if r.Model.Spec.Long(start + 1 + rows) {
			continue // its paths alone are shorter, and may have other angles
		}
		table := []int32{25, 21, 29, 30, 24}
		tables := r.Tables(table)
		var b compute.Batch
		b.Append(x.prompt[:1], 0, false, r.Tables([]int32{31})...)
		b.Append(x.prompt, 0, false, tables...)
		forward(t, r, &b)

		b.Reset()
		b.Append(x.prompt[:1], 0, false, r.Tables([]int32{31})...)
		b.Append(x.tokens, start, false, tables...)
		b.Tree(x.parents)
		b.Append(x.prompt, 0, false, r.Tables([]int32{18, 19, 20})...)
		b.EndTrees()
		for i := range x.tokens {
			b.Logits = append(b.Logits, int32(1+i))
		}
		forward(t, r, &b)
		var got [][]float32
		for i := range x.tokens {
			got = append(got, slices.Clone(r.Logits(i)))
		}
		for n := range x.tokens {
			ids := x.sequence(x.path(n))
			want := r.Run(t, ids, 0)
			golden.SameBits(t, fmt.Sprintf("after %d tokens, row %d of a tree %v", start, n, x.parents), got[n:n+1], want[len(ids)-1:])
		}

		path := x.path(1 + rng.IntN(rows))
		b.Reset()
		for i, n := range path {
			from, to := start+1+int(n), start+1+i
			for g, blocks := range tables {
				b.Shifts = append(b.Shifts, compute.Shift{
					Group: int32(g), From: blocks[from/blockTokens], FromAt: int32(from % blockTokens),
					To: blocks[to/blockTokens], ToAt: int32(to % blockTokens),
				})
			}
		}
		b.Append(x.prompt[:1], 0, false, r.Tables([]int32{31})...)
		b.Append(x.prompt[:1], start+1+len(path), true, tables...)
		forward(t, r, &b)
		got = [][]float32{slices.Clone(r.Logits(0))}
		ids := append(x.sequence(path), x.prompt[0])
		want := r.Run(t, ids, 0)
		golden.SameBits(t, fmt.Sprintf("after the path %v of a tree %v", path, x.parents), got, want[len(ids)-1:])
	}
}

func forward(t *testing.T, r *golden.Runner, b *compute.Batch) {
	t.Helper()
	if err := r.Forward(b); err != nil {
		t.Fatal(err)
	}
}

// TestTreesAreChecked refuses rows that go on from what they cannot, and trees of recurrent models.
func TestTreesAreChecked(t *testing.T) {
	r := golden.NewRunner(t, golden.Open(t, "llama").Ckpt, "")
	for want, change := range map[string]func(*compute.Batch){
		"row 2 goes on from row 2": func(b *compute.Batch) { b.Parents[2] = 2 },
		"row 3 goes on from row 0": func(b *compute.Batch) { b.Parents[3] = 0 },
		"row 3 is at position 2":   func(b *compute.Batch) { b.Pos[3] = 2 },
		"3 parents":                func(b *compute.Batch) { b.Parents = b.Parents[:3] },
		"slot 16 of block 2":       func(b *compute.Batch) { b.Shifts = []compute.Shift{{From: 2, FromAt: 16}} },
	} {
		var b compute.Batch
		b.Append([]int32{5}, 0, false, r.Tables([]int32{1})...)
		b.Append([]int32{5, 6, 7}, 0, false, r.Tables([]int32{2})...)
		b.Tree([]int32{-1, -1})
		change(&b)
		if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	r = golden.NewRunner(t, golden.Open(t, "qwen3_next_heads").Ckpt, "")
	var b compute.Batch
	b.Append([]int32{5, 6, 7}, 0, false, r.Tables([]int32{2})...)
	b.Tree([]int32{-1, -1})
	if err := r.Forward(&b); err == nil || !strings.Contains(err.Error(), "recurrent") {
		t.Errorf("a tree of a recurrent model: %v", err)
	}
}
