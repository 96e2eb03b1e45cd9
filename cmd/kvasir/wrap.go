package main

import (
	"io"
	"os"
	"runtime"
	"strings"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// wrapper shows an answer on a terminal, as its text comes in pieces: it breaks lines between words, and shows the
// headings, lists, emphasis and code of Markdown in the terminal's styles. Text after the mark of an emphasis is held
// back until its other mark comes, or the line ends. Lines of code and of tables are not broken. Control characters,
// with which a model could steer the terminal, are shown as �.
type wrapper struct {
	w     io.Writer
	width int  // columns; 0 passes text on as it is, which is for files and pipes
	plain bool // the terminal has no styles: the marks of Markdown stay

	held   strings.Builder
	begun  bool  // the beginning of the line is shown
	code   bool  // between two lines that begin with ```
	table  bool  // the line is one of a table
	base   style // of the line
	indent int   // columns before the lines that a paragraph is broken into
	prev   rune  // last one shown, which an emphasis may begin after
	at     int   // column after what was shown
	spaces int   // that follow it, and are shown with the next word
	shown  style // what the terminal is set to
	err    error
}

// newWrapper writes to standard output, whose width counts if it is a terminal.
func newWrapper() *wrapper {
	width, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		width = 0
	}
	return &wrapper{w: os.Stdout, width: width, plain: !hasStyles()}
}

// hasStyles reports whether the terminal is known to understand styles, and the user wants them (no-color.org).
func hasStyles() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && (runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != "")
}

// mostHeld is how many bytes are held back for the other mark of an emphasis.
const mostHeld = 400

// Write takes the next piece of the text, which does not end within a character.
func (w *wrapper) Write(p []byte) (int, error) {
	if w.width == 0 {
		return w.w.Write(p)
	}
	for _, r := range string(p) {
		switch {
		case r == '\n':
			w.endLine()
			continue
		case r == '\t':
		case unicode.IsControl(r):
			r = unicode.ReplacementChar
		}
		w.held.WriteRune(r)
		if unicode.IsSpace(r) || unicode.Is(unicode.Han, r) || w.code || w.table || w.held.Len() > mostHeld {
			w.release(false)
		}
	}
	return len(p), w.err
}

// flush shows what is held back, at the end of the text.
func (w *wrapper) flush() {
	if w.width > 0 {
		w.release(true)
		w.set(0)
	}
}

func (w *wrapper) endLine() {
	line := strings.TrimSpace(w.held.String())
	switch {
	case w.begun:
	case strings.HasPrefix(line, fence):
		w.code = !w.code
		w.begun, w.base = true, dim
	case w.code:
	case !w.plain && (line == "---" || line == "***" || line == "___"):
		w.held.Reset()
		w.held.WriteString(strings.Repeat("─", w.width))
	}
	w.release(true)
	w.set(0)
	w.put("\n")
	w.begun, w.table, w.base, w.indent, w.at, w.spaces, w.prev = false, false, 0, 0, 0, 0, 0
}

const fence = "```"

// release shows what is held back, unless its style depends on what follows. final: nothing follows on this line.
func (w *wrapper) release(final bool) {
	held := w.held.String()
	if !w.begun {
		var known bool
		if held, known = w.begin(held, final); !known && !final {
			return
		}
		w.begun = true
	}
	if w.code || w.table || w.plain {
		w.lay(spans{{held, w.base}})
	} else {
		text, open := parseSpans(held, w.prev, w.base)
		if open && !final && w.held.Len() <= mostHeld {
			w.held.Reset()
			w.held.WriteString(held)
			return
		}
		w.lay(text)
	}
	for _, r := range held {
		w.prev = r
	}
	w.held.Reset()
}

// begin shows what marks the kind of a line, and returns the rest. known is false as long as what follows may still
// change the kind.
func (w *wrapper) begin(held string, final bool) (rest string, known bool) {
	text := strings.TrimLeft(held, " ")
	spaces := len(held) - len(text)
	if strings.HasPrefix(fence, text) || strings.HasPrefix(text, fence) {
		return held, false // until its line ends
	}
	if w.code {
		w.base = mono
		return held, true
	}
	mark, after, ok := strings.Cut(text, " ")
	switch {
	case w.plain || !ok && !final:
		w.table = strings.HasPrefix(text, "|")
		return held, w.plain || w.table
	case !ok:
	case len(mark) <= 6 && strings.Trim(mark, "#") == "":
		w.base = bold
		if len(mark) < 3 {
			w.base |= underlined
		}
		return after, true
	case mark == "-" || mark == "*" || mark == "+":
		w.indent = spaces + 2
		return strings.Repeat(" ", spaces) + "• " + after, true
	case mark == ">":
		w.base, w.indent = dim, spaces+2
		return strings.Repeat(" ", spaces) + "│ " + after, true
	case strings.Trim(mark, "0123456789") == ".":
		w.indent = spaces + len(mark) + 1
	case strings.HasPrefix(text, "|"):
		w.table = true
	}
	return held, true
}

// lay shows a text, and breaks lines before words that do not fit.
func (w *wrapper) lay(text spans) {
	var word spans
	cols := 0
	end := func() {
		if cols > 0 && w.at > w.indent && !w.code && !w.table && w.at+w.spaces+cols > w.width {
			w.set(0)
			w.put("\n" + strings.Repeat(" ", w.indent))
			w.at, w.spaces = w.indent, 0
		}
		if cols > 0 && !w.code && !w.table { // a line may begin with more spaces than fit
			w.spaces = max(0, min(w.spaces, w.width-w.at-cols))
		}
		if cols > 0 && w.spaces > 0 {
			w.set(w.shown & word[0].style)
			w.put(strings.Repeat(" ", w.spaces))
			w.at, w.spaces = w.at+w.spaces, 0
		}
		for _, s := range word {
			w.set(s.style)
			w.put(s.text)
		}
		w.at += cols
		word, cols = nil, 0
	}
	for _, s := range text {
		for _, r := range s.text {
			n := runewidth.RuneWidth(r)
			switch {
			case r == '\t':
				end()
				w.spaces += 4
				continue
			case unicode.IsSpace(r):
				end()
				w.spaces++
				continue
			case cols+n > w.width-w.indent || unicode.Is(unicode.Han, r): // it has no other place to break
				end()
			}
			word = append(word, span{string(r), s.style})
			cols += n
		}
	}
	end()
}

// set gives what follows a style.
func (w *wrapper) set(s style) {
	if s != w.shown && !w.plain {
		w.put(s.sequence())
		w.shown = s
	}
}

func (w *wrapper) put(s string) {
	if w.err == nil && s != "" {
		_, w.err = io.WriteString(w.w, s)
	}
}
