package cuda

import (
	"fmt"
	"runtime"
	"unsafe"
)

// entry is a function of the driver library.
type entry int

const (
	cuInit entry = iota
	cuDriverGetVersion
	cuGetErrorName
	cuGetErrorString
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetName
	cuDeviceGetAttribute
	cuDeviceTotalMem
	cuCtxCreate
	cuCtxDestroy
	cuCtxSetCurrent
	cuMemGetInfo
	cuMemAlloc
	cuMemFree
	cuMemHostAlloc
	cuMemFreeHost
	cuMemHostRegister
	cuMemHostUnregister
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuMemcpyDtoDAsync
	cuMemcpy2DAsync
	cuMemsetD8Async
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamWaitEvent
	cuStreamBeginCapture
	cuStreamEndCapture
	cuEventCreate
	cuEventDestroy
	cuEventRecord
	cuEventSynchronize
	cuEventElapsedTime
	cuModuleLoadDataEx
	cuModuleUnload
	cuModuleGetFunction
	cuFuncSetAttribute
	cuLaunchKernel
	cuLaunchKernelEx
	cuTensorMapEncodeTiled
	cuGraphInstantiate
	cuGraphDestroy
	cuGraphExecDestroy
	cuGraphLaunch
	entries // how many they are
)

// symbols are the entries' names in the library.
var symbols = [entries]string{
	cuInit:                 "cuInit",
	cuDriverGetVersion:     "cuDriverGetVersion",
	cuGetErrorName:         "cuGetErrorName",
	cuGetErrorString:       "cuGetErrorString",
	cuDeviceGetCount:       "cuDeviceGetCount",
	cuDeviceGet:            "cuDeviceGet",
	cuDeviceGetName:        "cuDeviceGetName",
	cuDeviceGetAttribute:   "cuDeviceGetAttribute",
	cuDeviceTotalMem:       "cuDeviceTotalMem_v2",
	cuCtxCreate:            "cuCtxCreate_v2",
	cuCtxDestroy:           "cuCtxDestroy_v2",
	cuCtxSetCurrent:        "cuCtxSetCurrent",
	cuMemGetInfo:           "cuMemGetInfo_v2",
	cuMemAlloc:             "cuMemAlloc_v2",
	cuMemFree:              "cuMemFree_v2",
	cuMemHostAlloc:         "cuMemHostAlloc",
	cuMemFreeHost:          "cuMemFreeHost",
	cuMemHostRegister:      "cuMemHostRegister_v2",
	cuMemHostUnregister:    "cuMemHostUnregister",
	cuMemcpyHtoDAsync:      "cuMemcpyHtoDAsync_v2",
	cuMemcpyDtoHAsync:      "cuMemcpyDtoHAsync_v2",
	cuMemcpyDtoDAsync:      "cuMemcpyDtoDAsync_v2",
	cuMemcpy2DAsync:        "cuMemcpy2DAsync_v2",
	cuMemsetD8Async:        "cuMemsetD8Async",
	cuStreamCreate:         "cuStreamCreate",
	cuStreamDestroy:        "cuStreamDestroy_v2",
	cuStreamSynchronize:    "cuStreamSynchronize",
	cuStreamWaitEvent:      "cuStreamWaitEvent",
	cuStreamBeginCapture:   "cuStreamBeginCapture_v2",
	cuStreamEndCapture:     "cuStreamEndCapture",
	cuEventCreate:          "cuEventCreate",
	cuEventDestroy:         "cuEventDestroy_v2",
	cuEventRecord:          "cuEventRecord",
	cuEventSynchronize:     "cuEventSynchronize",
	cuEventElapsedTime:     "cuEventElapsedTime",
	cuModuleLoadDataEx:     "cuModuleLoadDataEx",
	cuModuleUnload:         "cuModuleUnload",
	cuModuleGetFunction:    "cuModuleGetFunction",
	cuFuncSetAttribute:     "cuFuncSetAttribute",
	cuLaunchKernel:         "cuLaunchKernel",
	cuLaunchKernelEx:       "cuLaunchKernelEx",
	cuTensorMapEncodeTiled: "cuTensorMapEncodeTiled",
	cuGraphInstantiate:     "cuGraphInstantiateWithFlags",
	cuGraphDestroy:         "cuGraphDestroy",
	cuGraphExecDestroy:     "cuGraphExecDestroy",
	cuGraphLaunch:          "cuGraphLaunch",
}

// library is the driver library: libcuda, or a fake of it in tests. A call takes integers and addresses as the C
// function does and returns its code. Memory that an address names must not lie on a goroutine's stack, which may
// move.
type library interface {
	call(f entry, args ...uintptr) code
}

// code is what a call returns; 0 is success.
type code int32

const (
	success       code = 0
	outOfMemory   code = 2
	noDevice      code = 100
	notReady      code = 600
	oldestVersion      = 13000 // of the driver's API that loads the PTX: 13.0
)

// spoils reports whether a code is of a fault after which every call of the context fails with the same: of a kernel,
// of the device or of the driver.
func (c code) spoils() bool {
	const deinitialized, uncorrectable, linkUncorrectable, unknown = 4, 214, 220, 999
	const firstOfKernels, endOfKernels = 700, 800
	const tooManyResources, tooLarge = 701, 720 // of one launch, which does not begin
	switch c {
	case deinitialized, uncorrectable, linkUncorrectable, unknown:
		return true
	case tooManyResources, tooLarge:
		return false
	}
	return c >= firstOfKernels && c < endOfKernels
}

// driverError is a call that the driver refused.
type driverError struct {
	Code    int    // CUresult
	Name    string // the driver's name of the code, such as CUDA_ERROR_OUT_OF_MEMORY
	Text    string // the driver's own description
	Doing   string // what was asked: "allocating 12.3 GB for the KV cache"
	Details string // what else is known, such as the memory that is free
}

func (e *driverError) Error() string {
	s := fmt.Sprintf("cuda: %s: %s (%s)", e.Doing, e.Text, e.Name)
	if e.Details != "" {
		s += "; " + e.Details
	}
	return s
}

// fail makes a driverError of a code that is not success.
func fail(lib library, c code, format string, args ...any) *driverError {
	return &driverError{
		Code: int(c), Name: codeText(lib, cuGetErrorName, c), Text: codeText(lib, cuGetErrorString, c),
		Doing: fmt.Sprintf(format, args...),
	}
}

// codeText returns what the driver says of a code.
func codeText(lib library, f entry, c code) string {
	text := new(*byte)
	if lib.call(f, uintptr(c), address(text)) != success || *text == nil {
		return fmt.Sprintf("code %d", c)
	}
	return cString(*text)
}

// cString copies a string that ends with a zero byte.
func cString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// address returns the address of a value, which it makes the compiler keep on the heap: on a goroutine's stack it
// would move when the stack grows, and a call may make it grow.
func address[T any](p *T) uintptr {
	if never {
		escaped = unsafe.Pointer(p)
	}
	return uintptr(unsafe.Pointer(p))
}

// keepAlive keeps what only addresses name from being collected before a call has returned.
func keepAlive(values ...any) { runtime.KeepAlive(values) }

var (
	never   bool
	escaped unsafe.Pointer //lint:ignore U1000 it is only written
)

// gigabytes writes a size for people.
func gigabytes(n int64) string {
	switch {
	case n >= 1e8:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 1e5:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d bytes", n)
}
