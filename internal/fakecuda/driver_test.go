package fakecuda

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// host is a program that calls an emulated driver.
type host struct {
	*testing.T
	*Driver
	out *[4]uintptr
}

func start(t *testing.T) host {
	d := Emulate(Device{Name: "Emulated", Major: 9, SMs: 4, Shared: 227 << 10, Total: 1 << 30, Driver: 13000})
	h := host{t, d, new([4]uintptr)}
	h.do("cuCtxCreate_v2", h.place(0), 0, 0)
	return h
}

// place is where calls write results.
func (h host) place(i int) uintptr { return uintptr(unsafe.Pointer(&h.out[i])) }

// do makes a call that succeeds.
func (h host) do(name string, a ...uintptr) {
	h.T.Helper()
	if c := h.Call(name, a...); c != success {
		h.Fatalf("%s returns %d: %s", name, c, h.said[c])
	}
}

// refused makes a call that fails with a code and such a text.
func (h host) refused(code int32, text, name string, a ...uintptr) {
	h.T.Helper()
	if c := h.Call(name, a...); c != code || !strings.Contains(h.said[code], text) {
		h.Errorf("%s returns %d: %q; want %d: %q", name, c, h.said[c], code, text)
	}
}

func (h host) made(name string, a ...uintptr) uintptr {
	h.T.Helper()
	h.do(name, append([]uintptr{h.place(0)}, a...)...)
	return h.out[0]
}

// pinned returns n bytes of pinned memory.
func (h host) pinned(n int) (uintptr, []byte) {
	p := h.made("cuMemHostAlloc", uintptr(n), 1)
	return p, h.live[p].data
}

const (
	toDevice, toHost, within = "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"
)

func TestMemory(t *testing.T) {
	h := start(t)
	s, p, q := h.made("cuStreamCreate", 1), h.made("cuMemAlloc_v2", 1000), h.made("cuMemAlloc_v2", 100<<10)
	at, bytesAt := h.pinned(1000)
	for i := range bytesAt {
		bytesAt[i] = byte(i)
	}
	if p%256 != 0 || q%256 != 0 || q < p+1000+pageBytes {
		t.Errorf("allocations at %#x and %#x", p, q)
	}
	h.do(toDevice, p, at, 1000, s)
	h.do(within, q+90000, p+100, 500, s)
	back, bytesBack := h.pinned(600)
	h.do(toHost, back, q+89950, 600, s)
	if bytesBack[0] != 0 {
		t.Error("a copy ran before something waited for it")
	}
	h.do("cuStreamSynchronize", s)
	if want := bytes.Repeat([]byte{0xff}, 50); !bytes.Equal(bytesBack[50:550], bytesAt[100:600]) || !bytes.Equal(bytesBack[:50], want) || !bytes.Equal(bytesBack[550:], want) {
		t.Errorf("copied: % x", bytesBack)
	}
	h.refused(invalid, "not of one allocation", toDevice, p, at, 1001, s)
	h.refused(invalid, "not of one allocation", toDevice, p-1, at, 1, s)
	h.refused(invalid, "no pinned memory", toDevice, p, at+1, 1000, s)
	h.refused(invalid, "no pinned memory", toHost, p, q, 10, s)
	h.refused(invalid, "not of one allocation", "cuMemsetD8Async", q, 0, 100<<10+1, s)
	h.refused(invalid, "is no stream", toDevice, p, at, 10, 77)
	h.refused(invalid, "is a stream, and no memory", "cuMemFree_v2", s)
	h.refused(outOfMemory, "", "cuMemAlloc_v2", h.place(0), 2<<30)
	h.do("cuMemFree_v2", p)
	h.refused(invalid, "not of one allocation", toDevice, p, at, 10, s)
	h.refused(invalid, "is no memory", "cuMemFree_v2", p)
	if again := h.made("cuMemAlloc_v2", 1000); again == p {
		t.Error("an address is given out again")
	}
	if base, data := h.memory.Find(uint64(q) + 100<<10 - 1); base != uint64(q) || len(data) != 100<<10 {
		t.Errorf("the last byte is in %d bytes at %#x", len(data), base)
	}
	for _, where := range []uintptr{0, p, q - 1, q + 100<<10, q + 1<<40} {
		if _, data := h.memory.Find(uint64(where)); data != nil {
			t.Errorf("there is memory at %#x", where)
		}
	}
	h.refused(invalid, "was not given back", "cuCtxDestroy_v2", h.contexts[0].handle)
}

// TestLate checks that what is not waited for is not done, and what is freed too early is a fault.
func TestLate(t *testing.T) {
	h := start(t)
	s, other, e := h.made("cuStreamCreate", 1), h.made("cuStreamCreate", 1), h.made("cuEventCreate", 2)
	p := h.made("cuMemAlloc_v2", 64)
	at, data := h.pinned(64)
	h.refused(invalid, "was not recorded", "cuStreamWaitEvent", other, e, 0)
	h.do("cuMemsetD8Async", p, 7, 64, s)
	h.do("cuEventRecord", e, s)
	h.do("cuMemsetD8Async", p, 8, 64, s)
	h.do(toHost, at, p, 32, other)
	h.do("cuStreamWaitEvent", other, e, 0)
	h.do(toHost, at+32, p, 32, other)
	h.do("cuStreamSynchronize", other)
	if data[0] != 0xff || data[32] != 7 {
		t.Errorf("read %#x before the event and %#x behind it; want 0xff and 7", data[0], data[32])
	}
	h.do(toHost, at, p, 32, s)
	h.do("cuEventRecord", e, s)
	h.do("cuEventSynchronize", e)
	if data[0] != 8 {
		t.Errorf("read %#x behind all work; want 8", data[0])
	}
	h.do("cuMemsetD8Async", p, 9, 64, s)
	h.do("cuMemFree_v2", p)
	h.refused(badAddress, "was freed before 64 bytes were set", "cuStreamSynchronize", s)
	h.refused(badAddress, "", "cuMemFreeHost", at)
	h.refused(badAddress, "", "cuCtxDestroy_v2", h.contexts[0].handle)
	if left := h.Leaks(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRows(t *testing.T) {
	h := start(t)
	s, p := h.made("cuStreamCreate", 1), h.made("cuMemAlloc_v2", 30)
	at, data := h.pinned(60)
	for i := range data {
		data[i] = byte(i)
	}
	c := &copy2D{place{kind: 2, device: p, pitch: 10}, place{kind: 1, host: at, pitch: 20}, 10, 3}
	c.from, c.to = c.to, c.from
	h.do("cuMemcpy2DAsync_v2", uintptr(unsafe.Pointer(c)), s)
	h.do("cuStreamSynchronize", s)
	if got := h.live[p].data; got[9] != 9 || got[10] != 20 || got[29] != 49 {
		t.Errorf("rows copied: %v", got)
	}
	c.rows = 4
	h.refused(invalid, "40 bytes", "cuMemcpy2DAsync_v2", uintptr(unsafe.Pointer(c)), s)
	c.bytes = 21
	h.refused(invalid, "21 bytes are copied 10 bytes apart", "cuMemcpy2DAsync_v2", uintptr(unsafe.Pointer(c)), s)
}

// scale is a kernel that multiplies numbers, one a thread.
const scale = `.version 9.0
.target sm_80
.address_size 64

.visible .entry scale(
	.param .align 8 .b8 scale_param_0[16]
)
{
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<5>;

	ld.param.b64 	%rd1, [scale_param_0];
	ld.param.b32 	%r1, [scale_param_0+8];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r2, %tid.x;
	mul.wide.u32 	%rd3, %r2, 4;
	add.s64 	%rd4, %rd2, %rd3;
	ld.global.b32 	%r3, [%rd4];
	mul.lo.s32 	%r4, %r3, %r1;
	st.global.b32 	[%rd4], %r4;
	ret;
}
`

// scaler loads the kernel, and returns a function that queues it, with a driver's result.
func (h host) scaler(stream uintptr) func(at uintptr, by, threads int) int32 {
	text := append([]byte(scale), 0)
	m := h.made("cuModuleLoadDataEx", uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
	name := []byte("scale\x00")
	f := h.made("cuModuleGetFunction", m, uintptr(unsafe.Pointer(&name[0])))
	param, params := new([2]uint64), new([1]uintptr)
	params[0] = uintptr(unsafe.Pointer(param))
	return func(at uintptr, by, threads int) int32 {
		param[0], param[1] = uint64(at), uint64(by)
		defer func() { param[1] = 0 }() // a launch keeps its parameters
		return h.Call("cuLaunchKernel", f, 1, 1, 1, uintptr(threads), 1, 1, 0, stream, uintptr(unsafe.Pointer(params)), 0)
	}
}

// TestGraphs captures kernels, whose graph runs as often as it is replayed.
func TestGraphs(t *testing.T) {
	h := start(t)
	s, p := h.made("cuStreamCreate", 1), h.made("cuMemAlloc_v2", 4*64)
	at, data := h.pinned(4 * 64)
	for i := range data {
		data[i] = byte(i%4/3) << 6 // each number is 1<<30
	}
	launch := h.scaler(s)
	h.do("cuMemsetD8Async", p, 1, 4*64, s)
	h.do("cuStreamBeginCapture_v2", s, 1)
	for range 2 {
		if c := launch(p, 3, 64); c != success {
			t.Fatal(h.said[c])
		}
	}
	h.refused(invalid, "while a graph is captured", "cuStreamSynchronize", s)
	h.do("cuStreamEndCapture", s, h.place(1))
	exec := h.made("cuGraphInstantiateWithFlags", h.out[1], 0)
	h.do(toHost, at, p, 4*64, s)
	h.do("cuStreamSynchronize", s)
	if data[0] != 1 {
		t.Errorf("captured kernels ran: %d", data[0])
	}
	h.do("cuGraphLaunch", exec, s)
	h.do("cuGraphLaunch", exec, s)
	h.do(toHost, at, p, 4*64, s)
	h.do("cuStreamSynchronize", s)
	for i, x := range data {
		if x != 81 {
			t.Fatalf("byte %d is %d; want 81", i, x)
		}
	}
}

// TestKernelFaults checks that a kernel's fault spoils the context, with words that say what it was, and nothing else.
func TestKernelFaults(t *testing.T) {
	h := start(t)
	s, p := h.made("cuStreamCreate", 1), h.made("cuMemAlloc_v2", 4*64)
	launch := h.scaler(s)
	for threads, text := range map[int]string{0: "[0 1 1]", 1025: "1025"} {
		if c := launch(p, 3, threads); c != invalid || !strings.Contains(h.said[c], text) {
			t.Errorf("%d threads: %d: %s", threads, c, h.said[c])
		}
	}
	if c := launch(p, 3, 65); c != success {
		t.Errorf("a launch fails before it runs: %s", h.said[c])
	}
	h.refused(badAddress, "scale", "cuStreamSynchronize", s)
	if said := h.said[badAddress]; !strings.Contains(said, fmt.Sprintf("%#x", p+4*64)) {
		t.Errorf("%q does not say which address", said)
	}
	h.refused(badAddress, "", "cuStreamCreate", h.place(0), 1)
	h.made("cuCtxCreate_v2", 0, 0)
	h.made("cuStreamCreate", 1)
	elf := []byte("\x7fELF\x00")
	h.refused(noBinary, "machine code", "cuModuleLoadDataEx", h.place(0), uintptr(unsafe.Pointer(&elf[0])), 0, 0, 0)
	junk := []byte("junk\x00")
	h.refused(badPTX, "", "cuModuleLoadDataEx", h.place(0), uintptr(unsafe.Pointer(&junk[0])), 0, 0, 0)
}
