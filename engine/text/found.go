package text

import (
	"cmp"
	"slices"

	"github.com/kvasir-llm/kvasir/grammar"
)

// finds bounds what answers find of their grammars, all together. Above the bound, what no answer uses is dropped
// first, then what can be found again. If what the answers under way need to go on is still too much, those that need
// most end. Only the engine's loop uses it.
type finds struct {
	most  int64 // bytes
	bytes int64
	all   []*find
	now   int // calls of settle
}

// find is what answers of one grammar have found together.
type find struct {
	c       *compiled
	origin  *grammar.Matcher // has accepted nothing; its clones follow the answers
	answers int              // that are under way
	asked   bool             // one of them is being asked: a panic leaves that so
	bytes   int64
	needs   int64 // bytes after it was last forgotten
	last    int   // finds.now when an answer asked last
	over    bool  // its answers end
}

// start begins an answer, which finds ready what others of the same form needed.
func (g *guides) start(c *compiled) *find {
	f := &g.found
	o := c.fresh.Swap(nil)
	if o == nil && (c.find == nil || c.find.asked) {
		o = c.Start()
	}
	if o != nil {
		g.mu.Lock()
		f.drop(func(x *find) bool { return x.c == c || !x.c.kept })
		g.mu.Unlock()
		c.find = &find{c: c, origin: o}
		f.all = append(f.all, c.find)
	}
	c.large.Store(c.find.origin.Large())
	c.find.answers++
	return c.find
}

// end ends an answer.
func (f *finds) end(x *find) {
	if x.answers--; x.answers == 0 && x != x.c.find {
		f.drop(func(y *find) bool { return y == x })
	}
}

// drop forgets those of some that no answer uses.
func (f *finds) drop(some func(*find) bool) {
	f.all = slices.DeleteFunc(f.all, func(x *find) bool {
		idle := x.answers == 0 && some(x)
		if idle {
			f.lose(x)
		}
		return idle
	})
}

// lose counts a find no more, and answers to come begin another.
func (f *finds) lose(x *find) {
	f.bytes -= x.bytes
	x.bytes = 0
	if x.c.find == x {
		x.c.find = nil
		x.c.large.Store(true)
	}
}

// measure counts what is found of a grammar anew.
func (f *finds) measure(x *find) {
	n := x.origin.Bytes()
	f.bytes += n - x.bytes
	x.bytes = n
}

// settle sees to it that all stay within the bound, after an answer has asked.
func (f *finds) settle(x *find) {
	f.now++
	x.last = f.now
	if x.over {
		return
	}
	if f.measure(x); f.bytes > f.most {
		f.reclaim()
	}
}

// reclaim frees a quarter of the bound, so that it is called seldom.
func (f *finds) reclaim() {
	goal := f.most / 4 * 3
	slices.SortFunc(f.all, func(x, y *find) int { return cmp.Compare(x.last, y.last) })
	f.drop(func(*find) bool { return f.bytes > goal })
	bySize := slices.Clone(f.all)
	slices.SortStableFunc(bySize, func(x, y *find) int { return cmp.Compare(y.bytes, x.bytes) })
	for _, x := range bySize {
		if f.bytes > goal && x.bytes > x.needs+x.needs/4 && !x.asked {
			x.origin.Forget()
			f.measure(x)
			x.needs = x.bytes
		}
	}
	slices.SortStableFunc(bySize, func(x, y *find) int { return cmp.Compare(y.bytes, x.bytes) })
	for _, x := range bySize {
		if f.bytes > goal {
			x.origin.End()
			x.over = true
			f.lose(x)
		}
	}
	f.all = slices.DeleteFunc(f.all, func(x *find) bool { return x.over })
}
