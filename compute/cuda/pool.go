package cuda

import (
	"errors"
	"sync"
	"unsafe"
)

// pool is pinned memory that callers fill and read themselves: blocks in it are copied to and from the device without a
// detour. It grows piece by piece up to poolBytes.
type pool struct {
	mu     sync.Mutex
	pieces []pinned
	bytes  int // of all pieces
	left   int // of the last one
}

// poolBytes is the most memory of a program's pool, and poolPiece what it takes at once.
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
	last := l.pieces[len(l.pieces)-1]
	at := last.n - l.left
	l.left -= size
	return view[byte](last, at, n)
}

// morePinned adds a piece to the pool, if there is memory for it.
func (p *program) morePinned(n int) bool {
	l := &p.pool
	if l.bytes+n > poolBytes || p.d.g.enter() != nil {
		return false
	}
	defer p.d.g.leave()
	piece, err := p.d.g.allocPinned(n, "blocks on their way")
	if err != nil { // pinned memory is a gain, not a need
		return false
	}
	l.pieces, l.bytes, l.left = append(l.pieces, piece), l.bytes+n, piece.n
	return true
}

// find returns where data is in the pool, false if it is not there.
func (l *pool) find(data []byte) (piece pinned, at int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for _, piece := range l.pieces {
		if begin >= piece.addr && begin+uintptr(len(data)) <= piece.addr+uintptr(piece.n) {
			return piece, int(begin - piece.addr), true
		}
	}
	return pinned{}, 0, false
}

func (l *pool) free(g *gpu) error {
	var errs []error
	for _, piece := range l.pieces {
		errs = append(errs, g.freePinned(piece))
	}
	l.pieces = nil
	return errors.Join(errs...)
}
