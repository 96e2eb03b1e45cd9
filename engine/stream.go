package engine

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/sampling"
)

// FinishReason says why a request ended; "" is not yet.
type FinishReason string

const (
	FinishStop      FinishReason = "stop"      // a stop token, or Stream.Stop
	FinishLength    FinishReason = "length"    // MaxTokens, or the end of the context
	FinishCancelled FinishReason = "cancelled" // its context was done
	FinishError     FinishReason = "error"     // a fault, or the engine was closed
)

// Origin says how a token of an answer came about.
type Origin uint8

const (
	originChosen  Origin = iota // by its probability
	originGuessed               // proposed (Config.Drafts), and then chosen
	originForced                // the constraint allowed nothing else
)

// String returns the origin's name.
func (o Origin) String() string { return [...]string{"chosen", "guessed", "forced"}[o] }

// Token is one token of a Stream. The last one has a Finish. If that is not FinishLength, or FinishStop by a stop
// token, it is no token: its ID is -1.
type Token struct {
	ID      int32
	Logprob float32             // if Request.Logprobs is not negative
	Rank    int32               // of a prompt's token among all: 1 is the likeliest; 0 is not known
	Top     []compute.Candidate // as Request.Logprobs and LogprobTokens say
	Origin  Origin
	Finish  FinishReason
	Err     error // why, if Finish is FinishCancelled or FinishError
}

// brief is a token on its way to a stream, in few bytes: a step has one for each sequence.
type brief struct {
	id, rank int32
	logprob  float32
	origin   Origin
	all      *Token // the token, if there is more to it, but for its origin
}

// briefOf makes a token brief.
func briefOf(t Token) brief {
	b := brief{id: t.ID, rank: t.Rank, logprob: t.Logprob, origin: t.Origin}
	if t.Finish != "" || t.Top != nil {
		b.all = &t
	}
	return b
}

// token returns the whole token.
func (b brief) token() Token {
	t := Token{ID: b.id, Rank: b.rank, Logprob: b.logprob}
	if b.all != nil {
		t = *b.all
	}
	t.Origin = b.origin
	return t
}

// last reports whether it is the last one.
func (b brief) last() bool { return b.all != nil && b.all.Finish != "" }

// Stream hands out the tokens of a request in order. What its reader has not taken yet waits in it, so that a slow
// reader holds up no other stream. One goroutine may read it.
type Stream struct {
	engine *Engine
	seq    *sequence
	wake   chan struct{}   // [1] there is something new
	ctx    context.Context // of the request; the reader's

	mu     sync.Mutex
	tokens []brief
	taken  int // tokens of them that the reader has
	ended  bool
	cached int

	waits   int64       // bytes of what the reader has not taken
	counted bool        // in Engine.backlog
	uncount func() bool // if it is counted: stops what counts it out when ctx is done
	dropped bool        // it has ended with ErrUnread, and takes no more tokens

	prompt []Token
	vector []float32
	times  Times

	proposed, accepted int // tokens that were guessed
}

// Times says when a request came, was first in a step, and had its first token. What has not come yet is the zero time.
type Times struct{ Arrived, Scheduled, First time.Time }

// Next returns the next token as soon as there is one, and io.EOF after the last. Another error is ctx's: the request
// goes on.
func (s *Stream) Next(ctx context.Context) (Token, error) {
	for {
		if t, ok, ended := s.take(); ok {
			return t, nil
		} else if ended {
			return Token{}, io.EOF
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return Token{}, context.Cause(ctx)
		}
	}
}

// take returns the next token if it is there, and else whether the last one was taken.
func (s *Stream) take() (t Token, ok, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == len(s.tokens) {
		return t, false, s.ended
	}
	s.count(-s.tokens[s.taken].bytes())
	t = s.tokens[s.taken].token()
	s.tokens[s.taken] = brief{}
	s.taken++
	if s.taken == len(s.tokens) {
		s.tokens, s.taken = s.tokens[:0], 0
	}
	return t, true, false
}

// tell sets what is known beside the tokens, before the token is pushed with which it is to be there.
func (s *Stream) tell(cached int, prompt []Token, vector []float32, times Times) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached, s.prompt, s.vector, s.times = cached, prompt, vector, times
}

// push adds a token. The outbox alone calls it.
func (s *Stream) push(t brief) {
	s.mu.Lock()
	if s.dropped {
		s.mu.Unlock()
		return
	}
	s.tokens = append(s.tokens, t)
	s.ended = t.last()
	end := s.count(t.bytes())
	s.mu.Unlock()
	for _, unread := range end {
		unread.drop()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Stop ends the request as if its last token had been a stop token, because of a stop string for example. Tokens that
// are on their way may still come; the last one has a Finish as always.
func (s *Stream) Stop() { s.engine.inbox.post(message{seq: s.seq, reason: FinishStop}) }

// Cached returns how many tokens of the prompt were found in the KV cache. It is known with the first token.
func (s *Stream) Cached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cached
}

// Times returns when the request came to what it came to. They are known with the first token.
func (s *Stream) Times() Times {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.times
}

// verified notes what became of tokens that were proposed.
func (s *Stream) verified(proposed, accepted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proposed, s.accepted = s.proposed+proposed, s.accepted+accepted
}

// Guessed returns how many guesses at what follows were verified until now (Config.Drafts), and how many of them were
// right.
func (s *Stream) Guessed() (proposed, right int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proposed, s.accepted
}

// Best returns the answers of a beam search, the best first. They are there with the last token.
func (s *Stream) Best() []sampling.Hypothesis { return s.seq.search.beams.Best() }

// Prompt returns the prompt's tokens with the logprobs that Request.PromptLogprobs asks for, of which the first token
// has none. They are there with the first token.
func (s *Stream) Prompt() []Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prompt
}
