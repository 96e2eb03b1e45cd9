package compute

import (
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

// Canonical writes the canonical form of a packed block to dst, of CanonicalBytes bytes.
func (l *Layout) Canonical(dst, packed []byte) error {
	if err := l.check(packed, dst); err != nil {
		return err
	}
	l.each(func(p, c, n int) { copy(dst[c:][:n], packed[p:][:n]) })
	return nil
}

// Pack writes a packed block to dst, of Bytes bytes, from its canonical form. What is in no plane becomes zero.
func (l *Layout) Pack(dst, canonical []byte) error {
	if err := l.check(dst, canonical); err != nil {
		return err
	}
	clear(dst)
	l.each(func(p, c, n int) { copy(dst[p:][:n], canonical[c:][:n]) })
	return nil
}

func (l *Layout) check(packed, canonical []byte) error {
	if len(packed) != l.Bytes || len(canonical) != l.CanonicalBytes() {
		return fmt.Errorf("compute: a packed block of %d bytes and a canonical one of %d; want %d and %d",
			len(packed), len(canonical), l.Bytes, l.CanonicalBytes())
	}
	return nil
}

// each calls f for all pieces of n bytes that follow each other both in a packed block, from p, and in the canonical
// form, from c.
func (l *Layout) each(f func(p, c, n int)) {
	c := 0
	for i := range l.Parts {
		part := &l.Parts[i]
		for h := range part.Heads {
			for t := range l.Tokens {
				for b := range part.blocks() {
					for _, plane := range part.Planes {
						at := plane.Offset + h*plane.Head + plane.Token.at(t) + plane.Block.at(b)
						c += plane.items(at, c, f)
					}
				}
			}
		}
	}
}

// items is each for one field of one block, and returns its bytes.
func (p *Plane) items(at, c int, f func(p, c, n int)) int {
	if all := p.Count * p.Bytes; p.Item == p.Bytes || p.Count == 1 {
		f(at, c, all)
		return all
	}
	for i := range p.Count {
		f(at+i*p.Item, c+i*p.Bytes, p.Bytes)
	}
	return p.Count * p.Bytes
}
