package guard

import (
	"context"
	"sync"
)

// Budget bounds the bytes that are in use at once. A quarter of it is for small claims alone, so that they never wait
// for large ones. Its methods may be called from several goroutines.
type Budget struct {
	mu           sync.Mutex
	small, large lane
}

// smallShare is the part of a Budget that a small claim takes at most.
const smallShare = 256

// lane is a part of a Budget. Claims that wait get their bytes in order of arrival.
type lane struct {
	size, free int64
	waiting    []*claim
}

type claim struct {
	bytes int64
	ready chan struct{} // closed when the bytes are taken
}

// NewBudget returns a Budget of so many bytes, at least 4.
func NewBudget(bytes int64) *Budget {
	few := max(bytes/4, 1)
	rest := max(bytes-few, 1)
	return &Budget{small: lane{size: few, free: few}, large: lane{size: rest, free: rest}}
}

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
	c := &claim{min(max(bytes, 0), l.size), make(chan struct{})}
	release = func() { b.give(l, c.bytes) }
	b.mu.Lock()
	if len(l.waiting) == 0 && c.bytes <= l.free {
		l.free -= c.bytes
		b.mu.Unlock()
		return release, nil
	}
	l.waiting = append(l.waiting, c)
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
			l.admit() // those behind it may be smaller
			return nil, context.Cause(ctx)
		}
	}
	return release, nil // it came at the same time
}

// Try takes bytes of one lane if they are free now. Give gives them back.
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
	l.admit()
}

// admit gives free bytes to those who wait. The caller holds mu.
func (l *lane) admit() {
	for len(l.waiting) > 0 && l.waiting[0].bytes <= l.free {
		c := l.waiting[0]
		l.free -= c.bytes
		l.waiting = l.waiting[1:]
		close(c.ready)
	}
}

// Used returns the bytes that are taken.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.small.size - b.small.free + b.large.size - b.large.free
}
