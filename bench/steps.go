package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/model"
)

// modelRun is a model under measurement.
type modelRun struct {
	dev         *cpu.Device
	model       *model.Model
	chunk       int
	blockTokens int
	cost        cost

	runner *model.Runner
	tables [][][]int32 // blocks of each sequence, by group of layers
	ids    []int32     // random tokens
	batch  compute.Batch
}

// measure returns the tokens per second of each repetition.
func (m *modelRun) measure(ctx context.Context, t Test, repetitions int) ([]float64, error) {
	blocks := (t.length() + m.blockTokens - 1) / m.blockTokens
	var err error
	spec := compute.CacheSpec{Layers: m.model.Spec.KVLayers()}
	if m.runner, err = m.model.NewRunner(max(m.chunk, t.Seqs), max(1, spec.Groups())*blocks*t.Seqs, m.blockTokens, t.Seqs); err != nil {
		return nil, err
	}
	m.tables = m.tables[:0]
	for s := range t.Seqs {
		table := make([]int32, blocks)
		for i := range table {
			table[i] = int32(s*blocks + i)
		}
		m.tables = append(m.tables, spec.Spread(table))
	}
	r := rand.New(rand.NewPCG(1, uint64(t.tokens())))
	m.ids = make([]int32, max(t.Rows, t.Seqs))
	for i := range m.ids {
		m.ids[i] = r.Int32N(int32(m.model.Spec.Vocab))
	}
	if err := m.fill(t); err != nil {
		return nil, err
	}
	var speeds []float64
	for i := range repetitions + 1 {
		start := time.Now()
		if err := m.run(ctx, t); err != nil {
			return nil, err
		}
		if i > 0 {
			speeds = append(speeds, float64(t.tokens())/time.Since(start).Seconds())
		}
	}
	slices.Sort(speeds)
	return speeds, nil
}

// run does the test once.
func (m *modelRun) run(ctx context.Context, t Test) error {
	for at := 0; at < t.Rows; at += m.chunk {
		end := min(at+m.chunk, t.Rows)
		m.batch.Reset()
		m.batch.Append(m.ids[at:end], t.Depth+at, end == t.Rows, m.tables[0]...)
		if err := m.forward(ctx); err != nil {
			return err
		}
	}
	for i := range t.Steps {
		m.batch.Reset()
		for s, table := range m.tables {
			m.batch.Append(m.ids[s:s+1], t.Depth+i, true, table...)
		}
		if err := m.forward(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *modelRun) forward(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return m.runner.Forward(&m.batch)
}

// fill puts random keys and values of t.Depth tokens of each sequence into the cache.
func (m *modelRun) fill(t Test) error {
	rows := min(m.chunk, t.Depth)
	if rows == 0 {
		return nil
	}
	spec := m.model.Spec
	for i, l := range spec.Layers {
		k, err := m.random(rows, l.Attn.KVHeads*l.Attn.HeadDim)
		if err != nil {
			return err
		}
		v, err := m.random(rows, l.Attn.KVHeads*l.Attn.ValueDim)
		if err != nil {
			return err
		}
		for _, table := range m.tables {
			for at := 0; at < t.Depth; at += rows {
				m.batch.Reset()
				m.batch.Append(make([]int32, min(rows, t.Depth-at)), at, false, table...)
				m.dev.Begin(&m.batch)
				m.dev.Store(m.runner.Cache(), i, k, v)
			}
		}
	}
	return m.dev.Sync()
}

func (m *modelRun) random(rows, cols int) (compute.Tensor, error) {
	t, err := m.dev.Tensor(rows, cols)
	r := rand.New(rand.NewPCG(2, uint64(cols)))
	for i := range t.Host {
		t.Host[i] = float32(r.NormFloat64())
	}
	return t, err
}

// floor returns the seconds that a test takes at least.
func (m *modelRun) floor(t Test, p cpu.Peaks) float64 {
	seconds := 0.0
	for at := 0; at < t.Rows; at += m.chunk {
		end := min(at+m.chunk, t.Rows)
		logits := 0
		if end == t.Rows {
			logits = 1
		}
		seconds += m.cost.step(1, end-at, t.Depth+at, logits).Floor(p)
	}
	for i := range t.Steps {
		seconds += m.cost.step(t.Seqs, 1, t.Depth+i, t.Seqs).Floor(p)
	}
	return seconds
}
