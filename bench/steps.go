package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/model"
)

// modelRun is a model under measurement.
type modelRun struct {
	dev         compute.Device
	model       *model.Model
	chunk       int
	blockTokens int
	cost        cost

	runner  *model.Runner
	ids     []int32          // random tokens
	batches [2]compute.Batch // of the steps that are under way
	started int
	under   compute.Step // the step started last, nil if its end was waited for
}

// measure returns the tokens per second of each repetition.
func (m *modelRun) measure(ctx context.Context, t Test, repetitions int) ([]float64, error) {
	spec := compute.CacheSpec{Layers: m.model.Spec.KVLayers()}
	tables := tablesOf(spec, t.Seqs, t.length(), m.blockTokens)
	blocks := max(1, spec.Groups()) * t.Seqs * ((t.length() + m.blockTokens - 1) / m.blockTokens)
	var err error
	if m.runner, err = m.model.NewRunner(max(m.chunk, t.Seqs), blocks, m.blockTokens, t.Seqs); err != nil {
		return nil, err
	}
	defer m.runner.Close()
	r := rand.New(rand.NewPCG(1, uint64(t.tokens())))
	m.ids = make([]int32, max(t.Rows, t.Seqs))
	for i := range m.ids {
		m.ids[i] = r.Int32N(int32(m.model.Spec.Vocab))
	}
	if err := fillCache(m.dev, m.runner.Cache(), tables, t.Depth, m.chunk); err != nil {
		return nil, err
	}
	if err := runStep(m.runner, &compute.Batch{Edits: editsOf(tables)}); err != nil {
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

// run does the test once, with two steps under way at a time.
func (m *modelRun) run(ctx context.Context, t Test) error {
	for at := 0; at < t.Rows; at += m.chunk {
		end := min(at+m.chunk, t.Rows)
		b := m.next()
		m.sequence(b, 0, t.Depth+at, m.ids[at:end], end == t.Rows)
		if err := m.start(ctx, b); err != nil {
			return err
		}
	}
	for i := range t.Steps {
		b := m.next()
		for s := range t.Seqs {
			m.sequence(b, s, t.Depth+i, m.ids[s:s+1], true)
		}
		if err := m.start(ctx, b); err != nil {
			return err
		}
	}
	return m.wait()
}

// next returns the batch of the next step, empty.
func (m *modelRun) next() *compute.Batch {
	b := &m.batches[m.started%2]
	b.Reset()
	return b
}

// sequence adds tokens of sequence s, whose logits the device computes and keeps.
func (m *modelRun) sequence(b *compute.Batch, s, start int, ids []int32, logits bool) {
	b.AppendSeq(compute.Seq{Start: int32(start), Slot: int32(s), State: int32(s)}, ids, len(ids))
	if logits {
		b.Logits = append(b.Logits, int32(b.Rows()-1))
	}
}

// start starts a step, then waits for the one before.
func (m *modelRun) start(ctx context.Context, b *compute.Batch) error {
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), m.wait())
	}
	step, err := m.runner.Start(b)
	if err := errors.Join(err, m.wait()); err != nil {
		return err
	}
	m.under = step
	m.started++
	return nil
}

// wait waits for the step that is under way.
func (m *modelRun) wait() error {
	s := m.under
	if m.under = nil; s == nil {
		return nil
	}
	return s.Wait()
}

// floor returns the least seconds of a test.
func (m *modelRun) floor(t Test, p compute.Peaks) float64 {
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
