package bench

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// tablesOf returns the block tables [seqs][groups] of sequences of up to tokens tokens with blocks of their own.
func tablesOf(spec compute.CacheSpec, seqs, tokens, blockTokens int) [][][]int32 {
	blocks := (tokens + blockTokens - 1) / blockTokens
	var tables [][][]int32
	for s := range seqs {
		table := make([]int32, blocks)
		for i := range table {
			table[i] = int32(s*blocks + i)
		}
		tables = append(tables, spec.Spread(table))
	}
	return tables
}

// editsOf returns the edits that give slot s of a program the tables of sequence s.
func editsOf(tables [][][]int32) []compute.TableEdit {
	var edits []compute.TableEdit
	for slot, groups := range tables {
		for group, table := range groups {
			for at, block := range table {
				edits = append(edits, compute.TableEdit{Slot: int32(slot), Group: int32(group), At: int32(at), Block: block})
			}
		}
	}
	return edits
}

// fillRows is the number of different random rows that fill buffers and caches.
const fillRows = 256

// randomTable loads a float32 table [fillRows, cols] of random numbers.
func randomTable(dev compute.Device, cols int) (compute.Matrix, error) {
	r := rand.New(rand.NewPCG(2, uint64(cols)))
	var data []byte
	for range fillRows * cols {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(r.NormFloat64())))
	}
	return dev.Matrix(compute.Source{Name: "random", Type: quant.F32, Out: fillRows, In: cols, Data: data})
}

// fillCache puts random keys and values of tokens tokens of each sequence into all layers of a cache that keep tokens,
// in steps of up to rows tokens. The states of recurrent layers stay as they are.
func fillCache(dev compute.Device, c compute.Cache, tables [][][]int32, tokens, rows int) error {
	if rows = min(rows, tokens); rows == 0 {
		return nil
	}
	g := compute.Graph{Vocab: fillRows}
	buffers := map[int]compute.Tensor{} // by width
	buffer := func(width int) (compute.Tensor, error) {
		if t, ok := buffers[width]; ok {
			return t, nil
		}
		table, err := randomTable(dev, width)
		buffers[width] = g.Buffer(width, compute.AllRows)
		g.Add(compute.Embed{Dst: buffers[width], Table: table, Scale: 1})
		return buffers[width], err
	}
	for i, l := range c.Spec().Layers {
		if l.State > 0 {
			continue
		}
		k, err := buffer(l.KVHeads * l.KDim)
		if err != nil {
			return err
		}
		s := compute.Store{Layer: i, K: k}
		if !l.Latent {
			if s.V, err = buffer(l.KVHeads * l.VDim); err != nil {
				return err
			}
		}
		g.Add(s)
	}
	p, err := dev.Compile(&g, c, compute.Limits{Rows: rows, Slots: len(tables)})
	if err != nil {
		return err
	}
	defer p.Close()
	r := rand.New(rand.NewPCG(3, 0))
	b := compute.Batch{Edits: editsOf(tables)}
	for slot := range tables {
		for at := 0; at < tokens; at += rows {
			ids := make([]int32, min(rows, tokens-at))
			for i := range ids {
				ids[i] = r.Int32N(fillRows)
			}
			b.AppendSeq(compute.Seq{Start: int32(at), Slot: int32(slot)}, ids, len(ids))
			if err := runStep(p, &b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}

// starter is a compute.Program or a model.Runner.
type starter interface {
	Start(*compute.Batch) (compute.Step, error)
}

// runStep computes a batch.
func runStep(p starter, b *compute.Batch) error {
	s, err := p.Start(b)
	if err != nil {
		return err
	}
	return s.Wait()
}
