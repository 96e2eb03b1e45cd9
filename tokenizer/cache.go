package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

// wordCache remembers the ids of recent words. It is direct-mapped, bounded and safe for concurrent use: a slot holds
// an immutable entry that is replaced whole.
type wordCache struct {
	seed  maphash.Seed
	slots [1 << cacheBits]atomic.Pointer[cachedWord]
}

type cachedWord struct {
	word string
	ids  []int32
}

const (
	cacheBits     = 15
	maxCachedWord = 64 // bytes
)

func newWordCache() *wordCache { return &wordCache{seed: maphash.MakeSeed()} }

// get returns the word's ids, or the slot for put.
func (c *wordCache) get(word string) (slot uint64, ids []int32, ok bool) {
	slot = maphash.String(c.seed, word) >> (64 - cacheBits)
	if e := c.slots[slot].Load(); e != nil && e.word == word {
		return slot, e.ids, true
	}
	return slot, nil, false
}

func (c *wordCache) put(slot uint64, word string, ids []int32) {
	c.slots[slot].Store(&cachedWord{strings.Clone(word), slices.Clone(ids)})
}
