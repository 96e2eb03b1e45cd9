package route

import "math/bits"

// MaxEndpoints is how many endpoints a Fleet can have.
const MaxEndpoints = 256

// set is a set of endpoints, by their numbers.
type set [MaxEndpoints / 64]uint64

// wordsFor is how many words of a set so many endpoints need.
func wordsFor(endpoints int) int { return (endpoints + 63) / 64 }

// match sets depth[e] to how many leading blocks endpoint e holds. The first words of a block's entry are the set of
// endpoints that hold it.
//
// It assumes that an endpoint that holds a block holds all blocks before it, and searches by bisection: for d different
// depths among n blocks it looks up about d·log2(n) blocks.
func (t *table) match(blocks []uint64, depth []int) {
	clear(depth)
	var all set
	for e := range depth {
		all[e/64] |= 1 << (e % 64)
	}
	t.narrow(blocks, 0, len(blocks), all, wordsFor(len(depth)), depth)
}

// narrow sets the depths of some endpoints, each of which is at least low and at most high.
func (t *table) narrow(blocks []uint64, low, high int, some set, words int, depth []int) {
	for low < high {
		middle := (low + high) / 2
		with, without := set{}, some
		if held := t.get(blocks[middle]); held != nil {
			for i := range words {
				with[i], without[i] = some[i]&held[i], some[i]&^held[i]
			}
		}
		switch {
		case with == (set{}):
			high = middle
		case without == (set{}):
			low = middle + 1
		default:
			t.narrow(blocks, middle+1, high, with, words, depth)
			some, high = without, middle
		}
	}
	for i, w := range some {
		for ; w != 0; w &= w - 1 {
			depth[i*64+bits.TrailingZeros64(w)] = low
		}
	}
}
