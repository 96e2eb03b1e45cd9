package ptx

import (
	"strings"
	"testing"
)

// Errors name the kernel, the line, the instruction, the block, the thread and what is wrong.
func TestFaults(t *testing.T) {
	for _, o := range []struct{ name, body, want string }{
		{"far", "mov.u64 %rd3, 5; mul.wide.u32 %rd2, %r0, 4; add.s64 %rd2, %rd2, %rd1; ld.global.u32 %r1, [%rd2+8];",
			"ptx: k: line 22: ld.global.u32: block [0 0 0], thread [14 0 0]: 4 bytes at global address 0x80000040 are out of bounds"},
		{"null", "mov.u64 %rd2, 0; st.global.u8 [%rd2], %r0;", "1 bytes at global address 0x0 are out of bounds"},
		{"across the end", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+64];", "16 bytes at global address 0x80000040 are out of bounds"},
		{"misaligned", "ld.global.v2.u32 {%r1, %r2}, [%rd1+4];", "address 0x80000004 is not aligned to 8 bytes"},
		{"shared", "ld.shared.u32 %r1, [dynamic+32];", "4 bytes at shared address 0x420 are out of bounds"},
		{"shared, below", "mov.u32 %r1, 0; st.shared.u32 [%r1], %r0;", "4 bytes at shared address 0x0 are out of bounds"},
		{"parameters", "mov.b64 %rd2, k_param_0; ld.param.u64 %rd3, [%rd2+16];", "8 bytes at parameter address 0x10 are out of bounds"},
		{"copy", "mov.u64 %rd2, dynamic; cvt.u32.u64 %r1, %rd2; cp.async.cg.shared.global [%r1+32], [%rd0], 16;",
			"16 bytes at shared address 0x420"},
		{"copy from", "mov.u64 %rd2, dynamic; cvt.u32.u64 %r1, %rd2; cp.async.ca.shared.global [%r1], [%rd1+62], 4;", "not aligned to 4"},
		{"barrier", "mov.u32 %r1, 16; bar.sync %r1, 32;", "no barrier 16"},
		{"threads of a barrier", "bar.sync 1, 33;", "a barrier of 33 threads, want a multiple of 32"},
		{"divergent barrier", "setp.lt.u32 %p1, %r0, 5; @%p1 bra other; bar.sync 0; bra.uni end;\nother:\nbar.sync 1;\nend:",
			"lanes 0x0000001f: at bar.sync, line 24"},
		{"absent lane", "setp.lt.u32 %p1, %r0, 5; @%p1 bra end; mov.u32 %r1, 2; shfl.sync.idx.b32 %r2|%p2, %r0, %r1, 31, -32;\nend:",
			"thread [5 0 0]: it reads lane 2, which does not take part"},
		{"lonely barrier", "setp.lt.u32 %p1, %r0, 5; @%p1 bra end; bar.sync 0, 64;\nend:", "all threads wait"},
		{"part of a warp", "setp.lt.u32 %p1, %r0, 5; @%p1 ret; mov.u64 %rd2, dynamic; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%rd2];",
			"only the lanes 0xffffffe0 take part"},
	} {
		err := execute(o.body, Launch{Shared: 32}, buffers{make([]byte, 64), make([]byte, 64)})
		if err == nil || !strings.Contains(err.Error(), o.want) {
			t.Errorf("%s: %v, want %s", o.name, err, o.want)
		}
	}
}

func TestLaunches(t *testing.T) {
	m, err := Parse([]byte(strings.Replace(string(kernel("")), ")\n{", ")\n.maxntid 64, 1, 1\n.reqnctapercluster 2, 1, 1\n{", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if m.Entry("other") != nil {
		t.Error("there is a kernel that is not there")
	}
	for _, o := range []struct {
		l    Launch
		want string
	}{
		{Launch{Grid: [3]int{2, 1, 1}, Block: [3]int{32, 1, 1}, Cluster: [3]int{2, 1, 1}, Params: make([]byte, 12)}, "12 bytes of parameters, want 16"},
		{Launch{Grid: [3]int{2, 1, 0}, Block: [3]int{32, 1, 1}, Cluster: [3]int{2, 1, 1}, Params: make([]byte, 16)}, "grid [2 1 0]"},
		{Launch{Grid: [3]int{2, 1, 1}, Block: [3]int{65, 1, 1}, Cluster: [3]int{2, 1, 1}, Params: make([]byte, 16)}, "blocks of 65 threads, want 64 at most"},
		{Launch{Grid: [3]int{2, 1, 1}, Block: [3]int{32, 1, 1}, Cluster: [3]int{1, 1, 1}, Params: make([]byte, 16)}, "clusters [1 1 1], want [2 1 1]"},
		{Launch{Grid: [3]int{2, 1, 1}, Block: [3]int{32, 1, 1}, Params: make([]byte, 16)}, ""},
		{Launch{Grid: [3]int{3, 1, 1}, Block: [3]int{32, 1, 1}, Cluster: [3]int{2, 1, 1}, Params: make([]byte, 16)}, "grid [3 1 1] of clusters"},
		{Launch{Grid: [3]int{2, 1, 1}, Block: [3]int{32, 1, 1}, Cluster: [3]int{2, 1, 1}, Params: make([]byte, 16)}, ""},
	} {
		o.l.Memory = buffers{}
		if err := m.Entry("k").Run(o.l); (err == nil) != (o.want == "") || err != nil && !strings.Contains(err.Error(), o.want) {
			t.Errorf("%v, want %q", err, o.want)
		}
	}
}

// What Parse refuses, and what a kernel refuses when it first runs.
func TestRefused(t *testing.T) {
	for body, want := range map[string]string{
		"add.q32 %r1, %r2, %r3;":                       "ptx: line 19: unknown instruction add.q32",
		"add.s32 %r1, %r2, %r40;":                      `line 19: unknown name "%r40"`,
		"add.s32 %r1, %r2;":                            "k: line 19: add.s32: 2 operands, want 3",
		"add.s32 %r1, %r2, %p1;":                       "an operand is no register",
		"setp.eq.s32 %r1, %r2, %r3;":                   "an operand is no predicate",
		"@%r1 add.s32 %r1, %r2, %r3;":                  "a guard is no predicate",
		"bra nowhere;":                                 "no label nowhere",
		"here:\nhere:":                                 "label here is there twice",
		"{ here: }\n bra here;":                        "no label here",
		"add.s32 %r1, %r2, 1":                          `found "ret", want`,
		"add.s32 %r1, %r2, 0xzz;":                      `found "0xzz", want a number`,
		".reg .b31 %x;":                                `unknown type ".b31"`,
		".local .align 3 .b8 x[4];":                    "an alignment is no power of 2",
		"call.uni (x), f, (y);":                        `unknown name "x"`,
		"call.uni f;":                                  "no function f",
		"{":                                            "a block does not end",
		"ld.global.u32 %r1, %rd1;":                     "an operand is no address",
		"ld.global.strange.u32 %r1, [%rd1];":           "unknown modifier strange",
		"ld.shared.u32 %r1, [k_param_0];":              "k_param_0 is in another space",
		"ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];":    "a vector of 3, want 2",
		"lop3.b32 %r1, %r2, %r3, %r4, %r5;":            "operand 4 is no immediate",
		"cp.async.cg.shared.global [%r1], [%rd1], 12;": "the size is not 4, 8 or 16",
		"atom.global.sub.u32 %r1, [%rd1], 1;":          "unknown form",
	} {
		err := execute(body, Launch{}, buffers{nil, nil})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for text, want := range map[string]string{
		".const .u32 x;":                          `unknown directive ".const"`,
		".global .align 4 .u32 x = {1, 2};":       "x has more than 4 bytes",
		".global .b8 x[99999999];":                "x has no size below",
		".visible .entry k() .maxnreg 5 { ret; }": `unknown directive ".maxnreg"`,
		"\"x\n\"":  "a string does not end",
		".version": "want a name",
		".visible .entry k()\n{\n" + strings.Repeat("{", 200): "too deep",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	m, err := Parse([]byte(".visible .entry k()\n{\n.reg .b32 %r<2>;\nadd.s32 %r0, %r1, 1;\n}"))
	if err == nil {
		err = m.Entry("k").Run(Launch{})
	}
	if err == nil || !strings.Contains(err.Error(), "the last instruction is no ret") {
		t.Errorf("a kernel without an end: %v", err)
	}
}
