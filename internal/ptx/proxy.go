package ptx

import (
	"fmt"
	"math/bits"
)

// unfenced knows what threads wrote to a block's shared memory. Tensor cores and bulk copies read it on another way: of
// what a thread wrote, they see for certain only what a fence.proxy.async of that thread followed.
type unfenced struct {
	writes []uint32 // of 16 bytes each: how often their last writer has fenced, from bit 10 on, and its number; 0 for none
	fences []uint32 // of each thread, and 1
}

const threadBits = 10

// start forgets everything. Without bytes, nothing is remembered later either.
func (u *unfenced) start(bytes, threads int) {
	if units := (bytes + 15) / 16; len(u.writes) != units {
		u.writes, u.fences = make([]uint32, units), make([]uint32, threads)
	}
	clear(u.writes)
	for i := range u.fences {
		u.fences[i] = 1
	}
}

// wrote remembers where lanes write, within 16 bytes each.
func (u *unfenced) wrote(w *warp, mask uint32, at place) {
	if len(u.writes) == 0 {
		return
	}
	for ; mask != 0; mask &= mask - 1 {
		lane := bits.TrailingZeros32(mask) & 31
		thread := w.index*32 + lane
		a := at.of(w, lane)
		if unit := (uint64(a) - sharedBase) / 16; unit < uint64(len(u.writes)) {
			u.writes[unit] = u.fences[thread]<<threadBits | uint32(thread)
		}
	}
}

// fence is fence.proxy.async of some lanes.
func (u *unfenced) fence(w *warp, mask uint32) {
	if len(u.writes) == 0 {
		return
	}
	for ; mask != 0; mask &= mask - 1 {
		u.fences[w.index*32+bits.TrailingZeros32(mask)]++
	}
}

// copied says that a bulk copy wrote to an address.
func (u *unfenced) copied(at uint32, bytes int) {
	if len(u.writes) > 0 {
		from := int(at-sharedBase) / 16
		clear(u.writes[from : from+bytes/16])
	}
}

// check finds what is read on the other way before a fence followed.
func (u *unfenced) check(at uint32, bytes int) error {
	if len(u.writes) == 0 {
		return nil
	}
	from := int(at-sharedBase) / 16
	for i, by := range u.writes[from : from+bytes/16] {
		if thread := by & (1<<threadBits - 1); by != 0 && by>>threadBits == u.fences[thread] {
			return fmt.Errorf("%#x of shared memory was written by thread %d, and no fence.proxy.async of it followed", at+uint32(16*i), thread)
		}
	}
	return nil
}
