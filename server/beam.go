package server

import (
	"context"
	"fmt"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/sampling"
)

// beams makes a request's answers those of a beam search, which goes by the model's own probabilities.
func beams(s *openai.Sampling) (sampling.Params, *sampling.BeamParams) {
	p := sampling.Defaults()
	p.Temperature = 0
	early := sampling.EarlyHeuristic
	if s.EarlyStopping != "" {
		early = sampling.EarlyStop(s.EarlyStopping)
	}
	return p, &sampling.BeamParams{Width: s.Beams(), LengthPenalty: value(s.LengthPenalty, 1), Early: early}
}

// search runs the beam search for a prompt, if c is the first of its choices, to its end.
func (c *choice) search(ctx context.Context, j *job) error {
	made, _ := j.sampling.Choices()
	if c.index%made > 0 {
		return nil
	}
	found, err := j.served.Model.Search(ctx, c.request)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err == nil && len(found) < made {
		err = fmt.Errorf("the beam search found %d answers; want %d", len(found), made)
	}
	if err != nil {
		return err
	}
	for i, one := range j.choices[c.index:][:made] {
		d := found[i]
		one.text.WriteString(d.Text)
		one.tokens, one.finish, one.usage = d.Tokens, d.Finish, d.Usage
		if j.sampling.ReturnTokenIDs {
			one.ids = d.IDs
		}
	}
	return nil
}
