package bench

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
)

// adapterRank is the rank of random adapters.
const adapterRank = 16

// placeAdapters adds to a batch what puts random adapters, of every weight that takes them, into their slots.
func (m *modelRun) placeAdapters(b *compute.Batch) error {
	if m.adapters == 0 {
		return nil
	}
	var changes []model.Change
	for _, t := range targetsOf(m.model) {
		changes = append(changes, model.Change{To: t, A: lowRank(adapterRank, t.In), B: lowRank(t.Out, adapterRank), Scale: 1})
	}
	a := model.NewAdapter(changes)
	for i := range m.adapters {
		p, err := m.runner.Place(i+1, a)
		if err != nil {
			return err
		}
		b.Place = append(b.Place, p)
	}
	return nil
}

// targetsOf returns the weights that random adapters change.
func targetsOf(m *model.Model) []*model.Target {
	var targets []*model.Target
	for _, mod := range m.Modules() {
		if len(mod.Targets) == 1 { // weights that others join are there one by one
			targets = append(targets, mod.Targets[0])
		}
	}
	return targets
}

// adapterWork returns the work of one random adapter of a model.
func adapterWork(m *model.Model) (w Work) {
	for _, t := range targetsOf(m) {
		n := int64(adapterRank * (t.In + t.Out))
		w = w.plus(product(n, 2*n, quant.BF16))
	}
	return w
}

// lowRank returns a random matrix.
func lowRank(out, in int) compute.Source {
	r := rand.New(rand.NewPCG(uint64(out), uint64(in)))
	var data []byte
	for range out * in {
		data = binary.LittleEndian.AppendUint16(data, uint16(math.Float32bits(float32(r.NormFloat64()*0.01))>>16))
	}
	return compute.Source{Name: "random", Adapter: true, Type: quant.BF16, Out: out, In: in, Data: data}
}
