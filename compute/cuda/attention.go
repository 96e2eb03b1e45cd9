package cuda

import (
	"fmt"
	"math/bits"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// tileRows is how many rows of queries attend_tile has in a block: heads that share a KV head, of one token or
// more.
const tileRows = 128

// chunkTokens is how many positions attention takes at a time.
const chunkTokens = 64

// fewRows is the most rows of a sequence of which each is computed chunk by chunk, by many warps.
const fewRows = 4

// attention is a kind of attention: layers of the same kind go through the same items of work.
type attention struct {
	window int
	tokens int // of a tile
	shares int // of a row
}

// latentKeys and latentValues are the sizes of latents that attend_latent.cu is compiled for: DeepSeek's.
const latentKeys, latentValues = 576, 512

// latentShared is the shared memory of a block of attend_latent.cu.
const latentShared = 80*(latentKeys+8)*2 + 16*(chunkTokens+2)*4

// latentWgmmaRows is how many rows of queries a block of attend_latent_wgmma.cu has.
const latentWgmmaRows = 64

// latentWgmmaShared is the shared memory of such a block: two chunks, queries, factors, barriers and tiles, and what
// aligning takes.
const latentWgmmaShared = 3*64*latentKeys*2 + 2*64*8 + 64*4 + 240 + 1024

// latentFewShared is the shared memory of a block of attend_latent_few.cu: 24 panels of chunks, queries of 16 heads,
// the weights of two chunks, scores, factors, barriers, and what aligning takes.
const latentFewShared = 24*64*128 + 16*latentKeys*2 + 2*16*128 + 16*68*4 + 2*16*8 + 416 + 1024

// wgmmaRows is how many rows of queries a block of attend_wgmma.cu has: 64 for each warpgroup that multiplies. There
// are registers for three of these, but for two with wide heads, and with heads of 128 numbers beside warps that make
// halves of codes.
func wgmmaRows(kv quant.Type, dim int) int {
	if dim > narrowHead || dim == narrowHead && coded(kv) {
		return 2 * 64
	}
	return 3 * 64
}

// wgmmaShared is the shared memory of a block of attend_wgmma.cu for heads of dim numbers: two to five chunks of keys
// and values, or four, and three of codes; queries, barriers and tiles, and what aligning takes. Numbers come in steps
// of boxInputs.
func wgmmaShared(kv quant.Type, dim int) int {
	codes := 3 * 2 * kvBytes(kv, dim)
	dim = int(blocksOf(dim, boxInputs)) * boxInputs
	chunks := 5 * 4 * dim
	switch {
	case coded(kv):
		chunks = 4*4*dim + codes
	case dim > 192:
		chunks = 2 * 4 * dim
	case dim > narrowHead:
		chunks = 3 * 4 * dim
	}
	return chunkTokens*chunks + wgmmaRows(kv, dim)*dim*2 + 256 + 1024
}

// coded reports whether keys and values of a type are stored as codes, which become halves before they are multiplied.
func coded(kv quant.Type) bool { return kv == quant.F8_E4M3 || kv == quant.Q8_0 }

// pagePitch returns the bytes of shared memory from one key or value of a page to the next (attend_page.cuh).
func pagePitch(kv quant.Type, dim int) int {
	switch {
	case kv == quant.F8_E4M3:
		return dim | 16
	case kv == quant.Q8_0:
		return kvBytes(kv, dim)
	case dim%64 != 0:
		return 2*dim + 16
	}
	return 2 * dim
}

// fewWarps returns the most warps of attend_few that a multiprocessor has; for wide heads it is half of that. They are
// one block if each share of a row can have a multiprocessor of its own, otherwise two, which do not wait for each
// other.
func fewWarps(kv quant.Type) int {
	if coded(kv) {
		return 16
	}
	return 12
}

// fewShared returns how many warps of a block of attend_few, at most warps, can have their shared memory, and how much
// the block needs: for each warp 64 positions, what its chunk gives for up to 8 query heads, and a tag; and the sums of
// these heads.
func fewShared(kv quant.Type, dim, group, warps, most int) (_, shared int) {
	pitch, sums := pagePitch(kv, dim), 4*min(group, 8)*(dim+8)
	if dim > narrowHead {
		warps /= 2
	}
	for ; warps > 0; warps /= 2 {
		if shared = warps*(chunkTokens*pitch+sums+16) + sums + 16; shared <= most {
			break
		}
	}
	return warps, shared
}

// runFew queues attend_few for layers of so many shares of a row, each of a group of query heads.
func runFew[T any](p *program, kernel string, rows, shares, dim, group int, args *T) error {
	info, parts := p.d.g.info, 2
	if rows*shares <= info.sms {
		parts = 1
	}
	kv := p.cache.spec.Type
	warps, shared := fewShared(kv, dim, group, fewWarps(kv)/parts, info.shared)
	f := *p.kernel[kernel]
	f.shared = uint32(shared)
	blocks := max(1, min(parts, (info.shared+blockShared)/(shared+blockShared)))
	return launch(p.s, &f, grid{uint32(blocks * info.sms), 1, 1}, 32*warps, args)
}

// ringWarps returns how many warps of a block of attend_ring.cu multiply: each has room for a chunk.
func ringWarps(kv quant.Type, dim int) int {
	switch {
	case dim == 64 || coded(kv):
		return 10
	case dim == 96:
		return 7
	}
	return 6
}

// ringShared is the shared memory of such a block: Plan of attend_ring.cu.
func ringShared(kv quant.Type, dim int) int {
	const slots = 6
	return ringWarps(kv, dim)*(2*chunkTokens*pagePitch(kv, dim)+32+3*8) + slots*(8*pagePitch(quant.BF16, dim)+4*dim+16) + (dim/16+1)*512 + 16 + 62*32 + 16*(48+8)
}

// Up to ringRows rows are for attend_ring.cu. So are up to mostRinged of replayed steps, of bfloat16 or halves, if each
// is the only one of its sequence and they see no more than ringTokens on average, as measured on an H200: attend_few
// reads longer contexts faster.
const (
	ringRows   = 16
	mostRinged = 256
	ringTokens = 1280
)

// mayRing reports whether attend_ring.cu may take so many rows.
func (p *program) mayRing(rows int) bool {
	return rows <= ringRows || p.ringsMany && rows <= mostRinged
}

// ringed reports whether it takes the few rows of a batch. room: the rows of a graph, or 0; alone: as graphKey has it.
func (p *program) ringed(b *compute.Batch, room int, alone bool) bool {
	rows, tokens := 0, 0
	for i := range b.Seqs {
		if q := &b.Seqs[i]; isFew(q) {
			rows += int(q.Rows)
			tokens += int(q.Rows * (q.Start + q.Rows))
		}
	}
	return max(room, rows) <= ringRows || room > 0 && alone && p.mayRing(room) && tokens <= ringTokens*rows
}

// ringPartInts are the numbers of a RingPart of attend_ring.cu.
const ringPartInts = 8

// ringParts is the most parts of attend_ring.cu, for so many blocks.
func ringParts(blocks int) int { return 5*blocks + 1 }

// ringInts are the numbers of all parts, and of where the last one ends: 0 where there is no such kernel.
func (i info) ringInts() int {
	if i.major != hopper {
		return 0
	}
	return ringPartInts * (ringParts(i.sms) + 1)
}

// ringCut goes along the chunks of few rows, of which each has so many shares: it is at row i, whose chunks are begin
// to end-1 among those of all rows.
type ringCut struct {
	rows                  []int32 // shape.few
	shares, i, begin, end int
}

// seek goes to the row that chunk x of all shares is of, and returns which of its share's chunks it is, and how many
// that has.
func (c *ringCut) seek(x int) (nth, n int) {
	for {
		c.begin, c.end = 0, int(c.rows[4*c.i])
		if c.i > 0 {
			c.begin = int(c.rows[4*c.i-4])
		}
		switch {
		case x < c.begin*c.shares:
			c.i--
		case x >= c.end*c.shares && c.i < len(c.rows)/4-1:
			c.i++
		default:
			n = c.end - c.begin
			return (x - c.begin*c.shares) % n, n
		}
	}
}

// put writes a part that begins at chunk x.
func (c *ringCut) put(part []int32, x int) {
	c.seek(x)
	r := c.rows[4*c.i:]
	copy(part, []int32{int32(x), int32(c.i), int32(c.begin), int32(c.end), r[1], r[2], r[3], int32((x - c.begin*c.shares) / (c.end - c.begin))})
}

// fillParts cuts the chunks of few rows, which have so many shares each, into parts for so many blocks. Where blocks
// have some shares each, the first parts, one for each block, are four fifths of all, and blocks take the others as
// they get done, since some multiprocessors get more of the memory than others: single shares, of which the last eighth
// is cut if they are long. Otherwise each block has one part, of equal numbers of chunks, but shares of up to 5/4 of a
// block's are not cut.
func fillParts(to, rows []int32, shares, blocks int) {
	most, chunks := ringParts(blocks), 0
	c := ringCut{rows: rows, shares: shares}
	longest := 0
	for i := 0; i < len(rows); i += 4 {
		longest = max(longest, int(rows[i])-chunks)
		chunks = int(rows[i])
	}
	chunks *= shares
	parts := 0
	put := func(x int) {
		c.put(to[ringPartInts*parts:][:ringPartInts], x)
		parts++
	}
	each := chunks / blocks
	if first := each * 4 / 5; first >= max(longest, 8) {
		for x := 0; x < chunks; {
			put(x)
			next := x + first
			if parts <= blocks {
				nth, n := c.seek(next)
				if next -= nth; next <= x {
					next += n
				}
			} else {
				piece := max(16, each/16)
				nth, n := c.seek(x)
				if left := n - nth; n <= 2*piece || chunks-x > chunks/8 {
					next = x + max(4, each/16)
					if nth, n = c.seek(next); nth > 0 {
						next += n - nth
					}
				} else if next = x + piece; next > x+left-piece/2 {
					next = x + left
				}
			}
			if x = next; parts == most-1 { // the last one stays empty: blocks that find no other take it, and end
				break
			}
		}
	} else {
		blocks = min(blocks, (chunks+3)/4)
		for b := range blocks {
			x := chunks * b / blocks
			if nth, n := c.seek(x); nth > 0 && n <= max(6, chunks*5/4/blocks) {
				x += n - nth
			}
			put(x)
		}
	}
	for ; parts <= most; parts++ {
		part := to[ringPartInts*parts:][:ringPartInts]
		clear(part)
		part[0] = int32(chunks)
	}
}

// attender says which kernels compute a layer's attention with tensor cores, and how they cut rows into tiles.
type attender struct {
	few, tile string
	ring      string // in place of few, on Hopper, or empty
	wgmma     string // in place of tile, on Hopper, or empty
	tokens    int    // of a tile
	parts     int    // blocks of a tile
}

// attender returns the kernels for a layer, if there are some.
func (p *program) attender(a compute.Attention, l compute.CacheLayer) (attender, bool) {
	group := a.Heads / l.KVHeads
	dim, compiled := attendDims[l.KDim]
	dim += kvTypes[kindOfKV(p.cache.spec.Type)].suffix
	k := attender{few: "attend_few_" + dim, tile: "attend_tile_" + dim, tokens: tileRows / group, parts: l.KVHeads}
	ok := compiled && l.KDim == l.VDim && !l.Latent && group <= tileRows && p.cache.spec.BlockTokens%16 == 0
	if name := "attend_wgmma_" + dim; p.kernel[name] != nil && bits.OnesCount(uint(p.cache.spec.BlockTokens)) == 1 {
		k.wgmma, k.tokens = name, wgmmaRows(p.cache.spec.Type, l.KDim)/group
	}
	if name := "attend_ring_" + dim; p.kernel[name] != nil {
		k.ring = name
		p.ringsMany = !coded(p.cache.spec.Type)
	}
	if l.Latent && l.KDim == latentKeys && l.VDim == latentValues {
		k = attender{few: "attend_latent_chunk", tile: "attend_latent_tile", tokens: 1, parts: int(blocksOf(group, 16))}
		ok = p.cache.spec.Type == quant.BF16
		if p.kernel["attend_latent_wgmma"] != nil && p.cache.spec.BlockTokens%16 == 0 {
			k.wgmma, k.tokens, k.parts = "attend_latent_wgmma", max(1, latentWgmmaRows/group), int(blocksOf(group, latentWgmmaRows))
			p.latents = true
		}
	}
	return k, ok && p.kernel[k.few] != nil && p.kernel[k.tile] != nil
}

// attend compiles attention: with tensor cores where the heads' size is one that they are compiled for.
func (c *compiler) attend(o compute.Attend) (operation, error) {
	p := c.p
	a, l := o.Attention, p.cache.spec.Layers[o.Layer]
	if l.KVHeads < 1 || a.Heads%l.KVHeads != 0 {
		return nil, fmt.Errorf("cuda: layer %d: %d query heads cannot share %d KV heads evenly", o.Layer, a.Heads, l.KVHeads)
	}
	if p.attends > 0 && p.bidirectional != a.Bidirectional {
		return nil, fmt.Errorf("cuda: layer %d: some layers see later tokens and some do not", o.Layer)
	}
	p.bidirectional = a.Bidirectional
	p.attends++
	group := a.Heads / l.KVHeads
	k, fits := p.attender(a, l)
	if !fits || c.wide[o.Dst.Buffer] {
		return p.attendAny(o, l, group)
	}
	turned := c.turnedFew
	if turned != nil && turned.at != c.at {
		turned = nil
	}
	q, narrow := c.narrow(o.Q)
	shares := l.KVHeads * int(blocksOf(group, 8))
	kind := p.kindOf(attention{a.Window, k.tokens, shares})
	p.heads = max(p.heads, a.Heads)
	heads := a.Heads
	if l.Latent { // attend_latent_few has 16 at a time
		heads = roundUp(heads, 16)
	}
	p.partialRow = max(p.partialRow, int64(heads)*int64(l.VDim+2)*4)
	args := attendArgs{group: int32(group), window: int32(a.Window), scale: a.Scale * log2e, softcap: a.Softcap * log2e}
	if sinks, ok := a.Sinks.(*vector); ok && sinks != nil {
		args.sinks = sinks.at
	}
	return func(s *shape) error {
		if narrow != nil {
			if err := narrow(s); err != nil {
				return err
			}
		}
		if err := p.untilMoved(o.Layer); err != nil {
			return err
		}
		b := args
		layer := p.cache.layer(o.Layer, p.tables, p.limits.Slots, p.stride)
		b.q, b.dst = p.view(q), p.view(o.Dst)
		b.at, b.table, b.block = layer.at, layer.table, layer.block
		b.stride, b.tokens, b.heads = layer.stride, layer.tokens, layer.heads
		work := &s.kinds[kind]
		b.slot, b.until, b.few, b.count, b.partial, b.arrived = s.slot, s.until, work.few, work.count, p.chunks, p.arrived
		if s.few > 0 {
			var err error
			b.items = work.items
			switch {
			case l.Latent:
				err = p.latentFew(k, o.Layer, s, &b)
			case p.kernel[k.ring] != nil && s.ringed:
				err = p.runRing(k.ring, turned, l.KDim, work.parts, &b)
			case turned != nil && turned.done:
				err = runFew(p, k.few+fewTurned, s.few, shares, l.KDim, group, turned.args(&b))
			default:
				err = runFew(p, k.few, s.few, shares, l.KDim, group, &b)
			}
			if err != nil {
				return err
			}
		}
		b.items = work.tiles
		if k.wgmma != "" {
			b.shift = int32(bits.TrailingZeros(uint(b.tokens)))
			return p.runWgmma(k.wgmma, o.Layer, work.tileCount*k.parts, &attendWgmmaArgs{a: b})
		}
		return run(p, k.tile, grid{uint32(work.tileCount), uint32(k.parts), 1}, 256, &b)
	}, nil
}

// runRing queues attention of few rows by a kernel of attend_ring.cu. t is what may turn heads, or nil.
func (p *program) runRing(kernel string, t *turnerFew, dim int, parts pointer, a *attendArgs) error {
	blocks, threads := grid{uint32(p.d.g.info.sms), 1, 1}, 32*(8+ringWarps(p.cache.spec.Type, dim))
	take := partsArgs{parts: parts, taken: p.taken, most: int32(ringParts(p.d.g.info.sms))}
	if t != nil && t.done {
		return run(p, kernel+fewTurned, blocks, threads, &ringTurnedArgs{*t.args(a), take})
	}
	return run(p, kernel, blocks, threads, &ringArgs{*a, take})
}

// latentsWhole reports whether attend_latent_few has blocks that take all chunks of each few row of a batch, so that
// there is nothing to join: LatentCut of kernels/latent.cuh.
func (p *program) latentsWhole(b *compute.Batch) bool {
	const least = 8
	if !p.latents {
		return false
	}
	for _, kind := range p.kinds {
		longest, all := int32(0), int32(0)
		for i := range b.Seqs {
			if q := &b.Seqs[i]; isFew(q) {
				_, n := kind.chunksOf(q.Start + q.Rows)
				longest, all = max(longest, n), all+n*q.Rows
			}
		}
		all *= int32(blocksOf(p.heads, 16))
		if longest > max(least, all*6/max(1, min(all, int32(p.d.g.info.sms)))) {
			return false
		}
	}
	return true
}

// latentFew queues latent attention of few rows.
func (p *program) latentFew(k attender, layer int, s *shape, a *attendArgs) error {
	rows, heads, sms := s.few, a.group, p.d.g.info.sms
	if k.wgmma != "" {
		const cutRows, joined = 40, 8 // about the most rows that attend_latent_few cuts, and a joining block's numbers
		w := attendWgmmaArgs{a: *a}
		if s.alone {
			w.alone = 1
		}
		if s.whole {
			w.whole = 1
		}
		if err := p.runWgmma("attend_latent_few", layer, sms, &w); err != nil || s.whole {
			return err
		}
		return run(p, "attend_latent_join", grid{uint32(min(rows, cutRows)), blocksOf(int(heads), 16), latentValues / joined}, 128, &latentJoinArgs{a: *a, blocks: int32(sms)})
	}
	if err := run(p, k.few, grid{uint32(2 * sms), 1, 1}, 256, a); err != nil {
		return err
	}
	return run(p, "attend_join", grid{uint32(rows), uint32(heads), 1}, latentValues, &joinArgs{a: *a, dim: latentValues})
}

// runWgmma queues a kernel of attention with wgmma for a layer. Its blocks share the tiles of all KV heads.
func (p *program) runWgmma(kernel string, layer, tiles int, w *attendWgmmaArgs) error {
	if tiles == 0 {
		return nil
	}
	if !coded(p.cache.spec.Type) {
		var err error
		if w.cache, err = p.g.mapLayer(p.cache, layer); err != nil {
			return err
		}
	}
	threads := 512
	if l := p.cache.spec.Layers[layer]; !l.Latent {
		threads = 2*wgmmaRows(p.cache.spec.Type, l.KDim) + 128
	}
	w.a.arrived = p.taken
	return run(p, kernel, grid{uint32(min(tiles, p.d.g.info.sms)), 1, 1}, threads, w)
}

// kindOf returns the number of a kind of attention.
func (p *program) kindOf(k attention) int {
	for i, known := range p.kinds {
		if known == k {
			return i
		}
	}
	p.kinds = append(p.kinds, k)
	return len(p.kinds) - 1
}

// attendAny compiles attention of any shape.
func (p *program) attendAny(o compute.Attend, l compute.CacheLayer, group int) (operation, error) {
	a := o.Attention
	shared := 4 * (l.KDim + l.VDim)
	if shared > 48<<10 {
		return nil, fmt.Errorf("cuda: layer %d: heads of %d and %d values", o.Layer, l.KDim, l.VDim)
	}
	kernel := "attend_any" + kvTypes[kindOfKV(p.cache.spec.Type)].suffix
	f := p.kernel[kernel]
	f.shared = max(f.shared, uint32(shared))
	args := attendAnyArgs{
		group: int32(group), keyDim: int32(l.KDim), valueDim: int32(l.VDim), window: int32(a.Window),
		scale: a.Scale * log2e, softcap: a.Softcap * log2e,
	}
	if l.Latent {
		args.latent = 1
	}
	if sinks, ok := a.Sinks.(*vector); ok && sinks != nil {
		args.sinks = sinks.at
	}
	return func(s *shape) error {
		if err := p.untilMoved(o.Layer); err != nil {
			return err
		}
		b := args
		layer := p.cache.layer(o.Layer, p.tables, p.limits.Slots, p.stride)
		b.q, b.dst = p.view(o.Q), p.view(o.Dst)
		b.at, b.table, b.block = layer.at, layer.table, layer.block
		b.stride, b.tokens, b.heads = layer.stride, layer.tokens, layer.heads
		b.slot, b.until = s.slot, s.until
		return run(p, kernel, grid{uint32(a.Heads), uint32(s.count[compute.AllRows]), 1}, chunkTokens, &b)
	}, nil
}
