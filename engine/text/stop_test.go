package text

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestStopper compares the stopper with a search of the whole text, for random texts, stop strings and pieces: it shows
// everything up to the stop string that is complete first, and before that holds back only what may begin one.
func TestStopper(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(most int) string {
		var b strings.Builder
		for range 1 + r.IntN(most) {
			b.WriteByte("ab"[r.IntN(2)])
		}
		return b.String()
	}
	for range 20000 {
		var stops []string
		for range r.IntN(3) {
			stops = append(stops, random(5))
		}
		include := r.IntN(2) == 0
		s := newStopper(stops, include)
		var text, shown string
		found := false
		for range r.IntN(12) {
			piece := random(3)
			text += piece
			var show string
			show, found = s.push(piece)
			shown += show
			if found {
				break
			}
			held := text[len(shown):]
			if held != "" && !slices.ContainsFunc(stops, func(stop string) bool { return strings.HasPrefix(stop, held) }) {
				t.Fatalf("%q holds back %q of %q", stops, held, text)
			}
		}
		first, length := -1, 0
		for _, stop := range stops {
			if i := strings.Index(text, stop); i >= 0 && (first < 0 || i < first) {
				first, length = i, len(stop)
			}
		}
		want := text
		switch {
		case found != (first >= 0):
			t.Fatalf("%q in %q: found %v", stops, text, found)
		case found && include:
			want = text[:first+length]
		case found:
			want = text[:first]
		default:
			shown += s.flush()
		}
		if shown != want {
			t.Fatalf("%q in %q (include %v): shows %q; want %q", stops, text, include, shown, want)
		}
	}
}

// TestStopperKeepsLittle holds that what a long stop string holds back is kept once, however long the text becomes.
func TestStopperKeepsLittle(t *testing.T) {
	stop := strings.Repeat("a", 1<<16) + "b"
	s := newStopper([]string{stop}, false)
	shown := 0
	for range 64 {
		show, found := s.push(strings.Repeat("a", 1<<12))
		if shown += len(show); found || cap(s.buf) > 4*len(stop) {
			t.Fatalf("found %v; %d bytes are kept for a stop string of %d", found, cap(s.buf), len(stop))
		}
	}
	if _, found := s.push("b"); !found || shown != 1<<18-1<<16 {
		t.Errorf("found %v after %d bytes", found, shown)
	}
}
