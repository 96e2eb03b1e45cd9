package text

import (
	"bytes"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/tokenizer"
)

// breakers are those of DRY when a request names none: as in llama.cpp.
var breakers = []string{"\n", ":", "\"", "*"}

// mostTail is the most tokens of a breaker after its first.
const mostTail = 20

// badWords returns the runs of tokens that spell words, each at the beginning of a text and after a space.
func (m *Model) badWords(words []string) (runs [][]int32) {
	for _, w := range words {
		w = strings.TrimLeft(w, " ")
		for _, spelled := range []string{w, " " + w} {
			run := m.Tokenizer.Encode(spelled, tokenizer.EncodeOptions{})
			if len(run) > 0 && !slices.ContainsFunc(runs, func(r []int32) bool { return slices.Equal(r, run) }) {
				runs = append(runs, run)
			}
		}
	}
	return runs
}

// breakRuns returns the runs of tokens that hold one of the texts, ascending: tokens that hold all of it, and tokens
// that end with its beginning, with the tokens of the rest.
func (m *Model) breakRuns(texts []string) (runs [][]int32) {
	for id := range int32(m.Tokenizer.VocabSize()) {
		token := m.Tokenizer.Bytes(id)
		for _, text := range texts {
			if bytes.Contains(token, []byte(text)) {
				runs = append(runs, []int32{id})
				continue
			}
			for n := 1; n < len(text); n++ {
				if bytes.HasSuffix(token, []byte(text[:n])) {
					rest := m.Tokenizer.Encode(text[n:], tokenizer.EncodeOptions{})
					runs = append(runs, append([]int32{id}, rest[:min(len(rest), mostTail)]...))
				}
			}
		}
	}
	slices.SortFunc(runs, slices.Compare)
	return slices.CompactFunc(runs, slices.Equal)
}

// words fills in the runs of tokens of r's sampling that r has as texts.
func (m *Model) words(r *Request) {
	r.Sampling.BadWords = m.badWords(r.BadWords)
	switch {
	case r.Sampling.DRYMultiplier == 0:
	case r.DRYBreakers == nil:
		m.broken.Do(func() { m.breakers = m.breakRuns(breakers) })
		r.Sampling.DRYBreakers = m.breakers
	default:
		r.Sampling.DRYBreakers = m.breakRuns(r.DRYBreakers)
	}
}
