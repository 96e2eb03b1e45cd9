package text

import (
	"slices"
	"testing"
)

// TestWords makes sure that the runs of bad words and breakers spell them.
func TestWords(t *testing.T) {
	m := openMini(t, Options{})
	spell := func(run []int32) string { return m.Tokenizer.Decode(run, false) }
	var spelled []string
	for _, run := range m.badWords([]string{"hello", " hello"}) {
		spelled = append(spelled, spell(run))
	}
	if want := []string{"hello", " hello"}; !slices.Equal(spelled, want) {
		t.Errorf("bad words: %q; want %q", spelled, want)
	}
	runs := m.breakRuns([]string{"\n", "):"})
	kinds := map[int]int{}
	for i, run := range runs {
		kinds[len(run)]++
		if i > 0 && slices.Compare(runs[i-1], run) >= 0 {
			t.Fatalf("%v comes before %v", runs[i-1], run)
		}
		head := string(m.Tokenizer.Bytes(run[0]))
		if tail := spell(run[1:]); len(run) > 1 && (tail != ":" || head[len(head)-1] != ')') {
			t.Errorf("the run %q, %q does not hold a breaker", head, tail)
		}
	}
	if kinds[1] == 0 || kinds[2] == 0 {
		t.Errorf("runs by length: %v", kinds)
	}
}
