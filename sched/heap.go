package sched

// element is what a heap holds.
type element[T any] interface {
	before(T) bool // whether it comes before another
	placed(at int) // tells it its place, or -1 when it leaves
}

// heap is a binary heap whose elements know their place in it, so that one can leave from the middle. The first comes
// before all others.
type heap[T element[T]] []T

func (h *heap[T]) push(x T) {
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

// remove takes out the element at a place.
func (h *heap[T]) remove(at int) {
	s := *h
	last := len(s) - 1
	x, moved := s[at], s[last]
	clear(s[last:])
	*h = s[:last]
	if at < last {
		s[at] = moved
		h.fix(at)
	}
	x.placed(-1)
}

// fix restores the order after the element at a place has changed.
func (h *heap[T]) fix(at int) { h.down(h.up(at)) }

// up moves an element towards the front and returns its new place.
func (h heap[T]) up(at int) int {
	x := h[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !x.before(h[parent]) {
			break
		}
		h.put(at, h[parent])
		at = parent
	}
	h.put(at, x)
	return at
}

// down moves an element away from the front.
func (h heap[T]) down(at int) {
	x := h[at]
	for {
		child := 2*at + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(x) {
			break
		}
		h.put(at, h[child])
		at = child
	}
	h.put(at, x)
}

func (h heap[T]) put(at int, x T) {
	h[at] = x
	x.placed(at)
}
