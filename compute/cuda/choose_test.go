package cuda

import (
	"math/rand/v2"
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

// TestChoose compares what the device chooses with what the host does from the same logits.
func TestChoose(t *testing.T) {
	d := gpuDevice(t)
	const vocab, n = 5003, 64
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
	for round := range 40 {
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
	if differ > all/200 {
		t.Errorf("%d of %d tokens differ from the host's; want no more than rounding explains", differ, all)
	}
}

func sequence(n int) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i)
	}
	return v
}
