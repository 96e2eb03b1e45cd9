package tokenizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// dfa is a pattern compiled to a table: leftmost-first matching (what a backtracking engine finds) in one pass over
// the text, with one rune of lookahead. State 0 is dead. A transition is next<<1 | matched, where matched says that
// a match ends before the rune that was just read; each state has one more column for the end of the text.
//
// The construction is Pike's simulation with thread priorities, determinised ahead of time: a state is the ordered
// list of the threads that wait for a rune. See Cox, "Regular Expression Matching: the Virtual Machine Approach".
type dfa struct {
	classes *classTable
	trans   []uint32
	width   int       // columns per state: classes.count + 1
	starts  [128]bool // ASCII runes that a match may begin with
}

const (
	maxInsts  = 20000
	maxStates = 8000
	maxWork   = 1 << 25 // instructions followed while compiling
	dfaStart  = 1
)

type inst struct {
	op    instOp
	set   int // iRune, iLook: index into the sets
	atEnd bool
	x, y  int
}

type instOp uint8

const (
	iRune instOp = iota
	iLook
	iSplit
	iMatch
)

// compileDFA compiles a pattern; after an error that wraps errUnsupported the pattern may still be valid.
func compileDFA(pattern string) (*dfa, error) {
	root, err := parseRegex(pattern)
	if err != nil {
		return nil, err
	}
	return compileNode(root)
}

func compileNode(root *node) (*dfa, error) {
	b := &dfaBuilder{setIndex: map[string]int{}, states: map[string]uint32{}}
	b.insts = append(b.insts, inst{op: iMatch})
	entry, err := b.emit(root, 0)
	if err != nil {
		return nil, err
	}
	return b.build(entry)
}

type dfaBuilder struct {
	insts    []inst
	sets     []charset
	setIndex map[string]int
	member   [][]bool
	states   map[string]uint32
	lists    [][]int // threads of each state

	seen, queued []int // generation marks by instruction
	gen, work    int
	next         []int
	matched      bool
}

func (b *dfaBuilder) add(i inst) (int, error) {
	if len(b.insts) >= maxInsts {
		return 0, fmt.Errorf("pattern needs more than %d instructions", maxInsts)
	}
	b.insts = append(b.insts, i)
	return len(b.insts) - 1, nil
}

func (b *dfaBuilder) setID(s charset) int {
	key := fmt.Sprint(s)
	id, ok := b.setIndex[key]
	if !ok {
		id = len(b.sets)
		b.setIndex[key] = id
		b.sets = append(b.sets, s)
	}
	return id
}

// emit writes the instructions of n followed by next and returns the entry.
func (b *dfaBuilder) emit(n *node, next int) (entry int, err error) {
	switch n.op {
	case opSet:
		return b.add(inst{op: iRune, set: b.setID(n.set), x: next})
	case opLook:
		return b.add(inst{op: iLook, set: b.setID(n.set), atEnd: n.atEnd, x: next})
	case opConcat:
		for i := len(n.sub) - 1; i >= 0 && err == nil; i-- {
			next, err = b.emit(n.sub[i], next)
		}
		return next, err
	case opAlt:
		entry, err = b.emit(n.sub[len(n.sub)-1], next)
		for i := len(n.sub) - 2; i >= 0 && err == nil; i-- {
			var x int
			if x, err = b.emit(n.sub[i], next); err == nil {
				entry, err = b.add(inst{op: iSplit, x: x, y: entry})
			}
		}
		return entry, err
	}
	return b.emitRepeat(n, next)
}

func (b *dfaBuilder) emitRepeat(n *node, next int) (entry int, err error) {
	split := func(body, skip int) inst {
		if n.lazy {
			return inst{op: iSplit, x: skip, y: body}
		}
		return inst{op: iSplit, x: body, y: skip}
	}
	entry = next
	if n.max < 0 {
		loop, err := b.add(inst{})
		if err != nil {
			return 0, err
		}
		body, err := b.emit(n.sub[0], loop)
		if err != nil {
			return 0, err
		}
		b.insts[loop] = split(body, next)
		entry = loop
	}
	for i := n.min; i < n.max; i++ {
		body, err := b.emit(n.sub[0], entry)
		if err != nil {
			return 0, err
		}
		if entry, err = b.add(split(body, next)); err != nil {
			return 0, err
		}
	}
	for range n.min {
		if entry, err = b.emit(n.sub[0], entry); err != nil {
			return 0, err
		}
	}
	return entry, nil
}

// build explores every reachable state.
func (b *dfaBuilder) build(entry int) (*dfa, error) {
	classes, member, ok := partition(b.sets)
	if !ok {
		return nil, fmt.Errorf("too many character classes: %w", errUnsupported)
	}
	b.member = member
	b.seen = make([]int, len(b.insts))
	b.queued = make([]int, len(b.insts))
	d := &dfa{classes: classes, width: classes.count + 1}
	b.state(nil)
	b.state([]int{entry})
	for s := 0; s < len(b.lists); s++ {
		if len(b.lists) > maxStates || b.work > maxWork {
			return nil, fmt.Errorf("pattern needs too many states: %w", errUnsupported)
		}
		for c := range d.width {
			b.step(b.lists[s], c, c == classes.count)
			t := b.state(b.next) << 1
			if b.matched {
				t |= 1
				if s == dfaStart {
					return nil, fmt.Errorf("pattern matches the empty text: %w", errUnsupported)
				}
			}
			d.trans = append(d.trans, t)
		}
	}
	for r, c := range classes.ascii {
		d.starts[r] = d.trans[dfaStart*d.width+int(c)] != 0
	}
	return d, nil
}

func (b *dfaBuilder) state(list []int) uint32 {
	key := make([]byte, 0, 4*len(list))
	for _, pc := range list {
		key = binary.LittleEndian.AppendUint32(key, uint32(pc))
	}
	id, ok := b.states[string(key)]
	if !ok {
		id = uint32(len(b.lists))
		b.states[string(key)] = id
		b.lists = append(b.lists, append([]int(nil), list...))
	}
	return id
}

// step computes what the threads in list become on a rune of class c, or at the end of the text.
func (b *dfaBuilder) step(list []int, c int, end bool) {
	b.gen++
	b.next, b.matched = b.next[:0], false
	for _, pc := range list {
		if b.follow(pc, c, end); b.matched {
			return
		}
	}
}

func (b *dfaBuilder) follow(pc, c int, end bool) {
	for b.seen[pc] != b.gen {
		b.seen[pc] = b.gen
		b.work++
		in := &b.insts[pc]
		switch in.op {
		case iMatch:
			b.matched = true
			return
		case iLook:
			if end && !in.atEnd || !end && !b.member[in.set][c] {
				return
			}
			pc = in.x
		case iSplit:
			if b.follow(in.x, c, end); b.matched {
				return
			}
			pc = in.y
		case iRune:
			if !end && b.member[in.set][c] && b.queued[in.x] != b.gen {
				b.queued[in.x] = b.gen
				b.next = append(b.next, in.x)
			}
			return
		}
	}
}

// match returns the end of the match that begins at pos, or -1, and how far it read. With a trail, it stops where an
// earlier attempt that failed was in the same state.
func (d *dfa) match(text string, pos int, t *trail) (end, read int) {
	end = -1
	state := uint32(dfaStart)
	for pos < len(text) {
		var c uint8
		size := 1
		if b := text[pos]; b < utf8.RuneSelf {
			c = d.classes.ascii[b]
		} else {
			var r rune
			r, size = utf8.DecodeRuneInString(text[pos:])
			c = d.classes.class(r)
		}
		if t != nil && t.visit(pos, state) {
			return end, pos
		}
		tr := d.trans[int(state)*d.width+int(c)]
		if tr&1 != 0 {
			end = pos
		}
		if state = tr >> 1; state == 0 {
			return end, pos
		}
		pos += size
	}
	if d.trans[int(state)*d.width+d.width-1]&1 != 0 {
		end = pos
	}
	return end, pos
}

// trail remembers the states of failed attempts, so that a pattern which reads far ahead in vain (`\s+$` in a long
// run of spaces) stays linear: an attempt that reaches a remembered state at the same place fails too.
type trail struct {
	base   int
	states []uint32
}

func (t *trail) visit(pos int, state uint32) (failed bool) {
	i := pos - t.base
	for len(t.states) <= i {
		t.states = append(t.states, 0)
	}
	if t.states[i] == state {
		return true
	}
	t.states[i] = state
	return false
}

// next returns the first match at or after pos.
func (d *dfa) next(text string, pos int) (start, end int, ok bool) {
	const farAhead = 64 // bytes
	var t *trail
	for pos < len(text) {
		if b := text[pos]; b < utf8.RuneSelf && !d.starts[b] {
			pos++
			continue
		}
		end, read := d.match(text, pos, t)
		if end >= 0 {
			return pos, end, true
		}
		if t == nil && read-pos > farAhead {
			t = &trail{base: pos}
			d.match(text, pos, t)
		}
		if text[pos] < utf8.RuneSelf {
			pos++
		} else {
			_, size := utf8.DecodeRuneInString(text[pos:])
			pos += size
		}
	}
	return 0, 0, false
}

// compilePattern compiles a pattern to the automaton, or to a backtracking engine where the automaton cannot
// express it.
func compilePattern(pattern string) (finder, error) {
	if f, ok := digitGrouping(pattern); ok {
		return f, nil
	}
	d, err := compileDFA(pattern)
	if errors.Is(err, errUnsupported) {
		return compileBacktracking(pattern, err)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: pattern %q: %w", pattern, err)
	}
	return d, nil
}
