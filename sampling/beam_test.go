package sampling

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kvasir-llm/kvasir/compute"

	"github.com/kvasir-llm/kvasir/fault"
)

// nextLogprobs is a model: the log probabilities of the tokens after others.
func nextLogprobs(seed uint64, tokens []int32, vocab int) []compute.Candidate {
	h := fnv.New64a()
	fmt.Fprint(h, seed, tokens)
	x, sum := h.Sum64(), 0.0
	out := make([]compute.Candidate, vocab)
	for i := range out {
		x = x*6364136223846793005 + 1442695040888963407
		out[i] = compute.Candidate{Token: int32(i), Logprob: float32(x>>40) / (1 << 22)}
		sum += math.Exp(float64(out[i].Logprob))
	}
	for i := range out {
		out[i].Logprob -= float32(math.Log(sum))
	}
	return out
}

// row is a sequence of the naive search.
type row struct {
	tokens []int32
	sum    float64 // or its score
	ended  bool
}

const never = -1e9 // the score of a row that is none

func sortRows(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.sum, a.sum) })
}

// naive is a beam search by whole tables: in each step all continuations of all beams, with rows that are none where
// there are too few.
func naive(p BeamParams, seed uint64, vocab int) []row {
	live, done := make([]row, p.Width), make([]row, p.Width)
	for i := range live {
		live[i].sum, done[i].sum = never, never
	}
	live[0].sum = 0
	for n := 1; ; n++ {
		var all []row
		for _, r := range live {
			for _, c := range nextLogprobs(seed, r.tokens, vocab) {
				all = append(all, row{append(slices.Clone(r.tokens), c.Token), r.sum + float64(c.Logprob), false})
			}
		}
		sortRows(all)
		all = all[:max(2, 1+len(p.StopTokens))*p.Width]
		live = nil
		for i, r := range all {
			stops := n == p.MaxTokens || slices.Contains(p.StopTokens, r.tokens[n-1])
			if live = append(live, r); stops {
				live[i].sum = never
			}
			if stops && i < p.Width && r.sum > never/2 {
				done = append(done, row{r.tokens, r.sum / math.Pow(float64(n), p.LengthPenalty), true})
			}
		}
		sortRows(live)
		live = live[:p.Width]
		sortRows(done)
		done = done[:p.Width]
		length := n
		if p.Early == EarlyNever && p.LengthPenalty > 0 {
			length = p.MaxTokens
		}
		full := done[p.Width-1].ended
		hopeless := full && live[0].sum/math.Pow(float64(length), p.LengthPenalty) <= done[p.Width-1].sum
		if n == p.MaxTokens || hopeless || full && p.Early == EarlyAlways {
			return slices.DeleteFunc(done, func(r row) bool { return !r.ended })
		}
	}
}

// TestBeamsNaive compares searches with naive ones.
func TestBeamsNaive(t *testing.T) {
	const vocab = 40
	rapid.Check(t, func(t *rapid.T) {
		p := BeamParams{
			Width: rapid.IntRange(1, 6).Draw(t, "width"), MaxTokens: rapid.IntRange(1, 12).Draw(t, "max tokens"),
			LengthPenalty: rapid.SampledFrom([]float64{1, 0, 2, -1, 0.3}).Draw(t, "length penalty"),
			Early:         rapid.SampledFrom([]EarlyStop{EarlyHeuristic, EarlyAlways, EarlyNever}).Draw(t, "early"),
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "stops") {
			p.StopTokens = append(p.StopTokens, int32(i*3))
		}
		seed := rapid.Uint64().Draw(t, "seed")
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		b, live := NewBeams(p), [][]int32{nil}
		for !b.Over() {
			var tops [][]compute.Candidate
			for _, tokens := range live {
				top := nextLogprobs(seed, tokens, vocab)
				slices.SortFunc(top, func(a, b compute.Candidate) int { return cmp.Compare(b.Logprob, a.Logprob) })
				tops = append(tops, top[:p.Top()])
			}
			var next [][]int32
			for _, s := range b.Next(tops) {
				next = append(next, append(slices.Clone(live[s.From]), s.Token))
			}
			live = next
		}
		want := naive(p, seed, vocab)
		if len(b.Best()) != len(want) {
			t.Fatalf("%d answers; want %d", len(b.Best()), len(want))
		}
		for i, h := range b.Best() {
			var tokens []int32
			for _, c := range h.Tokens() {
				tokens = append(tokens, c.Token)
			}
			if !slices.Equal(tokens, want[i].tokens) || math.Abs(h.Score-want[i].sum) > 1e-9 {
				t.Fatalf("answer %d: %v, score %v; want %v, score %v", i, tokens, h.Score, want[i].tokens, want[i].sum)
			}
			if h.Ended != slices.Contains(p.StopTokens, tokens[len(tokens)-1]) {
				t.Errorf("answer %d: ended is %v, tokens %v", i, h.Ended, tokens)
			}
		}
	})
}

// TestBeamsStory follows one search by hand: a token that ends an answer is one only among the best.
func TestBeamsStory(t *testing.T) {
	b := NewBeams(BeamParams{Width: 2, MaxTokens: 3, LengthPenalty: 1, Early: EarlyHeuristic, StopTokens: []int32{9}})
	is := func(token int32, logprob float32) compute.Candidate {
		return compute.Candidate{Token: token, Logprob: logprob}
	}
	top := func(of ...compute.Candidate) []compute.Candidate { return of }
	if got := b.Next([][]compute.Candidate{top(is(1, -1), is(2, -2), is(9, -3), is(3, -4))}); !slices.Equal(got, []Step{{0, 1}, {0, 2}}) {
		t.Fatalf("the first step is %v", got)
	}
	if len(b.Best()) != 0 {
		t.Error("the third best continuation is an answer")
	}
	// sums: 1+1 -1.5, 1+9 -2, 2+5 -2.25, 1+3 -4, 2+9 -6: both go on, and 1 9 is an answer of score -1.
	got := b.Next([][]compute.Candidate{top(is(1, -.5), is(9, -1), is(3, -3)), top(is(5, -.25), is(9, -4))})
	if !slices.Equal(got, []Step{{0, 1}, {1, 5}}) || len(b.Best()) != 1 || b.Best()[0].Score != -1 || !b.Best()[0].Ended {
		t.Fatalf("the second step is %v, answers %v", got, b.Best())
	}
	// No more tokens: what is best is an answer, ended or not. Of equals the first beam comes first.
	minus := float32(math.Inf(-1))
	got = b.Next([][]compute.Candidate{top(is(4, -1.5), is(9, minus)), top(is(9, -.75), is(4, -1))})
	if best := b.Best(); got != nil || !b.Over() || len(best) != 2 || best[0].Score != -1 || best[1].Score != -1 || best[0].Tokens()[1].Token != 9 {
		t.Fatalf("the last step is %v, answers %v", got, best)
	}
}

func TestBeamParams(t *testing.T) {
	good := BeamParams{Width: 4, MaxTokens: 1, Early: EarlyNever}
	for field, spoil := range map[string]func(*BeamParams){
		"beams":          func(p *BeamParams) { p.Width = 0 },
		"max_tokens":     func(p *BeamParams) { p.MaxTokens = 0 },
		"length_penalty": func(p *BeamParams) { p.LengthPenalty = math.Inf(1) },
		"early_stop":     func(p *BeamParams) { p.Early = "" },
		"stop_tokens":    func(p *BeamParams) { p.StopTokens = make([]int32, compute.MaxTop) },
	} {
		p := good
		spoil(&p)
		var e *fault.Error
		if err := p.Check(); !errors.As(err, &e) || string(e.Field) != field || strings.Contains(e.Problem, "%!") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}
