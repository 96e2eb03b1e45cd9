package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sampling"
)

// Params are all that a request may say beside its prompt. Faces and engine/text hand them on as one value: a new
// parameter is a field here, with its name and its check, where an API reads it, and where it is used.
type Params struct {
	// Sampling says how tokens are chosen.
	Sampling sampling.Params
	// MaxTokens is the most tokens to generate. 0 is as many as the context holds.
	MaxTokens int
	// MinTokens is how many tokens to generate before a stop token may come.
	MinTokens int
	// StopTokens end the output, beside Request.EOS; the one that does is its last token.
	StopTokens []int32
	// IgnoreEOS generates through Request.EOS.
	IgnoreEOS bool
	// Logprobs is how many alternatives each token comes with, beside its own logprob: -1 is no logprobs, AllLogprobs
	// the whole vocabulary, in the order of ids. That many take memory until they are read.
	Logprobs int
	// LogprobTokens are the alternatives instead of the likeliest ones, if there are any.
	LogprobTokens []int32
	// PromptLogprobs is the same for the tokens of the prompt, which is then computed in full. -1 is no logprobs.
	PromptLogprobs int
	// Search asks for the best answers of a beam search instead, which Stream.Best returns when the stream has ended;
	// the stream's only token has the Finish of the best. MaxTokens and StopTokens apply, Search's own do not.
	Search *sampling.BeamParams
	// Constraint, if not nil, makes the limits on the tokens that may be chosen, for each answer anew.
	Constraint func() Constraint
	// Prediction is what the output is expected to be like: where it is, several tokens come in one step. It changes no
	// token.
	Prediction []int32
	// Priority orders requests under the scheduler's policy priority, the lowest first. When the queue is full, the
	// highest is dropped first.
	Priority int
	// Background puts the request behind all others: it runs on what they leave (sched.Request).
	Background bool
	// Tenant is the account that the scheduler's policy vtc charges the request to.
	Tenant string
	// Payer is an account that a client cannot have several of at will; "" is unknown. If the queue is full, requests
	// of the payer with most of it make room for those of others.
	Payer string
	// FirstToken and PerToken are the targets of the scheduler's policy edf: the time from arrival to the first token,
	// and from each token to the next. 0 is 1 s and 100 ms. Under every policy, a request is refused (BusyError) if
	// those before it would take longer than a FirstToken that is not 0.
	FirstToken, PerToken time.Duration
	// Timeout ends a request that is not complete so long after its arrival, with ErrTimeout. 0 is never.
	Timeout time.Duration
	// Adapter names the adapter to use; "" is the model itself.
	Adapter string
	// Salt separates the request's KV blocks from those of requests with another salt.
	Salt string
	// Keep says how long to keep the request's KV blocks, under the eviction policy priority. Times are in
	// milliseconds.
	Keep kv.Retention
}

// Constraint says which tokens may follow those of an output, such as a grammar does. The loop calls it, so it must
// be quick; masks are filled while the device computes. It is not told when a sequence is preempted: it goes on where
// it was.
type Constraint interface {
	// Mask sets the bits of the tokens that may come next (compute.Batch.Masks). The bits of dst are 0 before.
	Mask(dst []uint32)
	// Accept appends a token to the output. An error ends the request.
	Accept(token int32) error
	// Forced returns the tokens that must come next, as far as there is no choice. Accept is called for each of them
	// before Mask or Forced is called again.
	Forced() []int32
	// Close says that the output has ended. Nothing is called after it.
	Close()
}

// Names of parts of a Request in errors, beside sampling's.
const (
	FieldPrompt         fault.Field = "prompt"
	FieldPooling        fault.Field = "pooling"
	fieldBegun          fault.Field = "continue_token_ids"
	FieldMaxTokens                  = sampling.FieldMaxTokens
	FieldMinTokens      fault.Field = "min_tokens"
	FieldStopTokens                 = sampling.FieldStopTokens
	FieldLogprobs       fault.Field = "logprobs"
	FieldLogprobTokens  fault.Field = "logprob_token_ids"
	FieldPromptLogprobs fault.Field = "prompt_logprobs"
	FieldFirstToken     fault.Field = "first_token"
	FieldPerToken       fault.Field = "per_token"
	FieldTimeout        fault.Field = "timeout"
	FieldAdapter        fault.Field = "adapter"
	FieldConstraint     fault.Field = "constraint"
	FieldPrediction     fault.Field = "prediction"
	FieldSalt           fault.Field = "salt"
	FieldKeepPriority   fault.Field = "keep_priority"
	FieldKeepTime       fault.Field = "keep_time"
)

// AllLogprobs is the Params.Logprobs that ask for those of all tokens.
const AllLogprobs = math.MaxInt16

// maxWait bounds the times of Params, and maxKeep the priorities of Keep.
const (
	maxWait = 24 * time.Hour
	maxKeep = 1000
)

// check returns a *fault.Error for the first parameter that cannot be used by a request that generates. vocab is the
// number of tokens, and room how many of them may follow the prompt.
func (p *Params) check(vocab, room int) error {
	switch {
	case p.MaxTokens < 0 || p.MaxTokens > room:
		return fault.New(FieldMaxTokens, "is %d; want 1 to %d, which the prompt leaves, or 0 for all of these",
			p.MaxTokens, room)
	case p.MinTokens < 0 || p.MaxTokens > 0 && p.MinTokens > p.MaxTokens:
		return fault.New(FieldMinTokens, "is %d; want 0 to the most tokens asked for, which is %d", p.MinTokens, p.MaxTokens)
	}
	if err := p.checkLogprobs(vocab); err != nil {
		return err
	}
	if err := checkTops(FieldPromptLogprobs, p.PromptLogprobs); err != nil {
		return err
	}
	for _, id := range p.StopTokens {
		if id < 0 || int(id) >= vocab {
			return fault.New(FieldStopTokens, "names token %d; the vocabulary has %d", id, vocab)
		}
	}
	for i, id := range p.Prediction {
		if id < 0 || int(id) >= vocab {
			return fault.New(FieldPrediction, "has token %d at position %d; the vocabulary has %d", id, i, vocab)
		}
	}
	return p.Sampling.Check(vocab)
}

// checkLogprobs returns a *fault.Error for what cannot be told of the tokens.
func (p *Params) checkLogprobs(vocab int) error {
	if p.wide() && p.Search != nil {
		return fault.New(FieldLogprobs, "of all or of given tokens are not told of a beam search")
	}
	if len(p.LogprobTokens) > 0 && p.Logprobs < 0 {
		return fault.New(FieldLogprobTokens, "means nothing without log probabilities")
	}
	for _, id := range p.LogprobTokens {
		if id < 0 || int(id) >= vocab {
			return fault.New(FieldLogprobTokens, "names token %d; the vocabulary has %d", id, vocab)
		}
	}
	if p.Logprobs == AllLogprobs {
		return nil
	}
	return checkTops(FieldLogprobs, p.Logprobs)
}

// wide reports whether log probabilities are wanted that devices do not report: they are made of the logits.
func (p *Params) wide() bool { return p.Logprobs == AllLogprobs || len(p.LogprobTokens) > 0 }

func checkTops(field fault.Field, n int) error {
	if n < -1 || n > compute.MaxTop {
		return fault.New(field, "is %d; want 0 to %d, or -1 for none", n, compute.MaxTop)
	}
	return nil
}

// checkTurn returns a *fault.Error for the first parameter that cannot be used of those that say when a request is
// served and what is kept of it. retains says whether the engine's eviction policy asks Keep.
func (p *Params) checkTurn(retains bool) error {
	for _, d := range []struct {
		field fault.Field
		value time.Duration
	}{{FieldFirstToken, p.FirstToken}, {FieldPerToken, p.PerToken}, {FieldTimeout, p.Timeout}} {
		if d.value < 0 || d.value > maxWait {
			return fault.New(d.field, "is %v; want 0 to %v", d.value, maxWait)
		}
	}
	switch k := p.Keep; {
	case k.Priority < -maxKeep || k.Priority > maxKeep:
		return fault.New(FieldKeepPriority, "is %d; want %d to %d", k.Priority, -maxKeep, maxKeep)
	case k.TTL < 0 || k.TTL > maxWait.Milliseconds():
		return fault.New(FieldKeepTime, "is %d; want 0 to %d", k.TTL, maxWait.Milliseconds())
	case k.TTL > 0 && k.Priority == 0:
		return fault.New(FieldKeepTime, "means nothing without a priority")
	case k != (kv.Retention{}) && !retains:
		return fault.New(FieldKeepPriority, "means nothing under this engine's eviction policy; it needs the policy priority")
	}
	return nil
}

// checkSearch returns a *fault.Error for the first field that a beam search has no use for.
func (r *Request) checkSearch() error {
	p, off := r.Sampling, sampling.Defaults()
	for _, f := range []struct {
		field fault.Field
		value any
		ok    bool
	}{
		{sampling.FieldTemperature, p.Temperature, p.Temperature == 0},
		{sampling.FieldRepetitionPenalty, p.RepetitionPenalty, p.RepetitionPenalty == off.RepetitionPenalty},
		{sampling.FieldPresencePenalty, p.PresencePenalty, p.PresencePenalty == 0},
		{sampling.FieldFrequencyPenalty, p.FrequencyPenalty, p.FrequencyPenalty == 0},
		{sampling.FieldLogitBias, p.LogitBias, len(p.LogitBias) == 0},
		{FieldMinTokens, r.MinTokens, r.MinTokens == 0},
		{FieldPromptLogprobs, r.PromptLogprobs, r.PromptLogprobs < 0},
	} {
		if !f.ok {
			return &fault.Error{Field: f.field, Problem: fmt.Sprintf("is %v; "+
				"a beam search goes by the model's own probabilities and takes only the value that changes nothing", f.value)}
		}
	}
	if field := p.Beyond(); field != "" {
		return fault.New(field, "is set; a beam search goes by the model's own probabilities")
	}
	s := *r.Search
	s.MaxTokens = max(s.MaxTokens, 1) // the request's
	s.StopTokens = r.Stops()
	return s.Check()
}
