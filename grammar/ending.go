package grammar

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
)

// mostText bounds the bytes of an ending.
const mostText = 4096

// Ending returns tokens that complete the output in about the shortest way, without the one that ends it; false if none
// of at most most tokens is found.
func (m *Matcher) Ending(most int) ([]int32, bool) {
	if m.err != nil || m.over {
		return nil, false
	}
	m.m.budget = m.g.limits.Work
	if m.m.short == nil {
		m.m.short = &shortest{automaton: m.m, least: m.g.limits.Work / 4 * 3, rules: map[int32]found{}}
	}
	best := m.m.short.after(m.state)
	if !m.check() || !best.ok {
		return nil, false
	}
	ids := m.g.vocab.spelled(best.text.append(nil))
	return ids, len(ids) <= most
}

// spelled returns tokens that spell a text, in which bytes may stand for special tokens: as the tokenizer writes them,
// or else the longest ones.
func (v *Vocab) spelled(text []byte) (ids []int32) {
	for len(text) > 0 {
		if text[0] == mark {
			ids = append(ids, v.marker(text)...)
			text = text[bytes.IndexByte(text, ']')+1:]
			continue
		}
		part := text
		if i := bytes.IndexByte(text, mark); i > 0 {
			part = text[:i]
		}
		text = text[len(part):]
		ids = v.appendSpelled(ids, part)
	}
	return ids
}

func (v *Vocab) appendSpelled(ids []int32, part []byte) []int32 {
	if v.encode != nil {
		usual, spells := v.encode(string(part)), []byte(nil)
		for _, t := range usual {
			if t >= 0 && int(t) < v.size && !v.tokens[t].Special {
				spells = append(spells, v.tokens[t].Bytes...)
			}
		}
		if bytes.Equal(spells, part) {
			return append(ids, usual...)
		}
	}
	for len(part) > 0 {
		best, n := int32(-1), 1
		for p, i := int32(0), 0; i < len(part); i++ {
			var ok bool
			if p, ok = v.child(p, part[i]); !ok {
				break
			}
			if t := v.tokensAt(p); len(t) > 0 {
				best, n = t[0], i+1
			}
		}
		ids, part = append(ids, best), part[n:] // -1, which is never accepted, if the vocabulary lacks a byte
	}
	return ids
}

// shortest finds short texts that complete an output: of expressions, and of states, which are sums of them.
//
// The text of a rule may need that of the rule itself. So all is computed again, each time with the rules' texts of the
// time before, until these do not become shorter: the Bellman-Ford algorithm.
type shortest struct {
	*automaton
	least int // the search is given up when so little work is left
	rules map[int32]found
	now   *pass  // the last one
	ropes int64  // that passes have made
	room  []byte // of two texts that are compared
}

// pass is what one of these computations has found.
type pass struct {
	exprs   map[id]found
	states  map[int32]found
	open    map[int32]bool // rules whose bodies were begun
	shorter bool           // a rule's text has become shorter
}

// bytes returns about how much memory it takes.
func (f *shortest) bytes() int64 {
	n := 64*int64(len(f.rules)) + 64*f.ropes
	if f.now != nil {
		n += 64 * int64(len(f.now.exprs)+len(f.now.states)+len(f.now.open))
	}
	return n
}

// found is a text, if there is one.
type found struct {
	text *rope
	ok   bool
}

// rope is a text as a tree: left times times, then right, or own. Texts share their parts, so that those of all
// expressions take no more memory than the expressions. nil is the empty text.
type rope struct {
	left, right *rope
	own         string
	n, times    int32 // bytes
}

func (t *rope) len() int {
	if t == nil {
		return 0
	}
	return int(t.n)
}

// append appends the text to b.
func (t *rope) append(b []byte) []byte {
	for ; t != nil; t = t.right {
		b = append(b, t.own...)
		for range t.times {
			b = t.left.append(b)
		}
	}
	return b
}

// after returns a text that completes an output in a state.
func (f *shortest) after(s int32) found {
	for {
		if f.now == nil || f.now.shorter {
			f.now = &pass{exprs: map[id]found{}, states: map[int32]found{}, open: map[int32]bool{}}
		}
		best := f.state(s)
		if f.budget < f.least {
			f.now = nil // which says of some texts that there are none
			return found{}
		}
		if !f.now.shorter {
			return best
		}
	}
}

// shorter returns the shorter of two texts, of equally long ones the plainer, of equal ones x. So what is found does
// not depend on the order in which the expressions of an automaton were made.
func (f *shortest) shorter(x, y found) found {
	switch {
	case !x.ok || y.ok && y.text.len() < x.text.len():
		return y
	case !y.ok || y.text.len() > x.text.len() || x.text == y.text:
		return x
	}
	n := x.text.len()
	f.budget -= n / textPerWork
	f.room = y.text.append(x.text.append(f.room[:0]))
	if plainer(f.room[n:], f.room[:n]) {
		return y
	}
	return x
}

// textPerWork is how many bytes of two texts are compared in the time of a derivative.
const textPerWork = 8

// plainer reports whether x comes before y, a text of its length, in an order in which control characters come last.
func plainer(x, y []byte) bool {
	for i := range x {
		if a, b := x[i]-' ', y[i]-' '; a != b {
			return a < b
		}
	}
	return false
}

// plus returns one text after another.
func (f *shortest) plus(x, y found) found {
	n := x.text.len() + y.text.len()
	switch {
	case !x.ok || !y.ok || n > mostText:
		return found{}
	case x.text == nil:
		return y
	case y.text == nil:
		return x
	}
	f.ropes++
	return found{&rope{left: x.text, right: y.text, n: int32(n), times: 1}, true}
}

// times returns a text n times.
func (f *shortest) times(x found, n int32) found {
	switch {
	case n == 0:
		return found{ok: true}
	case !x.ok || x.text.len() > mostText/int(n):
		return found{}
	case x.text == nil:
		return x
	}
	f.ropes++
	return found{&rope{left: x.text, n: n * x.text.n, times: n}, true}
}

// own returns a text by itself.
func own[T string | []byte](text T) found {
	if len(text) == 0 {
		return found{ok: true}
	}
	return found{&rope{own: string(text), n: int32(len(text))}, true}
}

func (f *shortest) state(s int32) (best found) {
	if f.states[s].accepts {
		return found{ok: true}
	}
	if known, ok := f.now.states[s]; ok {
		return known
	}
	for _, t := range f.itemsOf(s) {
		best = f.shorter(best, f.plus(f.expr(t.x), f.state(t.rest)))
	}
	f.now.states[s] = best
	return best
}

// expr returns a short text that an expression matches.
func (f *shortest) expr(x id) (best found) {
	if known, ok := f.now.exprs[x]; ok {
		return known
	}
	if f.budget--; f.budget < f.least {
		return found{}
	}
	switch e := f.exprs[x]; e.kind {
	case kNone:
	case kEmpty:
		best.ok = true
	case kSet:
		best = own([]byte{plainest(f.setOf(x))})
	case kCat, kSeq:
		return f.chain(x)
	case kAlt, kChoice:
		for _, y := range f.list(x) {
			best = f.shorter(best, f.expr(y))
		}
	case kRep, kMany:
		if best.ok = true; e.b > 0 {
			best = f.times(f.expr(e.a), e.b)
		}
	case kRule:
		return f.rule(e.a)
	case kPairs, kTail:
		best = f.object(x)
	default:
		best = f.search(x)
	}
	f.now.exprs[x] = best
	return best
}

// chain returns a short text of a kCat or a kSeq, of which there may be as many within one another as a literal has
// bytes: a recursion would be as deep.
func (f *shortest) chain(x id) found {
	var all []id
	for ; f.budget >= f.least && (f.exprs[x].kind == kCat || f.exprs[x].kind == kSeq); x = f.exprs[x].b {
		if _, known := f.now.exprs[x]; known {
			break
		}
		f.budget--
		all = append(all, x)
	}
	best := f.expr(x)
	for _, x := range slices.Backward(all) {
		best = f.plus(f.expr(f.exprs[x].a), best)
		f.now.exprs[x] = best
	}
	return best
}

func (f *shortest) rule(r int32) found {
	if !f.now.open[r] {
		f.now.open[r] = true
		body := f.expr(f.arena.rules[r])
		if known := f.rules[r]; body.ok && f.shorter(known, body) != known {
			f.rules[r], f.now.shorter = body, true
		}
	}
	return f.rules[r]
}

// object returns the rest of an object: with the pairs that it needs, in the order in which they may come.
func (f *shortest) object(x id) found {
	all := found{ok: true}
	for all.ok && f.budget >= f.least {
		e := f.exprs[x]
		o := &f.objects[e.a]
		if e.kind == kTail {
			if f.mayEnd(e) {
				return f.plus(all, f.expr(o.end))
			}
			all = f.plus(all, f.expr(o.comma))
			e = f.exprs[f.pairs(e.a, e.b, e.c)]
		}
		_, need := f.count(&e)
		var best found
		needed := false
		f.openPairs(e, func(pair, tail id) {
			rest := f.exprs[tail]
			_, left := f.count(&rest)
			less := left < need
			if one := f.expr(pair); one.ok && (less && !needed || less == needed && (!best.ok || one.text.len() < best.text.len())) {
				best, x, needed = one, tail, less
			}
		})
		all = f.plus(all, best)
	}
	return found{}
}

// search finds a shortest text that a term matches by going through its derivatives.
func (f *shortest) search(x id) found {
	type step struct {
		at   id
		byte byte
	}
	how := map[id]step{x: {at: none}} // where each was reached from
	queue, next := []id{x}, []step(nil)
	for i := 0; i < len(queue) && f.budget >= f.least; i++ {
		y := queue[i]
		if f.nullable(y) {
			var text []byte
			for ; y != x; y = how[y].at {
				text = append(text, how[y].byte)
			}
			for i, j := 0, len(text)-1; i < j; i, j = i+1, j-1 {
				text[i], text[j] = text[j], text[i]
			}
			if len(text) > mostText {
				return found{}
			}
			return own(text)
		}
		next = next[:0]
		f.classes(y, func(z id, class *byteSet) { next = append(next, step{z, plainest(class)}) })
		slices.SortFunc(next, func(s, t step) int { return cmp.Compare(s.byte-' ', t.byte-' ') })
		for _, s := range next {
			if _, seen := how[s.at]; !seen && s.at != none && f.life[s.at] != dead {
				how[s.at] = step{y, s.byte}
				queue = append(queue, s.at)
			}
		}
	}
	return found{}
}

// plainest returns a byte of a set: the first one from the space on, if there is one.
func plainest(s *byteSet) byte {
	masked := *s
	masked[0] &^= 1<<' ' - 1
	for _, set := range []*byteSet{&masked, s} {
		for i, w := range set {
			if w != 0 {
				return byte(i*64 + bits.TrailingZeros64(w))
			}
		}
	}
	return 0
}
