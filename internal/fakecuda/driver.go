// Package fakecuda is a CUDA driver for machines without an NVIDIA GPU, for tests. It knows what is allocated, and
// complains of calls that a real one would refuse, or would not notice: memory that is not there, work on a stream that
// is gone, work that waits for nothing. Of New's, memory holds nothing and kernels do nothing; Emulate's has real
// memory, and package ptx runs its kernels. Work runs as late as the program allows: when something waits for it. Start
// with Driver.
package fakecuda

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/kvasir-llm/kvasir/internal/ptx"
)

// Device is what a driver says of a device.
type Device struct {
	Name         string
	Major, Minor int // compute capability
	SMs          int
	Shared       int // bytes of shared memory that a block can have
	Total        int64
	Driver       int // version of the API: 13000 is 13.0
}

// Driver is a driver. Its fields are read and written with Mu locked, or before there are calls.
type Driver struct {
	Mu       sync.Mutex
	Devices  []Device
	Free     int64 // bytes
	Work     int   // launches, copies, replays and what else is queued
	FaultAt  int   // when there is so much work, a kernel has spoilt the context; 0: none does
	Complain func(what string)

	computes  bool
	memory    memory
	live      map[uintptr]*object
	next      uintptr
	contexts  []*context // those that live
	current   *context
	capturing *stream
	texts     map[int32][]byte // what names of codes are, and what was said of them
	said      map[int32]string // the last complaint of each code
}

// context is what a fault spoils.
type context struct {
	handle uintptr
	spoilt int32 // what all calls return
}

// object is what a handle stands for.
type object struct {
	kind   string
	at     uintptr
	ctx    *context
	size   int64
	data   []byte // of memory, nil if it holds nothing
	name   string // of a function
	most   int    // bytes of dynamic shared memory that a function may have
	stream *stream
	event  *event
	graph  []work
	module *ptx.Module
	kernel *ptx.Entry
}

// Codes that the driver returns.
const (
	success      = 0
	invalid      = 1
	outOfMemory  = 2
	noBinary     = 209
	badPTX       = 218
	notFound     = 500
	notReady     = 600
	badAddress   = 700
	isRegistered = 712
)

// unlimited is shared memory that needs no permission.
const unlimited = 48 << 10

// New returns a driver whose memory holds nothing and whose kernels do nothing.
func New(devices ...Device) *Driver {
	return &Driver{
		Devices: devices, Free: devices[0].Total, live: map[uintptr]*object{}, next: 1 << 40,
		texts: map[int32][]byte{}, said: map[int32]string{}, Complain: func(string) {},
	}
}

// Emulate returns a driver of a device that computes.
func Emulate(device Device) *Driver {
	d := New(device)
	d.computes = true
	return d
}

// at is what an address points to.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// wrong complains, and returns the code of an invalid value.
func (d *Driver) wrong(format string, args ...any) int32 {
	d.said[invalid] = fmt.Sprintf(format, args...)
	d.Complain(d.said[invalid])
	return invalid
}

// Spoil makes all calls of the current context fail with a code.
func (d *Driver) Spoil(code int32) {
	if d.current != nil {
		d.current.spoilt = code
	}
}

// Leaks lists what was not given back.
func (d *Driver) Leaks() []string {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	var all []string
	for at, o := range d.live {
		if o.kind != "function" {
			all = append(all, fmt.Sprintf("%s at %#x", o.kind, at))
		}
	}
	if n := len(d.contexts); n > 0 {
		all = append(all, fmt.Sprintf("%d contexts", n))
	}
	return all
}

// Sizes returns the bytes of the allocations of the device's memory, by address.
func (d *Driver) Sizes() map[uintptr]int64 {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	sizes := map[uintptr]int64{}
	for at, o := range d.live {
		if o.kind == "memory" {
			sizes[at] = o.size
		}
	}
	return sizes
}

// Call does what the function of a name in libcuda does, of those that package cuda calls.
func (d *Driver) Call(name string, a ...uintptr) int32 {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	switch name {
	case "cuInit":
	case "cuDriverGetVersion":
		*at[int32](a[0]) = int32(d.Devices[0].Driver)
	case "cuGetErrorName":
		*at[*byte](a[1]) = d.text(int32(a[0]), "")
	case "cuGetErrorString":
		*at[*byte](a[1]) = d.text(int32(a[0]), d.said[int32(a[0])])
	case "cuDeviceGetCount":
		*at[int32](a[0]) = int32(len(d.Devices))
	case "cuDeviceGetName":
		copy(unsafe.Slice(at[byte](a[0]), int(a[1])), d.Devices[a[2]].Name+"\x00")
	case "cuDeviceGetAttribute":
		const multiprocessors, major, minor, shared = 16, 75, 76, 97
		of := d.Devices[a[2]]
		*at[int32](a[0]) = int32(map[uintptr]int{multiprocessors: of.SMs, major: of.Major, minor: of.Minor, shared: of.Shared}[a[1]])
	case "cuDeviceTotalMem_v2":
		*at[int64](a[0]) = d.Devices[a[1]].Total
	case "cuCtxCreate_v2":
		d.next += 256
		d.current = &context{handle: d.next}
		d.contexts = append(d.contexts, d.current)
		*at[uintptr](a[0]) = d.next
	case "cuCtxSetCurrent":
		return d.choose(a[0])
	case "cuCtxDestroy_v2":
		return d.destroy(a[0])
	case "cuMemGetInfo_v2":
		*at[int64](a[0]), *at[int64](a[1]) = d.Free, d.Devices[0].Total
	default:
		if d.current == nil {
			return d.wrong("%s without a context", name)
		}
		if c := d.current.spoilt; c != success {
			return c
		}
		return d.use(name, a)
	}
	return success
}

// text returns a text of a code as C does.
func (d *Driver) text(code int32, said string) *byte {
	if said == "" {
		said = fmt.Sprintf("FAKE_%d", code)
	}
	d.texts[code] = append([]byte(said), 0)
	return &d.texts[code][0]
}

// choose makes a context that of the calls that follow; 0 is none.
func (d *Driver) choose(handle uintptr) int32 {
	if handle == 0 {
		return success // what is called next is of the one that was entered last
	}
	for _, c := range d.contexts {
		if c.handle == handle {
			d.current = c
			return success
		}
	}
	return d.wrong("%#x is no context", handle)
}

// destroy ends a context. Only a fault excuses what is left in it.
func (d *Driver) destroy(handle uintptr) int32 {
	if c := d.choose(handle); c != success {
		return c
	}
	ctx, code := d.current, d.current.spoilt
	for at, o := range d.live {
		if o.ctx != ctx {
			continue
		}
		if ctx.spoilt == success && o.kind != "function" {
			code = d.wrong("%s at %#x was not given back before its context", o.kind, at)
		}
		d.forget(at)
	}
	for i, c := range d.contexts {
		if c == ctx {
			d.contexts = append(d.contexts[:i], d.contexts[i+1:]...)
			break
		}
	}
	if d.current = nil; len(d.contexts) > 0 {
		d.current = d.contexts[len(d.contexts)-1]
	}
	return code
}

// add makes an object with a handle that no other ever had.
func (d *Driver) add(o object, size int64) uintptr {
	d.next = (d.next + uintptr(max(size, 1)+511)) &^ 255
	at := d.next
	d.next += uintptr(size)
	d.put(at, o, size)
	return at
}

func (d *Driver) put(at uintptr, o object, size int64) {
	o.at, o.size, o.ctx = at, size, d.current
	d.live[at] = &o
}

// drop gives an object back.
func (d *Driver) drop(at uintptr, kind string) int32 {
	if c := d.is(at, kind); c != success {
		return c
	}
	d.forget(at)
	return success
}

func (d *Driver) forget(at uintptr) {
	if o := d.live[at]; o.kind == "memory" {
		d.Free += o.size
		if d.computes {
			d.memory.free(uint64(at))
		}
	}
	delete(d.live, at)
}

// is complains of a handle of another kind.
func (d *Driver) is(handle uintptr, kind string) int32 {
	switch o := d.live[handle]; {
	case o == nil:
		return d.wrong("%#x is no %s", handle, kind)
	case o.kind != kind:
		return d.wrong("%#x is a %s, and no %s", handle, o.kind, kind)
	}
	return success
}

// use does the calls that make, free or use something.
func (d *Driver) use(name string, a []uintptr) int32 {
	switch name {
	case "cuMemAlloc_v2":
		return d.alloc(at[uintptr](a[0]), int64(a[1]))
	case "cuMemFree_v2":
		return d.drop(a[0], "memory")
	case "cuMemHostAlloc":
		real := make([]byte, a[1])
		p := uintptr(unsafe.Pointer(&real[0]))
		d.put(p, object{kind: "pinned", data: real}, int64(a[1]))
		*at[uintptr](a[0]) = p
	case "cuMemFreeHost":
		return d.drop(a[0], "pinned")
	case "cuMemHostRegister_v2":
		for base, o := range d.live {
			if (o.kind == "pinned" || o.kind == "registered") && a[0] < base+uintptr(o.size) && base < a[0]+a[1] {
				return isRegistered
			}
		}
		d.put(a[0], object{kind: "registered", data: unsafe.Slice(at[byte](a[0]), int(a[1]))}, int64(a[1]))
	case "cuMemHostUnregister":
		return d.drop(a[0], "registered")
	case "cuModuleLoadDataEx":
		return d.load(a)
	case "cuModuleUnload":
		return d.drop(a[0], "module")
	case "cuModuleGetFunction":
		return d.function(a)
	case "cuFuncSetAttribute":
		const maxDynamicShared = 8
		if c := d.is(a[0], "function"); c != success {
			return c
		}
		if n := int(a[2]); a[1] != maxDynamicShared || n > d.Devices[0].Shared {
			return d.wrong("attribute %d of %s is set to %d", a[1], d.live[a[0]].name, n)
		}
		d.live[a[0]].most = int(a[2])
	default:
		if strings.HasPrefix(name, "cuStream") || strings.HasPrefix(name, "cuEvent") {
			return d.order(name, a)
		}
		return d.queue(name, a)
	}
	return success
}
