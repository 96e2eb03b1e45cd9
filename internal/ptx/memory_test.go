package ptx

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// Loads extend what they read to the register; stores cut it.
func TestLoads(t *testing.T) {
	in := []byte{0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8, 1, 2, 3, 4, 5, 6, 7, 8}
	for body, want := range map[string]uint64{
		"ld.global.u8 %r1, [%rd0]; cvt.u64.u32 %rd19, %r1;":                                  0x81,
		"ld.global.s8 %r1, [%rd0]; cvt.u64.u32 %rd19, %r1;":                                  0xffffff81,
		"ld.global.s8 %rs1, [%rd0+1]; cvt.u64.u16 %rd19, %rs1;":                              0xff92,
		"ld.global.u16 %rs1, [%rd0+2]; cvt.u64.u16 %rd19, %rs1;":                             0xb4a3,
		"ld.global.s32 %rd19, [%rd0];":                                                       0xffffffffb4a39281,
		"ld.global.nc.u32 %r1, [%rd0+4]; cvt.u64.u32 %rd19, %r1;":                            0xf8e7d6c5,
		"ld.global.u64 %rd19, [%rd0];":                                                       0xf8e7d6c5b4a39281,
		"add.s64 %rd2, %rd0, 16; ld.global.u32 %r1, [%rd2+-8]; cvt.u64.u32 %rd19, %r1;":      0x04030201,
		"ld.global.v2.u32 {%r1, %r2}, [%rd0+8]; mov.b64 %rd19, {%r2, %r1};":                  0x0403020108070605,
		"ld.global.L1::no_allocate.v4.u32 {%r1,%r2,%r3,%r4}, [%rd0]; cvt.u64.u32 %rd19,%r4;": 0x08070605,
		"ld.global.cg.v2.f32 {%f1, %f2}, [%rd0]; mov.b32 %r1, %f2; cvt.u64.u32 %rd19, %r1;":  0xf8e7d6c5,
		"ld.u32 %r1, [%rd0+8]; cvt.u64.u32 %rd19, %r1;":                                      0x04030201,
		"ld.param.u64 %rd2, [k_param_0]; sub.s64 %rd19, %rd2, %rd0;":                         0,
		"mov.b64 %rd2, k_param_0; ld.param.u32 %r1, [%rd2+8]; cvt.u64.u32 %rd19, %r1;":       pointer(1) & 0xffffffff,
		"mov.b64 %rd2, k_param_0; cvta.param.u64 %rd3, %rd2; ld.u64 %rd19, [%rd3+8];":        pointer(1),
		"mov.u64 %rd2, bytes; ld.global.u8 %r1, [%rd2+1]; cvt.u64.u32 %rd19, %r1;":           20,
		"ld.global.u32 %r1, [wide+4]; cvt.u64.u32 %rd19, %r1;":                               0xfffffffe,
		"mov.u64 %rd2, zeros; cvta.to.global.u64 %rd3, %rd2; ld.u64 %rd19, [%rd3];":          0,
		`mov.u64 %rd2, own; cvta.local.u64 %rd3, %rd2; cvta.to.local.u64 %rd4, %rd3;
		 st.local.u32 [%rd4+4], %r0; ld.u32 %r1, [%rd3+4]; sub.s32 %r1, %r1, %r0; cvt.u64.u32 %rd19, %r1;`: 0,
		`mov.u32 %r1, 0x11223344; st.shared.u16 [block+2], %r1; st.shared.u8 [block+1], %r1; st.shared.u8 [block], %r1;
		 ld.shared.u32 %r2, [block]; cvt.u64.u32 %rd19, %r2;`: 0x33444444,
		"ld.shared.u32 %r2, [block+4]; cvt.u64.u32 %rd19, %r2;":                                                              0xffffffff, // not written yet
		`mov.u64 %rd2, dynamic; st.shared.v2.u32 [%rd2+8], {%r0, 7}; ld.shared.u64 %rd3, [%rd2+8]; shr.u64 %rd19, %rd3, 32;`: 7,
	} {
		text := string(kernel(`
	.local .align 8 .b8 own[16];
	.shared .align 4 .b8 block[8];
	` + body + `
	mul.wide.u32 %rd18, %r0, 8; add.s64 %rd18, %rd1, %rd18; st.global.u64 [%rd18], %rd19;`))
		globals := `.global .align 4 .b8 bytes[4] = {10, 20};
.global .align 4 .u32 wide[2] = {1, -2};
.global .align 8 .u64 zeros;
`
		out := make([]byte, 256)
		if err := executeText(globals+text, Launch{Shared: 64}, buffers{in, out}); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		for i := range 32 {
			if got := binary.LittleEndian.Uint64(out[8*i:]); got != want {
				t.Errorf("%s\nthread %d: %#x, want %#x", body, i, got, want)
				break
			}
		}
	}
}

// Threads of all blocks add to the same words.
func TestAtomics(t *testing.T) {
	out := make([]byte, 64)
	if err := execute(`
	mov.u64 %rd2, dynamic; setp.ne.s32 %p1, %r0, 0; mov.u64 %rd3, 0; @%p1 bra ready; st.shared.u64 [%rd2], %rd3;
ready:
	bar.sync 0; cvt.u64.u32 %rd4, %r0; atom.shared.add.u64 %rd5, [%rd2], %rd4; bar.sync 0;
	atom.global.add.u32 %r1, [%rd1], 3; and.b32 %r2, %r0, 15; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r2; atom.global.or.b32 %r4, [%rd1+4], %r3;
	membar.gl; @%p1 bra end; ld.shared.u64 %rd6, [%rd2]; cvt.u32.u64 %r5, %rd6; atom.global.add.u32 %r6, [%rd1+8], %r5;
end:`, Launch{Grid: [3]int{50, 1, 1}, Block: [3]int{64, 1, 1}, Shared: 8}, buffers{nil, out}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{3 * 50 * 64, 0xffff, 50 * 63 * 32} {
		if got := binary.LittleEndian.Uint32(out[4*i:]); got != want {
			t.Errorf("word %d is %d, want %d", i, got, want)
		}
	}
}

// Copies happen when their group is waited for, not before, and zeros follow what is read.
func TestCopies(t *testing.T) {
	in := make([]byte, 1024)
	for i := range in {
		in[i] = byte(i)
	}
	prepare := `
	mov.u64 %rd2, dynamic; cvt.u32.u64 %r1, %rd2; shl.b32 %r2, %r0, 4; add.s32 %r3, %r1, %r2; cvt.u64.u32 %rd3, %r2; add.s64 %rd4, %rd0, %rd3;
	cp.async.cg.shared.global [%r3], [%rd4], 16; cp.async.commit_group;
	add.s32 %r4, %r3, 512; mov.u32 %r5, 8; cp.async.ca.shared.global [%r4], [%rd4], 16, %r5; cp.async.commit_group;`
	for wait, want := range map[string][2]bool{
		"": {}, "cp.async.wait_group 2;": {}, "cp.async.wait_group 1;": {true, false}, "cp.async.wait_group 0;": {true, true},
	} {
		for at := range 2 {
			body := prepare + wait + "ld.shared.u64 %rd19, [%r3+" + []string{"8", "520"}[at] + "];"
			for i, got := range perThread(t, body, Launch{Shared: 1024}, in) {
				w := uint64(0xffffffffffffffff)
				if want[at] {
					w = 0
					if at == 0 {
						w = binary.LittleEndian.Uint64(in[16*i+8:])
					}
				}
				if got != w {
					t.Fatalf("after %q, thread %d has %#x at %d, want %#x", wait, i, got, at, w)
				}
			}
		}
	}
	// Lanes that commit apart have groups of their own.
	expect(t, Launch{Shared: 1024}, `
	mov.u64 %rd2, dynamic; cvt.u32.u64 %r1, %rd2; shl.b32 %r2, %r0, 4; add.s32 %r3, %r1, %r2; mov.u32 %r5, 0;
	cp.async.cg.shared.global [%r3], [%rd0], 16, %r5; cp.async.commit_group;
	setp.lt.u32 %p1, %r0, 8; @%p1 bra end; cp.async.commit_group;
end:
	cp.async.wait_group 1; ld.shared.u64 %rd19, [%r3];`, func(i int) uint64 {
		if i < 8 {
			return 0xffffffffffffffff
		}
		return 0
	})
}

func TestLoadMatrix(t *testing.T) {
	in := make([]byte, 512)
	for i := range 256 {
		binary.LittleEndian.PutUint16(in[2*i:], uint16(i))
	}
	for _, transposed := range []bool{false, true} {
		for m := range 4 {
			trans := map[bool]string{true: ".trans"}[transposed]
			body := `
	mov.u64 %rd2, dynamic; cvt.u32.u64 %r1, %rd2; shl.b32 %r2, %r0, 4; add.s32 %r3, %r1, %r2; cvt.u64.u32 %rd3, %r2; add.s64 %rd4, %rd0, %rd3;
	ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd4]; st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};
	ldmatrix.sync.aligned.m8n8.x4` + trans + `.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
	cvt.u64.u32 %rd19, %r1` + string(rune('0'+m)) + ";"
			for lane, got := range perThread(t, body, Launch{Shared: 512}, in) {
				row, column := lane/4, lane%4*2
				low, high := 64*m+8*row+column, 64*m+8*row+column+1
				if transposed {
					low, high = 64*m+8*column+row, 64*m+8*(column+1)+row
				}
				if want := uint64(low | high<<16); got != want {
					t.Fatalf("transposed %v, matrix %d, lane %d: %#x, want %#x", transposed, m, lane, got, want)
				}
			}
		}
	}
}

// The fragments of mma make the product of two matrices.
func TestMultiplyFragments(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for name, encode := range map[string]func(float32) uint64{"bf16": toBF16, "f16": toF16} {
		var a [16][16]float32
		var b [16][8]float32
		var c [16][8]float32
		for i := range 16 {
			for k := range 16 {
				a[i][k] = float32(random.IntN(9) - 4)
			}
			for j := range 8 {
				b[i][j], c[i][j] = float32(random.IntN(9)-4), float32(random.IntN(100))
			}
		}
		in := make([]byte, 32*64)
		word := func(lane, n int, v uint64) { binary.LittleEndian.PutUint32(in[64*lane+4*n:], uint32(v)) }
		for lane := range 32 {
			g, t := lane/4, lane%4
			for n := range 4 { // a: rows g and g+8, columns 2t.. and 2t+8..
				i, k := g+n%2*8, 2*t+n/2*8
				word(lane, n, encode(a[i][k])|encode(a[i][k+1])<<16)
				word(lane, 8+n, bits32(c[g+n/2*8][2*t+n%2]))
			}
			for n := range 2 { // b: column g, rows 2t.. and 2t+8..
				k := 2*t + 8*n
				word(lane, 4+n, encode(b[k][g])|encode(b[k+1][g])<<16)
			}
		}
		for n := range 4 {
			body := `
	shl.b32 %r1, %r0, 6; cvt.u64.u32 %rd2, %r1; add.s64 %rd2, %rd2, %rd0;
	ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd2]; ld.global.v2.u32 {%r6, %r7}, [%rd2+16]; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd2+32];
	mma.sync.aligned.m16n8k16.row.col.f32.` + name + "." + name + `.f32 {%f10, %f11, %f12, %f13}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%f1, %f2, %f3, %f4};
	mov.b32 %r8, %f1` + string(rune('0'+n)) + "; cvt.u64.u32 %rd19, %r8;"
			for lane, got := range perThread(t, body, Launch{}, in) {
				i, j := lane/4+n/2*8, lane%4*2+n%2
				want := c[i][j]
				for k := range 16 {
					want += a[i][k] * b[k][j]
				}
				if f32(got) != want {
					t.Fatalf("%s row %d, column %d: %v, want %v", name, i, j, f32(got), want)
				}
			}
		}
	}
}
