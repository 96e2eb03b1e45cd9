package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// job carries one HTTP request from its decoded form to its answer. A request may ask for several answers: its choices.
type job struct {
	served   *Served
	adapter  string // "" is the model itself
	info     Info
	chat     bool // else a text completion
	sampling *openai.Sampling
	logprobs bool
	id       string
	created  int64 // seconds since 1970
	choices  []*choice
}

// choice is one answer of a job. While it runs, it belongs to one goroutine.
type choice struct {
	index   int
	request text.Request // with the prompt as tokens
	gen     Generation
	first   bool // nothing has come yet

	echo   bool // the answer begins with the prompt
	silent bool // and ends with it: the one token that is generated is not shown
	prompt string
	offset int // characters of the text so far, for log probabilities

	usage  text.Usage
	text   strings.Builder // of an answer that is not streamed, and likewise:
	ids    []int32
	tokens []text.TokenInfo
	finish string
}

func (s *Server) newJob(name string, sampling *openai.Sampling, chat bool) (*job, error) {
	m, adapter, err := s.lookup(name)
	if err != nil {
		return nil, err
	}
	if info := m.Model.Info(); info.Encoder {
		return nil, &text.RequestError{Field: "model", Problem: info.Name + " is an encoder, which generates nothing"}
	}
	j := &job{served: m, adapter: adapter, info: m.Model.Info(), chat: chat, sampling: sampling, created: time.Now().Unix()}
	if j.id = "cmpl-" + rand.Text(); chat {
		j.id = "chat" + j.id
	}
	return j, nil
}

// add adds the choices that continue one prompt. param names the prompt's field.
func (j *job) add(r text.Request, param string) error {
	ids, err := j.served.Model.Encode(r)
	if err != nil {
		return err
	}
	if wanted := max(r.MaxTokens, 1); len(ids)+wanted > j.info.Context {
		return tooLong(j.info.Context, len(ids), wanted, param)
	}
	r.IDs, r.Prompt, r.Chat, r.Adapter = ids, "", nil, j.adapter
	seed := r.Params.Seed
	made, given := j.sampling.Choices()
	if made > given {
		r.Logprobs = max(r.Logprobs, 0) // by which they are compared
	}
	for i := range made {
		r.Params.Seed = seed + uint64(i)
		j.choices = append(j.choices, &choice{index: len(j.choices), request: r, first: true})
	}
	return nil
}

// start hands the choices to the engine. On an error none is left running.
func (j *job) start(ctx context.Context) error {
	var first *choice // of those for the same prompt
	for _, c := range j.choices {
		var err error
		if first != nil && slices.Equal(first.request.IDs, c.request.IDs) {
			c.request.Parent, _ = first.gen.(*text.Generation)
		} else {
			first = c
		}
		if c.gen, err = j.served.Model.Generate(ctx, c.request); err != nil {
			j.close()
			return err
		}
	}
	return nil
}

// close ends what still runs.
func (j *job) close() {
	for _, c := range j.choices {
		if c.gen != nil {
			c.gen.Close()
		}
	}
}

// next returns the next piece of the answer, with the prompt in front of the first if it is wanted, and io.EOF after the
// last.
func (c *choice) next(ctx context.Context, j *job) (text.Delta, error) {
	if c.finish != "" {
		return text.Delta{}, io.EOF
	}
	d, err := c.gen.Next(ctx)
	if err == io.EOF { // a Finish is due before the end
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return d, err
	}
	if c.silent {
		d = text.Delta{Finish: "length", Usage: text.Usage{Prompt: d.Usage.Prompt, Cached: d.Usage.Cached}}
	}
	if c.first && c.echo {
		d.Text = c.prompt + d.Text
		if j.logprobs {
			d.Tokens = append(c.gen.Prompt(), d.Tokens...)
		}
	}
	c.finish, c.usage = d.Finish, d.Usage
	return d, nil
}

// collect runs a choice to its end.
func (c *choice) collect(ctx context.Context, j *job) error {
	for {
		d, err := c.next(ctx, j)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		c.first = false
		c.text.WriteString(d.Text)
		c.tokens = append(c.tokens, d.Tokens...)
		if j.sampling.ReturnTokenIDs {
			c.ids = append(c.ids, d.IDs...)
		}
	}
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
		wg.Go(func() {
			if err := f(ctx, c); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// usage sums up the choices so far. A prompt counts once however many answers it has.
func (j *job) usage(choices []*choice) *openai.Usage {
	u := &openai.Usage{}
	made, _ := j.sampling.Choices()
	for i, c := range choices {
		if i%made == 0 {
			u.PromptTokens += c.usage.Prompt
			u.PromptTokensDetails.CachedTokens += c.usage.Cached
		}
		u.CompletionTokens += c.usage.Generated
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// best returns the answers that are given: for each prompt, those of the highest mean log probability of a token.
func (j *job) best() []*choice {
	made, given := j.sampling.Choices()
	if made == given {
		return j.choices
	}
	var out []*choice
	for group := range slices.Chunk(j.choices, made) {
		group = slices.Clone(group)
		slices.SortStableFunc(group, func(a, b *choice) int { return cmp.Compare(b.likelihood(), a.likelihood()) })
		for _, c := range group[:given] {
			c.index = len(out)
			out = append(out, c)
		}
	}
	return out
}

// likelihood returns the mean log probability of an answer's tokens.
func (c *choice) likelihood() float64 {
	sum, n := 0.0, 0
	for i, t := range c.tokens {
		if from := len(c.tokens) - c.usage.Generated; i >= from { // before it is the prompt, with echo
			sum, n = sum+float64(t.Logprob), n+1
		}
	}
	return sum / float64(max(n, 1))
}

// answer runs a job and writes its answer, as a stream or whole.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, j *job) {
	s.metrics.request(j)
	run := (*choice).collect
	if j.sampling.UseBeamSearch {
		run = (*choice).search
	} else if err := j.start(r.Context()); err != nil {
		s.fail(w, r, err)
		return
	}
	defer j.close()
	if j.sampling.Stream {
		s.stream(w, r, j)
		return
	}
	err := j.each(r.Context(), func(ctx context.Context, c *choice) error { return run(c, ctx, j) })
	switch {
	case err != nil:
		s.fail(w, r, err)
	case j.chat:
		s.write(w, http.StatusOK, j.chatCompletion())
	default:
		s.write(w, http.StatusOK, j.completion())
	}
}
