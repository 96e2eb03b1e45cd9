package main

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"
)

// wrapped writes pieces of a text to a terminal of some width.
func wrapped(width int, pieces ...string) string {
	var out strings.Builder
	w := &wrapper{w: &out, width: width}
	for _, p := range pieces {
		w.Write([]byte(p))
	}
	w.flush()
	return out.String()
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		width    int
		in, want string
	}{
		{10, "the quick brown fox", "the quick\nbrown fox"},
		{10, "a\n\nb  c\n", "a\n\nb  c\n"},
		{10, "12345678901234567 x", "1234567890\n1234567 x"},
		{10, "猫猫猫猫猫猫", "猫猫猫猫猫\n猫"},
		{10, "```go\nif err != nil { return err }\n```\nthe quick brown", "```go\nif err != nil { return err }\n```\nthe quick\nbrown"},
		{0, "the quick brown fox jumps", "the quick brown fox jumps"},
	} {
		if got := wrapped(tt.width, tt.in); got != tt.want {
			t.Errorf("%q at %d columns is %q; want %q", tt.in, tt.width, got, tt.want)
		}
	}
}

// TestWrapPieces makes sure that pieces do not matter, that lines fit, and that no word is lost.
func TestWrapPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching("[a-c猫 \n]{0,80}").Draw(t, "text")
		width := rapid.IntRange(4, 20).Draw(t, "width")
		whole := wrapped(width, text)
		var pieces []string
		for _, r := range text {
			pieces = append(pieces, string(r))
		}
		if got := wrapped(width, pieces...); got != whole {
			t.Fatalf("in pieces %q; whole %q", got, whole)
		}
		for _, line := range strings.Split(whole, "\n") {
			if runewidth.StringWidth(line) > width {
				t.Fatalf("%q is wider than %d", line, width)
			}
		}
		letters := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if letters(whole) != letters(text) {
			t.Fatalf("%q became %q", text, whole)
		}
	})
}
