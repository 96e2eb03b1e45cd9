package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/trace"
)

// job carries one request from its decoded form to its answer. A request may ask for several answers: its choices.
type job struct {
	*ask
	served  *Served
	adapter string // "" is the model itself
	choices []*choice
	block   int                // tokens of a KV block
	offered *openai.KVTransfer // where the blocks of the prompt can be fetched; nil: nowhere
	room    room
	tracing tracing
}

// choice is one answer of a job. While it runs, it belongs to one goroutine.
type choice struct {
	index  int
	prompt *text.Prompt
	number int // of the prompt among the request's
	gen    Generation
	first  bool      // nothing was written yet
	began  time.Time // when the engine was asked
	came   time.Time // of the first piece
	ended  time.Time // of the last

	usage  text.Usage
	finish string
	stop   string          // the stop string that ended it, if one did
	last   int32           // the last token
	calls  int             // of tools, that have begun
	text   strings.Builder // of an answer that is not streamed, and likewise:
	reason strings.Builder
	events []chat.Event // of calls
	ids    []int32
	tokens []text.TokenInfo
}

// newJob finds the model that is asked and prepares the prompts, each once for all answers to it.
func (s *Server) newJob(ctx context.Context, a *ask) (*job, error) {
	m, adapter, err := s.lookup(ctx, a.model)
	if err != nil {
		return nil, err
	}
	info := m.Model.Info()
	j := &job{ask: a, served: m, adapter: adapter, block: max(info.BlockTokens, 1)}
	prompts, err := a.prompts(info)
	if err == nil {
		err = s.transfers.check(a.transfer, len(prompts))
	}
	if err != nil {
		return nil, err
	}
	for i, r := range prompts {
		r.Adapter = adapter
		if a.made > a.given {
			r.Logprobs = max(r.Logprobs, 0) // by which answers are compared
		}
		p, err := m.Model.Prepare(ctx, r)
		if err != nil {
			return nil, err
		}
		for range a.made {
			j.choices = append(j.choices, &choice{index: len(j.choices), prompt: p, number: i, first: true})
		}
	}
	if j.tracing.span = trace.From(ctx); j.tracing.span != nil {
		j.tracing.describe(ctx, j)
	}
	return j, nil
}

// title is what an answer calls the model: the adapter, if there is one.
func (j *job) title() string { return cmp.Or(j.adapter, j.served.Model.Info().Name) }

// searches reports whether the answers are those of a beam search.
func (j *job) searches() bool { return j.choices[0].prompt.Request.Search != nil }

// start hands the choices to the engine. On an error none is left running.
func (j *job) start(ctx context.Context) (err error) {
	for _, c := range j.choices {
		c.began = time.Now()
		if c.gen, err = j.served.Model.Generate(ctx, c.prompt); err != nil {
			j.close()
			return err
		}
	}
	return nil
}

// close ends what still runs.
func (j *job) close() {
	j.tracing.record(j)
	for _, c := range j.choices {
		if c.gen != nil {
			c.gen.Close()
		}
	}
}

// next reads the next piece of an answer into d. It returns io.EOF after the last.
func (c *choice) next(ctx context.Context, j *job, d *text.Delta) (err error) {
	if c.finish != "" {
		return io.EOF
	}
	*d, err = c.gen.Next(ctx)
	if err == io.EOF { // a Finish is due before the end
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return causeOf(ctx, err)
	}
	if c.came.IsZero() {
		c.came = time.Now()
	}
	if j.silent {
		*d = text.Delta{Finish: "length", Usage: text.Usage{Prompt: d.Usage.Prompt, Cached: d.Usage.Cached}}
	}
	c.note(j, d)
	return nil
}

// note takes over how far an answer is.
func (c *choice) note(j *job, d *text.Delta) {
	c.finish, c.stop, c.usage = d.Finish, d.Stop, j.whole(d.Usage)
	if n := len(d.IDs); n > 0 {
		c.last = d.IDs[n-1]
	}
	if c.finish != "" {
		c.ended = time.Now()
	}
}

// causeOf returns why ctx is done, if it is, and else err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// collect runs a choice to its end.
func (c *choice) collect(ctx context.Context, j *job) error {
	var d text.Delta
	for {
		err := c.next(ctx, j, &d)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = j.room.take(weight(&d))
		}
		if err != nil {
			return err
		}
		c.add(&d)
	}
}

// add appends a piece to an answer that is not streamed.
func (c *choice) add(d *text.Delta) {
	c.text.WriteString(d.Text)
	c.reason.WriteString(d.Reasoning)
	c.events = append(c.events, d.Calls...)
	c.tokens = append(c.tokens, d.Tokens...)
	c.ids = append(c.ids, d.IDs...)
}

// toolCalls returns the calls of an answer that is not streamed.
func (c *choice) toolCalls() (all []chat.ToolCall) {
	for _, e := range c.events {
		if e.Kind == chat.Called {
			all = append(all, chat.ToolCall{ID: e.ID, Name: e.Text})
			continue
		}
		all[len(all)-1].Arguments += e.Text
	}
	return all
}

// search runs the beam search for a prompt to its end, if c is the first of the prompt's choices.
func (c *choice) search(ctx context.Context, j *job) error {
	if c.index%j.made > 0 {
		return nil
	}
	found, err := j.served.Model.Search(ctx, c.prompt)
	if err != nil {
		return causeOf(ctx, err)
	}
	if len(found) < j.made {
		return fmt.Errorf("the beam search found %d answers; want %d", len(found), j.made)
	}
	for i, one := range j.choices[c.index:][:j.made] {
		if err := j.room.take(weight(&found[i])); err != nil {
			return err
		}
		one.add(&found[i])
		one.note(j, &found[i])
	}
	return nil
}

// each runs f for all choices at once and returns the first error, upon which the others are told to end.
func (j *job) each(ctx context.Context, f func(context.Context, *choice) error) error {
	if len(j.choices) == 1 {
		return f(ctx, j.choices[0])
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, c := range j.choices {
		wg.Add(1)
		guard.Go(func() error { return f(ctx, c) }, func(err error) {
			if err != nil {
				cancel(err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// whole counts only whole blocks of cached tokens, whose number says less of what others have asked.
func (j *job) whole(u text.Usage) text.Usage {
	u.Cached -= u.Cached % j.block
	return u
}

// usage sums up all choices so far. A prompt counts once however many answers it has.
func (j *job) usage() (u text.Usage) {
	for i, c := range j.choices {
		if i%j.made == 0 {
			u.Prompt += c.usage.Prompt
			u.Cached += c.usage.Cached
		}
		u.Generated += c.usage.Generated
		u.Reasoning += c.usage.Reasoning
		u.Accepted += c.usage.Accepted
		u.Rejected += c.usage.Rejected
	}
	return u
}

// best returns the answers that are given: for each prompt, those of the highest mean log probability of a token.
func (j *job) best() []*choice {
	if j.made == j.given {
		return j.choices
	}
	var out []*choice
	for group := range slices.Chunk(j.choices, j.made) {
		group = slices.Clone(group)
		slices.SortStableFunc(group, func(a, b *choice) int { return cmp.Compare(b.likelihood(), a.likelihood()) })
		for _, c := range group[:j.given] {
			c.index = len(out)
			out = append(out, c)
		}
	}
	return out
}

// likelihood returns the mean log probability of an answer's tokens.
func (c *choice) likelihood() float64 {
	sum := 0.0
	for _, t := range c.tokens {
		sum += float64(t.Logprob)
	}
	return sum / float64(max(len(c.tokens), 1))
}

// answer runs a job and writes its answer, as a stream or whole.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, j *job) {
	s.metrics.request(j)
	j.room.body = bodyOf(r)
	defer j.room.leave()
	if err := j.room.take(j.scored()); err != nil {
		s.fail(w, r, err)
		return
	}
	defer s.transfers.take(w, r, j)()
	run := (*choice).collect
	if j.searches() {
		run = (*choice).search
	} else if err := j.start(r.Context()); err != nil {
		s.fail(w, r, err)
		return
	}
	defer j.close()
	j.ask.answer.begin(j)
	if j.stream {
		report(w, r, j.served)
		s.stream(w, r, j)
		return
	}
	if err := j.each(r.Context(), func(ctx context.Context, c *choice) error { return run(c, ctx, j) }); err != nil {
		s.fail(w, r, err)
		return
	}
	s.transfers.offer(r, j)
	report(w, r, j.served)
	s.write(w, http.StatusOK, j.ask.answer.whole())
}
