package ptx

import (
	"strings"
	"testing"
)

// BenchmarkInstructions measures instructions of a whole warp.
func BenchmarkInstructions(b *testing.B) {
	for _, o := range []struct{ name, before, text string }{
		{"add", "", "add.s32 %r1, %r2, %r3;"},
		{"fma", "mov.f32 %f2, 0f3f800001;", "fma.rn.f32 %f1, %f2, %f2, %f2;"},
		{"ld.shared", "mov.u64 %rd2, dynamic; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd2, %rd2, %rd3;", "ld.shared.f32 %f1, [%rd2];"},
		{"ld.global.v4", "mul.wide.u32 %rd3, %r0, 16; add.s64 %rd2, %rd0, %rd3;", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd2];"},
		{"mma", "mov.b32 %r1, 0x3f803f80; mov.f32 %f1, 0f3f800000;",
			"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f2,%f3,%f4,%f5}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f1,%f1,%f1,%f1};"},
	} {
		b.Run(o.name, func(b *testing.B) {
			const times, turns = 50, 200
			body := o.before + "mov.u32 %r30, 0;\nagain:\n" + strings.Repeat(o.text+"\n", times) +
				"add.s32 %r30, %r30, 1; setp.lt.s32 %p9, %r30, 200; @%p9 bra again;"
			for b.Loop() {
				if err := execute(body, Launch{Shared: 1024}, buffers{make([]byte, 1024), nil}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(times*turns), "ns/instruction")
		})
	}
}
