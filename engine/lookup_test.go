package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// guesses returns the first n tokens that are guessed to follow.
func (l *lookup) guesses(n int) (ids []int32) {
	for i := range n {
		id, chance, ok := l.guess(i)
		if !ok {
			return ids
		}
		if chance <= 0 || chance >= 1 {
			panic("a chance that is none")
		}
		ids = append(ids, id)
	}
	return ids
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name                  string
		given, prompt, output []int32
		want                  []int32
	}{
		{"nothing came before", nil, []int32{1, 2, 3}, nil, nil},
		{"a pair came before", nil, []int32{1, 2, 3, 4, 9, 1, 2}, nil, []int32{3, 4, 9}},
		{"the newest of them", nil, []int32{1, 2, 3, 1, 2, 4, 1, 2}, nil, []int32{4, 1, 2}},
		{"the longest of them", nil, []int32{9, 1, 2, 3, 5, 1, 2, 4, 9, 1, 2}, nil, []int32{3, 5, 1}},
		{"the output", nil, []int32{1}, []int32{2, 3, 4, 2, 3}, []int32{4, 2, 3}},
		{"a run goes on", nil, []int32{5, 5}, []int32{5}, []int32{5, 5, 5}},
		{"a period goes on", nil, []int32{8, 1, 2, 1, 2}, nil, []int32{1, 2, 1}},
		{"one token says nothing", nil, []int32{7, 1, 2, 8, 1}, nil, nil},
		{"what was given", []int32{1, 2, 3, 4}, []int32{9}, nil, []int32{1, 2, 3}},
		{"and followed", []int32{1, 2, 3, 4, 5, 6}, []int32{9}, []int32{1, 2}, []int32{3, 4, 5}},
		{"with a token changed", []int32{1, 2, 3, 4, 5, 6}, []int32{9}, []int32{1, 7}, []int32{3, 4, 5}},
		{"with tokens added", []int32{1, 2, 3, 4, 5, 6}, []int32{9}, []int32{1, 7, 8, 2, 3}, []int32{4, 5, 6}},
		{"and left behind", []int32{1, 2, 3, 4, 5, 6}, []int32{9}, []int32{1, 7, 8, 7}, nil},
	} {
		l := newLookup(c.given, c.prompt, usualRates())
		for n := range c.output {
			l.learn(slices.Concat(c.prompt, c.output[:n+1]))
		}
		got := l.guesses(3)
		if len(c.want) == 0 && l.at >= 0 || len(c.want) > 0 && !slices.Equal(got, c.want) {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
}

// TestLookupLearns holds that guesses which come true become likelier, and others less likely; and that it does not
// matter how many tokens come at once, but for what is learned of guesses, nor how long the text gets.
func TestLookupLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var text []int32
	for range 5000 {
		text = append(text, r.Int32N(1000))
	}
	again, never := newLookup(nil, text[:3000], usualRates()), newLookup(text[:3000], text[3000:3001], usualRates())
	known := slices.Clone(text[:3000])
	for _, id := range text[1000:2500] {
		known = append(known, id)
		again.learn(known)
	}
	if _, chance, _ := again.guess(0); chance < 0.95 {
		t.Errorf("a guess that came true 1500 times has the chance %v", chance)
	}
	if got := again.guesses(8); !slices.Equal(got, text[2500:2508]) {
		t.Errorf("%v follows; want %v", got, text[2500:2508])
	}
	known = slices.Clone(text[3000:3001])
	for range 400 {
		id := r.Int32N(1000)
		known = append(known, id)
		never.learn(known)
	}
	for kind, rate := range never.rates[:3] {
		if rate.all > 2*rateFirst && rate.chance() > 0.2 {
			t.Errorf("guesses of kind %d, of which %v came true, have the chance %v", kind, rate, rate.chance())
		}
	}
	if next := newLookup(nil, known, never.usual); next.rates[0].chance() > 0.2 {
		t.Errorf("the next sequence begins with the chance %v", next.rates[0].chance())
	}
	whole := newLookup(nil, known, never.usual)
	if got, want := never.text[never.given:], whole.text; !slices.Equal(got, want) || len(never.prev) != len(never.text) || len(whole.prev) != len(whole.text) {
		t.Errorf("%d and %d tokens are indexed, of %d and %d", len(never.prev), len(whole.prev), len(never.text), len(whole.text))
	}
}

// BenchmarkLookup measures what a sequence of 8,000 tokens costs for each token of its output.
func BenchmarkLookup(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var text []int32
	for range 8000 {
		text = append(text, r.Int32N(300))
	}
	l := newLookup(nil, text, usualRates())
	for b.Loop() {
		text = append(text, r.Int32N(300))
		l.learn(text)
	}
}
