package cuda

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// fake is a driver without a device: it knows what is allocated, and complains of calls that a real one would
// refuse, or would not notice: memory that is not there, work on a stream that is gone, launches whose parameter
// has another size. Kernels do nothing.
type fake struct {
	t         testing.TB
	devices   []info
	free      int64 // bytes
	live      map[uintptr]object
	next      uintptr
	kept      map[uintptr][]byte // pinned memory, which is real
	text      []byte
	recorded  map[uintptr]bool // events
	capturing bool
	work      int // launches, copies and replays that were queued
	refuse    map[entry]code
	contexts  []uintptr // those that live; new objects belong to the last
	spoilt    code      // what all calls of the last context return
	faultAt   int       // when so much work is queued, a kernel has spoilt the context; 0: none does
	mu        sync.Mutex
}

// object is what a handle stands for.
type object struct {
	kind string
	size int64
	name string // of a function
	ctx  uintptr
}

func newFake(t testing.TB) *fake {
	return &fake{t: t, live: map[uintptr]object{}, kept: map[uintptr][]byte{}, recorded: map[uintptr]bool{}, next: 1 << 40, refuse: map[entry]code{},
		devices: []info{{name: "Fake 9000", major: 9, sms: 4, shared: 99 << 10, total: 1 << 40, driver: 13000}}, free: 1 << 40}
}

// leaks reports what was not given back.
func (f *fake) leaks() {
	f.t.Helper()
	for at, o := range f.live {
		if o.kind != "function" {
			f.t.Errorf("%s at %#x was not given back", o.kind, at)
		}
	}
	if len(f.contexts) > 0 {
		f.t.Errorf("%d contexts were not given back", len(f.contexts))
	}
}

func (f *fake) add(kind string, size int64) uintptr {
	f.next = (f.next + uintptr(max(size, 1)+511)) &^ 255
	at := f.next
	f.next += uintptr(size)
	f.live[at] = object{kind: kind, size: size, ctx: f.contexts[len(f.contexts)-1]}
	return at
}

func (f *fake) drop(at uintptr, kind string) code {
	if f.live[at].kind != kind {
		f.t.Errorf("%#x is given back as a %s; it is a %q", at, kind, f.live[at].kind)
		return 1
	}
	if kind == "memory" {
		f.free += f.live[at].size
	}
	delete(f.live, at)
	return success
}

// holds complains of memory that is not of one allocation.
func (f *fake) holds(at uintptr, n int64, kind string) {
	f.t.Helper()
	for base, o := range f.live {
		if (o.kind == kind || o.kind == "registered" && kind == "pinned") && at >= base && int64(at-base)+n <= o.size {
			return
		}
	}
	f.t.Errorf("%d bytes at %#x are no %s", n, at, kind)
}

func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

func (f *fake) is(handle uintptr, kind string) {
	f.t.Helper()
	if f.live[handle].kind != kind {
		f.t.Errorf("%#x is no %s", handle, kind)
	}
}

func (f *fake) call(e entry, a ...uintptr) code {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.refuse[e]; c != success {
		if c.spoils() && len(f.contexts) > 0 {
			f.spoilt = c
		}
		return c
	}
	switch e {
	case cuInit, cuCtxSetCurrent, cuFuncSetAttribute:
	case cuDriverGetVersion:
		*at[int32](a[0]) = int32(f.devices[0].driver)
	case cuGetErrorName, cuGetErrorString:
		f.text = append([]byte(fmt.Sprintf("FAKE_%d", int32(a[0]))), 0)
		*at[*byte](a[1]) = &f.text[0]
	case cuDeviceGetCount:
		*at[int32](a[0]) = int32(len(f.devices))
	case cuDeviceGetName:
		copy(unsafe.Slice(at[byte](a[0]), int(a[1])), f.devices[a[2]].name+"\x00")
	case cuDeviceGetAttribute:
		d := f.devices[a[2]]
		*at[int32](a[0]) = int32(map[uintptr]int{attributeSMs: d.sms, attributeMajor: d.major, attributeMinor: d.minor, attributeShared: d.shared}[a[1]])
	case cuDeviceTotalMem:
		*at[int64](a[0]) = f.devices[a[1]].total
	case cuCtxCreate:
		f.next += 256
		*at[uintptr](a[0]) = f.next
		f.contexts, f.spoilt = append(f.contexts, f.next), success
	case cuCtxDestroy:
		return f.destroy(a[0])
	case cuMemGetInfo:
		*at[int64](a[0]), *at[int64](a[1]) = f.free, f.devices[0].total
	default:
		if f.spoilt != success {
			return f.spoilt
		}
		return f.work1(e, a)
	}
	return success
}

// destroy ends a context. Only a fault excuses what is left in it.
func (f *fake) destroy(ctx uintptr) code {
	i := slices.Index(f.contexts, ctx)
	if i < 0 {
		f.t.Errorf("%#x is no context", ctx)
		return 1
	}
	said := success
	if i == len(f.contexts)-1 {
		said, f.spoilt = f.spoilt, success
	}
	for at, o := range f.live {
		if o.ctx != ctx {
			continue
		}
		if said == success && o.kind != "function" {
			f.t.Errorf("%s at %#x was not given back before its context", o.kind, at)
		}
		if o.kind == "memory" {
			f.free += o.size
		}
		delete(f.kept, at)
		delete(f.live, at)
	}
	f.contexts = slices.Delete(f.contexts, i, i+1)
	return said
}

// work1 does the calls that make, free or use something.
func (f *fake) work1(e entry, a []uintptr) code {
	switch e {
	case cuMemAlloc:
		if int64(a[1]) > f.free {
			return outOfMemory
		}
		f.free -= int64(a[1])
		*at[uintptr](a[0]) = f.add("memory", int64(a[1]))
	case cuMemFree:
		return f.drop(a[0], "memory")
	case cuMemHostAlloc:
		real := make([]byte, a[1])
		p := uintptr(unsafe.Pointer(&real[0]))
		f.kept[p], f.live[p] = real, object{kind: "pinned", size: int64(a[1]), ctx: f.contexts[len(f.contexts)-1]}
		*at[uintptr](a[0]) = p
	case cuMemFreeHost:
		delete(f.kept, a[0])
		return f.drop(a[0], "pinned")
	case cuMemHostRegister:
		for base, o := range f.live {
			if (o.kind == "pinned" || o.kind == "registered") && a[0] < base+uintptr(o.size) && base < a[0]+a[1] {
				return 712 // it is registered
			}
		}
		f.live[a[0]] = object{kind: "registered", size: int64(a[1]), ctx: f.contexts[len(f.contexts)-1]}
	case cuMemHostUnregister:
		return f.drop(a[0], "registered")
	case cuStreamCreate:
		*at[uintptr](a[0]) = f.add("stream", 0)
	case cuStreamDestroy:
		return f.drop(a[0], "stream")
	case cuStreamSynchronize:
		f.is(a[0], "stream")
		f.outside("waiting")
	case cuEventCreate:
		*at[uintptr](a[0]) = f.add("event", 0)
	case cuEventDestroy:
		return f.drop(a[0], "event")
	case cuEventRecord:
		f.is(a[0], "event")
		f.is(a[1], "stream")
		f.recorded[a[0]] = true
	case cuStreamWaitEvent:
		f.is(a[0], "stream")
		f.is(a[1], "event")
		if !f.recorded[a[1]] {
			f.t.Errorf("work waits for event %#x, which was not recorded", a[1])
		}
	case cuEventSynchronize:
		f.is(a[0], "event")
	case cuModuleLoadDataEx:
		*at[uintptr](a[0]) = f.add("module", 0)
	case cuModuleUnload:
		return f.drop(a[0], "module")
	case cuModuleGetFunction:
		h := f.add("function", 0)
		f.live[h] = object{kind: "function", name: cString(at[byte](a[2])), ctx: f.contexts[len(f.contexts)-1]}
		*at[uintptr](a[0]) = h
	default:
		return f.queue(e, a)
	}
	return success
}

// outside complains of a call that a capture does not allow.
func (f *fake) outside(what string) {
	if f.capturing {
		f.t.Errorf("%s while a graph is captured", what)
	}
}

// queue does the calls that queue work.
func (f *fake) queue(e entry, a []uintptr) code {
	f.work++
	if f.work == f.faultAt { // which what waits for it finds
		f.spoilt = 700
		return success
	}
	switch e {
	case cuMemcpyHtoDAsync:
		f.holds(a[0], int64(a[2]), "memory")
		f.holds(a[1], int64(a[2]), "pinned")
		f.is(a[3], "stream")
	case cuMemcpyDtoHAsync:
		f.holds(a[0], int64(a[2]), "pinned")
		f.holds(a[1], int64(a[2]), "memory")
		f.is(a[3], "stream")
	case cuMemcpyDtoDAsync:
		f.holds(a[0], int64(a[2]), "memory")
		f.holds(a[1], int64(a[2]), "memory")
		f.is(a[3], "stream")
	case cuMemcpy2DAsync:
		c := at[rowsCopy](a[0])
		for _, p := range []rowsPlace{c.from, c.to} {
			n := int64((c.rows-1)*p.pitch + c.bytes)
			if p.kind == 1 {
				f.holds(p.host, n, "pinned")
			} else {
				f.holds(uintptr(p.device), n, "memory")
			}
		}
		f.is(a[1], "stream")
	case cuMemsetD8Async:
		f.holds(a[0], int64(a[2]), "memory")
	case cuStreamBeginCapture:
		f.outside("capturing")
		f.capturing = true
	case cuStreamEndCapture:
		f.capturing = false
		*at[uintptr](a[1]) = f.add("graph", 0)
	case cuGraphInstantiate:
		f.is(a[1], "graph")
		*at[uintptr](a[0]) = f.add("exec", 0)
	case cuGraphDestroy:
		return f.drop(a[0], "graph")
	case cuGraphExecDestroy:
		return f.drop(a[0], "exec")
	case cuGraphLaunch:
		f.is(a[0], "exec")
		f.outside("replaying")
	case cuTensorMapEncodeTiled:
		dims := int(a[2])
		size, pitches, box := at[[5]uint64](a[4])[:dims], at[[4]uint64](a[5])[:dims-1], at[[5]uint32](a[6])[:dims]
		number := map[uintptr]uint64{words64: 8, numbersF32: 4, numbersBF16: 2}[a[1]]
		last, pitch, boxBytes, wrong := number*size[0], pitches[0], number, number*uint64(box[0])%16 != 0
		for i := range dims {
			boxBytes *= uint64(box[i])
			wrong = wrong || box[i] == 0 || box[i] > 256 || size[i] == 0
			if i > 0 {
				last += pitches[i-1] * (size[i] - 1)
				wrong = wrong || pitches[i-1]%16 != 0
			}
		}
		f.holds(a[3], int64(last), "memory")
		if wrong || a[0]%64 != 0 || a[3]%16 != 0 || boxBytes > 64<<10 || a[9] == swizzle128 && number*uint64(box[0]) != 128 {
			f.t.Errorf("a map at %#x of rows at %#x, %d bytes apart, in boxes of %d", a[0], a[3], pitch, box)
			return 1
		}
	case cuLaunchKernel:
		return f.launch(a)
	case cuLaunchKernelEx:
		c := at[launchConfig](a[0])
		if n := at[launchAttribute](c.attributes); c.n != 1 || n.id != 6 || n.value[0] != 1 {
			f.t.Errorf("%s is launched with %d attributes, the first %v", f.live[a[1]].name, c.n, n)
		}
		return f.launch([]uintptr{
			a[1], uintptr(c.blocks.x), uintptr(c.blocks.y), uintptr(c.blocks.z), uintptr(c.threads.x), uintptr(c.threads.y),
			uintptr(c.threads.z), uintptr(c.shared), c.stream, a[2], a[3],
		})
	default:
		f.t.Errorf("the fake has no %s", symbols[e])
		return 1
	}
	return success
}

func (f *fake) launch(a []uintptr) code {
	fn := f.live[a[0]]
	f.is(a[8], "stream")
	if *at[uintptr](a[9]) == 0 || a[10] != 0 {
		f.t.Errorf("%s is launched without a parameter", fn.name)
	}
	if int(a[7]) > f.devices[0].shared {
		f.t.Errorf("%s is launched with %d bytes of shared memory", fn.name, a[7])
	}
	for _, n := range a[1:7] {
		if n == 0 {
			f.t.Errorf("%s is launched with %v", fn.name, a[1:7])
		}
	}
	if a[2] > 65535 || a[3] > 65535 || a[4] > 1024 {
		f.t.Errorf("%s is launched with %v", fn.name, a[1:7])
	}
	if strings.HasPrefix(fn.name, "attend_tile") && a[7] == 0 {
		f.t.Errorf("%s has no shared memory", fn.name)
	}
	return success
}
