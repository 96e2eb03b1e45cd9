package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/quant"
)

// randomAdapter is one of a rank for all linear weights of a model.
func randomAdapter(m *Model, rng *rand.Rand, rank int) *Adapter {
	a := &Adapter{}
	matrix := func(out, in int) compute.Source {
		data := make([]byte, out*in*2)
		for i := range data {
			data[i] = byte(rng.IntN(64))
		}
		return compute.Source{Name: "random", Type: quant.BF16, Out: out, In: in, Data: data}
	}
	for _, mod := range m.modules {
		if len(mod.targets) == 1 {
			to := mod.targets[0]
			a.changes = append(a.changes, change{to, matrix(rank, to.in), matrix(to.out, rank), 1})
		}
	}
	return a
}

// BenchmarkDecodeAdapters decodes 16 sequences of the built-in model of which none, all with one adapter, and all with one
// of eight adapters of rank 16.
func BenchmarkDecodeAdapters(b *testing.B) {
	const seqs = 16
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	m, err := Load(openMini(b), dev, nil)
	if err != nil {
		b.Fatal(err)
	}
	m.MakeSlots(8)
	rng := rand.New(rand.NewPCG(1, 1))
	for slot := range 8 {
		if err := m.Place(slot+1, randomAdapter(m, rng, 16)); err != nil {
			b.Fatal(err)
		}
	}
	r, err := m.NewRunner(seqs, 8*seqs, 16, 0)
	if err != nil {
		b.Fatal(err)
	}
	for _, adapters := range []int{0, 1, 8} {
		b.Run(fmt.Sprint(adapters), func(b *testing.B) {
			var batch compute.Batch
			pos := 0
			for b.Loop() {
				batch.Reset()
				for i := range seqs {
					table := make([]int32, 8)
					for j := range table {
						table[j] = int32(8*i + j)
					}
					batch.Append([]int32{5}, pos%120, true, table)
					if adapters > 0 {
						batch.Seqs[i].Adapter = int32(1 + i%adapters)
					}
				}
				if err := r.Forward(&batch); err != nil {
					b.Fatal(err)
				}
				pos++
			}
			b.ReportMetric(seqs*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
