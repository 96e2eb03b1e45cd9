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
	choose      bool
	adapters    int

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
	m.ids = make([]int32, t.Seqs+t.Rows+t.Steps)
	for i := range m.ids {
		m.ids[i] = r.Int32N(int32(m.model.Spec.Vocab))
	}
	if err := fillCache(m.dev, m.runner.Cache(), tables, t.Depth, m.chunk); err != nil {
		return nil, err
	}
	first := compute.Batch{Edits: editsOf(tables)}
	for s := range t.Seqs {
		first.Choosers = append(first.Choosers, compute.Chooser{Slot: int32(s), Choosing: &compute.Choosing{TopP: 1, Repetition: 1}})
	}
	if err := errors.Join(m.placeAdapters(&first), runStep(m.runner, &first)); err != nil {
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
	for step := range t.plan(m.chunk) {
		b := m.next()
		for _, p := range step {
			for s := p.first; s < p.first+p.seqs; s++ {
				m.sequence(b, s, p.start, m.ids[s+p.start-t.Depth:][:p.rows], t.logits(p) > 0)
			}
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

// sequence adds tokens of sequence s, of whose last the device computes logits and chooses the likeliest token, which
// stays there, or else keeps the logits.
func (m *modelRun) sequence(b *compute.Batch, s, start int, ids []int32, logits bool) {
	b.AppendSeq(compute.Seq{Start: int32(start), Slot: int32(s), State: int32(s), Adapter: m.adapter(s)}, ids, len(ids))
	switch last := b.Rows() - 1; {
	case logits && m.choose:
		c := b.Choice(last)
		c.Slot, c.Given, c.Top, c.After, c.Mask = int32(s), -1, -1, -1, -1
	case logits:
		b.Logits = append(b.Logits, int32(last))
	}
}

// adapter returns the slot of a sequence's adapter: they take turns.
func (m *modelRun) adapter(s int) int32 {
	if m.adapters == 0 {
		return 0
	}
	return int32(s%m.adapters) + 1
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

// floor returns the least seconds of a test, and its work in all.
func (m *modelRun) floor(t Test, p compute.Peaks) (seconds float64, all Work) {
	for step := range t.plan(m.chunk) {
		w := m.cost.step(step, t.logits)
		seconds, all = seconds+w.Floor(p), all.plus(w)
	}
	return seconds, all
}
