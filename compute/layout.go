package compute

import (
	"encoding/binary"
	"fmt"

	"github.com/kvasir-llm/kvasir/quant"
)

// Portable is a Cache whose packed blocks other devices can read: its Layouts say where everything is.
type Portable interface {
	Cache
	// Layout describes a packed block (Transfer.Data) that belongs to a group of layers.
	Layout(group int) Layout
}

// Layout says where a packed block of one group of layers has its keys and values. With it, a block is converted to
// the canonical form, which is the same for all devices, and back: docs/format/kv-block.md.
type Layout struct {
	Tokens int    // of a block
	Bytes  int    // of a packed block
	Parts  []Part // keys, then values unless they are latent, of layer after layer
}

// Part is the keys, or the values, of one layer.
type Part struct {
	Layer       int  // in CacheSpec.Layers
	Values      bool // else keys
	Heads, Dims int  // Dims numbers for each head and token
	Type        quant.Type
	// Planes are the fields of a block of Type, in order: one for types of plain numbers; the scales, then the codes,
	// for Q8_0 and Q4_0.
	Planes []Plane
}

// Plane says where one field of all blocks of Type is in a packed block: item i of quantisation block b of token t of
// head h is at byte Offset + h·Head + Token.at(t) + Block.at(b) + i·Item.
type Plane struct {
	Bytes, Count       int // each quantisation block has Count items of Bytes bytes
	Offset, Head, Item int // bytes
	Token, Block       Axis
}

// Axis says where the elements along one dimension are, in bytes: element i at (i/Run)·Far + (i%Run)·Near. A Run of 0
// is one without end.
type Axis struct{ Run, Near, Far int }

func (a Axis) at(i int) int {
	if a.Run == 0 {
		return i * a.Near
	}
	return i/a.Run*a.Far + i%a.Run*a.Near
}

// blocks returns how many quantisation blocks one head's key or value takes.
func (p *Part) blocks() int { return (p.Dims + p.Type.BlockValues() - 1) / p.Type.BlockValues() }

// CanonicalBytes returns the size of the canonical form.
func (l *Layout) CanonicalBytes() int {
	n := 0
	for i := range l.Parts {
		p := &l.Parts[i]
		n += p.Heads * l.Tokens * p.blocks() * p.Type.BlockBytes()
	}
	return n
}

// Layers returns the layout of each layer alone, in their order. All have the same packed block; their canonical forms,
// one after the other, are that of the block: so a block can be moved layer by layer.
func (l *Layout) Layers() (all []Layout) {
	for i := 0; i < len(l.Parts); {
		end := i + 1
		for end < len(l.Parts) && l.Parts[end].Layer == l.Parts[i].Layer {
			end++
		}
		all = append(all, Layout{Tokens: l.Tokens, Bytes: l.Bytes, Parts: l.Parts[i:end]})
		i = end
	}
	return all
}

// Canonical writes the canonical form of a packed block to dst, of CanonicalBytes bytes.
func (l *Layout) Canonical(dst, packed []byte) error {
	if err := l.check(packed, dst); err != nil {
		return err
	}
	l.each(func(r run) { r.copy(dst[r.canonical:], packed[r.packed:], r.size, r.step) })
	return nil
}

// Pack writes what is in the canonical form of a block to its places in dst, of Bytes bytes, and nothing to others.
func (l *Layout) Pack(dst, canonical []byte) error {
	if err := l.check(dst, canonical); err != nil {
		return err
	}
	l.each(func(r run) { r.copy(dst[r.packed:], canonical[r.canonical:], r.step, r.size) })
	return nil
}

func (l *Layout) check(packed, canonical []byte) error {
	if len(packed) != l.Bytes || len(canonical) != l.CanonicalBytes() {
		return fmt.Errorf("compute: a packed block of %d bytes and a canonical one of %d; want %d and %d",
			len(packed), len(canonical), l.Bytes, l.CanonicalBytes())
	}
	return nil
}

// run is count pieces of bytes bytes each, which begin at packed and at canonical. Their distance is step bytes in a
// packed block, and size bytes in the canonical form.
type run struct{ packed, canonical, bytes, count, step, size int }

// copy copies the pieces between memory in which their distances are to and from.
func (r run) copy(dst, src []byte, to, from int) {
	switch {
	case to == r.bytes && from == r.bytes:
		copy(dst[:r.bytes*r.count], src)
	case r.bytes == 2: // of this size are most
		for d, s := 0, 0; d < to*r.count; d, s = d+to, s+from {
			binary.NativeEndian.PutUint16(dst[d:], binary.NativeEndian.Uint16(src[s:]))
		}
	default:
		for i := range r.count {
			copy(dst[i*to:][:r.bytes], src[i*from:])
		}
	}
}

// each calls f for all pieces of a block.
func (l *Layout) each(f func(run)) {
	c := 0
	for i := range l.Parts {
		p := &l.Parts[i]
		for h := range p.Heads {
			for t := range l.Tokens {
				p.row(h, t, c, f)
				c += p.blocks() * p.Type.BlockBytes()
			}
		}
	}
}

// row is each for the key or value of one head and token, which begins at c in the canonical form.
func (p *Part) row(h, t, c int, f func(run)) {
	size := p.Type.BlockBytes()
	for i := range p.Planes {
		x := &p.Planes[i]
		field, whole := x.Offset+h*x.Head+x.Token.at(t), x.Count == 1 || x.Item == x.Bytes
		near := x.Block.Run // so many quantisation blocks are at one distance
		if near == 0 {
			near = p.blocks()
		}
		for b := 0; b < p.blocks(); b += near {
			n := min(near, p.blocks()-b)
			if whole {
				f(run{field + x.Block.at(b), c + b*size, x.Count * x.Bytes, n, x.Block.Near, size})
				continue
			}
			for b := b; n > 0; b, n = b+1, n-1 {
				f(run{field + x.Block.at(b), c + b*size, x.Bytes, x.Count, x.Item, x.Bytes})
			}
		}
		c += x.Count * x.Bytes
	}
}
