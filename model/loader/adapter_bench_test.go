package loader_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
)

// randomAdapter is one of a rank for all linear weights of a model.
func randomAdapter(m *model.Model, rng *rand.Rand, rank int) *model.Adapter {
	var changes []model.Change
	matrix := func(out, in int) compute.Source {
		data := make([]byte, out*in*2)
		for i := range data {
			data[i] = byte(rng.IntN(64))
		}
		return compute.Source{Name: "random", Type: quant.BF16, Out: out, In: in, Data: data}
	}
	for _, mod := range m.Modules() {
		if len(mod.Targets) == 1 {
			to := mod.Targets[0]
			changes = append(changes, model.Change{To: to, A: matrix(rank, to.In), B: matrix(to.Out, rank), Scale: 1})
		}
	}
	return model.NewAdapter(changes)
}

// BenchmarkDecodeAdapters decodes 16 sequences of the built-in model of which none, all with one adapter, and all
// with one of eight adapters of rank 16.
func BenchmarkDecodeAdapters(b *testing.B) {
	const seqs = 16
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	m, err := loader.Model(golden.OpenMini(b), dev, nil)
	if err != nil {
		b.Fatal(err)
	}
	m.MakeSlots(8)
	r, err := m.NewRunner(seqs, 8*seqs, 16, seqs)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for slot := range 8 {
		if err := r.PlaceNow(slot+1, randomAdapter(m, rng, 16)); err != nil {
			b.Fatal(err)
		}
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
