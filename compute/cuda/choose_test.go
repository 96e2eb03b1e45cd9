package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/choose"
)

// logitsGraph is a graph whose row of logits for token i is column i of a weight.
func logitsGraph(t testing.TB, d compute.Device, columns []float32, vocab, n int) *compute.Graph {
	g := &compute.Graph{Vocab: vocab}
	h, last, logits := g.Buffer(n, compute.AllRows), g.Buffer(n, compute.LogitRows), g.Buffer(vocab, compute.LogitRows)
	table := make([]float32, vocab*n)
	copy(table, identity(n))
	g.Add(compute.Embed{Dst: h, Table: weight(t, d, table, vocab, n), Scale: 1}, compute.Gather{Dst: last, Src: h},
		compute.Head{X: last, Product: compute.Product{Dst: logits, W: weight(t, d, columns, vocab, n)}, Scale: 1}, compute.Choose{Logits: logits})
	return g
}

// vocabularies are no multiples of anything, with how many rounds of choices are compared.
var vocabularies = less([]vocabulary{{5003, 40}, {131, 40}, {32001, 5}, {128259, 3}}, []vocabulary{{5003, 2}, {131, 4}})

type vocabulary struct{ size, rounds int }

// TestChoose compares what the device chooses with what the host does from the same logits.
func TestChoose(t *testing.T) {
	d := gpuDevice(t)
	for _, v := range vocabularies {
		t.Run(fmt.Sprint(v.size), func(t *testing.T) { testChoose(t, d, v.size, v.rounds) })
	}
}

func testChoose(t *testing.T, d *device, vocab, rounds int) {
	const n = 64
	r := rand.New(rand.NewPCG(5, 6))
	columns := bell(r, vocab*n, 3) // rounded to bfloat16: there are ties
	g := logitsGraph(t, d, columns, vocab, n)
	p := compileGraph(t, d, g, oneLayer(t, d, 8, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: n, Slots: 8})
	choosings := []compute.Choosing{
		{Temperature: 0}, {Temperature: 1}, {Temperature: 0.7, TopK: 5}, {Temperature: 1.5, TopP: 0.9}, {Temperature: 1, MinP: 0.05},
		{Temperature: 2, TopK: 40, TopP: 0.8, MinP: 0.01}, {Temperature: 1, Presence: 1, Frequency: 0.5}, {Temperature: 0, Bias: []compute.TokenBias{{Token: 7, Add: 100}}},
	}
	var sampler choose.Sampler
	differ, all := 0, 0
	states := make([]choose.State, len(choosings))
	for round := range rounds {
		b := &compute.Batch{}
		b.Append(sequence(n), 0, false)
		for i := range n {
			b.Logits = append(b.Logits, int32(i))
		}
		for slot := range choosings {
			c := choosings[slot]
			c.Seed = uint64(round*1000 + slot)
			if c.TopP == 0 {
				c.TopP = 1
			}
			c.Repetition = 1
			states[slot].Reset(&c)
			b.Choosers = append(b.Choosers, compute.Chooser{Slot: int32(slot), Choosing: &c})
			for k := range n / len(choosings) {
				b.Choose = append(b.Choose, compute.Choice{Row: int32(k*len(choosings) + slot), Slot: int32(slot), N: uint64(k), Given: -1, Top: -1, After: -1, Mask: -1})
			}
		}
		b.ReadAll()
		s, err := p.Start(b)
		if err == nil {
			err = s.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range b.Choose {
			for token, l := range s.Logits(int(c.Row)) {
				if l != columns[token*n+int(c.Row)] {
					t.Fatalf("logit %d of row %d is %v; want %v", token, c.Row, l, columns[token*n+int(c.Row)])
				}
			}
			want := sampler.Choose(&states[c.Slot], append([]float32(nil), s.Logits(int(c.Row))...), c, nil)
			got := s.Chosen(i)
			if got.Err != nil || want.Err != nil {
				t.Fatal(got.Err, want.Err)
			}
			if all++; got.Token != want.Token {
				if differ++; c.Slot == 0 || c.Slot >= 6 {
					t.Errorf("choice %d of slot %d is token %d; want %d", i, c.Slot, got.Token, want.Token)
				}
			}
		}
	}
	t.Logf("%d of %d tokens differ from the host's", differ, all)
	if differ > max(2, all/200) {
		t.Errorf("%d of %d tokens differ from the host's; want no more than rounding explains", differ, all)
	}
}

// tries are ways to choose that differ in what the device has to know: all of them are its own.
var tries = []compute.Choosing{
	{Temperature: 0, Repetition: 1.3},
	{Temperature: 0, Repetition: 1, Presence: 0.5, Frequency: 0.25},
	{Temperature: 0.8, TopK: 40, Repetition: 1.1, Presence: -0.5},
	{Temperature: 1, TopP: 0.9, Repetition: 1, Frequency: 1},
	{Temperature: 1.2, MinP: 0.01, Repetition: 1},
	{Temperature: 0, Repetition: 1},
}

// moreBatch returns a batch that asks for all of tries, under masks, bans and biases, with alternatives, in lists of
// proposed tokens, and for what is thought of given tokens.
func moreBatch(r *rand.Rand, round, rows, vocab int) *compute.Batch {
	b := &compute.Batch{Hold: true}
	b.Append(sequence(rows), 0, false)
	words := compute.MaskWords(vocab)
	for i := range rows {
		b.Logits = append(b.Logits, int32(i))
	}
	for slot := range tries {
		by := tries[slot]
		by.TopP, by.Seed, by.Banned = max(by.TopP, 0), uint64(100*round+slot), []int32{1, 2, 3}
		if by.TopP == 0 {
			by.TopP = 1
		}
		for range 300 {
			by.Prompt, by.Output = append(by.Prompt, r.Int32N(int32(vocab))), append(by.Output, r.Int32N(int32(vocab/8)))
		}
		for k := range int32(round % 3 * 20) {
			by.Bias = append(by.Bias, compute.TokenBias{Token: (7*k + 1) % int32(vocab), Add: float32(r.NormFloat64())})
		}
		b.Choosers = append(b.Choosers, compute.Chooser{Slot: int32(slot), Choosing: &by})
		mask := int32(-1)
		if (slot+round)%2 == 0 {
			mask = int32(len(b.Masks) / words)
			for range words {
				b.Masks = append(b.Masks, r.Uint32())
			}
		}
		first, each := len(b.Choose), rows/len(tries)
		for k := range each {
			c := compute.Choice{Row: int32(slot*each + k), Slot: int32(slot), N: uint64(k), Given: -1, Top: []int32{-1, 0, 5, 128}[k%4],
				After: -1, Mask: mask, Ban: k%2 == 0}
			switch {
			case k%5 == 4:
				c.Given, c.Slot, c.Rank = r.Int32N(int32(vocab)), -1, true
			case k%3 == 2:
				c.After = int32(first + k - 1)
			}
			b.Choose = append(b.Choose, c)
		}
	}
	return b
}

// TestChooseMore compares what the device chooses and says under penalties, biases, bans and masks, of given tokens and
// after proposed ones, with what the host does from the same logits.
func TestChooseMore(t *testing.T) {
	d := gpuDevice(t)
	for _, v := range vocabularies {
		t.Run(fmt.Sprint(v.size), func(t *testing.T) { testChooseMore(t, d, v.size, v.rounds) })
	}
}

func testChooseMore(t *testing.T, d *device, vocab, rounds int) {
	const n = 66
	r := rand.New(rand.NewPCG(7, 8))
	g := logitsGraph(t, d, bell(r, vocab*n, 3), vocab, n) // rounded to bfloat16: there are ties
	p := compileGraph(t, d, g, oneLayer(t, d, 8, compute.CacheLayer{KVHeads: 1, KDim: 16, VDim: 16}), compute.Limits{Rows: n, Slots: len(tries)})
	var sampler choose.Sampler
	differ, all := 0, 0
	for round := range rounds {
		b := moreBatch(r, round, n, vocab)
		b.ReadAll()
		masks := slices.Clone(b.Masks)
		clear(b.Masks)
		s, err := p.Start(b)
		if err != nil {
			t.Fatal(err)
		}
		copy(b.Masks, masks) // late
		s.Choose()
		if err := s.Wait(); err != nil {
			t.Fatal(err)
		}
		if onHost := s.(*step).onHost; len(onHost) > 0 {
			t.Fatalf("the host chooses %v", onHost)
		}
		states := make([]choose.State, len(tries))
		for _, c := range b.Choosers {
			states[c.Slot].Reset(c.Choosing)
		}
		for i, c := range b.Choose {
			got, want := s.Chosen(i), compute.Chosen{Token: -1}
			if c.After < 0 || s.Chosen(int(c.After)).Token == b.IDs[b.Logits[c.Row]] {
				var mask []uint32
				if c.Mask >= 0 {
					mask = b.Masks[int(c.Mask)*compute.MaskWords(vocab):][:compute.MaskWords(vocab)]
				}
				want = sampler.Choose(&states[max(c.Slot, 0)], slices.Clone(s.Logits(int(c.Row))), c, mask)
			}
			if all++; got.Token != want.Token && c.Given < 0 && tries[c.Slot].Temperature > 0 {
				differ++ // a draw at the edge of a token's share; what comes after it may differ, too
				break
			}
			if err := differs(got, want); err != nil {
				t.Fatalf("round %d, choice %d %+v: %v", round, i, c, err)
			}
		}
	}
	if t.Logf("%d of %d tokens differ from the host's", differ, all); differ > 2 {
		t.Errorf("%d of %d tokens differ from the host's; want no more than rounding explains", differ, all)
	}
}

// differs says in what a result is not the wanted one.
func differs(got, want compute.Chosen) error {
	near := func(a, b float32) bool { return a == b || math.Abs(float64(a-b)) < 2e-5 }
	same := got.Token == want.Token && got.Rank == want.Rank && near(got.Logprob, want.Logprob) && (got.Err == nil) == (want.Err == nil)
	if !same || len(got.Top) != len(want.Top) {
		return fmt.Errorf("%+v; want %+v", got, want)
	}
	for k := range got.Top {
		if got.Top[k].Token != want.Top[k].Token || !near(got.Top[k].Logprob, want.Top[k].Logprob) {
			return fmt.Errorf("alternative %d is %+v; want %+v", k, got.Top[k], want.Top[k])
		}
	}
	return nil
}

func sequence(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i)
	}
	return v
}
