package sampling

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/fault"
)

// BeamParams says how a beam search goes: from the prompt on, it keeps the Width likeliest beginnings of answers.
type BeamParams struct {
	Width     int // beams, 1 to MaxBeams
	MaxTokens int // of an answer
	// LengthPenalty is the power of an answer's length by which its log probability is divided, to be its score: above
	// 0, long answers gain.
	LengthPenalty float64
	// Early says when the search is over, once Width answers have ended.
	Early EarlyStop
	// StopTokens end an answer.
	StopTokens []int32
}

// EarlyStop is when a beam search is over, by the values of transformers' early_stopping.
type EarlyStop string

const (
	// EarlyHeuristic, "early_stopping": false, is when the best beam would not be among the best answers if it ended
	// now.
	EarlyHeuristic EarlyStop = "false"
	// EarlyAlways, true, is at once.
	EarlyAlways EarlyStop = "true"
	// EarlyNever, "never", is when no beam can become one of the best answers.
	EarlyNever EarlyStop = "never"
)

// MaxBeams is the most beams of a search.
const MaxBeams = 64

// Names of BeamParams in errors.
const (
	FieldBeams         fault.Field = "beams"
	FieldMaxTokens     fault.Field = "max_tokens"
	FieldLengthPenalty fault.Field = "length_penalty"
	FieldEarlyStop     fault.Field = "early_stop"
	FieldStopTokens    fault.Field = "stop_tokens"
)

// Check returns a *fault.Error for the first parameter that cannot be used.
func (p *BeamParams) Check() error {
	switch {
	case p.Width < 1 || p.Width > MaxBeams:
		return fault.New(FieldBeams, "is %d; a beam search has 1 to %d beams", p.Width, MaxBeams)
	case p.MaxTokens < 1:
		return fault.New(FieldMaxTokens, "is %d; want at least 1", p.MaxTokens)
	case !(math.Abs(p.LengthPenalty) <= 100):
		return fault.New(FieldLengthPenalty, "is %v; want -100 to 100", p.LengthPenalty)
	case p.Early != EarlyHeuristic && p.Early != EarlyAlways && p.Early != EarlyNever:
		return fault.New(FieldEarlyStop, "is %q; want false, true or \"never\"", p.Early)
	case p.Top() > compute.MaxTop:
		return fault.New(FieldStopTokens, "are %d with those of the model; %d beams allow %d",
			len(p.StopTokens), p.Width, compute.MaxTop-p.Width)
	}
	return nil
}

// Top is how many candidates of each beam a step has to know: of the likeliest there are Width that do not end an
// answer.
func (p *BeamParams) Top() int { return p.Width + max(len(p.StopTokens), p.Width) }

// Beams is a beam search, without the model: it is told what the beams' next tokens may be and says which live on.
type Beams struct {
	p     BeamParams
	n     int // tokens of each beam
	live  []beam
	done  []Hypothesis // the best answers that ended, best first
	over  bool
	cands []continuation // scratch
}

// beam is the beginning of an answer.
type beam struct {
	last *link // nil: it is empty
	sum  float64
}

// link is a token and those before it.
type link struct {
	before *link
	choice compute.Chosen
}

// continuation is a beam with one token more.
type continuation struct {
	from int
	rank int // among those of its beam
	sum  float64
}

// Hypothesis is an answer that a beam search found.
type Hypothesis struct {
	Score float64 // the sum of the tokens' log probabilities, divided by a power of their number
	Ended bool    // by a stop token, its last one; else by MaxTokens

	last *link
}

// Tokens returns an answer's tokens; the Top of each is what its step was told.
func (h *Hypothesis) Tokens() []compute.Chosen {
	var out []compute.Chosen
	for l := h.last; l != nil; l = l.before {
		out = append(out, l.choice)
	}
	slices.Reverse(out)
	return out
}

// Step is a beam that lives on: the one numbered From with one token more.
type Step struct {
	From  int
	Token int32
}

// NewBeams begins a search with one beam, the empty one. The parameters passed Check.
func NewBeams(p BeamParams) *Beams { return &Beams{p: p, live: make([]beam, 1)} }

// Next takes for each beam that lives the Top likeliest tokens that may follow it, best first, which it keeps, and
// returns the beams that live now, best first; none: the search is over. Of equals, the first beam and its first token
// come first.
//
// What it does is what transformers' generate does with num_beams: of all continuations those with the highest sums of
// log probabilities live on, if they do not end an answer. Those that do are answers if they are among the Width best.
func (b *Beams) Next(tops [][]compute.Candidate) []Step {
	if b.over || len(tops) != len(b.live) {
		panic(fmt.Sprintf("sampling: %d beams are told of %d", len(b.live), len(tops)))
	}
	b.rank(tops)
	b.n++
	length := math.Pow(float64(b.n), b.p.LengthPenalty)
	var live []beam
	var steps []Step
	for i, c := range b.cands {
		top := tops[c.from]
		t := top[c.rank]
		next := beam{&link{b.live[c.from].last, compute.Chosen{Token: t.Token, Logprob: t.Logprob, Top: top}}, c.sum}
		stops := slices.Contains(b.p.StopTokens, t.Token)
		if (stops || b.n == b.p.MaxTokens) && i < b.p.Width {
			b.end(Hypothesis{Score: c.sum / length, Ended: stops, last: next.last})
		}
		if !stops && len(live) < b.p.Width {
			live, steps = append(live, next), append(steps, Step{c.from, t.Token})
		}
		if len(live) == b.p.Width && i >= b.p.Width {
			break
		}
	}
	b.live = live
	if b.over = len(live) == 0 || b.n == b.p.MaxTokens || b.settled(); b.over {
		return nil
	}
	return steps
}

// rank sorts the continuations of all beams.
func (b *Beams) rank(tops [][]compute.Candidate) {
	b.cands = b.cands[:0]
	for from, top := range tops {
		for rank, t := range top {
			if t.Logprob > float32(math.Inf(-1)) {
				b.cands = append(b.cands, continuation{from, rank, b.live[from].sum + float64(t.Logprob)})
			}
		}
	}
	slices.SortFunc(b.cands, func(x, y continuation) int {
		return cmp.Or(cmp.Compare(y.sum, x.sum), cmp.Compare(x.from, y.from), cmp.Compare(x.rank, y.rank))
	})
}

// end adds an answer to the best ones, if it is one of them.
func (b *Beams) end(h Hypothesis) {
	i := len(b.done)
	for i > 0 && b.done[i-1].Score < h.Score {
		i--
	}
	if i == b.p.Width {
		return
	}
	b.done = slices.Insert(b.done, i, h)
	b.done = b.done[:min(len(b.done), b.p.Width)]
}

// settled reports whether there are Width answers, and by Params.Early it is not worth to go on.
func (b *Beams) settled() bool {
	if len(b.done) < b.p.Width {
		return false
	}
	n := b.n
	switch {
	case b.p.Early == EarlyAlways:
		return true
	case b.p.Early == EarlyNever && b.p.LengthPenalty > 0:
		n = b.p.MaxTokens
	}
	return b.live[0].sum/math.Pow(float64(n), b.p.LengthPenalty) <= b.done[len(b.done)-1].Score
}

// Over reports whether the search is over.
func (b *Beams) Over() bool { return b.over }

// Tokens returns how many tokens each beam has.
func (b *Beams) Tokens() int { return b.n }

// Best returns the best answers that have ended, the best first, at most Width.
func (b *Beams) Best() []Hypothesis { return b.done }
