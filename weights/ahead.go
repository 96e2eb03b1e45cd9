package weights

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/kvasir-llm/kvasir/guard"
)

// readAhead is what the system was told to read before it is wanted.
type readAhead struct {
	mu      sync.Mutex
	pieces  [][]bool // of each part, whether a piece of pieceBytes was named
	running guard.Group
	closing atomic.Bool
}

// aheadBytes is how much of a file is read ahead, in pieces: what a fast disk reads in some tens of milliseconds.
const aheadBytes, pieceBytes = 256 << 20, 16 << 20

// Ahead tells the system that data, all or part of a tensor's, will be read now, and soon what follows in its file and
// in the files after that. It does not wait: the disk reads while the caller does something else, from many places at
// once.
func (c *Checkpoint) Ahead(data []byte) {
	p, at, ok := c.find(data)
	if !ok || c.ahead.closing.Load() {
		return
	}
	next := c.ahead.claim(c.parts, p, at, len(data)+aheadBytes)
	if len(next) == 0 {
		return
	}
	c.ahead.running.Start(func() error {
		for _, piece := range next {
			if !c.ahead.closing.Load() {
				soonNeeded(piece)
			}
		}
		return nil
	})
}

// Read copies data, all or part of a tensor's, by way of its file, if it has one: where each byte is read once, that is
// faster than mapping its page. Several goroutines may call it.
func (c *Checkpoint) Read(dst, data []byte) {
	if p, at, ok := c.find(data); ok && c.parts[p].file != nil {
		if n, _ := c.parts[p].file.ReadAt(dst[:len(data)], int64(at)); n == len(data) {
			return
		}
	}
	copy(dst, data)
}

// claim returns the pieces of n bytes from byte at of part p on that were not named before.
func (a *readAhead) claim(parts []part, p, at, n int) (next [][]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pieces == nil {
		a.pieces = make([][]bool, len(parts))
	}
	for ; p < len(parts) && n > 0; p, at = p+1, 0 {
		m := &parts[p].mapping
		if m.unmap == nil { // it is in memory
			continue
		}
		if a.pieces[p] == nil {
			a.pieces[p] = make([]bool, (len(m.data)+pieceBytes-1)/pieceBytes)
		}
		for i := at / pieceBytes; i < len(a.pieces[p]) && i*pieceBytes < at+n; i++ {
			if !a.pieces[p][i] {
				a.pieces[p][i] = true
				next = append(next, m.data[i*pieceBytes:min((i+1)*pieceBytes, len(m.data))])
			}
		}
		n -= len(m.data) - at
	}
	return next
}

// end returns when nothing is named any more.
func (a *readAhead) end() {
	a.closing.Store(true)
	_ = a.running.Wait() // advice that failed is none
}

// find returns which part data is in, and where.
func (c *Checkpoint) find(data []byte) (part, at int, ok bool) {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for i := range c.parts {
		m := &c.parts[i].mapping
		from := uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		if begin >= from && begin-from+uintptr(len(data)) <= uintptr(len(m.data)) {
			return i, int(begin - from), true
		}
	}
	return 0, 0, false
}
