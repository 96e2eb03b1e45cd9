package weights

import "sync"

// Release tells the system that data, all or part of a tensor's, will not be read soon, so that its pages need not stay
// in memory. Reading it again is slow and gives the same bytes.
func (c *Checkpoint) Release(data []byte) {
	if p, at, ok := c.find(data); ok {
		notNeeded(&c.parts[p].mapping, at, at+len(data))
	}
}

// Keep lets data, all or part of a tensor's, be read after Close, until release is called, which also does what Release
// does. nil: it is in no file, or a copy.
func (c *Checkpoint) Keep(data []byte) (release func()) {
	p, at, ok := c.find(data)
	if !ok {
		return nil
	}
	m := &c.parts[p].mapping
	c.kept.add()
	return func() {
		notNeeded(m, at, at+len(data))
		c.kept.release()
	}
}

// kept counts what keeps the files of a checkpoint mapped.
type kept struct {
	mu   sync.Mutex
	n    int
	last func() error // unmaps them; nil while the checkpoint is open
}

func (k *kept) add() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
}

// release drops one of those that were added. The last one after close unmaps.
func (k *kept) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n--; k.n == 0 && k.last != nil {
		_ = k.last() // nobody is left to tell
	}
}

// close unmaps now, or with the last release.
func (k *kept) close(unmap func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n == 0 {
		return unmap()
	}
	if k.last == nil { // else it was closed before
		k.last = unmap
	}
	return nil
}
