package kv

import (
	"hash/maphash"
	"math/bits"
)

// index tells which node bears a name. It is a hash table with linear probing, at most two thirds full, of eight bytes
// an entry: a look-up reads one cache line of it, and a node only if that bears the name, or if 32 bits of two hashes
// are equal by chance.
type index struct {
	entries []entry // [a power of two]
	mask    uint32  // one less
	n       int     // names
	seed    maphash.Seed
}

// entry is a node of the index. It is in the first place that was free, from that of its hash on.
type entry struct {
	hash uint32 // of the node's name
	node int32  // 1 + its number; 0: the entry is free
}

// newIndex makes an index with room for so many nodes.
func newIndex(nodes int) index {
	size := 1 << bits.Len(uint(nodes+nodes/2))
	return index{entries: make([]entry, size), mask: uint32(size - 1), seed: maphash.MakeSeed()}
}

// hash returns what an entry keeps of a name. The seed is random, so that nobody can choose tokens whose names are
// close together in the table.
func (x *index) hash(name *Hash) uint32 { return uint32(maphash.Bytes(x.seed, name[:])) }

// find returns the node that bears a name, or none.
func (x *index) find(name *Hash, nodes []node) int32 {
	hash := x.hash(name)
	for at := hash & x.mask; ; at = (at + 1) & x.mask {
		e := x.entries[at]
		if e.node == 0 {
			return none
		}
		if e.hash == hash && nodes[e.node-1].name == *name {
			return e.node - 1
		}
	}
}

// add enters a node under a name that no other bears.
func (x *index) add(name *Hash, n int32) {
	hash := x.hash(name)
	at := hash & x.mask
	for x.entries[at].node != 0 {
		at = (at + 1) & x.mask
	}
	x.entries[at] = entry{hash, 1 + n}
	x.n++
}

// remove takes out a node that is entered under a name. Entries that follow it move up, but none before the place of
// its hash: so a search still ends at the first free entry, and none is kept as a mark.
func (x *index) remove(name *Hash, n int32) {
	free := x.hash(name) & x.mask
	for x.entries[free].node != 1+n {
		free = (free + 1) & x.mask
	}
	for at := (free + 1) & x.mask; x.entries[at].node != 0; at = (at + 1) & x.mask {
		if e := x.entries[at]; (at-e.hash)&x.mask >= (at-free)&x.mask {
			x.entries[free], free = e, at
		}
	}
	x.entries[free] = entry{}
	x.n--
}
