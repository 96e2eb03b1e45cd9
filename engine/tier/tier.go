// Package tier stores blocks of the KV cache below the device: in a piece of memory (Host) or in a file (Disk), in slots of
// equal size. Which block is in which slot is the scheduler's business; this package makes sure that a slot yields what was
// stored in it under a name, or an error.
package tier

import (
	"fmt"
	"hash/crc32"

	"github.com/kvasir-llm/kvasir/kv"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Host stores blocks in one piece of memory. It is used by one goroutine at a time.
type Host struct {
	size  int
	arena []byte
	names []kv.Name // of what is in the slots; zero: nothing
	sums  []uint32  // CRC-32C
}

// NewHost takes memory for as many blocks of a size as fit into so many bytes.
func NewHost(bytes int64, size int) *Host {
	n := int(bytes / int64(size))
	return &Host{size: size, arena: make([]byte, n*size), names: make([]kv.Name, n), sums: make([]uint32, n)}
}

// Slots returns how many blocks it can store.
func (h *Host) Slots() int { return len(h.names) }

// Names returns what is in the slots; the zero Name is nothing.
func (h *Host) Names() []kv.Name { return h.names }

// Put stores a block that fill writes.
func (h *Host) Put(slot int32, name kv.Name, fill func([]byte)) {
	h.names[slot] = kv.Name{}
	data := h.slot(slot)
	fill(data)
	h.names[slot], h.sums[slot] = name, crc32.Checksum(data, castagnoli)
}

// Get returns a view of a stored block, valid until the next Put.
func (h *Host) Get(slot int32, name kv.Name) ([]byte, error) {
	if h.names[slot] != name {
		return nil, fmt.Errorf("tier: slot %d of the host's memory holds %v; want %v", slot, h.names[slot], name)
	}
	data := h.slot(slot)
	if sum := crc32.Checksum(data, castagnoli); sum != h.sums[slot] {
		return nil, fmt.Errorf("tier: block %v in slot %d of the host's memory has the checksum %08x; it was stored with %08x", name, slot, sum, h.sums[slot])
	}
	return data, nil
}

func (h *Host) slot(at int32) []byte { return h.arena[int(at)*h.size:][:h.size] }
