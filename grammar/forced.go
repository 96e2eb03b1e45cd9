package grammar

import (
	"bytes"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// mostForced bounds the bytes that are forced at once.
const mostForced = 256

// Forced returns the tokens that must come next, as the vocabulary's tokenizer writes them; nil where there is a
// choice. It leaves out tokens at the end that might be others if the text after them were known.
func (m *Matcher) Forced() []int32 {
	v := m.g.vocab
	if v.encode == nil || m.err != nil || m.over {
		return nil
	}
	m.m.budget = m.g.limits.Work
	text, end := m.forcedText()
	if !m.check() || len(text) == 0 {
		return nil
	}
	if i := bytes.IndexByte(text, mark); i == 0 {
		return v.marker(text)
	} else if i > 0 {
		text = text[:i]
		end = failed // the special token is no text: nothing merges with it
	}
	before := ""
	if m.last >= 0 {
		if t := v.tokens[m.last]; !t.Special {
			before = string(t.Bytes)
		}
	}
	if !utf8.ValidString(before + string(text)) {
		return nil
	}
	ids := v.encode(before + string(text))
	if before != "" {
		if len(ids) == 0 || ids[0] != m.last {
			return nil // the tokenizer would not have written the last token
		}
		ids = ids[1:]
	}
	sure := v.sure(m.m, text, end)
	if !m.check() {
		return nil
	}
	at := 0
	for i, t := range ids {
		if t < 0 || int(t) >= v.size || v.tokens[t].Special || !bytes.HasPrefix(text[at:], v.tokens[t].Bytes) || len(v.tokens[t].Bytes) == 0 {
			return nil // the tokenizer adds to the text, or changes it
		}
		if at += len(v.tokens[t].Bytes); at > sure {
			return slices.Clone(ids[:i])
		}
	}
	return slices.Clone(ids)
}

// forcedText returns the bytes that must come next, up to a limit, and the state after them.
func (m *Matcher) forcedText() ([]byte, int32) {
	var text []byte
	s := m.state
	for len(text) < mostForced && !m.m.states[s].accepts && m.m.budget >= 0 {
		live := m.m.movesOf(s).live
		n, b := 0, 0
		for i, w := range live {
			if n += bits.OnesCount64(w); w != 0 {
				b = i*64 + bits.TrailingZeros64(w)
			}
		}
		if n != 1 {
			break
		}
		t := m.m.move(s, byte(b))
		if t == failed {
			break
		}
		s = t
		text = append(text, byte(b))
	}
	return text, s
}

// marker returns the special token that text begins with, if it is whole.
func (v *Vocab) marker(text []byte) []int32 {
	end := bytes.IndexByte(text, ']')
	if end < 0 {
		return nil
	}
	id, err := strconv.Atoi(string(text[2:end]))
	if err != nil {
		return nil
	}
	return []int32{int32(id)}
}

// sure returns how many bytes of a text are before every token that might reach beyond it, when state s follows.
func (v *Vocab) sure(m *automaton, text []byte, s int32) int {
	if s == failed {
		return len(text)
	}
	live := m.movesOf(s).live
	for from := range text {
		p, ok := int32(0), true
		for _, b := range text[from:] {
			if p, ok = v.child(p, b); !ok {
				break
			}
		}
		if !ok {
			continue
		}
		for q := p + 1; q < v.nodes[p].end; q = v.nodes[q].end {
			if live.has(v.nodes[q].byte) {
				return from
			}
		}
	}
	return len(text)
}

// child returns the node that a byte leads to.
func (v *Vocab) child(p int32, b byte) (int32, bool) {
	for q := p + 1; q < v.nodes[p].end; q = v.nodes[q].end {
		if v.nodes[q].byte == b {
			return q, true
		}
	}
	return 0, false
}
