package devices_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// tokens is the vocabulary and the most rows of the graphs of these tests.
const tokens = 80

// bench is a graph under test. Its inputs are tables of numbers that are bfloat16s: token t is row t of each.
type bench struct {
	t   *testing.T
	dev compute.Device
	r   *rand.Rand
	g   compute.Graph

	layers []compute.CacheLayer
	states int
	heads  compute.Heads // in which weights are stored
}

func newBench(t *testing.T, dev compute.Device) *bench {
	return &bench{t: t, dev: dev, r: rand.New(rand.NewPCG(5, 6)), g: compute.Graph{Vocab: tokens}}
}

// near is how far a result may be from the exact one, as a share of its length: activations of the processor are
// float32 here, those of others may be bfloat16.
func (b *bench) near() float64 {
	if strings.HasPrefix(b.dev.Name(), "cpu") {
		return 2e-5
	}
	return 1.5e-2
}

// numbers returns n normal numbers that are bfloat16s.
func (b *bench) numbers(n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		u := math.Float32bits(float32(b.r.NormFloat64() * scale))
		v[i] = math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff)
	}
	return v
}

func (b *bench) matrix(v []float32, in int) compute.Matrix {
	b.t.Helper()
	src := compute.Source{Name: "w", Type: quant.BF16, Out: len(v) / in, In: in, Data: make([]byte, 2*len(v)), Heads: b.heads}
	for i, x := range v {
		at := src.Heads.Stored(i/in)*in + i%in
		binary.LittleEndian.PutUint16(src.Data[2*at:], uint16(math.Float32bits(x)>>16))
	}
	m, err := b.dev.Matrix(src)
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// weight makes a random weight that keeps the size of its inputs.
func (b *bench) weight(out, in int) ([]float32, compute.Matrix) {
	v := b.numbers(out*in, 1/math.Sqrt(float64(in)))
	return v, b.matrix(v, in)
}

func (b *bench) vector(v []float32) compute.Vector {
	b.t.Helper()
	w, err := b.dev.Vector(v)
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

func (b *bench) buffer(width int) compute.Tensor { return b.g.Buffer(width, compute.AllRows) }

// input makes an activation, and returns its numbers [tokens, width].
func (b *bench) input(width int) (compute.Tensor, []float32) {
	v, id := b.numbers(tokens*width, 1), make([]float32, width*width)
	for i := range width {
		id[i*width+i] = 1
	}
	h, x := b.buffer(width), b.buffer(width)
	b.g.Add(compute.Embed{Dst: h, Table: b.matrix(v, width), Scale: 1},
		compute.MatMul{X: h, Products: []compute.Product{{Dst: x, W: b.matrix(id, width)}}})
	return x, v
}

// compile ends the graph with x as hidden states, or with logits, and compiles it. A device that lacks an operation
// refuses it by name, and the test is skipped.
func (b *bench) compile(x, logits compute.Tensor) compute.Program {
	b.t.Helper()
	last := compute.Choose{Logits: logits}
	if x.Buffer > 0 {
		last.Hidden = b.g.Buffer(x.Cols, compute.HiddenRows)
		b.g.Add(compute.Gather{Dst: last.Hidden, Src: x})
	}
	b.g.Add(last)
	if b.layers == nil {
		b.layers = []compute.CacheLayer{{KVHeads: 1, KDim: 16, VDim: 16}}
	}
	types := b.dev.KVTypes()
	c, err := b.dev.Cache(compute.CacheSpec{Blocks: 48, BlockTokens: 16, States: b.states, Type: types[0], Layers: b.layers})
	var p compute.Program
	if err == nil {
		p, err = b.dev.Compile(&b.g, c, compute.Limits{Rows: tokens, Slots: 8})
	}
	if errors.Is(err, compute.ErrUnsupported) {
		b.t.Skip(err)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return p
}

// add puts tokens [from, to) of a sequence into a batch: token t is at position t. The sequence has the blocks of its
// slot, in an order of their own.
func add(b *compute.Batch, slot, from, to int) {
	var ids []int32
	for id := from; id < to; id++ {
		ids = append(ids, int32(id))
	}
	b.AppendSeq(compute.Seq{Start: int32(from), Slot: int32(slot), State: int32(slot)}, ids, len(ids))
	if from == 0 {
		for i := range tokens / 16 {
			b.Edits = append(b.Edits, compute.TableEdit{Slot: int32(slot), At: int32(i), Block: int32(slot*6 + (i*2)%5)})
		}
	}
}

// run computes a batch and returns the hidden states of all rows.
func run(t *testing.T, p compute.Program, b *compute.Batch) [][]float32 {
	t.Helper()
	for r := range b.IDs {
		b.Hidden = append(b.Hidden, int32(r))
	}
	s := start(t, p, b)
	out := make([][]float32, len(b.Hidden))
	for i := range out {
		out[i] = append([]float32(nil), s.Hidden(i)...)
	}
	return out
}

func start(t *testing.T, p compute.Program, b *compute.Batch) compute.Step {
	t.Helper()
	s, err := p.Start(b)
	if err == nil {
		err = s.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check computes one sequence of all tokens, and compares x of every row with what want yields for the token of that
// number. Then it computes the sequence in pieces, in company: all bits have to be the same.
func (b *bench) check(x compute.Tensor, want func(token int) []float64) {
	b.t.Helper()
	p := b.compile(x, compute.Tensor{})
	var batch compute.Batch
	add(&batch, 0, 0, tokens)
	whole := run(b.t, p, &batch)
	for token, got := range whole {
		if e := distance(got, want(token)); !(e <= b.near()) {
			b.t.Fatalf("row %d is off by %g: %.4v; want %.4v", token, e, got[:min(len(got), 6)], want(token)[:min(len(got), 6)])
		}
	}
	for at, piece := 0, 1; at < tokens; at, piece = at+piece, piece+4 {
		piece = min(piece, tokens-at)
		batch = compute.Batch{}
		add(&batch, 2, 0, 1)
		add(&batch, 1, at, at+piece)
		batch.Seqs[1].Slot, batch.Seqs[1].State = 1, 1
		if at+piece < tokens {
			add(&batch, 3, 0, 3)
		}
		got := run(b.t, p, &batch)[1:][:piece]
		for i := range got {
			for j, v := range got[i] {
				if math.Float32bits(v) != math.Float32bits(whole[at+i][j]) {
					b.t.Fatalf("row %d, in a piece from %d of %d: number %d is %v; in one piece it is %v", at+i, at, piece, j, v, whole[at+i][j])
				}
			}
		}
	}
}

// distance returns ‖got - want‖ / ‖want‖; NaN where a number is none.
func distance(got []float32, want []float64) float64 {
	d, n := 0.0, 1e-30
	for i, w := range want {
		d += (float64(got[i]) - w) * (float64(got[i]) - w)
		n += w * w
	}
	return math.Sqrt(d / n)
}

// product returns w·x + bias, for a weight [out, len(x)]; bias may be nil.
func product(w []float32, x []float64, bias []float32) []float64 {
	out := make([]float64, len(w)/len(x))
	for o := range out {
		for i, v := range x {
			out[o] += float64(w[o*len(x)+i]) * v
		}
		if bias != nil {
			out[o] += float64(bias[o])
		}
	}
	return out
}

// row returns row i of a table of rows of n numbers.
func row(v []float32, i, n int) []float64 {
	out := make([]float64, n)
	for j, x := range v[i*n:][:n] {
		out[j] = float64(x)
	}
	return out
}
