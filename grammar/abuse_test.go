package grammar

import (
	"strings"
	"testing"
)

// TestAlternativesAreWork holds that making alternatives of what begins alike counts as work, also where each of them
// is known already.
func TestAlternativesAreWork(t *testing.T) {
	limits := DefaultLimits
	limits.Work = 1 << 14
	for _, n := range []int{4, 500} {
		g, err := Compile(Spec{Regex: strings.Repeat("a?", n) + strings.Repeat("a", n)}, byteVocab(), limits)
		if err != nil {
			t.Fatal(err)
		}
		m := g.Start()
		m.Mask(make([]uint32, 16))
		if (m.err != nil) != (n == 500) {
			t.Errorf("a? and a, each %d times: %v", n, m.err)
		}
	}
}
