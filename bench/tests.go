package bench

import (
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"strings"
)

// Test is one measurement of a model.
type Test struct {
	Name  string
	Seqs  int // sequences computed together
	Depth int // tokens of each that are in the cache at the start
	Rows  int // prompt tokens of each to compute; 0 is a decode
	Steps int // of one token a sequence, of a decode
}

const (
	shortPrompt = 16 // the default depth of a decode
	batchSteps  = 32 // of a decode of several sequences
	maxTest     = 1 << 20
)

var testForm = regexp.MustCompile(`^(pp|tg|b)([0-9]{1,7})(?:x([0-9]{1,5}))?(?:@([0-9]{1,7}))?$`)

// ParseTests reads a list such as "pp512,tg128,b16@1024": a prompt of 512 tokens; 128 tokens decoded by one sequence;
// 16 sequences decoded together. pp512x16 are 16 such prompts, in steps that are as full as they can be. @ sets the
// number of tokens of each sequence in the cache at the start: by default 0 for a prompt and 16 for the others.
func ParseTests(list string) ([]Test, error) {
	var out []Test
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		m := testForm.FindStringSubmatch(name)
		if m == nil || m[3] != "" && m[1] != "pp" {
			return nil, fmt.Errorf("bench: test %q; want ppN, ppNxM, tgN or bN, and @DEPTH after it if need be, as in pp512,tg128,b16@1024", name)
		}
		n, _ := strconv.Atoi(m[2])
		t := Test{Name: name, Seqs: 1, Depth: shortPrompt}
		switch m[1] {
		case "pp":
			t.Rows, t.Depth = n, 0
			if m[3] != "" {
				t.Seqs, _ = strconv.Atoi(m[3])
			}
		case "tg":
			t.Steps = n
		case "b":
			t.Seqs, t.Steps = n, batchSteps
		}
		if m[4] != "" {
			t.Depth, _ = strconv.Atoi(m[4])
		}
		if n < 1 || t.Seqs < 1 || t.Seqs*t.length() > maxTest {
			return nil, fmt.Errorf("bench: test %q computes over %d tokens; want 1 to %d", name, t.Seqs*t.length(), maxTest)
		}
		out = append(out, t)
	}
	return out, nil
}

// length returns the tokens that a sequence has at the end.
func (t Test) length() int { return t.Depth + t.Rows + t.Steps }

// tokens returns the tokens that a run computes.
func (t Test) tokens() int { return t.Seqs * (t.Rows + t.Steps) }

// span is a part of a step: of each of some sequences rows tokens, from position start on.
type span struct{ first, seqs, rows, start int }

// plan walks through the steps of a run: prompts in steps of chunk rows, then decodes.
func (t Test) plan(chunk int) iter.Seq[[]span] {
	return func(yield func([]span) bool) {
		var step []span
		room := chunk
		for s := range t.Seqs {
			for at := 0; at < t.Rows; {
				n := min(room, t.Rows-at)
				step = append(step, span{s, 1, n, t.Depth + at})
				at, room = at+n, room-n
				if last := s == t.Seqs-1 && at == t.Rows; room == 0 || last {
					if !yield(step) {
						return
					}
					step, room = step[:0], chunk
				}
			}
		}
		for i := range t.Steps {
			if !yield([]span{{0, t.Seqs, 1, t.Depth + i}}) {
				return
			}
		}
	}
}

// logits returns how many rows of logits a span of the test wants: of the last token of a prompt, of each decoded one.
func (t Test) logits(s span) int {
	if t.Steps > 0 || s.start+s.rows == t.length() {
		return s.seqs
	}
	return 0
}
