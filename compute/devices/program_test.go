package devices_test

import (
	"math"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
	"github.com/kvasir-llm/kvasir/internal/devicetest"
)

// attention compiles a graph whose hidden states depend on all tokens of a sequence, in two groups of layers.
func attention(b *bench) compute.Program {
	b.layers = []compute.CacheLayer{{KVHeads: 2, KDim: 64, VDim: 64}, {Group: 1, KVHeads: 2, KDim: 64, VDim: 64}}
	x, _ := b.input(128)
	for layer := range b.layers {
		key, _ := b.input(128)
		value, _ := b.input(128)
		dst := b.buffer(128)
		b.g.Add(compute.Store{Layer: layer, K: key, V: value},
			compute.Attend{Layer: layer, Dst: dst, Q: x, Attention: compute.Attention{Heads: 2, Scale: 0.3}},
			compute.Add{Dst: x, Src: dst, Scale: 1})
	}
	return b.compile(x, compute.Tensor{})
}

// table sets the tables of a slot.
func table(b *compute.Batch, slot int, groups ...[]int32) {
	for g, blocks := range groups {
		for at, block := range blocks {
			b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(slot), Group: int32(g), At: int32(at), Block: block})
		}
	}
}

// put adds tokens to a batch, of which the first is at a position.
func put(b *compute.Batch, slot, at int, ids ...int32) {
	b.AppendSeq(compute.Seq{Start: int32(at), Slot: int32(slot)}, ids, len(ids))
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, v := range got {
		if math.Float32bits(v) != math.Float32bits(want[i]) {
			t.Fatalf("%s: number %d is %v; want %v", what, i, v, want[i])
		}
	}
}

// TestBlocks copies blocks, moves them to the host and back to others, and changes tables: what comes after a prefix is
// the same wherever that is.
func TestBlocks(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, dev compute.Device) {
		p := attention(newBench(t, dev))
		prefix := []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}
		var b compute.Batch
		table(&b, 0, []int32{0, 1}, []int32{2, 3})
		put(&b, 0, 0, prefix...)
		run(t, p, &b)
		b = compute.Batch{}
		put(&b, 0, 20, 6, 2)
		want := run(t, p, &b)

		b = compute.Batch{Copies: [][2]int32{{0, 10}, {1, 11}, {2, 12}, {3, 13}}}
		var data [4][]byte
		for i := range data {
			data[i] = make([]byte, p.BlockBytes())
			b.Out = append(b.Out, compute.Transfer{Block: int32(i), Data: data[i]})
		}
		table(&b, 1, []int32{10, 11}, []int32{12, 13})
		put(&b, 1, 20, 6, 2)
		got := run(t, p, &b)
		same(t, "copied", got[1], want[1])

		b = compute.Batch{}
		for i := range data {
			b.In = append(b.In, compute.Transfer{Block: int32(20 + i), Data: data[i]})
		}
		table(&b, 2, []int32{20, 21}, []int32{22, 23})
		put(&b, 2, 20, 6, 2)
		same(t, "moved", run(t, p, &b)[1], want[1])

		b = compute.Batch{} // another prefix with the same second block of the second group
		table(&b, 2, []int32{30}, []int32{31})
		put(&b, 2, 0, prefix[4:]...)
		run(t, p, &b)
		b = compute.Batch{}
		table(&b, 2, []int32{20}, []int32{22})
		put(&b, 2, 20, 6, 2)
		same(t, "edited", run(t, p, &b)[1], want[1])
	})
}

// TestTrees computes a tree of tokens, whose rows are to the last bit those of lists, and brings a branch together. A
// device without trees refuses them.
func TestTrees(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, dev compute.Device) {
		p := attention(newBench(t, dev))
		prefix := []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7}
		parents, ids := []int32{-1, -1, 0, 1, 1, 4}, []int32{50, 51, 52, 53, 54, 55}
		var b compute.Batch
		table(&b, 0, []int32{0, 1}, []int32{2, 3})
		put(&b, 0, 0, prefix...)
		run(t, p, &b)
		b = compute.Batch{}
		put(&b, 0, 14, append([]int32{40}, ids...)...)
		b.Tree(parents)
		if !p.Trees() {
			if _, err := p.Start(&b); err == nil {
				t.Error("a tree is not refused")
			}
			t.Skip("the device has no trees")
		}
		got := run(t, p, &b)
		for row, path := range map[int][]int32{1: {50}, 2: {51}, 3: {50, 52}, 4: {51, 53}, 5: {51, 54}, 6: {51, 54, 55}} {
			b = compute.Batch{}
			table(&b, 1, []int32{4, 5}, []int32{6, 7})
			put(&b, 1, 0, slices.Concat(prefix, []int32{40}, path)...)
			list := run(t, p, &b)
			same(t, "a row of a tree", got[row], list[len(list)-1])
		}
		b = compute.Batch{Shifts: []compute.Shift{ // tokens 51, 54 and 55 are in rows 2, 5 and 6, slots 16, 19 and 20
			{Group: 0, From: 1, FromAt: 0, To: 0, ToAt: 15}, {Group: 1, From: 3, FromAt: 0, To: 2, ToAt: 15},
			{Group: 0, From: 1, FromAt: 3, To: 1, ToAt: 0}, {Group: 1, From: 3, FromAt: 3, To: 3, ToAt: 0},
			{Group: 0, From: 1, FromAt: 4, To: 1, ToAt: 1}, {Group: 1, From: 3, FromAt: 4, To: 3, ToAt: 1},
		}}
		put(&b, 0, 18, 60)
		after := run(t, p, &b)[0]
		b = compute.Batch{}
		table(&b, 1, []int32{4, 5}, []int32{6, 7})
		put(&b, 1, 0, slices.Concat(prefix, []int32{40, 51, 54, 55, 60})...)
		list := run(t, p, &b)
		same(t, "after a branch", after, list[len(list)-1])
	})
}

// TestChoices holds what a device chooses to what compute/choose does with the same logits: the best token, draws,
// penalties, bans, masks, given tokens, lists of proposed ones, and tokens of the step before.
func TestChoices(t *testing.T) {
	devicetest.Each(t, func(t *testing.T, dev compute.Device) {
		b := newBench(t, dev)
		x, _ := b.input(32)
		_, m := b.weight(tokens, 32)
		last, logits := b.g.Buffer(32, compute.LogitRows), b.g.Buffer(tokens, compute.LogitRows)
		b.g.Add(compute.Gather{Dst: last, Src: x}, compute.Head{X: last, Product: compute.Product{Dst: logits, W: m}, Scale: 3})
		p := b.compile(compute.Tensor{}, logits)
		greedy := compute.Choosing{TopP: 1, Repetition: 1}
		for name, c := range map[string]compute.Choosing{
			"greedy": greedy,
			"drawn":  {Temperature: 1, TopP: 1, Repetition: 1, Seed: 7},
			"cut":    {Temperature: 0.8, TopP: 0.7, TopK: 9, MinP: 0.01, Repetition: 1, Seed: 8},
			"penalised": {Temperature: 1, TopP: 1, Repetition: 1.3, Presence: 0.5, Frequency: 0.4, Seed: 9, Prompt: []int32{1, 2, 3},
				Output: []int32{5, 5}},
			"banned": {TopP: 1, Repetition: 1, Banned: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}},
		} {
			t.Run(name, func(t *testing.T) { testChoices(t, p, c) })
		}
		t.Run("list", func(t *testing.T) { testList(t, p, greedy) })
	})
}

func testChoices(t *testing.T, p compute.Program, c compute.Choosing) {
	const rows = 20
	mask := make([]uint32, compute.MaskWords(tokens))
	for i := range mask {
		mask[i] = 0x5a5a5a5a
	}
	mine := c
	mine.Output = slices.Clone(c.Output)
	var b compute.Batch
	table(&b, 0, []int32{0, 1})
	put(&b, 0, 0, int32(1), 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
	b.Choosers = []compute.Chooser{{Slot: 0, Choosing: &c}}
	b.Masks = slices.Clone(mask)
	for i := range int32(rows) {
		b.Logits = append(b.Logits, i)
		ch := compute.Choice{Row: i, Slot: 0, N: uint64(i), Given: -1, Top: i%4 - 1, After: -1, Mask: i%3/2 - 1, Ban: true}
		if i%7 == 6 {
			ch.Given, ch.Slot, ch.Mask = i, -1, -1
		}
		b.Choose = append(b.Choose, ch)
	}
	b.ReadAll()
	s := start(t, p, &b)
	var sampler choose.Sampler
	var state choose.State
	state.Reset(&mine)
	for i, ch := range b.Choose {
		of := &state
		if ch.Given >= 0 {
			of = nil
		}
		var allowed []uint32
		if ch.Mask >= 0 {
			allowed = mask
		}
		want := sampler.Choose(of, slices.Clone(s.Logits(i)), ch, allowed)
		got := s.Chosen(i)
		near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-3 }
		if got.Err != nil || got.Token != want.Token || ch.Top >= 0 && !near(got.Logprob, want.Logprob) || len(got.Top) != len(want.Top) {
			t.Fatalf("choice %d, %+v, is %+v; want %+v", i, ch, got, want)
		}
		for j := range want.Top {
			if got.Top[j].Token != want.Top[j].Token || !near(got.Top[j].Logprob, want.Top[j].Logprob) {
				t.Fatalf("choice %d: alternative %d is %v; want %v", i, j, got.Top[j], want.Top[j])
			}
		}
	}
}

// testList lets a step verify a list of proposed tokens, and the next one go on from what it chooses.
func testList(t *testing.T, p compute.Program, greedy compute.Choosing) {
	next := make([]int32, tokens)
	var b compute.Batch
	table(&b, 0, []int32{0, 1, 2, 3, 4})
	for i := range int32(tokens) {
		b.AppendSeq(compute.Seq{Start: i, Slot: 0}, []int32{i}, 1)
		b.Logits = append(b.Logits, i)
		b.Choose = append(b.Choose, compute.Choice{Row: i, Slot: 0, Given: -1, Top: -1, After: -1, Mask: -1})
	}
	b.Choosers = []compute.Chooser{{Slot: 0, Choosing: &greedy}}
	s := start(t, p, &b)
	for i := range next {
		next[i] = s.Chosen(i).Token
	}
	right := []int32{11, next[11], next[next[11]]}
	wrong := (next[right[2]] + 1) % tokens
	ids := append(slices.Clone(right), wrong, next[wrong])
	one := compute.Batch{}
	put(&one, 0, 0, ids...)
	for i := range int32(len(ids)) {
		one.Logits = append(one.Logits, i)
		one.Choose = append(one.Choose, compute.Choice{Row: i, Slot: 0, Given: -1, Top: -1, After: i - 1, Mask: -1})
	}
	first, err := p.Start(&one)
	if err != nil {
		t.Fatal(err)
	}
	two := compute.Batch{From: []int32{2}, Logits: []int32{0}, Choose: []compute.Choice{{Slot: 0, Given: -1, Top: -1, After: -1, Mask: -1}}}
	two.AppendSeq(compute.Seq{Start: 5, Slot: 0}, nil, 1)
	second, err := p.Start(&two)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []compute.Step{first, second} {
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int32{next[11], next[right[1]], next[right[2]], -1, -1} {
		if got := first.Chosen(i).Token; got != want {
			t.Errorf("choice %d of a list %v is %d; want %d", i, ids, got, want)
		}
	}
	if got, want := second.Chosen(0).Token, next[next[right[2]]]; got != want {
		t.Errorf("after what the step before chose, %d is chosen; want %d", got, want)
	}
}
