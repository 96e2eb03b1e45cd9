package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"unicode"

	"github.com/kvasir-llm/kvasir/guard"
)

// pastes stands between the keyboard and the line editor, and makes what is pasted part of one prompt: a text of
// several lines, or a long one, is shown as "[pasted 1: 12 lines]", and expand puts it back. It asks the terminal to
// mark what is pasted (bracketed paste, xterm's control sequences).
type pastes struct {
	out *os.File // what the line editor reads

	mu    sync.Mutex
	texts []string // since the last expand
}

const (
	askForMarks, noMarks = "\x1b[?2004h", "\x1b[?2004l"
	pasteBegin, pasteEnd = "\x1b[200~", "\x1b[201~"
	mostInline           = 500 // bytes
)

// newPastes reads a terminal. On Windows, where the line editor reads events of keys, it is the terminal itself.
func newPastes(in *os.File) *pastes {
	r, w, err := os.Pipe()
	if err != nil || runtime.GOOS == "windows" {
		return &pastes{out: in}
	}
	fmt.Print(askForMarks)
	p := &pastes{out: r}
	guard.Go(func() error { return p.copy(w, in) }, func(error) { w.Close() })
	return p
}

// Close makes the terminal mark nothing any more.
func (p *pastes) Close() {
	if p.out != os.Stdin {
		fmt.Print(noMarks)
	}
}

// copy passes on what is typed, until in ends.
func (p *pastes) copy(w io.Writer, in io.Reader) error {
	pending, mark := "", pasteBegin
	var text strings.Builder // of the paste under way
	chunk := make([]byte, 4096)
	for {
		n, err := in.Read(chunk)
		pending += string(chunk[:n])
		for found := true; found; {
			var before string
			if before, pending, found = strings.Cut(pending, mark); !found {
				part := partOf(before, mark)
				before, pending = before[:len(before)-part], before[len(before)-part:]
			}
			switch {
			case mark == pasteBegin && found:
				mark = pasteEnd
			case mark == pasteEnd:
				text.WriteString(before)
				if before = ""; found {
					before, mark = p.shorten(text.String()), pasteBegin
					text.Reset()
				}
			}
			if _, err := io.WriteString(w, before); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// partOf returns how many of a text's last bytes may be the beginning of a mark. A lone Escape is the key.
func partOf(s, mark string) int {
	for n := min(len(mark)-1, len(s)); n > 1; n-- {
		if strings.HasPrefix(mark, s[len(s)-n:]) {
			return n
		}
	}
	return 0
}

// shorten returns what the line editor gets for a text: the text, or its name.
func (p *pastes) shorten(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.TrimRight(text, "\n")
	if !strings.ContainsAny(text, "\n\t") && len(text) <= mostInline {
		return text
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts = append(p.texts, text)
	return pasteName(len(p.texts), text)
}

func pasteName(number int, text string) string {
	return fmt.Sprintf("[pasted %d: %d lines]", number, 1+strings.Count(text, "\n"))
}

// expand puts texts in place of their names in a prompt, and forgets them.
func (p *pastes) expand(prompt string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pairs []string
	for i, text := range p.texts {
		pairs = append(pairs, pasteName(i+1, text), text)
	}
	p.texts = nil
	return strings.NewReplacer(pairs...).Replace(prompt)
}
