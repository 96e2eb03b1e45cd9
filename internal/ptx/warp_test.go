package ptx

import (
	"encoding/binary"
	"strconv"
	"testing"
)

// expect runs a body that leaves its result in %rd19, and compares it for every thread.
func expect(t *testing.T, l Launch, body string, want func(thread int) uint64) {
	t.Helper()
	for i, v := range perThread(t, body, l, nil) {
		if w := want(i); v != w {
			t.Errorf("%s\nthread %d has %#x, want %#x", body, i, v, w)
			return
		}
	}
}

func TestThreads(t *testing.T) {
	expect(t, Launch{Block: [3]int{70, 1, 1}}, "mad.lo.s32 %r1, %r0, 3, 5; cvt.u64.u32 %rd19, %r1;",
		func(i int) uint64 { return uint64(3*i + 5) })
}

// Special registers, in a grid of clusters.
func TestSpecials(t *testing.T) {
	names := []string{"%tid.x", "%tid.y", "%tid.z", "%ntid.y", "%ctaid.x", "%ctaid.y", "%nctaid.x", "%nctaid.z", "%laneid",
		"%cluster_ctarank", "%cluster_nctarank"}
	body := `
	mov.u32 %r1, %ctaid.z; mov.u32 %r2, %nctaid.y; mad.lo.s32 %r1, %r1, %r2, 0; mov.u32 %r2, %ctaid.y; add.s32 %r1, %r1, %r2;
	mov.u32 %r2, %nctaid.x; mul.lo.s32 %r1, %r1, %r2; mov.u32 %r2, %ctaid.x; add.s32 %r1, %r1, %r2;
	mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y; mov.u32 %r5, %ntid.z; mul.lo.s32 %r6, %r3, %r4; mul.lo.s32 %r6, %r6, %r5;
	mov.u32 %r7, %tid.z; mad.lo.s32 %r7, %r7, %r4, 0; mov.u32 %r8, %tid.y; add.s32 %r7, %r7, %r8; mad.lo.s32 %r7, %r7, %r3, %r0;
	mad.lo.s32 %r7, %r1, %r6, %r7; mul.wide.u32 %rd2, %r7, 44; add.s64 %rd2, %rd2, %rd1;`
	for i, name := range names {
		body += "\nmov.u32 %r9, " + name + "; st.global.u32 [%rd2+" + strconv.Itoa(4*i) + "], %r9;"
	}
	l := Launch{Grid: [3]int{4, 3, 2}, Block: [3]int{5, 3, 3}, Cluster: [3]int{2, 3, 1}}
	out := make([]byte, 4*len(names)*volume(l.Grid)*volume(l.Block))
	if err := execute(body, l, buffers{nil, out}); err != nil {
		t.Fatal(err)
	}
	for i := range len(out) / 4 / len(names) {
		thread, block := i%45, i/45
		x, y := block%4, block/4%3
		want := []int{thread % 5, thread / 5 % 3, thread / 15, 3, x, y, 4, 2, thread % 32, x%2 + y*2, 6}
		for k, w := range want {
			if got := binary.LittleEndian.Uint32(out[4*(i*len(names)+k):]); got != uint32(w) {
				t.Fatalf("block %d, thread %d: %s is %d, want %d", block, thread, names[k], got, w)
			}
		}
	}
}

// Lanes that take the longer way meet the others again, whatever the order of the code.
func TestDivergence(t *testing.T) {
	expect(t, Launch{}, `
	mov.u32 %r1, 0;
	mov.u32 %r2, 0;
	bra.uni loop;
odd:
	add.s32 %r1, %r1, 100;
	bra.uni joined;
loop:
	and.b32 %r3, %r2, 1;
	setp.eq.s32 %p1, %r3, 1;
	@%p1 bra odd;
	add.s32 %r1, %r1, 1;
joined:
	add.s32 %r2, %r2, 1;
	setp.le.s32 %p2, %r2, %r0;
	@%p2 bra loop;
	vote.sync.ballot.b32 %r4, %p2, -1;
	add.s32 %r1, %r1, %r4;
	cvt.u64.u32 %rd19, %r1;`, func(i int) uint64 { return uint64((i+1)/2*100 + (i+2)/2) })
	// Half of the lanes come to the barrier first and wait for those whose code stands behind it.
	expect(t, Launch{}, `
	setp.lt.u32 %p1, %r0, 16;
	mov.u32 %r1, 1;
	@%p1 bra late;
meet:
	shfl.sync.bfly.b32 %r2|%p2, %r1, 16, 31, -1;
	bra.uni end;
late:
	mov.u32 %r1, 2;
	bra.uni meet;
end:
	cvt.u64.u32 %rd19, %r2;`, func(i int) uint64 { return uint64(1 + i/16) })
	// Some lanes return early: the others' barriers do not wait for them.
	expect(t, Launch{Block: [3]int{96, 1, 1}}, `
	mul.wide.u32 %rd18, %r0, 8; add.s64 %rd18, %rd1, %rd18; mov.u64 %rd19, 7; st.global.u64 [%rd18], %rd19;
	setp.ge.u32 %p1, %r0, 64; @%p1 ret; bar.sync 0;
	setp.lt.u32 %p1, %r0, 16; @%p1 ret; bar.warp.sync -1;
	mov.u64 %rd19, 8;`, func(i int) uint64 {
		if i < 16 || i >= 64 {
			return 7
		}
		return 8
	})
}

func TestGuards(t *testing.T) {
	expect(t, Launch{}, `
	setp.lt.u32 %p1, %r0, 10; setp.gt.u32 %p2, %r0, 4; and.pred %p3, %p1, %p2; or.pred %p4, %p1, %p2; xor.pred %p5, %p1, %p2;
	not.pred %p6, %p1; mov.pred %p7, %p6; mov.pred %p8, 0; xor.pred %p9, %p8, -1;
	mov.u32 %r1, 0;
	@%p3 add.s32 %r1, %r1, 1; @%p4 add.s32 %r1, %r1, 2; @%p5 add.s32 %r1, %r1, 4; @!%p6 add.s32 %r1, %r1, 8;
	@%p7 add.s32 %r1, %r1, 16; @%p8 add.s32 %r1, %r1, 32; @%p9 add.s32 %r1, %r1, 64;
	@%p1 setp.eq.s32 %p2, %r0, 0; selp.b32 %r2, 128, 0, %p2; add.s32 %r1, %r1, %r2;
	cvt.u64.u32 %rd19, %r1;`, func(i int) uint64 {
		a, b := i < 10, i > 4
		v := 64 + 2
		if a && b {
			v++
		}
		if a != b {
			v += 4
		}
		if a {
			v += 8
		} else {
			v += 16
		}
		if a && i == 0 || !a && b {
			v += 128
		}
		return uint64(v)
	})
}

func TestShuffles(t *testing.T) {
	for _, o := range []struct {
		mode  string
		by, c int
		from  func(lane int) int
		in    func(lane int) bool
	}{
		{mode: "up", by: 3, c: 0, from: func(l int) int { return l - 3 }, in: func(l int) bool { return l >= 3 }},
		{mode: "up", by: 1, c: 0x1800, from: func(l int) int { return l - 1 }, in: func(l int) bool { return l%8 >= 1 }},
		{mode: "bfly", by: 5, c: 31, from: func(l int) int { return l ^ 5 }, in: func(int) bool { return true }},
		{mode: "bfly", by: 16, c: 0x100f, from: func(l int) int { return l ^ 16 }, in: func(l int) bool { return l >= 16 }},
		{mode: "idx", by: 9, c: 31, from: func(int) int { return 9 }, in: func(int) bool { return true }},
		{mode: "idx", by: 9, c: 0x181f, from: func(l int) int { return l&24 | 1 }, in: func(int) bool { return true }},
		{mode: "idx", by: 6, c: 0x1803, from: func(l int) int { return l }, in: func(int) bool { return false }},
	} {
		body := "mov.u32 %r1, " + strconv.Itoa(o.by) + "; mov.u32 %r2, " + strconv.Itoa(o.c) + "; mul.lo.s32 %r3, %r0, 10;" +
			"shfl.sync." + o.mode + ".b32 %r4|%p1, %r3, %r1, %r2, -1; selp.b32 %r5, 1, 0, %p1; add.s32 %r4, %r4, %r5; cvt.u64.u32 %rd19, %r4;"
		expect(t, Launch{}, body, func(lane int) uint64 {
			if o.in(lane) {
				return uint64(10*o.from(lane) + 1)
			}
			return uint64(10 * lane)
		})
	}
}

func TestVotes(t *testing.T) {
	expect(t, Launch{}, "and.b32 %r1, %r0, 5; setp.eq.s32 %p1, %r1, 4; vote.sync.ballot.b32 %r2, %p1, -1; cvt.u64.u32 %rd19, %r2;",
		func(int) uint64 { return 0x50505050 })
	expect(t, Launch{}, "setp.eq.s32 %p1, %r0, 40; vote.sync.any.pred %p2, %p1, -1; selp.b64 %rd19, 1, 0, %p2;",
		func(int) uint64 { return 0 })
	expect(t, Launch{}, "setp.eq.s32 %p1, %r0, 30; vote.sync.any.pred %p2, %p1, -1; selp.b64 %rd19, 1, 0, %p2;",
		func(int) uint64 { return 1 })
	// The elected lane is one of those asked, the same for all of them, and alone true.
	expect(t, Launch{}, "elect.sync %r1|%p1, -1; selp.b32 %r2, 100, 0, %p1; add.s32 %r1, %r1, %r2; cvt.u64.u32 %rd19, %r1;",
		func(lane int) uint64 { return uint64(31 + lane/31*100) })
	expect(t, Launch{}, `
	mov.u32 %r2, 0xff0; mov.u32 %r1, 0; and.b32 %r3, %r0, 31; sub.s32 %r3, %r3, 4; setp.ge.u32 %p1, %r3, 8; @%p1 bra after;
	elect.sync %r1|%p2, %r2;
after:
	cvt.u64.u32 %rd19, %r1;`, func(lane int) uint64 {
		if lane < 4 || lane >= 12 {
			return 0
		}
		return 11
	})
	// Two halves reduce apart.
	for name, want := range map[string][2]uint64{"add": {120 - 16*5, 376 - 16*5}, "min": {0xfffffffb, 11}, "max": {10, 26}} {
		body := `
	sub.s32 %r1, %r0, 5; mov.u32 %r2, 0xffff; mov.u32 %r4, 0;
	setp.ge.u32 %p1, %r0, 16; @%p1 bra high; redux.sync.` + name + `.s32 %r4, %r1, %r2; bra.uni low;
high:
	shl.b32 %r2, %r2, 16; redux.sync.` + name + `.s32 %r4, %r1, %r2;
low:
	cvt.u64.u32 %rd19, %r4;`
		expect(t, Launch{}, body, func(lane int) uint64 { return want[lane/16] })
	}
}

func TestPacks(t *testing.T) {
	expect(t, Launch{}, `
	mov.b32 %r1, 0x12345678; mov.b32 {%rs1, %rs2}, %r1; mov.b32 %r2, {%rs2, %rs1}; mov.b64 %rd2, {%r1, %r2};
	mov.b64 {%r3, %r4}, %rd2; xor.b32 %r3, %r3, %r1; cvt.u64.u32 %rd3, %r3; shl.b64 %rd3, %rd3, 60; xor.b64 %rd19, %rd3, %rd2;`,
		func(int) uint64 { return 0x5678123412345678 })
}

// Barriers by number and by how many threads they are for.
func TestBarriers(t *testing.T) {
	// Warps 0 and 1 exchange at barrier 1, warps 2 and 3 at barrier 2, all at barrier 0.
	expect(t, Launch{Block: [3]int{128, 1, 1}, Shared: 1024}, `
	mov.u64 %rd2, dynamic; cvt.u32.u64 %r1, %rd2;
	shl.b32 %r2, %r0, 2; add.s32 %r2, %r2, %r1; st.shared.u32 [%r2], %r0;
	shr.u32 %r3, %r0, 6; add.s32 %r3, %r3, 1; bar.sync %r3, 64;
	xor.b32 %r4, %r2, 128; ld.shared.u32 %r5, [%r4]; bar.sync 0;
	add.s32 %r5, %r5, 1; st.shared.u32 [%r2], %r5; bar.sync 0;
	xor.b32 %r4, %r2, 256; ld.shared.u32 %r5, [%r4];
	cvt.u64.u32 %rd19, %r5;`, func(i int) uint64 { return uint64(i^64^32) + 1 })
}

// Functions get their arguments and results in memory of their own, and may call others.
func TestCalls(t *testing.T) {
	functions := `
.func (.param .align 8 .b8 out[16]) both(
	.param .b32 both_param_0,
	.param .align 8 .b8 both_param_1[16]
)
{
	.reg .pred %p<2>;
	.reg .b32 %r<5>;
	.reg .b64 %rd<5>;
	ld.param.u32 %r1, [both_param_0];
	ld.param.u64 %rd1, [both_param_1+8];
	setp.lt.u32 %p1, %r1, 7;
	@%p1 bra small;
	add.s64 %rd1, %rd1, 1000;
	st.param.b64 [out+0], %rd1;
	st.param.v2.b32 [out+8], {%r1, %r1};
	ret;
small:
	st.param.b64 [out+0], %rd1;
	mov.u32 %r2, 5;
	st.param.v2.b32 [out+8], {%r1, %r2};
	ret;
}
.func (.param .b64 out) twice(
	.param .b32 twice_param_0
)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<5>;
	ld.param.u32 %r1, [twice_param_0];
	mul.wide.u32 %rd1, %r1, 2;
	{
	.param .b32 param0;
	st.param.b32 [param0+0], %r1;
	.param .align 8 .b8 param1[16];
	st.param.b64 [param1+8], %rd1;
	.param .align 8 .b8 retval0[16];
	call.uni (retval0), both, (param0, param1);
	ld.param.b64 %rd2, [retval0+0];
	ld.param.v2.b32 {%r2, %r3}, [retval0+8];
	}
	mul.lo.s32 %r3, %r3, %r2;
	cvt.u64.u32 %rd3, %r3;
	add.s64 %rd2, %rd2, %rd3;
	st.param.b64 [out+0], %rd2;
	ret;
}
`
	body := `
	{
	.param .b32 param0;
	st.param.b32 [param0+0], %r0;
	.param .b64 retval0;
	call.uni (retval0), twice, (param0);
	ld.param.b64 %rd19, [retval0+0];
	}
	{
	.param .b32 param0;
	mov.u32 %r1, 1;
	st.param.b32 [param0+0], %r1;
	.param .b64 retval0;
	call.uni (retval0), twice, (param0);
	ld.param.b64 %rd17, [retval0+0];
	}
	add.s64 %rd19, %rd19, %rd17;
	mul.wide.u32 %rd18, %r0, 8; add.s64 %rd18, %rd1, %rd18; st.global.u64 [%rd18], %rd19;`
	out := make([]byte, 256)
	if err := executeText(functions+string(kernel(body)), Launch{}, buffers{nil, out}); err != nil {
		t.Fatal(err)
	}
	for i := range 32 {
		want := 2*i + 5*i + 7
		if i >= 7 {
			want = 2*i + 1000 + i*i + 7
		}
		if got := binary.LittleEndian.Uint64(out[8*i:]); got != uint64(want) {
			t.Errorf("thread %d has %d, want %d", i, got, want)
		}
	}
}

// A warp that waits for what another one of its block stores gets its turn, and gives others theirs.
func TestSpinning(t *testing.T) {
	expect(t, Launch{Block: [3]int{64, 1, 1}, Shared: 16}, `
	mov.u64 %rd2, dynamic;
	setp.ge.u32 %p1, %r0, 32; @%p1 bra writer;
spin:
	ld.shared.u32 %r1, [%rd2]; setp.ne.s32 %p2, %r1, 77; @%p2 bra spin; bra.uni end;
writer:
	mov.u32 %r1, 77; st.shared.u32 [%rd2], %r1;
end:
	cvt.u64.u32 %rd19, %r1;`, func(int) uint64 { return 77 })
}
