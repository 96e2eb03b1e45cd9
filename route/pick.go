package route

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// tie is how far below the best score a candidate still takes part in the draw, where scores are from 0 to 1. Scores
// are not more exact than that, and gateways that share endpoints would otherwise all choose the same one.
const tie = 0.02

// Decision is a choice with its reasons. It is valid until its picker's next choice.
type Decision struct {
	Chosen int // the place of the chosen one in Rated; -1 if no candidate can take the request
	Rated  []Rated
	policy *Policy
}

// Rated is a candidate with its rating.
type Rated struct {
	*Candidate
	Refused string    // the filter that left the candidate out; "" if it was rated
	Scores  []float64 // of the policy's scorers, each from 0 to 1
	Score   float64   // their weighted mean
	Near    bool      // it was drawn for
}

// picker chooses with a seeded generator and memory that it uses again.
type picker struct {
	random *rand.Rand
	rated  []Rated
	scores []float64
	near   []int
}

// newPicker makes one. Equal seeds and equal questions give equal answers.
func newPicker(seed uint64) *picker {
	return &picker{random: rand.New(rand.NewPCG(seed, seed^0x6b766173697200))}
}

// pick chooses from candidates in three steps. Filters leave out those that cannot take the request. The policy's
// scorers rate the others. Of all whose score is at most tie below the best, two are drawn at random, and the one with
// fewer requests in flight is chosen: the power of two choices.
func (k *picker) pick(p *Policy, q *Request, candidates []Candidate) Decision {
	k.rated, k.near = k.rated[:0], k.near[:0]
	n := len(p.scorers)
	if need := n * len(candidates); cap(k.scores) < need {
		k.scores = make([]float64, need)
	}
	for i := range candidates {
		k.rated = append(k.rated, Rated{
			Candidate: &candidates[i], Refused: refused(q, &candidates[i]), Scores: k.scores[:cap(k.scores)][i*n : (i+1)*n],
		})
	}
	markHot(q, k.rated)
	for i, s := range p.scorers {
		s.rate(q, k.rated, i)
	}
	best := 0.0
	for i := range k.rated {
		r := &k.rated[i]
		if r.Refused == "" {
			for j, w := range p.weights {
				r.Score += w * r.Scores[j] / p.total
			}
			best = max(best, r.Score)
		}
	}
	for i := range k.rated {
		if r := &k.rated[i]; r.Refused == "" && r.Score >= best-tie {
			r.Near = true
			k.near = append(k.near, i)
		}
	}
	return Decision{Chosen: k.draw(), Rated: k.rated, policy: p}
}

// hot is how many times as much work as the least loaded candidate has makes a candidate hot: its cached prefix does
// not count any more. Work includes what of the prompt must be computed there, so a prompt that is short or cached
// elsewhere, too, leaves a hot endpoint sooner than one that others would have to compute.
const hot = 6

func markHot(q *Request, rated []Rated) {
	least := math.Inf(1)
	for _, r := range rated {
		if r.Refused == "" {
			least = min(least, r.work(q))
		}
	}
	for _, r := range rated {
		r.hot = r.Refused == "" && r.work(q) > hot*least
	}
}

// refused returns the name of the filter that leaves a candidate out.
func refused(q *Request, c *Candidate) string {
	for _, f := range filters {
		if f.Is(q, c) {
			return f.Name
		}
	}
	return ""
}

// rate sets the i-th score of all candidates that are not left out.
func (s scorer) rate(q *Request, rated []Rated, i int) {
	least := -1.0
	for _, r := range rated {
		switch {
		case r.Refused != "":
		case s.good != nil:
			r.Scores[i] = min(max(s.good(q, r.Candidate), 0), 1)
		default:
			r.Scores[i] = max(s.load(q, r.Candidate), 0)
			if least < 0 || r.Scores[i] < least {
				least = r.Scores[i]
			}
		}
	}
	if s.good != nil {
		return
	}
	for _, r := range rated {
		switch {
		case r.Refused != "":
		case r.Scores[i] == least:
			r.Scores[i] = 1
		default:
			r.Scores[i] = least / r.Scores[i]
		}
	}
}

// draw returns one of those that are near the best, -1 if there are none.
func (k *picker) draw() int {
	n := len(k.near)
	if n == 0 {
		return -1
	}
	first := k.random.IntN(n)
	a := k.near[first]
	if n == 1 {
		return a
	}
	second := k.random.IntN(n - 1)
	if second >= first {
		second++
	}
	b := k.near[second]
	if k.rated[b].Requests < k.rated[a].Requests {
		return b
	}
	return a
}

// How says how the choice was made: there was one candidate ("only"), one was the best ("best"), or one was drawn from
// those near the best ("drawn").
func (d Decision) How() string {
	rated, near := 0, 0
	for _, r := range d.Rated {
		if r.Refused == "" {
			rated++
		}
		if r.Near {
			near++
		}
	}
	switch {
	case rated == 1:
		return "only"
	case near == 1:
		return "best"
	}
	return "drawn"
}

// Scorers returns the names of the policy's scorers, in the order of Rated.Scores.
func (d Decision) Scorers() []string { return d.policy.names }

// Next returns the places in Rated of the best candidates after the chosen one, at most n of them.
func (d Decision) Next(n int) []int {
	var next []int
	for i, r := range d.Rated {
		if i != d.Chosen && r.Refused == "" {
			next = append(next, i)
		}
	}
	slices.SortStableFunc(next, func(a, b int) int { return cmp.Compare(d.Rated[b].Score, d.Rated[a].Score) })
	return next[:min(n, len(next))]
}

// String explains the decision in one line: each candidate with its score and what it is made of, the chosen one with a
// star, those that were drawn for with a question mark, those that were left out with the reason.
func (d Decision) String() string {
	var b strings.Builder
	for i, r := range d.Rated {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(r.Name)
		switch {
		case r.Refused == "down":
			fmt.Fprintf(&b, " down (%s)", r.Down)
			continue
		case r.Refused != "":
			b.WriteString(" " + r.Refused)
			continue
		case i == d.Chosen:
			b.WriteString("*")
		case r.Near:
			b.WriteString("?")
		}
		fmt.Fprintf(&b, " %.3f", r.Score)
		for j, name := range d.policy.names {
			fmt.Fprintf(&b, " %s=%.2f", name, r.Scores[j])
		}
		fmt.Fprintf(&b, " (%d in flight, %d of %d blocks", r.Requests, r.HeldBlocks, r.PromptBlocks)
		if r.hot {
			b.WriteString(", hot")
		}
		b.WriteString(")")
	}
	return b.String()
}
