package cuda

import (
	"errors"
	"slices"
)

// arena is memory of the device that weights share. The driver gives out pages of 2 MiB: a matrix of 3 MiB would take 4
// MiB by itself.
type arena struct {
	at      pointer // 0: asleep
	n, used int64
	weights []*held
	host    pinned // asleep
}

// Arenas grow with what there is, from one page to mostArena, and have arenaAlign for each weight.
const arenaPage, mostArena, arenaAlign = 2 << 20, 256 << 20, 512

// place gives a weight its memory, of the first arena that has room, or of a new one. d.mu is locked.
func (d *device) place(h *held) error {
	n, all := int64(roundUp(int(h.n), arenaAlign)), int64(0)
	for _, a := range d.arenas {
		if a.n-a.used >= n {
			a.give(h, n)
			return nil
		}
		all += a.n
	}
	a := &arena{n: int64(roundUp(int(max(n, min(all/4, mostArena))), arenaPage))}
	var err error
	if a.at, err = d.g.alloc(a.n, h.what); err != nil {
		a.n = n
		if a.at, err = d.g.alloc(n, h.what); err != nil {
			return err
		}
	}
	d.arenas = append(d.arenas, a)
	a.give(h, n)
	return nil
}

func (a *arena) give(h *held, n int64) {
	h.in, h.offset = a, a.used
	*h.at = a.at.at(a.used)
	a.used += n
	a.weights = append(a.weights, h)
}

// leave takes a weight out of its arena, which goes with the last one. d.mu is locked.
func (d *device) leave(g *gpu, h *held) error {
	a := h.in
	a.weights = slices.DeleteFunc(a.weights, func(other *held) bool { return other == h })
	if len(a.weights) > 0 {
		return nil
	}
	d.arenas = slices.DeleteFunc(d.arenas, func(other *arena) bool { return other == a })
	return g.free(a.at)
}

// freeArenas frees the memory of all weights on the device. Where they are is 0 then.
func (d *device) freeArenas() error {
	var errs []error
	for _, a := range d.arenas {
		errs = append(errs, d.g.free(a.at))
		a.at = 0
		for _, h := range a.weights {
			*h.at = 0
		}
	}
	return errors.Join(errs...)
}
