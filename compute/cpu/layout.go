package cpu

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

var _ compute.Portable = (*cache)(nil)

// Layout implements compute.Portable.
func (c *cache) Layout(group int) compute.Layout {
	l := compute.Layout{Tokens: c.spec.BlockTokens, Bytes: c.blockBytes()}
	place, offset := 0, 0 // of the group's next layer
	for i := range c.layers {
		cl := &c.layers[i]
		if cl.State > 0 || cl.Group != group {
			continue
		}
		panels := cl.blockToken / kernel.Lanes
		part := compute.Part{Layer: i, Heads: cl.KVHeads, Dims: cl.KDim, Type: cl.typ}
		part.Planes = panelPlanes(cl.typ, false)
		shift(part.Planes, offset, panels, cl.kPanel)
		l.Parts = append(l.Parts, part)
		if !cl.Latent {
			part.Values, part.Dims, part.Planes = true, cl.VDim, panelPlanes(cl.typ, true)
			shift(part.Planes, offset+cl.KVHeads*panels*cl.kPanel, panels, cl.vPanel)
			l.Parts = append(l.Parts, part)
		}
		offset += c.slabs[place].size
		place++
	}
	return l
}

// panelPlanes describes one panel of keys or values (kernel.KVTypes).
func panelPlanes(t quant.Type, values bool) []compute.Plane {
	if !kernel.Quantised(t) {
		size := t.BlockBytes()
		p := compute.Plane{Bytes: size, Count: 1, Token: compute.Axis{Near: size}, Block: compute.Axis{Near: kernel.Lanes * size}}
		if values {
			p.Token.Near = kernel.Lanes * size
			p.Block = compute.Axis{Run: kernel.Lanes, Near: size, Far: kernel.TileValues * size}
		}
		return []compute.Plane{p}
	}
	blocks := compute.Axis{Near: kernel.KVBytes(t, 2)}
	scales := compute.Plane{Bytes: 2, Count: 1, Token: compute.Axis{Near: 2}, Block: blocks}
	codes := compute.Plane{
		Bytes: 1, Count: t.BlockBytes() - 2, Offset: kernel.Lanes * 2, Item: kernel.Lanes, Token: compute.Axis{Near: 1}, Block: blocks,
	}
	if values {
		codes.Item, codes.Token.Near = 1, codes.Count
	}
	return []compute.Plane{scales, codes}
}

// shift moves planes, which describe a panel, to the panels of all heads.
func shift(planes []compute.Plane, offset, panels, size int) {
	for i := range planes {
		p := &planes[i]
		p.Offset += offset
		p.Head = panels * size
		p.Token.Run, p.Token.Far = kernel.Lanes, size
	}
}
