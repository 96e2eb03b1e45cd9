package route

const (
	shardBits  = 8
	firstSlots = 8
)

// table maps keys to a fixed number of words each. It has 256 shards that grow one by one, so that no call moves more
// than a 256th of the table. A shard is open-addressed with linear probing.
type table struct {
	words  int
	shards [1 << shardBits]shard
}

// shard is an array of slots, each a key and its words. A slot with key 0 is free; see table.find for keys that are 0.
type shard struct {
	slots []uint64
	used  int // slots
}

func newTable(words int) *table { return &table{words: words} }

// place returns the shard of a key, and a number whose low bits are the slot that the key is at or after.
func (t *table) place(key uint64) (*shard, uint64) {
	h := key * 0x9e3779b97f4a7c15
	return &t.shards[h>>(64-shardBits)], h >> 20
}

// find returns where a key's slot begins in the shard's slots, or that of the free slot where it would go.
func (t *table) find(s *shard, key, home uint64) (at int, found bool) {
	stride := t.words + 1
	mask := uint64(len(s.slots)/stride - 1)
	for i := home & mask; ; i = (i + 1) & mask {
		at = int(i) * stride
		switch s.slots[at] {
		case key:
			return at, true
		case 0:
			return at, false
		}
	}
}

// get returns the words of a key, nil if it is not there. They are valid until the next put or remove.
func (t *table) get(key uint64) []uint64 {
	key = max(key, 1)
	s, home := t.place(key)
	if s.used == 0 {
		return nil
	}
	at, found := t.find(s, key, home)
	if !found {
		return nil
	}
	return s.slots[at+1 : at+1+t.words]
}

// put returns the words of a key, zeros if it is new. They are valid until the next put or remove.
func (t *table) put(key uint64) []uint64 {
	key = max(key, 1)
	s, home := t.place(key)
	stride := t.words + 1
	if (s.used+1)*stride*5 > len(s.slots)*4 { // at most 4 of 5 slots are used
		t.grow(s)
	}
	at, found := t.find(s, key, home)
	if !found {
		s.slots[at] = key
		s.used++
	}
	return s.slots[at+1 : at+stride]
}

func (t *table) grow(s *shard) {
	stride := t.words + 1
	old := s.slots
	s.slots = make([]uint64, max(2*len(old), firstSlots*stride))
	for at := 0; at < len(old); at += stride {
		if old[at] != 0 {
			_, home := t.place(old[at])
			to, _ := t.find(s, old[at], home)
			copy(s.slots[to:], old[at:at+stride])
		}
	}
}

// remove takes a key out, and moves back what probing would not find behind the gap.
func (t *table) remove(key uint64) {
	key = max(key, 1)
	s, home := t.place(key)
	if s.used == 0 {
		return
	}
	gap, found := t.find(s, key, home)
	if !found {
		return
	}
	stride := t.words + 1
	mask := uint64(len(s.slots)/stride - 1)
	hole := uint64(gap / stride)
	for i := (hole + 1) & mask; s.slots[int(i)*stride] != 0; i = (i + 1) & mask {
		_, home := t.place(s.slots[int(i)*stride])
		if (i-home)&mask >= (i-hole)&mask {
			copy(s.slots[int(hole)*stride:][:stride], s.slots[int(i)*stride:])
			hole = i
		}
	}
	clear(s.slots[int(hole)*stride:][:stride])
	s.used--
}

// len returns how many keys there are.
func (t *table) len() int {
	n := 0
	for i := range t.shards {
		n += t.shards[i].used
	}
	return n
}

// all calls f with every key and its words, which f may change. It must neither put nor remove.
func (t *table) all(f func(key uint64, words []uint64)) {
	stride := t.words + 1
	for i := range t.shards {
		slots := t.shards[i].slots
		for at := 0; at < len(slots); at += stride {
			if slots[at] != 0 {
				f(slots[at], slots[at+1:at+stride])
			}
		}
	}
}
