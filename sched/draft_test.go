package sched

import (
	"slices"
	"strings"
	"testing"
)

// propose proposes tokens for a sequence, of which the first right ones go on as it would; whether the scheduler takes
// them must be as the machine knows. With wide set it is a tree, which has a wrong token, and one after that, beside
// each of these.
func (m *machine) propose(q *client, n, right int, wide bool) {
	var draft Draft
	tokens, last := slices.Clone(q.tokens), int32(-1)
	for i := range n {
		token := sample(digest(q.salt, tokens))
		wrong := 3 - token%3
		if wide {
			at := int32(len(draft.Tokens))
			draft.Tokens, draft.Parents = append(draft.Tokens, wrong, wrong), append(draft.Parents, last, at)
		} else if i >= right {
			token = wrong
		}
		if wide && i >= right {
			break
		}
		if tokens, draft.Tokens = append(tokens, token), append(draft.Tokens, token); wide {
			draft.Parents = append(draft.Parents, last)
			last = int32(len(draft.Tokens) - 1)
		}
	}
	err := m.s.Propose(q.id, draft)
	if ok := m.cfg.States == 0 && q.running && q.pending == 0 && q.computed == len(q.tokens)-1; ok != (err == nil) {
		m.t.Fatalf("sequence %d has computed %d of %d tokens, %d are on the way; %d are proposed: %v",
			q.id, q.computed, len(q.tokens), q.pending, n, err)
	}
	if err == nil {
		q.draft = draft
	}
}

// force tells what follows the known tokens of a sequence.
func (m *machine) force(q *client, tokens []int32) {
	unsure := false
	for _, st := range m.plans {
		for _, w := range st.packed {
			unsure = unsure || w.q == q && w.Start+w.N > len(q.tokens)
		}
	}
	n, ended, err := m.s.Force(q.id, tokens)
	if refused := m.cfg.States > 0 && unsure; refused != (err != nil) {
		m.t.Fatalf("sequence %d of %d tokens is forced: %v", q.id, len(q.tokens), err)
	}
	if err != nil {
		return
	}
	if want := min(len(tokens), q.limit-len(q.tokens)); n != want || ended != (len(q.tokens)+n == q.limit) {
		m.t.Fatalf("sequence %d of %d tokens takes %d more, %d may follow; ended %v", q.id, len(q.tokens), n, want, ended)
	}
	for _, st := range m.plans {
		for i := range st.packed {
			if w := &st.packed[i]; w.q == q && !w.lost {
				w.lost, w.sure = true, min(w.N, len(q.tokens)-w.Start)
			}
		}
	}
	m.forced += n
	q.computed, q.pending, q.draft, q.drafted = min(q.computed, len(q.tokens)), 0, Draft{}, false
	for _, token := range tokens[:n] {
		q.forced = append(q.forced, len(q.tokens))
		q.tokens = append(q.tokens, token)
	}
	if q.charged {
		m.tenants.served[q.tenant] += int64(n)
	}
	if ended {
		m.finish(q)
	}
}

// TestDraftIsChecked names what makes a draft neither list nor tree, and finds the list in a tree.
func TestDraftIsChecked(t *testing.T) {
	for want, d := range map[string]Draft{
		"2 tokens with 1 parents":                      {Tokens: []int32{1, 2}, Parents: []int32{-1}},
		"token 0 of a tree follows token 0":            {Tokens: []int32{1, 2}, Parents: []int32{0, -1}},
		"token 1 of a tree follows token -2":           {Tokens: []int32{1, 2}, Parents: []int32{-1, -2}},
		"tokens 1 and 2 of a tree are both 5 and foll": {Tokens: []int32{4, 5, 5}, Parents: []int32{-1, 0, 0}},
	} {
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", d, err, want)
		}
	}
	tree := Draft{Tokens: []int32{4, 5, 6, 6, 7, 8}, Parents: []int32{-1, -1, 1, 0, 3, 3}}
	if err := tree.Check(); err != nil {
		t.Error(err)
	}
	if got := tree.Chain(); got.Parents != nil || !slices.Equal(got.Tokens, []int32{4, 6, 7}) {
		t.Errorf("the list in %v is %v", tree, got)
	}
	if err := tree.Cut(3).Check(); err != nil {
		t.Errorf("the beginning of a tree: %v", err)
	}
}
