package tier

import (
	"fmt"
	"hash/crc32"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
)

func init() {
	Register(Kind{Name: "host", Open: func(o Options) (Tier, error) {
		if o.Bytes < int64(o.Block) {
			return nil, fmt.Errorf("tier: %d bytes of memory for KV blocks of %d", o.Bytes, o.Block)
		}
		return NewHost(o.Bytes, o.Block), nil
	}})
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Host stores blocks in one piece of memory.
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

// Slots implements Tier.
func (h *Host) Slots() int { return len(h.names) }

// Names implements Tier.
func (h *Host) Names() []kv.Name { return h.names }

// Put implements Tier. It always takes a block.
func (h *Host) Put(slot int32, name kv.Name, data []byte) bool {
	copy(h.slot(slot), data)
	h.names[slot], h.sums[slot] = name, crc32.Checksum(data, castagnoli)
	return true
}

// Get implements Tier.
func (h *Host) Get(slot int32, name kv.Name, dst []byte, _ func(time.Duration, error)) (Answer, error) {
	if h.names[slot] != name {
		return Miss, fmt.Errorf("tier: slot %d of the host's memory holds %v; want %v", slot, h.names[slot], name)
	}
	copy(dst, h.slot(slot))
	if sum := crc32.Checksum(dst, castagnoli); sum != h.sums[slot] {
		return Miss, fmt.Errorf("tier: block %v in slot %d of the host's memory has the checksum %08x; it was stored with %08x",
			name, slot, sum, h.sums[slot])
	}
	return Hit, nil
}

// Sync implements Tier.
func (h *Host) Sync() error { return nil }

// Close implements Tier.
func (h *Host) Close() error { return nil }

func (h *Host) slot(at int32) []byte { return h.arena[int(at)*h.size:][:h.size] }
