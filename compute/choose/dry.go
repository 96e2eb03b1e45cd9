package choose

import (
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/compute"
)

// repeats finds repetitions in a sequence. It holds memory for one call at a time.
type repeats struct {
	recent []int32 // the latest tokens, the last one first
	match  []int   // by token of recent: how many tokens from it on are those that recent begins with
	next   []follow
}

// follow is a token that came after tokens like the last n ones.
type follow struct {
	token int32
	n     int
}

// lower takes from the logits what d says, after tokens.
func (r *repeats) lower(logits []float32, tokens []int32, d *compute.DRY) {
	if d.LastN > 0 {
		tokens = tokens[max(0, len(tokens)-d.LastN):]
	}
	r.recent = append(r.recent[:0], tokens...)
	slices.Reverse(r.recent)
	limit := r.unbroken(d.Breakers)
	if limit < d.Allowed {
		return
	}
	r.find()
	r.next = r.next[:0]
	for i := 1; i < len(r.recent); i++ {
		if n := min(r.match[i], limit); n >= d.Allowed {
			r.next = append(r.next, follow{r.recent[i-1], n})
		}
	}
	slices.SortFunc(r.next, func(a, b follow) int {
		if a.token != b.token {
			return int(a.token) - int(b.token)
		}
		return b.n - a.n
	})
	for i, f := range r.next {
		if i == 0 || r.next[i-1].token != f.token { // the longest
			penalty := float64(d.Multiplier) * math.Pow(float64(d.Base), float64(f.n-d.Allowed))
			logits[f.token] = float32(max(float64(logits[f.token])-penalty, -math.MaxFloat32))
		}
	}
}

// unbroken returns how many of the latest tokens come after the last breaker. Breakers are sorted.
func (r *repeats) unbroken(breakers [][]int32) int {
	n, longest := len(r.recent), 1
	for _, b := range breakers {
		longest = max(longest, len(b))
	}
	for i := 0; i < len(r.recent) && i-longest+1 < n; i++ {
		first, _ := slices.BinarySearchFunc(breakers, r.recent[i], func(b []int32, id int32) int { return int(b[0]) - int(id) })
		for _, b := range breakers[first:] {
			if b[0] != r.recent[i] {
				break
			}
			if end := i - len(b) + 1; end >= 0 && end < n && r.runs(i, b) {
				n = end
			}
		}
	}
	return n
}

// runs reports whether the tokens of b came from recent[i] on.
func (r *repeats) runs(i int, b []int32) bool {
	for k, id := range b {
		if r.recent[i-k] != id {
			return false
		}
	}
	return true
}

// find fills match, in time linear in the tokens (the Z algorithm: Gusfield, "Algorithms on strings, trees and
// sequences", section 1.4).
func (r *repeats) find() {
	n := len(r.recent)
	r.match = resized(r.match, n)
	clear(r.match)
	left, right := 0, 0 // the match that reaches furthest is [left, right)
	for i := 1; i < n; i++ {
		k := 0
		if i < right {
			k = min(right-i, r.match[i-left])
		}
		for i+k < n && r.recent[k] == r.recent[i+k] {
			k++
		}
		r.match[i] = k
		if i+k > right {
			left, right = i, i+k
		}
	}
}
