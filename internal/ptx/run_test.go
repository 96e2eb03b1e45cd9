package ptx

import (
	"encoding/binary"
	"strings"
	"testing"
)

// buffers is a memory of allocations, a gigabyte apart.
type buffers [][]byte

func (b buffers) Find(address uint64) (uint64, []byte) {
	n := address >> 30
	if n == 0 || n > uint64(len(b)) {
		return 0, nil
	}
	return n << 30, b[n-1]
}

// pointer is the address of a buffer.
func pointer(n int) uint64 { return uint64(n+1) << 30 }

// kernel is the PTX of a kernel k with two pointers, in %rd0 and %rd1, and its thread in %r0.
func kernel(body string) []byte {
	return []byte(`.version 9.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(
	.param .u64 k_param_0,
	.param .u64 k_param_1
)
{
	.reg .pred %p<10>;
	.reg .b16 %rs<20>;
	.reg .b32 %r<40>;
	.reg .f32 %f<40>;
	.reg .b64 %rd<20>;
	.reg .f64 %fd<20>;
	ld.param.u64 %rd0, [k_param_0];
	ld.param.u64 %rd1, [k_param_1];
	mov.u32 %r0, %tid.x;
` + strings.ReplaceAll(body, "; ", ";\n") + `
	ret;
}
`)
}

// execute runs kernel(body) on buffers.
func execute(body string, l Launch, memory buffers) error {
	return executeText(string(kernel(body)), l, memory)
}

// executeText runs kernel k of a text on buffers.
func executeText(text string, l Launch, memory buffers) error {
	m, err := Parse([]byte(text))
	if err != nil {
		return err
	}
	l.Params = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, pointer(0)), pointer(1))
	l.Memory = memory
	if l.Grid == [3]int{} {
		l.Grid = [3]int{1, 1, 1}
	}
	if l.Block == [3]int{} {
		l.Block = [3]int{32, 1, 1}
	}
	return m.Entry("k").Run(l)
}

// perThread runs a body that leaves its result in %rd19, and returns that of every thread.
func perThread(t *testing.T, body string, l Launch, input []byte) []uint64 {
	t.Helper()
	if l.Block == [3]int{} {
		l.Block = [3]int{32, 1, 1}
	}
	out := make([]byte, 8*volume(l.Block))
	err := execute(body+`
	mul.wide.u32 %rd18, %r0, 8;
	add.s64 %rd18, %rd1, %rd18;
	st.global.u64 [%rd18], %rd19;`, l, buffers{input, out})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	values := make([]uint64, len(out)/8)
	for i := range values {
		values[i] = binary.LittleEndian.Uint64(out[8*i:])
	}
	return values
}
