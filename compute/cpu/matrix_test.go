package cpu

import (
	"testing"
	"unsafe"
)

// TestArena takes pieces of all sizes and fills each with a number of its own: none may share memory with another,
// and all are zero at first and begin at a multiple of 64.
func TestArena(t *testing.T) {
	for _, nodes := range [][]int{nil, {0}} {
		testArena(t, arena{nodes: nodes})
	}
}

func testArena(t *testing.T, a arena) {
	var pieces [][]byte
	for i, n := range []int{1, arenaPart, arenaPart + 1, arenaBytes / 4, 100, arenaBytes / 4, arenaBytes / 4, arenaPart * 3, arenaBytes / 4, arenaBytes/4 + 1, arenaPart} {
		p := a.take(n)
		if len(p) != n || cap(p) != n || uintptr(unsafe.Pointer(&p[0]))%64 != 0 {
			t.Fatalf("piece %d has %d bytes, room for %d, at %p; want %d, no more, at a multiple of 64", i, len(p), cap(p), &p[0], n)
		}
		if p[0] != 0 || p[n-1] != 0 {
			t.Fatalf("piece %d begins with %d and ends with %d; want zeros", i, p[0], p[n-1])
		}
		for j := range p {
			p[j] = byte(i + 1)
		}
		pieces = append(pieces, p)
	}
	for i, p := range pieces {
		for j, v := range p {
			if int(v) != i+1 {
				t.Fatalf("byte %d of piece %d was overwritten with %d", j, i, v)
			}
		}
	}
}
