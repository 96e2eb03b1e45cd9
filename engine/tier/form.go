package tier

import (
	"hash/crc32"
	"io"

	"github.com/kvasir-llm/kvasir/compute"
)

// form is how a durable tier stores blocks: in the canonical form (docs/format/kv-block.md), which any device reads
// that says where everything is in a block that it packs; else as the device packs them.
type form struct {
	packed int                // bytes of a packed block
	layers [][]compute.Layout // by group: of each layer; empty: as packed
	stored []int              // by group: bytes of a stored block
	most   int                // of these
}

// newForm makes the form of packed blocks. layouts are those of the groups of layers, or none.
func newForm(packed int, layouts []compute.Layout) form {
	f := form{packed: packed}
	for _, l := range layouts {
		f.layers, f.stored = append(f.layers, l.Layers()), append(f.stored, l.CanonicalBytes())
		f.most = max(f.most, l.CanonicalBytes())
	}
	if len(layouts) == 0 {
		f.most = packed
	}
	return f
}

// bytes returns the size of a stored block of a group, -1 if there is no such group.
func (f *form) bytes(group int8) int {
	switch {
	case len(f.layers) == 0:
		return f.packed
	case group < 0 || int(group) >= len(f.stored):
		return -1
	}
	return f.stored[group]
}

// store writes a packed block of a group to dst as it is stored, of bytes(group) bytes.
func (f *form) store(dst, packed []byte, group int8) error {
	if len(f.layers) == 0 {
		copy(dst, packed)
		return nil
	}
	for _, l := range f.layers[group] {
		n := l.CanonicalBytes()
		if err := l.Canonical(dst[:n], packed); err != nil {
			return err
		}
		dst = dst[n:]
	}
	return nil
}

// read reads a stored block of a group from an offset on, one layer after the other, packs it to dst, and returns the
// CRC-32C of what is stored.
func (f *form) read(dst []byte, group int8, from io.ReaderAt, offset int64) (sum uint32, err error) {
	if len(f.layers) == 0 {
		_, err := from.ReadAt(dst, offset)
		return crc32.Checksum(dst, castagnoli), err
	}
	clear(dst)
	var layer []byte
	for _, l := range f.layers[group] {
		n := l.CanonicalBytes()
		if cap(layer) < n {
			layer = make([]byte, n)
		}
		layer = layer[:n]
		if _, err := from.ReadAt(layer, offset); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, layer)
		if err := l.Pack(dst, layer); err != nil {
			return 0, err
		}
		offset += int64(n)
	}
	return sum, nil
}
