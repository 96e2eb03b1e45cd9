package main

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestPastes(t *testing.T) {
	for _, tt := range []struct{ typed, line, prompt string }{
		{"typed \x1b[A\x1b", "typed \x1b[A\x1b", "typed \x1b[A\x1b"},
		{"a \x1b[200~b c\r\x1b[201~ d", "a b c d", "a b c d"},
		{"see: \x1b[200~one\r\n\ttwo\rthree\x1b[201~!", "see: [pasted 1: 3 lines]!", "see: one\n\ttwo\nthree!"},
		{"\x1b[200~a\nb\x1b[201~\x1b[200~c\nd\x1b[201~", "[pasted 1: 2 lines][pasted 2: 2 lines]", "a\nbc\nd"},
		{"\x1b[200~\x04\x03x\x1b[31m\x1b[201~", "x[31m", "x[31m"},
		{"\x1b[200~" + strings.Repeat("long ", 200) + "\x1b[201~", "[pasted 1: 1 lines]", strings.Repeat("long ", 200)},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(tt.typed), "halves": iotest.HalfReader(strings.NewReader(tt.typed))} {
			var p pastes
			var line strings.Builder
			if err := p.copy(&line, in); err != io.EOF || line.String() != tt.line {
				t.Errorf("%q, %s: the line is %q, %v; want %q", tt.typed, name, line.String(), err, tt.line)
			}
			if got := p.expand(line.String()); got != tt.prompt {
				t.Errorf("%q, %s: the prompt is %q; want %q", tt.typed, name, got, tt.prompt)
			}
		}
	}
}
