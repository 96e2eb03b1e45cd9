package ptx

import (
	"strconv"
	"strings"
)

// hopperBuilders compile what compute capability 9.0 adds to 8.0.
var hopperBuilders = map[string]builder{
	"mbarrier.init.shared::cta.b64":                            buildInit,
	"mbarrier.arrive.shared::cta.b64":                          buildArrive,
	"mbarrier.arrive.shared::cluster.b64":                      buildArrive,
	"mbarrier.arrive.release.cluster.shared::cluster.b64":      buildArrive,
	"mbarrier.arrive.expect_tx.shared::cta.b64":                buildExpect,
	"mbarrier.try_wait.parity.shared::cta.b64":                 buildTryWait,
	"mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64": buildTryWait,

	"wgmma.fence.sync.aligned":        buildFence,
	"wgmma.commit_group.sync.aligned": buildCommit,
	"wgmma.wait_group.sync.aligned":   buildWait,
	"wgmma.mma_async.sync.aligned":    buildProduct,

	"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes": buildBulk,
	"cp.async.mbarrier.arrive.noinc.shared::cta.b64":                    arriveCopied,
	"createpolicy.fractional":                                           buildPolicy,

	"cp.async.bulk.tensor":        buildTensor,
	"cp.reduce.async.bulk.tensor": buildTensor,
	"cp.async.bulk.commit_group":  buildCommitStores,
	"cp.async.bulk.wait_group":    buildWaitStores,

	"st.async":                            buildStoreAsync,
	"stmatrix.sync.aligned.m8n8":          buildStoreMatrix,
	"mapa.shared::cluster.u32":            buildMapShared,
	"barrier.cluster.arrive":              buildOnly(clusterArrive),
	"barrier.cluster.wait":                buildOnly(clusterWait),
	"setmaxnreg.inc.sync.aligned.u32":     buildRegisters,
	"setmaxnreg.dec.sync.aligned.u32":     buildRegisters,
	"fence.mbarrier_init.release.cluster": hint,
	"fence.proxy.async.shared::cta":       buildProxyFence,
	"griddepcontrol.wait":                 hint, // kernels run one after another
	"griddepcontrol.launch_dependents":    hint,
}

func buildOnly(a action) builder {
	return func(c *compiler, _ *statement) action {
		c.operands(0)
		return a
	}
}

func buildInit(c *compiler, _ *statement) action {
	ops := c.operands(2)
	return mbarrierInit(c.address(ops[0], shared), c.reg(ops[1]))
}

func buildArrive(c *compiler, _ *statement) action {
	at := c.mbarrier(c.operands(2))
	return mbarrierArrive(at, -1)
}

func buildExpect(c *compiler, _ *statement) action {
	ops := c.operands(3)
	return mbarrierArrive(c.mbarrier(ops), c.reg(ops[2]))
}

// mbarrier returns where the mbarrier of an arrival is, whose state the kernel must not ask for.
func (c *compiler) mbarrier(ops []operand) place {
	if ops[0].kind != nothing {
		c.fail("the state of an mbarrier is not modelled")
	}
	return c.address(ops[1], shared)
}

func buildTryWait(c *compiler, _ *statement) action {
	ops := c.operands(3)
	return mbarrierWait(c.pred(ops[0]), c.address(ops[1], shared), c.reg(ops[2]))
}

func buildFence(c *compiler, _ *statement) action {
	c.operands(0)
	return func(w *warp, mask uint32) result {
		w.hopper.fenced = true
		return w.whole(mask)
	}
}

func buildProxyFence(c *compiler, _ *statement) action {
	c.operands(0)
	return func(w *warp, mask uint32) result {
		w.block.hopper.unfenced.fence(w, mask)
		return next
	}
}

func buildCommit(c *compiler, _ *statement) action {
	c.operands(0)
	return func(w *warp, mask uint32) result {
		r := w.whole(mask)
		if r == next {
			w.hopper.groups++
			w.hopper.fenced = false
		}
		return r
	}
}

func buildWait(c *compiler, _ *statement) action {
	but := c.numbers(0, 1)[0]
	if but > 7 {
		c.fail("it waits for all but %d groups, of up to 7", but)
	}
	return func(w *warp, mask uint32) result { return w.waitProducts(mask, int(but)) }
}

// buildProduct compiles, say, wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {sums}, A, B, scale-d, scale-a,
// scale-b and which operands lie across: of 16-bit numbers, A if it is in shared memory, and B.
func buildProduct(c *compiler, s *statement) action {
	p := &wgmma{s: s, aFrom: -1}
	shape, types, _ := strings.Cut(strings.TrimPrefix(s.name, "wgmma.mma_async.sync.aligned.m64n"), ".")
	switch types {
	case "f32.bf16.bf16":
		p.numbers = numbersBF16
	case "f32.f16.f16":
		p.numbers = numbersF16
	case "f32.e4m3.e4m3":
		p.numbers = numbersE4M3
	default:
		c.fail("unknown types")
	}
	c.async = true
	p.k = 32 / p.numbers.bytes()
	n, err := strconv.Atoi(strings.TrimSuffix(shape, "k"+strconv.Itoa(p.k)))
	if p.n = n; err != nil || n < 8 || n > 256 || n%8 != 0 {
		c.fail("unknown shape")
		return nil
	}
	ops := s.operands
	if len(ops) < 4 {
		ops = c.operands(4)
	}
	p.d = c.registers32(ops[0], n/2)
	flags := 2
	if p.numbers != numbersE4M3 {
		flags++
	}
	if ops[1].kind == vector {
		copy(p.a[:], c.registers32(ops[1], 4))
	} else {
		p.aFrom = c.reg(ops[1])
		if p.numbers != numbersE4M3 {
			flags++
		}
	}
	p.b, p.keep = c.reg(ops[2]), c.pred(ops[3])
	for i, v := range c.numbers(4, flags) {
		switch v := int64(v); {
		case i == 0 && v*v == 1:
			p.minusA = v < 0
		case i == 1 && v*v == 1:
			p.minusB = v < 0
		case i == 2 && flags == 4 && v>>1 == 0:
			p.acrossA = v == 1
		case i == flags-1 && i > 1 && v>>1 == 0:
			p.acrossB = v == 1
		default:
			c.fail("operand %d is %d", 5+i, v)
		}
	}
	return p.begin
}

// registers32 returns the registers of a vector of n, or of one operand.
func (c *compiler) registers32(o operand, n int) []int32 {
	list := o.list
	if o.kind != vector {
		list = []operand{o}
	}
	for _, o := range list {
		if o.kind != register || o.width != 32 {
			c.fail("an element of a vector is no register of 32 bits")
		}
	}
	return c.regs(o, n)
}

// cacheHint is the end of the names of copies with a policy of the second-level cache, which is not modelled.
const cacheHint = ".L2::cache_hint"

// buildPolicy compiles createpolicy policy.
func buildPolicy(c *compiler, _ *statement) action {
	to := c.reg(c.operands(1)[0])
	return func(w *warp, mask uint32) result {
		return each(mask, func(lane int) result {
			w.regs[to][lane] = 0
			return next
		})
	}
}

// buildBulk compiles a copy of whole bytes: to, from, bytes, mbarrier and, with multicast, which blocks of the cluster.
func buildBulk(c *compiler, s *statement) action {
	name, hinted := strings.CutSuffix(s.name, cacheHint)
	multicast := strings.HasSuffix(name, ".multicast::cluster")
	n := 4
	if multicast {
		n++
	}
	if hinted {
		n++
	}
	ops := c.operands(n)
	to, from, bytes, at, blocks := c.address(ops[0], shared), c.address(ops[1], global), c.reg(ops[2]), c.address(ops[3], shared), int32(-1)
	if multicast {
		blocks = c.reg(ops[4])
	}
	return func(w *warp, mask uint32) result {
		return each(mask, func(lane int) result {
			b, err := straight(s, w.block.cluster.launch.globalAt, to.of(w, lane), w.regs[from.base][lane]+from.offset, int(uint32(w.regs[bytes][lane])), at.of(w, lane))
			if err != nil {
				return w.fail(lane, "%v", err)
			}
			return w.fetch(lane, b, blocks)
		})
	}
}

// buildStoreAsync compiles a store to a block's shared memory whose bytes count at an mbarrier of that block. It is
// done at once.
func buildStoreAsync(c *compiler, s *statement) action {
	if s.name != "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32" {
		c.fail("unknown form of st.async")
		return nil
	}
	ops := c.operands(3)
	to, from, at := c.address(ops[0], shared), c.regs(ops[1], 4), c.address(ops[2], shared)
	return func(w *warp, mask uint32) result {
		return each(mask, func(lane int) result {
			address := to.of(w, lane)
			b, local, r := w.owner(lane, address)
			if r != next {
				return r
			}
			there := within(b.shared, local, 16)
			if local%16 != 0 || there == nil {
				return w.fail(lane, "16 bytes at %#x, which is no multiple of 16 or not in shared memory, which ends at %#x", local, endOf(b.shared))
			}
			m, r := w.mbarrierAt(lane, at.of(w, lane))
			if r != next {
				return r
			}
			for i, reg := range from {
				put(there[4*i:], 4, w.regs[reg][lane])
			}
			if err := m.complete(16); err != nil {
				return w.fail(lane, "%v", err)
			}
			return next
		})
	}
}

// buildTensor compiles copies of boxes: to shared memory, of [map, {numbers}] at an mbarrier and, with multicast, which
// blocks of the cluster; or from shared memory.
func buildTensor(c *compiler, s *statement) action {
	name, hinted := strings.CutSuffix(s.name, cacheHint)
	_, form, _ := strings.Cut(name, ".tensor.")
	dims, form, _ := strings.Cut(form, "d.")
	const fetched = "shared::cluster.global.tile.mbarrier::complete_tx::bytes"
	load, n, add := false, 2, strings.HasPrefix(s.name, "cp.reduce.")
	switch {
	case form == fetched && !add:
		load, n = true, 3
	case form == fetched+".multicast::cluster" && !add:
		load, n = true, 4
	case form == "global.shared::cta.tile.bulk_group" && !add:
	case form == "global.shared::cta.add.tile.bulk_group" && add:
	default:
		c.fail("unknown form")
		return nil
	}
	blocksAt := n - 1
	if hinted {
		n++
	}
	ops := c.operands(n)
	tensor, there := ops[0], ops[1]
	if load {
		tensor, there = there, tensor
	}
	if tensor.kind != address || strconv.Itoa(len(tensor.list)-1) != dims {
		c.fail("the tensor is no [map, {%s numbers}]", dims)
		return nil
	}
	of, from, at, blocks := c.address(tensor, generic), c.address(there, shared), place{}, int32(-1)
	var numbers []int32
	for _, o := range tensor.list[1:] {
		numbers = append(numbers, c.reg(o))
	}
	c.async = c.async || !load
	if load {
		at = c.address(ops[2], shared)
		if blocksAt == 3 {
			blocks = c.reg(ops[blocksAt])
		}
	}
	return func(w *warp, mask uint32) result {
		return each(mask, func(lane int) result {
			m, first, r := w.tensor(lane, of, numbers)
			if r != next {
				return r
			}
			if load {
				return w.fetch(lane, boxed(s, w.block.cluster.launch.globalAt, from.of(w, lane), m, first, at.of(w, lane)), blocks)
			}
			return w.storeBox(lane, bulkStore{s: s, from: from.of(w, lane), m: m, first: first, add: add})
		})
	}
}

// tensor reads a tensor map, and the numbers that a box begins with.
func (w *warp) tensor(lane int, of place, numbers []int32) (m TensorMap, first [5]int32, r result) {
	at := w.regs[of.base][lane] + of.offset
	var near window
	b := w.reach(generic, &near, lane, at, 128)
	if b == nil {
		return m, first, fault
	}
	if at%64 != 0 {
		return m, first, w.fail(lane, "a tensor map at %#x, no multiple of 64", at)
	}
	m, err := decodeTensorMap(b)
	if err != nil {
		return m, first, w.fail(lane, "at %#x: %v", at, err)
	}
	if m.Dims != len(numbers) {
		return m, first, w.fail(lane, "a tensor map of %d dimensions", m.Dims)
	}
	for i, r := range numbers {
		first[i] = int32(w.regs[r][lane])
	}
	return m, first, next
}

func buildCommitStores(c *compiler, _ *statement) action {
	c.operands(0)
	return func(w *warp, mask uint32) result {
		w.hopper.commitStores(mask)
		return next
	}
}

func buildWaitStores(c *compiler, s *statement) action {
	but := int(c.numbers(0, 1)[0])
	readOnly := strings.HasSuffix(s.name, ".read")
	return func(w *warp, mask uint32) result { return w.waitStores(mask, but, readOnly) }
}

func buildStoreMatrix(c *compiler, s *statement) action {
	ops := c.operands(2)
	for _, n := range []int{1, 2, 4} {
		for _, across := range []string{"", ".trans"} {
			if s.name == "stmatrix.sync.aligned.m8n8.x"+strconv.Itoa(n)+across+".shared.b16" {
				return storeMatrix(c.address(ops[0], shared), c.registers32(ops[1], n), across != "")
			}
		}
	}
	c.fail("unknown form")
	return nil
}

func buildMapShared(c *compiler, _ *statement) action {
	ops := c.operands(3)
	return mapShared(c.reg(ops[0]), c.reg(ops[1]), c.reg(ops[2]))
}

func buildRegisters(c *compiler, _ *statement) action {
	if n := c.numbers(0, 1)[0]; n < 24 || n > 256 || n%8 != 0 {
		c.fail("%d registers, no multiple of 8 from 24 to 256", n)
	}
	return func(w *warp, mask uint32) result { return w.whole(mask) }
}
