package ptx

import "fmt"

// reach finds n bytes of global memory; nil if they are not all of one allocation.
type reach func(address uint64, n int) []byte

// within returns n bytes of a block's shared memory from an address on; nil if they do not exist.
func within(shared []byte, at uint32, n int) []byte { return part(shared, uint64(at)-sharedBase, n) }

func endOf(shared []byte) int { return sharedBase + len(shared) }

// hopperBlock is what a block has of Hopper's.
type hopperBlock struct {
	mbarriers  mbarriers
	warpgroups []*warpgroup
	coming     int // bulk copies to its shared memory that have not happened
	unfenced   unfenced
}

func (h *hopperBlock) start(b *block) {
	h.mbarriers, h.coming = h.mbarriers[:0], 0
	for _, g := range h.warpgroups {
		*g = warpgroup{log: g.log[:0]}
	}
	if b.cluster.launch.program.async {
		h.unfenced.start(len(b.shared), 32*len(b.warps))
	}
}

// owner returns the block whose shared memory an address is of, and the address there.
func (w *warp) owner(lane int, address uint32) (*block, uint32, result) {
	b, at := w.block, address&(1<<24-1)
	if rank := int(address >> 24); rank > len(b.cluster.blocks) {
		return nil, 0, w.fail(lane, "address %#x is of block %d of a cluster of %d", address, rank-1, len(b.cluster.blocks))
	} else if rank > 0 {
		b = b.cluster.blocks[rank-1]
	}
	if b != w.block && b.ended() {
		return nil, 0, w.fail(lane, "address %#x is of block %d of the cluster, which has ended", address, b.rank)
	}
	return b, at, next
}

// ended says whether all threads of a block have returned.
func (b *block) ended() bool {
	for _, w := range b.warps {
		if w.live != 0 {
			return false
		}
	}
	return true
}

// mbarrierAt returns the mbarrier at an address.
func (w *warp) mbarrierAt(lane int, address uint32) (*mbarrier, result) {
	b, at, r := w.owner(lane, address)
	if r != next {
		return nil, r
	}
	m, err := b.hopper.mbarriers.find(b.shared, at)
	if err != nil {
		return nil, w.fail(lane, "%v", err)
	}
	return m, next
}

// bulk is a copy to shared memory in the background, whose bytes count at an mbarrier.
type bulk struct {
	s       *statement
	to, at  uint32 // addresses of shared memory: of the first byte, and of the mbarrier
	bytes   int
	perform func(shared []byte) error
}

// fetch begins a copy to a block's shared memory, or to those of the blocks of the cluster that a register, if it is
// not -1, has the bits of. It happens as late as possible.
func (w *warp) fetch(lane int, c bulk, multicast int32) result {
	first, to, r := w.owner(lane, c.to)
	if r != next {
		return r
	}
	second, at, r := w.owner(lane, c.at)
	if r != next {
		return r
	}
	if first != second {
		return w.fail(lane, "a copy to block %d of the cluster counts at an mbarrier of block %d", first.rank, second.rank)
	}
	c.to, c.at = to, at
	all, blocks := w.block.cluster.blocks, uint16(1)<<first.rank
	if multicast >= 0 {
		blocks = uint16(w.regs[multicast][lane])
	}
	if blocks == 0 || blocks>>len(all) != 0 {
		return w.fail(lane, "a copy to blocks %#x of a cluster of %d", blocks, len(all))
	}
	for i, b := range all {
		if blocks>>i&1 == 0 {
			continue
		}
		if b.ended() {
			return w.fail(lane, "a copy to block %d of the cluster, which has ended", i)
		}
		if _, err := b.hopper.mbarriers.find(b.shared, c.at); err != nil {
			return w.fail(lane, "in block %d of the cluster: %v", i, err)
		}
		b.hopper.coming++
		w.block.cluster.later(func() error { return c.arrive(b) })
	}
	return next
}

// arrive makes a copy happen.
func (c *bulk) arrive(b *block) error {
	b.hopper.coming--
	err := c.perform(b.shared)
	if err == nil {
		b.hopper.unfenced.copied(c.to, c.bytes)
		var m *mbarrier
		if m, err = b.hopper.mbarriers.find(b.shared, c.at); err == nil {
			err = m.complete(c.bytes)
		}
	}
	if err != nil {
		return fmt.Errorf("line %d: %s: %w", c.s.line, c.s.name, err)
	}
	return nil
}

// straight makes a copy of whole bytes from global memory.
func straight(s *statement, memory reach, to uint32, from uint64, bytes int, at uint32) (bulk, error) {
	if to%16 != 0 || from%16 != 0 || bytes%16 != 0 {
		return bulk{}, fmt.Errorf("a copy of %d bytes from %#x to %#x of shared memory: all must be multiples of 16", bytes, from, to)
	}
	if memory(from, bytes) == nil {
		return bulk{}, fmt.Errorf("a copy of %d bytes from %#x, which are not allocated", bytes, from)
	}
	return bulk{s: s, to: to, at: at, bytes: bytes, perform: func(shared []byte) error {
		b := within(shared, to&(1<<24-1), bytes)
		if b == nil {
			return fmt.Errorf("a copy of %d bytes to %#x of shared memory, which ends at %#x", bytes, to, endOf(shared))
		}
		copy(b, memory(from, bytes))
		return nil
	}}, nil
}

// boxed makes a copy of a box of a tensor map.
func boxed(s *statement, memory reach, to uint32, m TensorMap, first [5]int32, at uint32) bulk {
	return bulk{s: s, to: to, at: at, bytes: m.boxBytes(), perform: func(shared []byte) error {
		return m.load(shared, to&(1<<24-1), first, memory)
	}}
}

// bulkStore is a box on its way from shared memory to global memory. It is read as late as possible, and stored later.
type bulkStore struct {
	s     *statement
	lane  int
	group int // of the lane's
	from  uint32
	m     TensorMap
	first [5]int32
	add   bool
	box   []byte // nil until it is read
}

// read reads a box that is not yet.
func (c *bulkStore) read(b *block) error {
	if c.box != nil {
		return nil
	}
	box, err := c.m.gather(b.shared, c.from)
	if err == nil {
		err = b.hopper.unfenced.check(c.from, len(box))
	}
	if err != nil {
		return fmt.Errorf("line %d: %s: %w", c.s.line, c.s.name, err)
	}
	c.box = box
	return nil
}

// put stores a box.
func (c *bulkStore) put(b *block) error {
	l := b.cluster.launch
	l.atomics.Lock()
	defer l.atomics.Unlock()
	if err := c.m.store(c.box, c.first, l.globalAt, c.add); err != nil {
		return fmt.Errorf("line %d: %s: %w", c.s.line, c.s.name, err)
	}
	return nil
}

// storeBox begins to store a box.
func (w *warp) storeBox(lane int, c bulkStore) result {
	if err := c.m.fits(w.block.shared, c.from); err != nil {
		return w.fail(lane, "%v", err)
	}
	c.lane, c.group = lane, w.hopper.storeGroups[lane]
	w.hopper.stores = append(w.hopper.stores, c)
	return next
}

// commitStores makes groups of the lanes' stores.
func (h *hopperWarp) commitStores(mask uint32) {
	for lane := range h.storeGroups {
		if mask>>lane&1 != 0 {
			h.storeGroups[lane]++
		}
	}
}

// waitStores waits until all groups of lanes but the last ones are read or, else, stored.
func (w *warp) waitStores(mask uint32, but int, readOnly bool) result {
	h, kept := &w.hopper, 0
	for _, c := range h.stores {
		if mask>>c.lane&1 != 0 && c.group < h.storeGroups[c.lane]-but {
			err := c.read(w.block)
			if err == nil && !readOnly {
				err = c.put(w.block)
			}
			if err != nil {
				return w.fail(c.lane, "%v", err)
			}
			if !readOnly {
				continue
			}
		}
		h.stores[kept] = c
		kept++
	}
	clear(h.stores[kept:])
	h.stores = h.stores[:kept]
	return next
}

// end is called when all threads of a warp have returned.
func (w *warp) end() error {
	h := &w.hopper
	for _, p := range h.products {
		return fmt.Errorf("warp %d ends while the product of line %d is under way", w.index, p.of.s.line)
	}
	for i := range h.stores {
		c := &h.stores[i]
		if c.box == nil {
			return fmt.Errorf("warp %d ends before the store of line %d has read shared memory", w.index, c.s.line)
		}
		if err := c.put(w.block); err != nil {
			return err
		}
	}
	h.stores = h.stores[:0]
	b := w.block
	if !b.ended() {
		return nil
	}
	if n := b.hopper.coming; n > 0 {
		return fmt.Errorf("it ends while %d copies to its shared memory are under way", n)
	}
	return nil
}
