// Package heap is a binary heap whose elements know their place in it, so that one can leave from the middle. It knows
// nothing of what it orders. Read Heap.
package heap

// Heap keeps the element in front that comes before all others. The zero Heap has no order; make it with New.
type Heap[T any] struct {
	list   []T
	before func(a, b T) bool
	placed func(x T, at int)
}

// New makes an empty heap. before says whether a comes before b; placed is called with each new place of an element,
// and with -1 when it leaves.
func New[T any](before func(a, b T) bool, placed func(x T, at int)) Heap[T] {
	return Heap[T]{before: before, placed: placed}
}

// Len returns how many elements there are.
func (h *Heap[T]) Len() int { return len(h.list) }

// First returns the element in front of a heap that is not empty.
func (h *Heap[T]) First() T { return h.list[0] }

// All returns the elements, each after the one at half its place. It is valid until the next change.
func (h *Heap[T]) All() []T { return h.list }

// Push adds an element.
func (h *Heap[T]) Push(x T) {
	h.list = append(h.list, x)
	h.up(len(h.list) - 1)
}

// Remove takes out the element at a place.
func (h *Heap[T]) Remove(at int) {
	last := len(h.list) - 1
	x, moved := h.list[at], h.list[last]
	clear(h.list[last:])
	if h.list = h.list[:last]; at < last {
		h.list[at] = moved
		h.Fix(at)
	}
	h.placed(x, -1)
}

// Fix restores the order after the element at a place has changed.
func (h *Heap[T]) Fix(at int) { h.down(h.up(at)) }

// up moves an element towards the front and returns its new place.
func (h *Heap[T]) up(at int) int {
	x := h.list[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !h.before(x, h.list[parent]) {
			break
		}
		h.put(at, h.list[parent])
		at = parent
	}
	h.put(at, x)
	return at
}

// down moves an element away from the front.
func (h *Heap[T]) down(at int) {
	x := h.list[at]
	for {
		child := 2*at + 1
		if child >= len(h.list) {
			break
		}
		if child+1 < len(h.list) && h.before(h.list[child+1], h.list[child]) {
			child++
		}
		if !h.before(h.list[child], x) {
			break
		}
		h.put(at, h.list[child])
		at = child
	}
	h.put(at, x)
}

func (h *Heap[T]) put(at int, x T) {
	h.list[at] = x
	h.placed(x, at)
}

// Check returns the first element that is not where it should be, or false if all are.
func (h *Heap[T]) Check(place func(T) int) (x T, wrong bool) {
	for at, x := range h.list {
		if place(x) != at || at > 0 && h.before(x, h.list[(at-1)/2]) {
			return x, true
		}
	}
	return x, false
}
