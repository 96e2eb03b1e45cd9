package tokenizer

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// finder finds the matches of a pattern.
type finder interface {
	// each calls on with every match, left to right. A match may be empty: it then only divides the text. An error
	// means that the rest of the text was not looked at.
	each(text string, on func(start, end int)) error
}

// literal finds a fixed, non-empty string.
type literal string

func (l literal) each(text string, on func(start, end int)) error {
	for pos := 0; ; {
		i := strings.Index(text[pos:], string(l))
		if i < 0 {
			return nil
		}
		on(pos+i, pos+i+len(l))
		pos += i + len(l)
	}
}

func (d *dfa) each(text string, on func(start, end int)) error {
	for pos := 0; pos < len(text); {
		start, end, ok := d.next(text, pos)
		if !ok {
			return nil
		}
		on(start, end)
		pos = end
	}
	return nil
}

// setFinder finds single runes of a set, or with runs the longest runs of them.
func setFinder(s charset, runs bool) finder {
	n := &node{op: opSet, set: s}
	if runs {
		n = &node{op: opRepeat, sub: []*node{n}, min: 1, max: -1}
	}
	d, err := compileNode(n)
	if err != nil {
		panic(err) // one set never exceeds a limit
	}
	return d
}

// backtracking runs a pattern that is not regular (lookbehind, lookahead at several runes, backreferences).
type backtracking struct{ re *regexp2.Regexp }

func compileBacktracking(pattern string, why error) (finder, error) {
	re, err := regexp2.Compile(pattern, regexp2.Unicode|regexp2.Multiline)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: pattern %q is not supported: %w (%v)", pattern, why, err)
	}
	re.MatchTimeout = maxMatchTime
	return backtracking{re}, nil
}

// Bounds on the time of backtracking, which may take exponentially long.
const (
	maxMatchTime = 250 * time.Millisecond
	maxTextTime  = time.Second
)

// each converts the engine's rune offsets to bytes; an invalid byte is one rune.
func (b backtracking) each(text string, on func(start, end int)) error {
	began := time.Now()
	m, err := b.re.FindStringMatch(text)
	at, runes := 0, 0 // byte offset of rune number runes
	seek := func(n int) int {
		at = skipRunes(text, at, n-runes)
		runes = n
		return at
	}
	for err == nil && m != nil {
		start := seek(m.Index)
		on(start, seek(m.Index+m.Length))
		if m, err = b.re.FindNextMatch(m); time.Since(began) > maxTextTime {
			err = fmt.Errorf("its matches took longer than %v", maxTextTime)
		}
	}
	if err != nil {
		return fmt.Errorf("tokenizer: pattern %q takes too long: %w", b.re, err)
	}
	return nil
}

// groupDigits finds runs of decimal digits in groups of three counted from the right, as the patterns
// `\d{1,3}(?=(?:\d{3})*\b)` and `(?=(\d{3})+(?!\d))` do, in time linear in the text.
type groupDigits struct {
	boundary bool // groups are matches, and only where no word rune follows the run; else empty matches divide it
}

func digitGrouping(pattern string) (finder, bool) {
	switch pattern {
	case `\d{1,3}(?=(?:\d{3})*\b)`:
		return groupDigits{boundary: true}, true
	case `(?=(\d{3})+(?!\d))`, `(?=(?:\d{3})+(?!\d))`:
		return groupDigits{}, true
	}
	return nil, false
}

func (g groupDigits) each(text string, on func(start, end int)) error {
	for pos := 0; pos < len(text); {
		n, stop := 0, pos
		var r rune
		for size := 0; stop < len(text); stop += size {
			if r, size = utf8.DecodeRuneInString(text[stop:]); !setDigit.has(r) {
				break
			}
			n++
		}
		if n == 0 {
			pos = skipRunes(text, pos, 1)
			continue
		}
		if g.boundary && (stop == len(text) || !setWord.has(r)) {
			for size := (n-1)%3 + 1; pos < stop; size = 3 {
				end := skipRunes(text, pos, size)
				on(pos, end)
				pos = end
			}
		}
		if !g.boundary {
			for at := skipRunes(text, pos, n%3); at < stop; at = skipRunes(text, at, 3) {
				on(at, at)
			}
		}
		pos = stop
	}
	return nil
}

func skipRunes(text string, pos, n int) int {
	for range n {
		_, size := utf8.DecodeRuneInString(text[pos:])
		pos += size
	}
	return pos
}

// splitBehavior is the treatment of the matches of a split.
type splitBehavior uint8

const (
	splitIsolated splitBehavior = iota
	splitRemoved
	splitMergedWithPrevious
	splitMergedWithNext
	splitContiguous
)

var splitBehaviors = map[string]splitBehavior{
	"Isolated": splitIsolated, "Removed": splitRemoved, "MergedWithPrevious": splitMergedWithPrevious,
	"MergedWithNext": splitMergedWithNext, "Contiguous": splitContiguous,
}

// splitter cuts a piece at the matches of a pattern.
type splitter struct {
	find     finder
	behavior splitBehavior
	invert   bool
}

// split implements stage.
func (s *splitter) split(p piece, emit func(piece)) error {
	if d, ok := s.find.(*dfa); ok && s.behavior == splitIsolated {
		isolate(d, p, emit)
		return nil
	}
	m := merger{text: p.text, first: p.first, behavior: s.behavior, emit: emit}
	prev := 0
	err := s.find.each(p.text, func(start, end int) {
		m.add(prev, start, s.invert)
		m.add(start, end, !s.invert)
		if start == end {
			m.flush()
		}
		prev = end
	})
	m.add(prev, len(p.text), s.invert)
	m.flush()
	return err
}

// isolate is the common case without its bookkeeping: every match and every gap is a piece.
func isolate(d *dfa, p piece, emit func(piece)) {
	for pos := 0; pos < len(p.text); {
		start, end, ok := d.next(p.text, pos)
		if !ok {
			start, end = len(p.text), len(p.text)
		}
		if start > pos {
			emit(piece{p.text[pos:start], p.first && pos == 0})
		}
		if end > start {
			emit(piece{p.text[start:end], p.first && start == 0})
		}
		pos = end
	}
}

// merger turns the alternation of matches and gaps into pieces.
type merger struct {
	text       string
	first      bool
	behavior   splitBehavior
	emit       func(piece)
	start, end int  // the interval not yet emitted
	pending    bool // there is one
	wasMatch   bool // and it ended in a match
}

func (m *merger) add(start, end int, match bool) {
	if start == end {
		return
	}
	join := false
	switch m.behavior {
	case splitRemoved:
		if match {
			m.flush()
			return
		}
	case splitContiguous:
		join = m.pending && match == m.wasMatch
	case splitMergedWithPrevious:
		join = m.pending && match && !m.wasMatch
	case splitMergedWithNext:
		join = m.pending && !match && m.wasMatch
	}
	if join {
		m.end, m.wasMatch = end, match
		return
	}
	m.flush()
	m.start, m.end, m.pending, m.wasMatch = start, end, true, match
}

func (m *merger) flush() {
	if m.pending {
		m.emit(piece{m.text[m.start:m.end], m.first && m.start == 0})
	}
	m.pending = false
}
