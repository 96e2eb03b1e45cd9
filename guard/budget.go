package guard

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds the bytes that are in use at once. A quarter of it is for small claims alone, so that they never wait
// for large ones. Its methods may be called from several goroutines.
//
// Whoever claims much memory also works on it: with atOnce, a Budget keeps many that do from taking all processors from
// those who claim little, and while models compute on them (Computing), it keeps any one client from taking much of
// them.
type Budget struct {
	mu           sync.Mutex
	small, large lane
}

// AtOnce is how many large claims may be worked on at once beside a model: a quarter of Go's processors, as they are at
// the start.
var AtOnce = max(1, runtime.GOMAXPROCS(0)/4)

// heavy counts the large claims that Budgets with atOnce have given.
var heavy atomic.Int64

// Heavy returns how many processors large claims are worked on with, in all Budgets that bound those at once.
func Heavy() int { return int(heavy.Load()) }

// smallShare is the part of a Budget that a small claim takes at most.
const smallShare = 256

// lane is a part of a Budget. Those who wait take turns, and the claims of each come in order of arrival.
type lane struct {
	size, free  int64
	most, given int // claims at once, 0 is any number; and those that have bytes
	waiting     []*claim
	looks       bool           // admit is to be called in a while
	turns       map[string]int // of those who had one while others waited: which one it was
	turn        int
}

type claim struct {
	who   string
	bytes int64
	began time.Time     // when the bytes were taken
	ready chan struct{} // closed then
}

// NewBudget returns a Budget of so many bytes, at least 4, that gives to at most atOnce large claims at a time, 0 for
// any number.
func NewBudget(bytes int64, atOnce int) *Budget {
	few := max(bytes/4, 1)
	rest := max(bytes-few, 1)
	return &Budget{small: lane{size: few, free: few, turns: map[string]int{}},
		large: lane{size: rest, free: rest, most: atOnce, turns: map[string]int{}}}
}

type whoKey struct{}

// As returns a context whose claims are in the turn of whom a name says; those of other contexts are in that of "".
func As(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, whoKey{}, who)
}

// Who is whose turn the claims of a context are in.
func Who(ctx context.Context) string { who, _ := ctx.Value(whoKey{}).(string); return who }

// most is the most bytes of a small claim.
func (b *Budget) most() int64 { return (b.small.size + b.large.size) / smallShare }

func (b *Budget) lane(small bool) *lane {
	if small {
		return &b.small
	}
	return &b.large
}

// Acquire waits until so many bytes are free, and takes them until release is called, once. A claim for more than there
// are takes all. It returns the cause of ctx's end if that comes first.
func (b *Budget) Acquire(ctx context.Context, bytes int64) (release func(), err error) {
	l := b.lane(bytes <= b.most())
	c := &claim{who: Who(ctx), bytes: min(max(bytes, 0), l.size), ready: make(chan struct{})}
	release = func() { b.end(l, c) }
	b.mu.Lock()
	l.waiting = append(l.waiting, c)
	b.admit(l)
	b.mu.Unlock()
	select {
	case <-c.ready:
		return release, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range l.waiting {
		if w == c {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			b.admit(l) // those behind it may be smaller
			return nil, context.Cause(ctx)
		}
	}
	return release, nil // it came at the same time
}

// Try takes bytes of one lane if they are free now. Give gives them back, all at once or in pieces, so atOnce does not
// count them.
func (b *Budget) Try(small bool, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lane(small)
	if len(l.waiting) > 0 || bytes > l.free {
		return false
	}
	l.free -= bytes
	return true
}

// Give gives back bytes that Try took.
func (b *Budget) Give(small bool, bytes int64) { b.give(b.lane(small), bytes) }

func (b *Budget) give(l *lane, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.free += bytes
	b.admit(l)
}

// end gives back what a claim has.
func (b *Budget) end(l *lane, c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.given--
	l.free += c.bytes
	if l.most > 0 {
		heavy.Add(-1)
		work.worked(c.who, time.Since(c.began))
	}
	b.admit(l)
}

// admit gives free bytes to those who wait. The caller holds mu.
func (b *Budget) admit(l *lane) {
	for len(l.waiting) > 0 && (l.most == 0 || l.given < l.most) {
		i := l.next()
		if i < 0 {
			b.look(l)
			return
		}
		c := l.waiting[i]
		if c.bytes > l.free {
			return
		}
		l.free, l.given, c.began = l.free-c.bytes, l.given+1, time.Now()
		if l.most > 0 {
			heavy.Add(1)
		}
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.turn++
		l.turns[c.who] = l.turn
		close(c.ready)
	}
	if len(l.waiting) == 0 {
		clear(l.turns)
	}
}

// next returns which of those who wait is next: of those who may work, the first claim of who had a turn longest ago.
// -1 is none.
func (l *lane) next() int {
	next := -1
	for i, c := range l.waiting {
		if (next < 0 || l.turns[c.who] < l.turns[l.waiting[next].who]) && (l.most == 0 || work.ready(c.who)) {
			next = i
		}
	}
	return next
}

// look admits again in a while.
func (b *Budget) look(l *lane) {
	if l.looks {
		return
	}
	l.looks = true
	After(paceLook, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		l.looks = false
		b.admit(l)
		return nil
	}, func(error) {})
}

// Used returns the bytes that are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.small.size - b.small.free + b.large.size - b.large.free
}
