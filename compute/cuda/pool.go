package cuda

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"unsafe"
)

// pool is pinned memory that callers fill and read themselves: blocks in it are copied to and from the device without a
// detour. Its own grows piece by piece up to poolBytes; callers add theirs.
type pool struct {
	mu     sync.Mutex
	pieces []piece // ascending
	bytes  int     // of its own
	last   pinned  // of its own
	left   int     // of last
}

// piece is memory in the pool.
type piece struct {
	pinned
	callers []byte // nil: it is the pool's
}

// poolBytes is the most memory of a program's own pool, and poolPiece what it takes at once.
const poolBytes, poolPiece = 256 << 20, 16 << 20

// Pinned returns n bytes of pinned memory, which are the program's until it is closed, or nil if it gives no more.
func (p *program) Pinned(n int) []byte {
	l := &p.pool
	l.mu.Lock()
	defer l.mu.Unlock()
	size := roundUp(n, 64)
	if l.left < size {
		if !p.morePinned(max(size, poolPiece)) {
			return nil
		}
	}
	at := l.last.n - l.left
	l.left -= size
	return view[byte](l.last, at, n)
}

// morePinned adds a piece to the pool, if there is memory for it.
func (p *program) morePinned(n int) bool {
	l := &p.pool
	if l.bytes+n > poolBytes || p.d.g.enter() != nil {
		return false
	}
	defer p.d.g.leave()
	own, err := p.d.g.allocPinned(n, "blocks on their way")
	if err != nil { // pinned memory is a gain, not a need
		return false
	}
	l.add(piece{pinned: own})
	l.bytes, l.last, l.left = l.bytes+n, own, own.n
	return true
}

// Pin adds a caller's memory to the pool.
func (p *program) Pin(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	l := &p.pool
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := p.d.g.enter(); err != nil {
		return err
	}
	defer p.d.g.leave()
	known, err := p.d.g.pin(data)
	if err != nil {
		return err
	}
	l.add(piece{known, data})
	return nil
}

// add keeps the pieces ascending.
func (l *pool) add(p piece) {
	at, _ := l.search(p.addr)
	l.pieces = slices.Insert(l.pieces, at, p)
}

// search returns the number of the first piece that begins at an address or after it, and whether it begins there.
func (l *pool) search(addr uintptr) (int, bool) {
	return slices.BinarySearchFunc(l.pieces, addr, func(p piece, addr uintptr) int { return cmp.Compare(p.addr, addr) })
}

// find returns where data is in the pool, false if it is not there.
func (l *pool) find(data []byte) (in pinned, at int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	i, starts := l.search(begin)
	if !starts {
		i--
	}
	if i < 0 || begin+uintptr(len(data)) > l.pieces[i].addr+uintptr(l.pieces[i].n) {
		return pinned{}, 0, false
	}
	return l.pieces[i].pinned, int(begin - l.pieces[i].addr), true
}

// free gives the pool's own memory back, and callers' memory as it was.
func (l *pool) free(g *gpu) error {
	var errs []error
	for _, p := range l.pieces {
		if p.callers != nil {
			errs = append(errs, g.unpin(p.pinned))
		} else {
			errs = append(errs, g.freePinned(p.pinned))
		}
	}
	l.pieces = nil
	return errors.Join(errs...)
}
