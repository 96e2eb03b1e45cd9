package ptx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// testMemory is global memory of one allocation, at testBase.
type testMemory []byte

const testBase = 1 << 32

func (m testMemory) Find(address uint64) (uint64, []byte) {
	if address-testBase < uint64(len(m)) {
		return testBase, m
	}
	return 0, nil
}

// trial is a kernel of a test: of parameters, a tensor map among them, and some memory.
type trial struct {
	body    string // %rd1 is the address of memory, %rd2 of the tensor map, %r1 the thread, %r2 the block
	threads int
	blocks  int // of one cluster
	shared  int
	m       TensorMap
	memory  testMemory
}

func (k trial) run(t *testing.T) error {
	t.Helper()
	source := `.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 at)
{
.reg .pred %p<8>;
.reg .b16 %rs<8>;
.reg .f32 %f<300>;
.reg .b32 %r<80>;
.reg .b64 %rd<40>;
ld.param.u64 %rd1, [at];
mov.b64 %rd2, map;
cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x;
mov.u32 %r2, %cluster_ctarank;
` + k.body + "\nret;\n}\n"
	m, err := Parse([]byte(source))
	if err != nil {
		return err
	}
	params := make([]byte, 136)
	if k.m.Dims > 0 {
		b, err := k.m.Encode()
		passes(t, err)
		copy(params, b[:])
	}
	binary.LittleEndian.PutUint64(params[128:], testBase)
	k.blocks = max(k.blocks, 1)
	one := [3]int{k.blocks, 1, 1}
	return m.Entry("k").Run(Launch{Grid: one, Cluster: one, Block: [3]int{max(k.threads, 32), 1, 1}, Shared: k.shared, Params: params, Memory: k.memory})
}

func (m testMemory) floats(from int) []float32 {
	f := make([]float32, (len(m)-from)/4)
	for i := range f {
		f[i] = math.Float32frombits(binary.LittleEndian.Uint32(m[from+4*i:]))
	}
	return f
}

// fetchBody fetches 64 bytes of memory to 2048 by way of an mbarrier at 1024, and copies them to memory+256. The lines
// given take the place of the expectation and of the wait.
func fetchBody(expect, wait string) string {
	return `setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
mov.u32 %r3, 1024;
mov.u32 %r4, 2048;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
` + expect + `
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 64, [%r3];
` + wait + `
mov.u32 %r5, 0;
LOOP:
add.s32 %r6, %r4, %r5;
ld.shared.u32 %r7, [%r6];
cvt.u64.u32 %rd3, %r5;
add.s64 %rd4, %rd1, %rd3;
st.global.u32 [%rd4+256], %r7;
add.s32 %r5, %r5, 4;
setp.lt.u32 %p2, %r5, 64;
@%p2 bra LOOP;
DONE:`
}

const (
	expect64 = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 64;"
	waitFor0 = "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%r3], 0;\n@!p bra again;\n}"
)

func TestBulkCopies(t *testing.T) {
	k := trial{body: fetchBody(expect64, waitFor0), shared: 4096, memory: make(testMemory, 512)}
	for i := range 64 {
		k.memory[i] = byte(i)
	}
	passes(t, k.run(t))
	if string(k.memory[256:320]) != string(k.memory[:64]) {
		t.Errorf("the copy is % x", k.memory[256:320])
	}
	k.body = fetchBody(expect64, "") // the copy is late
	fails(t, k.run(t), "copies to its shared memory are under way")
	k.body = fetchBody("mbarrier.arrive.shared::cta.b64 _, [%r3];", waitFor0)
	fails(t, k.run(t), "copies to its shared memory are under way")
	k.body = fetchBody(strings.Replace(expect64, "64;", "48;", 1), waitFor0)
	fails(t, k.run(t), "got 16 bytes more in phase 0 than it was told of")
	k.body = fetchBody(strings.Replace(expect64, "64;", "80;", 1), waitFor0)
	fails(t, k.run(t), "misses 0 of 1 arrivals and 16 bytes")
	k.body = fetchBody(expect64+expect64, waitFor0)
	fails(t, k.run(t), "more arrivals in phase 0 than the 1 that it expects")
	k.body = strings.Replace(fetchBody(expect64, waitFor0), "mbarrier.init.shared::cta.b64 [%r3], 1;", "", 1)
	fails(t, k.run(t), "mbarrier at 0x400 is not initialised")
	k.body = strings.Replace(fetchBody(expect64, waitFor0), "[%r4], [%rd1]", "[%r4+8], [%rd1]", 1)
	fails(t, k.run(t), "all must be multiples of 16")
	k.body = strings.Replace(fetchBody(expect64, waitFor0), "[%r4], [%rd1]", "[%r4], [%rd1+464]", 1)
	fails(t, k.run(t), "which are not allocated")
	k.body, k.shared = fetchBody(expect64, waitFor0), 1056
	fails(t, k.run(t), "to 0x800 of shared memory, which ends at 0x820")
	k.shared = 4096
	k.body = strings.NewReplacer("bytes [", "bytes.L2::cache_hint [", "64, [%r3];", "64, [%r3], %rd5;").Replace(fetchBody(expect64, waitFor0))
	k.body = "createpolicy.fractional.L2::evict_first.b64 %rd5;\n" + k.body
	clear(k.memory[256:])
	passes(t, k.run(t))
	if string(k.memory[256:320]) != string(k.memory[:64]) {
		t.Errorf("the copy with a policy is % x", k.memory[256:320])
	}
}

// A lane arrives at an mbarrier when its cp.async are there, which they are no sooner.
func TestCopiedArrivals(t *testing.T) {
	begin := ""
	for _, at := range []string{"0", "16", "32", "48"} {
		begin += "cp.async.cg.shared.global [%r4+" + at + "], [%rd1+" + at + "], 16;\n"
	}
	const arrive = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3];"
	fetched := fetchBody("", waitFor0)
	bulk := "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 64, [%r3];"
	k := trial{shared: 4096, memory: make(testMemory, 512)}
	for i := range 64 {
		k.memory[i] = byte(i)
	}
	hinted := strings.NewReplacer("global [", "global.L2::cache_hint [", "16;", "16, 0x12f0000000000000;").Replace(begin)
	read := "mov.u32 %r6, 16;\n" + strings.ReplaceAll(hinted, "16, 0x", "16, %r6, 0x")
	for _, copies := range []string{hinted, read, begin} {
		clear(k.memory[256:])
		k.body = strings.Replace(fetched, bulk, copies+arrive, 1)
		passes(t, k.run(t))
		if string(k.memory[256:320]) != string(k.memory[:64]) {
			t.Errorf("the copy of %s is % x", copies, k.memory[256:320])
		}
	}
	k.body = strings.Replace(k.body, waitFor0, "", 1)
	passes(t, k.run(t))
	if string(k.memory[256:320]) != strings.Repeat("\xff", 64) {
		t.Errorf("before the copies are there: % x", k.memory[256:320])
	}
}

// TestTensorCopies takes a box of a matrix, and stores, or adds, it elsewhere.
func TestTensorCopies(t *testing.T) {
	const body = `setp.ne.u32 %p1, %r1, 0;
@%p1 bra DONE;
mov.u32 %r3, 1024;
mov.u32 %r4, 2048;
mov.u32 %r5, 8;
mov.u32 %r6, -2;
mbarrier.init.shared::cta.b64 [%r3], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r4], [%rd2, {%r5, %r6}], [%r3];
` + waitFor0 + `
mov.u32 %r7, 16;
mov.u32 %r8, 9;
STORE [%rd2, {%r7, %r8}], [%r4];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
st.shared.u32 [%r4], %r3;
cp.async.bulk.wait_group 0;
DONE:`
	k := trial{shared: 4096, memory: make(testMemory, 64*20*4), m: TensorMap{Type: 7, Dims: 2, Address: testBase, Size: [5]uint64{60, 20}, Pitch: [4]uint64{256},
		Box: [5]uint32{32, 8}, Step: [5]uint32{1, 1}, Swizzle: 3}}
	at := func(row, col int) float32 { return float32(row + col*32) }
	for add, name := range []string{"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"} {
		for i := range 64 * 20 {
			binary.LittleEndian.PutUint32(k.memory[4*i:], math.Float32bits(at(i/64, i%64)))
		}
		k.body = strings.Replace(body, "STORE", name, 1)
		passes(t, k.run(t))
		for i, got := range k.memory.floats(0) {
			row, col := i/64, i%64
			want := at(row, col)
			if r, c := row-9, col-16; r >= 0 && r < 8 && c >= 0 && c < 32 {
				want *= float32(add)
				if r >= 2 {
					want += at(r-2, c+8)
				}
			}
			if got != want {
				t.Fatalf("%s: number %d of row %d is %g; want %g", name, col, row, got, want)
			}
		}
	}
	k.body = strings.Replace(strings.Replace(body, "STORE", "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group", 1), "cp.async.bulk.commit_group;\n", "", 1)
	fails(t, k.run(t), "ends before the store of line")
	k.body = strings.Replace(body, "STORE", "st.shared.u32 [%r4+32], %r3;\ncp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group", 1)
	fails(t, k.run(t), "0x820 of shared memory was written by thread 0")
	k.body = strings.Replace(body, "STORE", "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group", 1)
	k.m = TensorMap{}
	fails(t, k.run(t), "no tensor map is here")
}

// TestClusters has each of two blocks multicast half of memory, count at the other's mbarrier, and store what the other
// one has.
func TestClusters(t *testing.T) {
	const body = `setp.ne.u32 %p1, %r1, 0;
mov.u32 %r3, 1024;
mov.u32 %r4, 2048;
shl.b32 %r5, %r2, 6;
add.s32 %r6, %r4, %r5;
cvt.u64.u32 %rd3, %r5;
add.s64 %rd4, %rd1, %rd3;
mov.u16 %rs1, 3;
xor.b32 %r8, %r2, 1;
@%p1 bra SYNC;
mbarrier.init.shared::cta.b64 [%r3], 1;
mbarrier.init.shared::cta.b64 [%r3+8], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;
SYNC:
bar.warp.sync 0xffffffff;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
@%p1 bra DONE;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r6], [%rd4], 64, [%r3], %rs1;
` + waitFor0 + `
add.s32 %r7, %r3, 8;
mapa.shared::cluster.u32 %r9, %r7, %r8;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];
{
.reg .pred p;
again:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%r7], 0;
@!p bra again;
}
mapa.shared::cluster.u32 %r10, %r6, %r8;
ld.shared::cluster.f32 %f1, [%r10];
st.global.f32 [%rd4+128], %f1;
DONE:
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;`
	k := trial{body: body, blocks: 2, shared: 4096, memory: make(testMemory, 256)}
	binary.LittleEndian.PutUint32(k.memory, math.Float32bits(2))
	binary.LittleEndian.PutUint32(k.memory[64:], math.Float32bits(3))
	passes(t, k.run(t))
	if got := k.memory.floats(128); got[0] != 2 || got[16] != 3 {
		t.Errorf("the blocks store %g and %g", got[0], got[16])
	}
	sync := "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"
	k.body = strings.Replace(body, sync, "", 1)
	fails(t, k.run(t), "mbarrier at 0x400 is not initialised")
	k.body = strings.Replace(body, sync, "barrier.cluster.arrive.release.aligned;\n"+sync, 1)
	fails(t, k.run(t), "again before it has waited")
	k.body = strings.Replace(body, sync, "barrier.cluster.wait.acquire.aligned;", 1)
	fails(t, k.run(t), "before it has arrived there")
	k.body = strings.Replace(body, "%r6, %r8;", "%r6, 2;", 1)
	fails(t, k.run(t), "of block 2 of a cluster of 2")
	k.body = strings.Replace(body, "%rs1, 3", "%rs1, 4", 1)
	fails(t, k.run(t), "a copy to blocks 0x4 of a cluster of 2")
}

// TestStoresAsync has each of two blocks store numbers to the other's shared memory, where their bytes count.
func TestStoresAsync(t *testing.T) {
	const body = `setp.ne.u32 %p1, %r1, 0;
mov.u32 %r3, 1024;
mov.u32 %r4, 2048;
xor.b32 %r8, %r2, 1;
shl.b32 %r5, %r2, 4;
cvt.u64.u32 %rd3, %r5;
add.s64 %rd4, %rd1, %rd3;
@%p1 bra SYNC;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;
SYNC:
bar.warp.sync 0xffffffff;
barrier.cluster.arrive.relaxed.aligned;
barrier.cluster.wait.acquire.aligned;
@%p1 bra DONE;
ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
mapa.shared::cluster.u32 %r9, %r4, %r8;
mapa.shared::cluster.u32 %r10, %r3, %r8;
st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%r9], {%f1, %f2, %f3, %f4}, [%r10];
` + waitFor0 + `
ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r4];
st.global.v4.f32 [%rd4+32], {%f1, %f2, %f3, %f4};
DONE:
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;`
	k := trial{body: body, blocks: 2, shared: 4096, memory: make(testMemory, 256)}
	for i := range 8 {
		binary.LittleEndian.PutUint32(k.memory[4*i:], math.Float32bits(float32(i)))
	}
	passes(t, k.run(t))
	if got := k.memory.floats(32)[:8]; !slices.Equal(got, []float32{4, 5, 6, 7, 0, 1, 2, 3}) {
		t.Errorf("the blocks store %g", got)
	}
	k.body = strings.Replace(body, "[%r9]", "[%r9+8]", 1)
	fails(t, k.run(t), "no multiple of 16")
	k.body = strings.Replace(body, "[%r9]", "[%r9+4096]", 1)
	fails(t, k.run(t), "not in shared memory")
	k.body = strings.Replace(body, "_, [%r3], 16", "_, [%r3], 8", 1)
	fails(t, k.run(t), "8 bytes more in phase 0 than it was told of")
	k.body = strings.Replace(body, ".v4.f32 [%r9]", ".b32 [%r9]", 1)
	fails(t, k.run(t), "unknown form of st.async")
}

// productBody multiplies A, of memory, 64 rows of 16 numbers of bfloat16, with B, behind it, which is 16 by 16, and
// stores the sums behind that. B lies as 16 rows of 16 in shared memory, of 128 bytes each, swizzled.
const productBody = `shl.b32 %r3, %r1, 4;
cvt.u64.u32 %rd3, %r3;
add.s64 %rd4, %rd1, %rd3;
ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd4];
setp.ge.u32 %p1, %r1, 32;
@%p1 bra SYNC;
ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%rd4+2048];
shr.u32 %r4, %r1, 1;
and.b32 %r5, %r4, 7;
and.b32 %r6, %r1, 1;
xor.b32 %r5, %r5, %r6;
shl.b32 %r5, %r5, 4;
shl.b32 %r4, %r4, 7;
add.s32 %r4, %r4, %r5;
st.shared.v4.u32 [%r4+1024], {%r20, %r21, %r22, %r23};
fence.proxy.async.shared::cta;
SYNC:
bar.sync 0;
mov.f32 %f1, 0f3F800000;
mov.f32 %f2, %f1;
mov.f32 %f3, %f1;
mov.f32 %f4, %f1;
mov.f32 %f5, %f1;
mov.f32 %f6, %f1;
mov.f32 %f7, %f1;
mov.f32 %f8, %f1;
mov.u64 %rd5, 0x4000004000010040;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, {%r10,%r11,%r12,%r13}, %rd5, 1, 1, 1, 0;
wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, {%r10,%r11,%r12,%r13}, %rd5, 1, 1, 1, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
shl.b32 %r3, %r1, 5;
cvt.u64.u32 %rd3, %r3;
add.s64 %rd4, %rd1, %rd3;
st.global.v4.f32 [%rd4+2560], {%f1,%f2,%f3,%f4};
st.global.v4.f32 [%rd4+2576], {%f5,%f6,%f7,%f8};`

func TestProducts(t *testing.T) {
	k := trial{body: productBody, threads: 128, shared: 2048, memory: make(testMemory, 2560+4096)}
	r := rand.New(rand.NewPCG(5, 6))
	a, b := make([]float32, 64*16), make([]float32, 16*16)
	for i := range a {
		a[i] = some(r)
		// Thread 4g+t of warp w has rows g and g+8 in turn of numbers 2t, 2t+1 and 2t+8, 2t+9.
		row, col := i/16, i%16
		thread, reg := row/16*32+row%8*4+col%8/2, row%16/8+col/8*2
		numbersBF16.put(k.memory[thread*16+reg*4+col%2*2:], a[i])
	}
	for i := range b {
		b[i] = some(r)
		numbersBF16.put(k.memory[2048+2*i:], b[i])
	}
	want := func(i, times int) float32 {
		thread, reg := i/8, i%8
		row, col, sum := thread/32*16+thread%32/4+reg%4/2*8, reg/4*8+thread%4*2+reg%2, float64(1)
		for range times {
			dot := 0.
			for j := range 16 {
				dot += float64(a[row*16+j]) * float64(b[col*16+j])
			}
			sum = float64(float32(dot + sum))
		}
		return float32(sum)
	}
	passes(t, k.run(t))
	for i, got := range k.memory.floats(2560) {
		if got != want(i, 2) {
			t.Fatalf("register %d of thread %d is %g; want %g", i%8, i/8, got, want(i, 2))
		}
	}
	product := productBody[strings.Index(productBody, "wgmma.mma_async"):]
	product = product[:strings.Index(product, "\n")+1]
	for _, x := range []struct{ old, new, says string }{
		{"wgmma.wait_group.sync.aligned 0;\n", "", "ends while the product of line"},
		{"wgmma.commit_group.sync.aligned;\n", "", "ends while the product of line"},
		{"wgmma.fence.sync.aligned;\n", "", "no wgmma.fence"},
		{product + "wgmma.commit", "wgmma.commit_group.sync.aligned;\n" + product + "wgmma.commit", "no wgmma.fence"},
		{"fence.proxy.async.shared::cta;\n", "", "0x400 of shared memory was written by thread 0, and no fence.proxy.async of it followed"},
		{"wgmma.commit_group", "mov.b32 %r11, 0;\nwgmma.commit_group", "register 1 of operand A of the product of line"},
		{"wgmma.commit_group", "mov.f32 %f3, 0f00000000;\nwgmma.commit_group", "register 2 of the sums of the product of line"},
		{"mov.u64 %rd5, 0x4000004000010040", "mov.u64 %rd5, 0x4000004000010048", "within a swizzle pattern"},
		{"mov.u64 %rd5, 0x4000004000010040", "mov.u64 %rd5, 0x4000004000010100", "leads to 0x1000; shared memory ends at 0xc00"},
		{product, "setp.ge.u32 %p2, %r1, 96;\n@%p2 bra OUT;\n" + product + "OUT:\n", "warps of a warpgroup multiply different things"},
		{product + "wgmma.commit", "setp.ge.u32 %p2, %r1, 96;\n@%p2 bra OUT;\n" + product + "OUT:\nwgmma.commit", "warp 0, lanes 0xffffffff: at wgmma.wait_group"},
		{product, "@%p2 " + product, "lanes 0x1 of a warp only"},
		{product, strings.Replace(product, "%rd5, 1", "%rd5, %p3", 1), "scale-d differs between lanes"},
	} {
		k.body = "setp.eq.u32 %p2, %r1, 0;\nsetp.lt.u32 %p3, %r1, 7;\n" + strings.Replace(productBody, x.old, x.new, 1)
		fails(t, k.run(t), x.says)
	}
	// What is read too early is NaN.
	k.body = strings.Replace(productBody, "wgmma.commit_group", "mov.f32 %f100, %f8;\nwgmma.commit_group", 1)
	at := strings.LastIndex(k.body, "%f8")
	k.body = k.body[:at] + "%f100" + k.body[at+3:]
	passes(t, k.run(t))
	if got := k.memory.floats(2560); got[7] == got[7] || got[6] != want(6, 2) {
		t.Errorf("read too early: %g, and in time: %g", got[7], got[6])
	}
	// scale-d and scale-a.
	k.body = strings.Replace(productBody, product, "setp.eq.u32 %p3, %r1, 1000;\n"+strings.Replace(product, "%rd5, 1, 1", "%rd5, %p3, -1", 1), 1)
	passes(t, k.run(t))
	for i, got := range k.memory.floats(2560) {
		if math.Abs(float64(got)) > 1e-3 {
			t.Fatalf("-A·B + A·B is %g in register %d of thread %d", got, i%8, i/8)
		}
	}
}

// TestStoreMatrix stores four matrices across and along.
func TestStoreMatrix(t *testing.T) {
	for _, trans := range []string{"", ".trans"} {
		k := trial{threads: 32, shared: 1024, memory: make(testMemory, 512), body: fmt.Sprintf(`shl.b32 %%r3, %%r1, 4;
mov.u32 %%r10, %%r1;
add.s32 %%r11, %%r1, 0x100100;
add.s32 %%r12, %%r1, 0x200200;
add.s32 %%r13, %%r1, 0x300300;
stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [%%r3+1024], {%%r10, %%r11, %%r12, %%r13};
bar.warp.sync 0xffffffff;
ld.shared.v4.u32 {%%r20, %%r21, %%r22, %%r23}, [%%r3+1024];
cvt.u64.u32 %%rd3, %%r3;
add.s64 %%rd4, %%rd1, %%rd3;
st.global.v4.u32 [%%rd4], {%%r20, %%r21, %%r22, %%r23};`, trans)}
		passes(t, k.run(t))
		for i := range 256 {
			matrix, row, col := i/64, i/8%8, i%8
			if trans != "" {
				row, col = col, row
			}
			want := uint16(matrix<<8 + row*4 + col/2)
			if col%2 == 1 {
				want = uint16(matrix << 4) // the upper half of a register
			}
			if got := binary.LittleEndian.Uint16(k.memory[2*i:]); got != want {
				t.Fatalf("%s: number %d is %#x; want %#x", trans, i, got, want)
			}
		}
		k.body = strings.Replace(k.body, "[%r3+1024], {%r10", "[%r3+1032], {%r10", 1)
		fails(t, k.run(t), "at 0x408 of shared memory")
	}
}
