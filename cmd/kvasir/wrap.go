package main

import (
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// wrapper breaks lines between words where a terminal's end, as text comes in pieces. It holds back a word until it is
// complete. Lines of a code block, between two lines that begin with ```, stay as they are.
type wrapper struct {
	w     io.Writer
	width int // columns; 0 breaks nothing
	word  strings.Builder
	cols  int    // of the word
	at    int    // column after what was written
	line  string // the beginning of the line, without breaks of ours
	code  bool
	err   error
}

// newWrapper writes to standard output, whose width counts if it is a terminal.
func newWrapper() *wrapper {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return &wrapper{w: os.Stdout, width: width}
}

const fence = "```"

// Write takes the next piece of the text, which does not end within a character.
func (w *wrapper) Write(p []byte) (int, error) {
	for _, r := range string(p) {
		if len(w.line) < len(fence) {
			w.line += string(r)
			if w.line == fence {
				w.code = !w.code
			}
		}
		switch {
		case r == '\n':
			w.flush()
			w.put("\n")
			w.at, w.line = 0, ""
		case unicode.IsSpace(r):
			w.flush()
			if w.at++; w.width == 0 || w.code || w.at < w.width {
				w.put(string(r))
			}
		default:
			n := runewidth.RuneWidth(r)
			if w.width > 0 && w.cols+n > w.width {
				w.flush() // it has no other place to break
			}
			w.word.WriteRune(r)
			if w.cols += n; unicode.Is(unicode.Han, r) {
				w.flush() // which breaks anywhere
			}
		}
	}
	if w.code || w.width == 0 {
		w.flush()
	}
	return len(p), w.err
}

// flush writes the word, on a new line if it does not fit.
func (w *wrapper) flush() {
	if w.cols > 0 && w.at > 0 && w.width > 0 && !w.code && w.at+w.cols > w.width {
		w.put("\n")
		w.at = 0
	}
	w.put(w.word.String())
	w.at += w.cols
	w.word.Reset()
	w.cols = 0
}

func (w *wrapper) put(s string) {
	if w.err == nil && s != "" {
		_, w.err = io.WriteString(w.w, s)
	}
}
