package tier

import (
	"fmt"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/kv"
)

func init() {
	open := func(o Options) (Tier, error) {
		if o.Bytes < int64(o.Block) {
			return nil, fmt.Errorf("tier: %d bytes of memory for KV blocks of %d", o.Bytes, o.Block)
		}
		return NewHost(o.Bytes, o.Block), nil
	}
	Register(Kind{Name: "host", Open: open})
	Register(Kind{Name: "transfer", Landing: true, Open: open})
}

// Host stores blocks in memory. What is there is taken for what was stored, as weights in memory are: one thread makes
// checksums more slowly than a device reads blocks.
type Host struct {
	size   int
	pieces [][]byte  // of equal size, but for the last
	names  []kv.Name // of what is in the slots; zero: nothing
}

// pieceBytes is how much memory a device is told of at once, if a block is not larger.
const pieceBytes = 32 << 20

// NewHost takes memory for as many blocks of a size as fit into so many bytes.
func NewHost(bytes int64, size int) *Host {
	n := int(bytes / int64(size))
	h := &Host{size: size, names: make([]kv.Name, n)}
	for from := 0; from < n; from += h.perPiece() {
		piece := make([]byte, min(n-from, h.perPiece())*size)
		compute.AdviseHuge(piece)
		h.pieces = append(h.pieces, piece)
	}
	return h
}

func (h *Host) perPiece() int { return max(1, pieceBytes/h.size) }

// Slots implements Tier.
func (h *Host) Slots() int { return len(h.names) }

// Names implements Tier.
func (h *Host) Names() []kv.Name { return h.names }

// Put implements Tier. It always takes a block.
func (h *Host) Put(slot int32, name kv.Name, data []byte) bool {
	if own := h.slot(slot); &own[0] != &data[0] {
		copy(own, data)
	}
	h.names[slot] = name
	return true
}

// Get implements Tier.
func (h *Host) Get(slot int32, name kv.Name, dst []byte, _ func(time.Duration, error)) (Answer, error) {
	if h.names[slot] != name {
		return Miss, fmt.Errorf("tier: slot %d of the host's memory holds %v; want %v", slot, h.names[slot], name)
	}
	if own := h.slot(slot); &own[0] != &dst[0] {
		copy(dst, own)
	}
	return Hit, nil
}

// Sync implements Tier.
func (h *Host) Sync() error { return nil }

// Close implements Tier.
func (h *Host) Close() error { return nil }

// Memory implements the interface of that name.
func (h *Host) Memory(slot int32) (data, piece []byte) {
	return h.slot(slot), h.pieces[int(slot)/h.perPiece()]
}

// Vacate implements Memory.
func (h *Host) Vacate(slot int32) { h.names[slot] = kv.Name{} }

func (h *Host) slot(at int32) []byte {
	from := int(at) % h.perPiece() * h.size
	return h.pieces[int(at)/h.perPiece()][from : from+h.size : from+h.size]
}
