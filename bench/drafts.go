package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/sampling"
)

// DraftOptions configure MeasureDrafts.
type DraftOptions struct {
	Batch   int     // answers at once
	Prompt  int     // tokens of each prompt
	Tokens  int     // of each answer
	Changed float64 // share of the answer's tokens at which its prediction differs, 0 to 1
	Rounds  int     // with predictions, and as many without
}

// DraftReport compares answers that were predicted, but for some changes, with the same answers without predictions.
type DraftReport struct {
	Batch    int     `json:"batch"`
	Changed  float64 `json:"changed"`
	Without  float64 `json:"tokens_per_second_without"`
	With     float64 `json:"tokens_per_second_with"`
	Times    float64 `json:"times"`    // as fast as without: the median of the rounds'
	Slowest  float64 `json:"slowest"`  // of the rounds
	Fastest  float64 `json:"fastest"`  // likewise
	Proposed uint64  `json:"proposed"` // tokens of a round
	Accepted uint64  `json:"accepted"`

	WithoutCPU float64 `json:"cpu_us_per_token_without"` // of all processors, with workers that spin
	WithCPU    float64 `json:"cpu_us_per_token_with"`
}

// MeasureDrafts measures what predictions are worth: those of an editor, for example, which sends a file that is to be
// changed. Prompts are random tokens, and answers are sampled, so that nothing but the prediction tells them. Every
// answer must be the same with and without.
func MeasureDrafts(ctx context.Context, e *engine.Engine, vocab int, o DraftOptions) (*DraftReport, error) {
	if o.Batch < 1 || o.Prompt < 2 || o.Tokens < 2 || o.Rounds < 1 || !(o.Changed >= 0 && o.Changed <= 1) {
		return nil, fmt.Errorf("bench: %d answers at once of %d tokens to prompts of %d, %d rounds, %v changed; want at least 1, 2, 2 and 1, and 0 to 1",
			o.Batch, o.Tokens, o.Prompt, o.Rounds, o.Changed)
	}
	d := &draftBench{e: e, vocab: vocab, o: o, answers: make([][]int32, o.Batch)}
	rep := &DraftReport{Batch: o.Batch, Changed: o.Changed}
	var speeds, cpus [2][]float64
	var times []float64
	for round := range o.Rounds + 1 { // the first makes the answers, and warms up
		var speed [2]float64
		for turn := range 2 {
			kind := (round + turn) % 2
			if round == 0 {
				kind = turn
			}
			before := e.Report().Drafts
			var err error
			var cpu float64
			if speed[kind], cpu, err = d.round(ctx, round, kind == 1); err != nil {
				return nil, err
			}
			if round > 0 {
				cpus[kind] = append(cpus[kind], cpu)
			}
			if after := e.Report().Drafts; kind == 1 {
				rep.Proposed, rep.Accepted = after.Proposed-before.Proposed, after.Accepted-before.Accepted
			}
		}
		if round > 0 {
			speeds[0], speeds[1] = append(speeds[0], speed[0]), append(speeds[1], speed[1])
			times = append(times, speed[1]/speed[0])
		}
	}
	rep.Without, rep.With, rep.Times = summarize(speeds[0]).P50, summarize(speeds[1]).P50, summarize(times).P50
	rep.WithoutCPU, rep.WithCPU = summarize(cpus[0]).P50, summarize(cpus[1]).P50
	rep.Slowest, rep.Fastest = slices.Min(times), slices.Max(times)
	return rep, nil
}

// draftBench is a measurement under way.
type draftBench struct {
	e       *engine.Engine
	vocab   int
	o       DraftOptions
	answers [][]int32
}

// round makes all answers at once and returns their tokens a second, and the processors' microseconds for each.
func (d *draftBench) round(ctx context.Context, round int, predicted bool) (speed, cpu float64, err error) {
	var all guard.Group
	start, worked := time.Now(), cpuTime()
	for n := range d.o.Batch {
		all.Start(func() error { return d.answer(ctx, n, round, predicted) })
	}
	err = all.Wait()
	tokens := float64(d.o.Batch * d.o.Tokens)
	return tokens / time.Since(start).Seconds(), float64((cpuTime() - worked).Microseconds()) / tokens, err
}

// answer makes the n-th answer, and holds it against the one that was made before.
func (d *draftBench) answer(ctx context.Context, n, round int, predicted bool) error {
	p := sampling.Defaults()
	p.Temperature, p.Seed = 1, uint64(n)
	r := engine.Request{
		Prompt: Part{Seed: uint64(n), Tokens: d.o.Prompt}.appendIDs(nil, d.vocab, nil),
		Params: engine.Params{Sampling: p, MaxTokens: d.o.Tokens, Logprobs: -1, PromptLogprobs: -1},
	}
	if predicted {
		r.Prediction = d.predict(d.answers[n], rand.New(rand.NewPCG(uint64(n), uint64(round))))
	}
	stream, err := d.e.Submit(ctx, r)
	if err != nil {
		return err
	}
	var ids []int32
	for {
		t, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err := errors.Join(err, t.Err); err != nil {
			return err
		}
		ids = append(ids, t.ID)
	}
	if d.answers[n] == nil {
		d.answers[n] = ids
	} else if !slices.Equal(ids, d.answers[n]) {
		return fmt.Errorf("bench: answer %d is not the same as before, with a prediction: %v", n, predicted)
	}
	return nil
}

// predict returns an answer with changes: tokens are others, are left out, or have others before them.
func (d *draftBench) predict(answer []int32, r *rand.Rand) []int32 {
	out := []int32{}
	for _, id := range answer {
		if r.Float64() >= d.o.Changed {
			out = append(out, id)
			continue
		}
		other := r.Int32N(int32(d.vocab))
		switch r.IntN(3) {
		case 0:
			out = append(out, other)
		case 1:
			out = append(out, other, id)
		}
	}
	return out
}
