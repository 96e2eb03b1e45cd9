package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// gpu is a device of the driver with a context of its own, with which all that it holds is freed. Its methods are
// called from one goroutine at a time, between enter and leave, which bind the context to the goroutine's thread.
type gpu struct {
	lib     library
	ordinal int32
	ctx     uintptr
	info    info
	out     [4]uint64 // what calls return through addresses; on the heap
	boxes   boxes
	live    int // allocations, streams, events, modules and graphs that are not given back
}

// info is what is known of a device.
type info struct {
	name         string
	major, minor int // compute capability
	sms          int // streaming multiprocessors
	shared       int // bytes of shared memory that a block can have
	bandwidth    int // of memory, bytes a microsecond, as its clock and width say; 0: they are not known
	total        int64
	driver       int // version of the API: 13000 is 13.0
}

// Attributes of a device, CUdevice_attribute.
const (
	attributeSMs         = 16
	attributeMemoryClock = 36 // kHz; two transfers each
	attributeMemoryWidth = 37 // bits
	attributeMajor       = 75
	attributeMinor       = 76
	attributeShared      = 97 // with cuFuncSetAttribute
)

// oldestMajor is the oldest compute capability whose instructions the kernels use: 8.0, for products of bfloat16.
const oldestMajor = 8

// count returns how many devices the driver shows, or why it shows none.
func count(lib library) (int, error) {
	if c := lib.call(cuInit, 0); c != success && c != noDevice {
		return 0, fail(lib, c, "starting the driver")
	}
	n := new(int32)
	if c := lib.call(cuDeviceGetCount, address(n)); c != success && c != noDevice {
		return 0, fail(lib, c, "counting devices")
	}
	if *n == 0 {
		return 0, errors.New("cuda: the driver shows no device")
	}
	return int(*n), nil
}

// describe returns what the driver says of a device, and why it cannot be used, if it cannot.
func describe(lib library, ordinal int) (i info, unused error) {
	g := &gpu{lib: lib, ordinal: int32(ordinal)}
	return g.info, g.describe()
}

// describe fills g.info.
func (g *gpu) describe() error {
	name := new([256]byte)
	n := new(int32)
	attribute := func(which uintptr) int {
		if c := g.lib.call(cuDeviceGetAttribute, address(n), which, uintptr(g.ordinal)); c != success {
			return 0
		}
		return int(*n)
	}
	if c := g.lib.call(cuDriverGetVersion, address(n)); c != success {
		return fail(g.lib, c, "asking for the driver's version")
	}
	g.info.driver = int(*n)
	if c := g.lib.call(cuDeviceGetName, address(name), uintptr(len(name)-1), uintptr(g.ordinal)); c != success {
		return fail(g.lib, c, "asking for the name of device %d", g.ordinal)
	}
	g.info.name = cString(&name[0])
	if c := g.lib.call(cuDeviceTotalMem, address(&g.out[0]), uintptr(g.ordinal)); c != success {
		return fail(g.lib, c, "asking for the memory of device %d", g.ordinal)
	}
	g.info.total = int64(g.out[0])
	g.info.shared = attribute(attributeShared)
	g.info.bandwidth = attribute(attributeMemoryClock) / 1000 * 2 * attribute(attributeMemoryWidth) / 8
	g.info.sms, g.info.major, g.info.minor = attribute(attributeSMs), attribute(attributeMajor), attribute(attributeMinor)
	if v := g.info.driver; v < oldestVersion {
		return fmt.Errorf("cuda: the driver is for CUDA %d.%d; want %d.%d or later", v/1000, v%1000/10, oldestVersion/1000, oldestVersion%1000/10)
	}
	if g.info.major < oldestMajor {
		return fmt.Errorf("cuda: %s has compute capability %d.%d; want %d.0 or later", g.info.name, g.info.major, g.info.minor, oldestMajor)
	}
	return nil
}

// openGPU makes a context on a device.
func openGPU(lib library, ordinal int) (*gpu, error) {
	n, err := count(lib)
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("cuda: there is no device %d; there are %d", ordinal, n)
	}
	g := &gpu{lib: lib, ordinal: int32(ordinal)}
	if err := g.describe(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.try(cuCtxCreate, []uintptr{address(&g.out[0]), 0, uintptr(ordinal)}, "opening device %d", ordinal); err != nil {
		return nil, err
	}
	g.ctx = uintptr(g.out[0])
	return g, g.try(cuCtxSetCurrent, []uintptr{0}, "leaving device %d", ordinal) // which the call before chose
}

// close ends the context, and with it all that is not given back. One that a fault has spoilt may say so once more.
func (g *gpu) close() error {
	if c := g.lib.call(cuCtxDestroy, g.ctx); c != success && !c.spoils() {
		return fail(g.lib, c, "closing device %d", g.ordinal)
	}
	return nil
}

// enter binds the context to the calling goroutine's thread until leave.
func (g *gpu) enter() error {
	runtime.LockOSThread()
	return g.try(cuCtxSetCurrent, []uintptr{g.ctx}, "choosing device %d", g.ordinal)
}

func (g *gpu) leave() { runtime.UnlockOSThread() }

// try calls the driver; doing says in an error what was asked.
func (g *gpu) try(f entry, args []uintptr, doing string, about ...any) error {
	if c := g.lib.call(f, args...); c != success {
		return fail(g.lib, c, doing, about...)
	}
	return nil
}

// memory returns the bytes of the device that are free, and all of them.
func (g *gpu) memory() (free, total int64, err error) {
	err = g.try(cuMemGetInfo, []uintptr{address(&g.out[0]), address(&g.out[1])}, "asking for free memory")
	return int64(g.out[0]), int64(g.out[1]), err
}

// pointer is an address in the device's memory.
type pointer uintptr

// at returns the address n bytes on.
func (p pointer) at(n int64) pointer { return p + pointer(n) }

// alloc takes memory of the device, aligned to 256 bytes. what names it in an error.
func (g *gpu) alloc(n int64, what string) (pointer, error) {
	n = max(n, 16)
	c := g.lib.call(cuMemAlloc, address(&g.out[0]), uintptr(n))
	if c == success {
		g.live++
		return pointer(g.out[0]), nil
	}
	err := fail(g.lib, c, "allocating %s for %s", gigabytes(n), what)
	if free, total, e := g.memory(); e == nil {
		err.Details = fmt.Sprintf("%s of %s are free", gigabytes(free), gigabytes(total))
	}
	return 0, err
}

// free gives memory of the device back. 0 is none.
func (g *gpu) free(p pointer) error {
	if p == 0 {
		return nil
	}
	g.live--
	return g.try(cuMemFree, []uintptr{uintptr(p)}, "freeing memory")
}

// pinned is memory of the host that the device can copy to and from while the host goes on.
type pinned struct {
	addr uintptr
	n    int
}

// allocPinned takes pinned memory.
func (g *gpu) allocPinned(n int, what string) (pinned, error) {
	n = max(n, 16)
	const portable = 1
	err := g.try(cuMemHostAlloc, []uintptr{address(&g.out[0]), uintptr(n), portable}, "allocating %s of pinned memory for %s", gigabytes(int64(n)), what)
	if err != nil {
		return pinned{}, err
	}
	g.live++
	return pinned{uintptr(g.out[0]), n}, nil
}

func (g *gpu) freePinned(p pinned) error {
	if p.addr == 0 {
		return nil
	}
	g.live--
	return g.try(cuMemFreeHost, []uintptr{p.addr}, "freeing pinned memory")
}

// pin makes memory of Go pinned, until unpin. Its caller keeps it alive until then.
func (g *gpu) pin(data []byte) (pinned, error) {
	const portable = 1
	p := pinned{uintptr(unsafe.Pointer(unsafe.SliceData(data))), len(data)}
	err := g.try(cuMemHostRegister, []uintptr{p.addr, uintptr(p.n), portable}, "pinning %s", gigabytes(int64(p.n)))
	if err != nil {
		return pinned{}, err
	}
	g.live++
	return p, nil
}

func (g *gpu) unpin(p pinned) error {
	g.live--
	return g.try(cuMemHostUnregister, []uintptr{p.addr}, "unpinning memory")
}

// bytes returns the memory as a slice. It is not the garbage collector's.
func (p pinned) bytes() []byte { return view[byte](p, 0, p.n) }

// view returns n values from byte offset at of pinned memory on.
func view[T any](p pinned, at, n int) []T {
	var zero T
	if at < 0 || n < 0 || at+n*int(unsafe.Sizeof(zero)) > p.n {
		panic(fmt.Sprintf("cuda: %d values at byte %d of %d bytes of pinned memory", n, at, p.n))
	}
	if n == 0 { // there may be nothing at the address
		return nil
	}
	base := *(*unsafe.Pointer)(unsafe.Pointer(&p.addr)) // memory of C, which does not move
	return unsafe.Slice((*T)(unsafe.Add(base, at)), n)
}
