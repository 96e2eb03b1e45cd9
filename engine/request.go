package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/sched"
)

// Request asks for the continuation of a prompt, or for its vector.
type Request struct {
	Prompt []int32
	// Pool, if not "", asks for the prompt's vector (Stream.Vector) instead: nothing is generated.
	Pool   Pooling
	Types  []int32 // of the prompt's tokens, for models that have types; nil is all 0
	Params sampling.Params
	// MaxTokens is the most tokens to generate. 0 is as many as the context holds.
	MaxTokens int
	// MinTokens is how many tokens to generate before a stop token may come.
	MinTokens int
	// StopTokens end the output; the one that does is its last token.
	StopTokens []int32
	// IgnoreEOS generates through StopTokens.
	IgnoreEOS bool
	// Logprobs is how many alternatives each token comes with, beside its own logprob. -1 is no logprobs.
	Logprobs int
	// PromptLogprobs is the same for the tokens of the prompt, which is then computed in full. -1 is no logprobs.
	PromptLogprobs int
	// Parent is a request with the same beginning, or nil: another answer to the same prompt. They share what they can of the
	// KV cache; without a prefix cache, what they have of the prompt.
	Parent *Stream
	// Search asks for the best answers of a beam search instead, which Stream.Best returns when the stream has ended; its only
	// token has the Finish of the best. Search's own MaxTokens and StopTokens do not count, those of the Request do.
	Search *sampling.BeamParams
	// Priority, the lowest first, is for the scheduler's policy priority, and says who has to go when the queue is full.
	Priority int
	// Tenant is whom the scheduler's policy vtc counts the request for.
	Tenant string
	// FirstToken and PerToken are for the scheduler's policy edf: how soon after its arrival the first token is wanted, and
	// how soon each one after another. 0 is 1 s and 100 ms.
	FirstToken, PerToken time.Duration
	// Timeout ends the request with ErrTimeout when it has not come to its end that long after its arrival. 0 is never.
	Timeout time.Duration
	// Adapter is the name of the adapter that answers; "" is the model itself.
	Adapter string
	// Salt separates the sequence's KV blocks from those of requests with another one.
	Salt string
	// Keep is what the request asks for its KV blocks under the eviction policy priority, with times in milliseconds.
	Keep kv.Retention
}

// maxWait bounds the times of a Request.
const maxWait = 24 * time.Hour

// check returns a *sampling.ParamError for the first field that cannot be used. most is how many tokens a sequence may
// hold.
func (r *Request) check(vocab, most int) error {
	bad := func(field, format string, args ...any) error {
		return &sampling.ParamError{Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	room := most - len(r.Prompt)
	switch {
	case r.Pool != "" && !slices.Contains(poolings, r.Pool):
		return bad("pooling", "is %q; want one of %v", r.Pool, poolings)
	case r.Types != nil && len(r.Types) != len(r.Prompt):
		return bad("prompt", "has %d tokens and %d token types", len(r.Prompt), len(r.Types))
	case r.Pool != "" && room < 1:
		return bad("prompt", "has %d tokens; want at most %d", len(r.Prompt), most-1)
	case len(r.Prompt) == 0:
		return bad("prompt", "is empty; want at least one token")
	case room < 1:
		return bad("prompt", "has %d tokens; want at most %d, which leaves room for one more in the context of %d",
			len(r.Prompt), most-1, most)
	case r.MaxTokens < 0 || r.MaxTokens > room:
		return bad("max_tokens", "is %d; want 1 to %d after a prompt of %d tokens, or 0 for as many as the context holds",
			r.MaxTokens, room, len(r.Prompt))
	case r.MinTokens < 0 || r.MaxTokens > 0 && r.MinTokens > r.MaxTokens:
		return bad("min_tokens", "is %d; want 0 to max_tokens, which is %d", r.MinTokens, r.MaxTokens)
	case r.Logprobs < -1 || r.Logprobs > sampling.MaxTop:
		return bad("logprobs", "is %d; want 0 to %d, or -1 for none", r.Logprobs, sampling.MaxTop)
	case r.PromptLogprobs < -1 || r.PromptLogprobs > sampling.MaxTop:
		return bad("prompt_logprobs", "is %d; want 0 to %d, or -1 for none", r.PromptLogprobs, sampling.MaxTop)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ttft_ms", r.FirstToken}, {"tpot_ms", r.PerToken}, {"timeout_ms", r.Timeout}} {
		if d.value < 0 || d.value > maxWait {
			return bad(d.name, "is %v; want 0 to %v", d.value, maxWait)
		}
	}
	if r.Keep.Priority < -1000 || r.Keep.Priority > 1000 {
		return bad("kv_priority", "is %d; want -1000 to 1000", r.Keep.Priority)
	}
	if r.Keep.TTL < 0 || r.Keep.TTL > maxWait.Milliseconds() {
		return bad("kv_ttl_ms", "is %d; want 0 to %d", r.Keep.TTL, maxWait.Milliseconds())
	}
	if r.Keep.TTL > 0 && r.Keep.Priority == 0 {
		return bad("kv_ttl_ms", "means nothing without kv_priority")
	}
	if err := checkSalt(r.Salt); err != nil {
		return err
	}
	for i, id := range r.Prompt {
		if id < 0 || int(id) >= vocab {
			return bad("prompt", "has token %d at position %d; the vocabulary has %d", id, i, vocab)
		}
	}
	for _, id := range r.StopTokens {
		if id < 0 || int(id) >= vocab {
			return bad("stop_token_ids", "names token %d; the vocabulary has %d", id, vocab)
		}
	}
	switch {
	case r.Pool != "":
		return nil
	case r.Search != nil:
		if err := r.checkSearch(); err != nil {
			return err
		}
	}
	return r.Params.Check(vocab)
}

// checkSalt refuses salts that would be taken for something else.
func checkSalt(salt string) error {
	problem := ""
	switch {
	case likeKey(salt):
		problem = fmt.Sprintf("ends in @ and %d hexadecimal digits, as the keys of adapters do; want another one", 2*len(model.Adapter{}.ID))
	case strings.HasSuffix(salt, longSalt):
		problem = fmt.Sprintf("ends in %s, which tells blocks of long sequences; want another one", longSalt)
	default:
		return nil
	}
	return &sampling.ParamError{Field: "cache_salt", Problem: problem}
}

// sequence is the loop's side of a request.
type sequence struct {
	id      sched.SeqID
	req     Request
	stream  *Stream
	answer  chan error // [1] whether the request was taken
	unhook  func()
	search  *search     // nil: it is not a beam
	parent  sched.SeqID // of a beam: the one that it goes on from
	heir    bool        // of a beam: the last that does
	adapter *adapter    // nil is none
	long    bool        // compute.Seq.Long
	ended   bool
	cause   error // of a cancellation that came before the arrival

	ids      []int32 // the prompt and what was generated
	sampling *sampling.Sequence
	scores   []Token // of the prompt's tokens so far, if wanted
	pooled   pooled
	vector   []float32 // of Request.Pool, once all rows are there

	cached, preempted               int
	arrived, scheduled, first, last time.Time // last is of the newest token
}

// newSequence makes the sequence of a request that passed check.
func newSequence(r Request, most int) *sequence {
	if r.Pool != "" {
		r.MaxTokens, r.PromptLogprobs = 1, -1 // one that is never computed
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = most - len(r.Prompt)
	}
	q := &sequence{req: r, answer: make(chan error, 1), sampling: sampling.NewSequence(r.Params, r.Prompt)}
	q.ids = append(make([]int32, 0, len(r.Prompt)+min(r.MaxTokens, 256)), r.Prompt...)
	if r.IgnoreEOS {
		q.req.StopTokens = nil
	}
	q.req.FirstToken = cmp.Or(r.FirstToken, time.Second)
	q.req.PerToken = cmp.Or(r.PerToken, 100*time.Millisecond)
	if r.Search != nil {
		q.search = newSearch(q)
	}
	if r.PromptLogprobs >= 0 {
		q.scores = append(make([]Token, 0, len(r.Prompt)), Token{ID: r.Prompt[0]})
	}
	return q
}

// generated returns the number of output tokens.
func (q *sequence) generated() int { return len(q.ids) - len(q.req.Prompt) }

// reply tells Submit whether the request was taken, once.
func (q *sequence) reply(err error) {
	select {
	case q.answer <- err:
	default:
	}
}
