package ptx

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// The top byte of a generic address says which space it is in. What follows is the address in the space. In shared
// memory, bits from 24 on say which block of the cluster it is: its rank and 1, or 0 for the block itself.
const (
	windowMask   uint64 = 0xff << 56
	sharedWindow uint64 = 1 << 56
	localWindow  uint64 = 2 << 56
	paramWindow  uint64 = 3 << 56
	moduleWindow uint64 = 4 << 56 // the module's variables, whose addresses in global memory are these
)

// sharedBase is where shared memory begins: what is below belongs to the system, as on a GPU.
const sharedBase = 1024

// window is an allocation that an instruction has found last.
type window struct {
	base uint64
	data []byte
}

// get returns n bytes at an address, which has to be a multiple of n; otherwise, and if they are elsewhere, nil.
func (in *window) get(address, n uint64) []byte {
	at := address - in.base
	if at >= uint64(len(in.data)) || uint64(len(in.data))-at < n || address&(n-1) != 0 {
		return nil
	}
	return in.data[at : at+n]
}

// part returns n bytes from an offset on, or nil.
func part(data []byte, at uint64, n int) []byte {
	if at > uint64(len(data)) || uint64(len(data))-at < uint64(n) {
		return nil
	}
	return data[at : at+uint64(n) : at+uint64(n)]
}

// sharedAt returns n bytes of shared memory of the block, or of another one of the cluster; nil if they do not exist.
func (b *block) sharedAt(address uint32, n int) []byte {
	if rank := address >> 24; rank != 0 {
		if int(rank) > len(b.cluster.blocks) {
			return nil
		}
		b = b.cluster.blocks[rank-1]
	}
	return part(b.shared, uint64(address&(1<<24-1))-sharedBase, n)
}

// find returns the allocation of global memory that an address is in.
func (l *launch) find(address uint64) (w window) {
	if address&windowMask == moduleWindow {
		return window{moduleWindow, l.program.data}
	}
	w.base, w.data = l.Memory.Find(address)
	return w
}

// globalAt returns n bytes of global memory, or nil if they are not in one allocation.
func (l *launch) globalAt(address uint64, n int) []byte {
	w := l.find(address)
	return part(w.data, address-w.base, n)
}

// at returns n bytes at an address of a lane, which has to be a multiple of n; nil after w.fail.
func (w *warp) at(s space, near *window, lane int, address uint64, n int) []byte {
	if address&uint64(n-1) != 0 {
		w.fail(lane, "address %#x is not aligned to %d bytes", address, n)
		return nil
	}
	return w.reach(s, near, lane, address, n)
}

// reach returns n bytes at an address of a lane; nil after w.fail.
func (w *warp) reach(s space, near *window, lane int, address uint64, n int) []byte {
	where := "global"
	if s == generic {
		s = global
		switch address & windowMask {
		case sharedWindow:
			s = shared
		case localWindow:
			s = local
		case paramWindow:
			s = param
		}
		if s != global {
			address &^= windowMask
		}
	}
	var p []byte
	switch s {
	case shared:
		where = "shared"
		if address < 1<<32 {
			p = w.block.sharedAt(uint32(address), n)
		}
	case local:
		where = "local"
		size := len(w.local) / len(lanes{})
		p = part(w.local[lane*size:(lane+1)*size], address, n)
	case param:
		where = "parameter"
		p = part(w.block.cluster.launch.Params, address, n)
	default:
		if p = part(near.data, address-near.base, n); p == nil {
			*near = w.block.cluster.launch.find(address)
			p = part(near.data, address-near.base, n)
		}
	}
	if p == nil {
		w.fail(lane, "%d bytes at %s address %#x are out of bounds", n, where, address)
	}
	return p
}

// access is what a load or a store does.
type access struct {
	place
	site   int     // of global memory, see warp.near
	regs   []int32 // what is loaded or stored, one or more
	size   int     // bytes of one
	signed bool
	widths []uint8 // bits of the registers
}

// access compiles the address, the registers and the type of a load or store.
func (c *compiler) access(at, values operand) *access {
	parts := strings.Split(c.statement.name, ".")
	a := &access{size: int(c.width) / 8, signed: strings.HasPrefix(parts[len(parts)-1], "s"), site: c.sites}
	c.sites++
	if a.size == 0 || len(parts) < 2 {
		c.fail("no type")
		return a
	}
	s, n := generic, 1
	for _, p := range parts[1 : len(parts)-1] {
		switch p {
		case "global":
			s = global
		case "shared", "shared::cluster":
			s = shared
		case "local":
			s = local
		case "param":
			s = param
		case "v2":
			n = 2
		case "v4":
			n = 4
		case "cg", "nc", "L1::no_allocate":
		default:
			c.fail("unknown modifier %s", p)
		}
	}
	a.place = c.address(at, s)
	a.regs = c.regs(values, n)
	if values.kind != vector {
		values.list = []operand{values}
	}
	for _, o := range values.list {
		a.widths = append(a.widths, max(o.width, c.width))
	}
	return a
}

// elsewhere returns what a lane accesses if it was not in the window, see warp.at, and the window for the next lane.
func (a *access) elsewhere(w *warp, lane int) ([]byte, window) {
	p := w.at(a.space, &w.near[a.site], lane, w.regs[a.base][lane]+a.offset, a.size*len(a.regs))
	return p, a.window(w)
}

// window returns the memory that a load or store of a warp goes to if it is in bounds: the block's own, the kernel's
// parameters, or what the instruction found last.
func (a *access) window(w *warp) window {
	switch a.space {
	case shared:
		return window{sharedBase, w.block.shared}
	case global, generic:
		return w.near[a.site]
	case param:
		return window{data: w.block.cluster.launch.Params}
	}
	return window{}
}

func load(c *compiler, _ *statement) action {
	ops := c.operands(2)
	a := c.access(ops[1], ops[0])
	bytes := uint64(a.size * len(a.regs))
	if a.signed {
		return a.loadSigned
	}
	return func(w *warp, mask uint32) result {
		base, in := &w.regs[a.base], a.window(w)
		for ; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask) & 31
			p := in.get(base[lane]+a.offset, bytes)
			if p == nil {
				if p, in = a.elsewhere(w, lane); p == nil {
					return fault
				}
			}
			if a.size == 4 { // as most are
				for i, r := range a.regs {
					w.regs[r][lane] = uint64(binary.LittleEndian.Uint32(p[4*i:]))
				}
				continue
			}
			for i, r := range a.regs {
				w.regs[r][lane] = get(p[i*a.size:], a.size)
			}
		}
		return next
	}
}

// loadSigned extends what is loaded to the registers.
func (a *access) loadSigned(w *warp, mask uint32) result {
	for ; mask != 0; mask &= mask - 1 {
		lane := bits.TrailingZeros32(mask) & 31
		p, _ := a.elsewhere(w, lane)
		if p == nil {
			return fault
		}
		for i, r := range a.regs {
			shift := 64 - 8*a.size
			v := int64(get(p[i*a.size:], a.size)<<shift) >> shift
			w.regs[r][lane] = uint64(v) & (1<<(a.widths[i]-1)<<1 - 1)
		}
	}
	return next
}

func store(c *compiler, _ *statement) action {
	ops := c.operands(2)
	a := c.access(ops[0], ops[1])
	bytes := uint64(a.size * len(a.regs))
	return func(w *warp, mask uint32) result {
		if a.space == shared {
			w.block.hopper.unfenced.wrote(w, mask, a.place)
		}
		base, in := &w.regs[a.base], a.window(w)
		for ; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask) & 31
			p := in.get(base[lane]+a.offset, bytes)
			if p == nil {
				if p, in = a.elsewhere(w, lane); p == nil {
					return fault
				}
			}
			for i, r := range a.regs {
				put(p[i*a.size:], a.size, w.regs[r][lane])
			}
		}
		return next
	}
}

// get reads a little-endian integer of 1, 2, 4 or 8 bytes.
func get(p []byte, size int) uint64 {
	switch size {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(p))
	case 4:
		return uint64(binary.LittleEndian.Uint32(p))
	}
	return binary.LittleEndian.Uint64(p)
}

// put writes a little-endian integer of 1, 2, 4 or 8 bytes.
func put(p []byte, size int, v uint64) {
	switch size {
	case 1:
		p[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(p, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(p, uint32(v))
	default:
		binary.LittleEndian.PutUint64(p, v)
	}
}

// atom compiles atom.space.operation.type d, [a], b: d becomes what was there.
func atom(c *compiler, s *statement) action {
	ops := c.operands(3)
	parts := strings.Split(s.name, ".")
	if len(parts) != 4 {
		c.fail("unknown form")
		return nil
	}
	in := map[string]space{"global": global, "shared": shared}[parts[1]]
	operation := map[string]func(a, b uint64) uint64{
		"add": func(a, b uint64) uint64 { return a + b },
		"or":  func(a, b uint64) uint64 { return a | b },
	}[parts[2]]
	size := int(c.width) / 8
	if in == generic || operation == nil || size < 4 {
		c.fail("unknown form")
		return nil
	}
	at := c.address(ops[1], in)
	d, b, site := c.reg(ops[0]), c.reg(ops[2]), c.sites
	c.sites++
	return func(w *warp, mask uint32) result {
		l := w.block.cluster.launch
		l.atomics.Lock()
		defer l.atomics.Unlock()
		for ; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask) & 31
			p := w.at(in, &w.near[site], lane, w.regs[at.base][lane]+at.offset, size)
			if p == nil {
				return fault
			}
			v, by := get(p, size), w.regs[b][lane]
			w.regs[d][lane] = v
			put(p, size, operation(v, by))
		}
		return next
	}
}

// fence orders global memory between the goroutines of blocks.
func fence(*compiler, *statement) action {
	return func(w *warp, _ uint32) result {
		w.block.cluster.launch.fences.Add(1) // what all processors order
		return next
	}
}
