package cpu

import "time"

// Weights are read fastest from huge pages, but a system that has to find and clear them while weights are packed can
// take longer than the packing. Where a device shall be ready soon, weights are packed into small pages, and a thread
// beside the steps, from a second after the first of them could run, has the system move them into huge ones. It takes
// half of a processor's time.

// small is memory in small pages, until collapse. It begins at a huge page.
type small struct{ parts [][]byte }

// take is aligned, without the advice for huge pages.
func (s *small) take(n int) []byte {
	if n < 2*hugePage {
		return aligned(n)
	}
	b := newHuge(n)
	s.parts = append(s.parts, b[:n&^(hugePage-1)])
	return b
}

// collapse moves what was taken into huge pages, until done is closed. It calls rest before each with how long to rest.
func (s *small) collapse(done <-chan struct{}, rest func(time.Duration)) {
	rest(time.Second)
	for _, part := range s.parts {
		for ; len(part) > 0; part = part[hugePage:] {
			select {
			case <-done:
				return
			default:
			}
			began := time.Now()
			_ = collapse(part[:hugePage]) // where the system has no huge page, the small ones stay
			rest(min(time.Since(began), time.Second))
		}
	}
}
