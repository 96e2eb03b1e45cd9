package grammar

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// compileTags returns the expression of free text with tags.
func compileTags(a *arena, p *prelude, t *Tags, v *Vocab, l Limits) (id, error) {
	if len(t.Tags) == 0 {
		return none, &Error{Path: "tags", Problem: "is empty"}
	}
	triggers := t.Triggers
	if len(triggers) == 0 {
		for _, tag := range t.Tags {
			triggers = append(triggers, tag.Begin)
		}
	}
	after := make([][]id, len(triggers)) // what may follow each trigger
	var parts []id
	for i := range t.Tags {
		tag := &t.Tags[i]
		path := fmt.Sprintf("tags[%d]", i)
		content, err := compileSpec(a, p, &tag.Content, v, l)
		if err != nil {
			if e, ok := err.(*Error); ok {
				err = &Error{Path: strings.TrimSuffix(path+".content."+e.Path, "."), Problem: e.Problem}
			}
			return none, err
		}
		if t.NoText { // nothing has to tell a tag from text
			parts = append(parts, a.seq(a.literal(v.marked(tag.Begin)), content, a.literal(v.marked(tag.End))))
			continue
		}
		found := false
		for j, trigger := range triggers {
			if rest, ok := strings.CutPrefix(tag.Begin, trigger); ok && trigger != "" {
				found = true
				after[j] = append(after[j], a.seq(a.literal(v.marked(rest)), content, a.literal(v.marked(tag.End))))
				break
			}
		}
		if !found {
			return none, &Error{Path: path + ".begin", Problem: fmt.Sprintf("%q begins with no trigger", tag.Begin)}
		}
	}
	most := int32(t.AtMost)
	if most == 0 {
		most = -1
	}
	if t.NoText {
		return a.separated(a.choice(parts...), a.literal(v.marked(t.Between)), int32(t.AtLeast), most), nil
	}
	// Text up to a trigger has it once, at its end: it ends the shortest string with one in it.
	any := a.star(a.runes(runeSet{{0, utf8.MaxRune}}))
	begun := make([]id, len(triggers))
	for i, trigger := range triggers {
		begun[i] = a.literal(v.marked(trigger))
	}
	with := a.cat(any, a.alt(begun...), all)
	text := a.and(any, a.not(with))
	for i := range triggers {
		lead := a.and(a.cat(any, begun[i]), a.not(a.cat(with, a.bytes(0, 0xFF))))
		parts = append(parts, a.seq(lead, a.choice(after[i]...)))
	}
	x := a.many(a.choice(parts...), int32(t.AtLeast), most)
	if t.NoTail {
		return x, nil
	}
	return a.seq(x, text), nil
}

// separated matches x, lo to hi times, with a separator between each two; hi is -1 for no limit.
func (a *arena) separated(x, separator id, lo, hi int32) id {
	if separator == empty {
		return a.many(x, lo, hi)
	}
	if hi > 0 {
		hi--
	}
	some := a.seq(x, a.many(a.seq(separator, x), max(lo-1, 0), hi))
	if lo == 0 {
		return a.choice(empty, some)
	}
	return some
}

// marked returns text in which the spellings of special tokens are the bytes that stand for them.
func (v *Vocab) marked(text string) string {
	for name, id := range v.special {
		if name != "" && strings.Contains(text, name) {
			text = strings.ReplaceAll(text, name, spell(id))
		}
	}
	return text
}
