package cuda

import (
	"fmt"
	"unsafe"
)

// stream is a queue of work of a device: copies, launches and graphs, which run in their order.
type stream struct {
	g      *gpu
	handle uintptr
	params [1]uintptr   // of launch; on the heap
	param  [1536]byte   // of launch
	config launchConfig // of launch
	early  launchAttribute
	rows   rowsCopy // of rowsToDevice and rowsToHost
}

// rowsCopy is a CUDA_MEMCPY2D.
type rowsCopy struct {
	from, to    rowsPlace
	bytes, rows uintptr
}

type rowsPlace struct {
	_, _   uintptr // of the first byte: bytes, and rows
	kind   uint32  // 1 host, 2 device
	_      uint32
	host   uintptr
	device pointer
	_      uintptr // an array
	pitch  uintptr
}

// launchConfig is a CUlaunchConfig.
type launchConfig struct {
	blocks     grid
	threads    grid
	shared     uint32
	stream     uintptr
	attributes uintptr
	n          uint32 // attributes
}

// launchAttribute is a CUlaunchAttribute.
type launchAttribute struct {
	id    int32
	_     int32
	value [16]int32
}

func (g *gpu) newStream() (*stream, error) {
	const nonBlocking = 1
	if err := g.try(cuStreamCreate, []uintptr{address(&g.out[0]), nonBlocking}, "making a stream"); err != nil {
		return nil, err
	}
	g.live++
	return &stream{g: g, handle: uintptr(g.out[0])}, nil
}

func (s *stream) close() error {
	s.g.live--
	return s.g.try(cuStreamDestroy, []uintptr{s.handle}, "closing a stream")
}

// wait returns when all work of the stream is done. The error is the first fault of the work.
func (s *stream) wait() error {
	return s.g.try(cuStreamSynchronize, []uintptr{s.handle}, "waiting for the device")
}

// after makes all work that is queued later wait for an event, which was recorded.
func (s *stream) after(e *event) error {
	return s.g.try(cuStreamWaitEvent, []uintptr{s.handle, e.handle, 0}, "queueing work behind an event")
}

// toDevice queues a copy of n bytes from byte at of pinned memory.
func (s *stream) toDevice(dst pointer, src pinned, at, n int) error {
	return s.g.try(cuMemcpyHtoDAsync, []uintptr{uintptr(dst), src.addr + uintptr(at), uintptr(n), s.handle}, "copying %d bytes to the device", n)
}

// toHost queues a copy of n bytes to byte at of pinned memory.
func (s *stream) toHost(dst pinned, at int, src pointer, n int) error {
	return s.g.try(cuMemcpyDtoHAsync, []uintptr{dst.addr + uintptr(at), uintptr(src), uintptr(n), s.handle}, "copying %d bytes from the device", n)
}

// rowsToDevice queues a copy of n rows of so many bytes, which begin pitch bytes apart in pinned memory, from byte at
// on.
func (s *stream) rowsToDevice(dst pointer, bytes int, src pinned, at, pitch, n int) error {
	if bytes == pitch || n == 1 {
		return s.toDevice(dst, src, at, n*bytes)
	}
	from, to := onHost(src, at, pitch), rowsPlace{kind: 2, device: dst, pitch: uintptr(bytes)}
	return s.copyRows(from, to, bytes, n)
}

// rowsToHost queues a copy of n rows of so many bytes, which begin pitch bytes apart in pinned memory, from byte at on.
func (s *stream) rowsToHost(dst pinned, at, pitch int, src pointer, bytes, n int) error {
	if bytes == pitch || n == 1 {
		return s.toHost(dst, at, src, n*bytes)
	}
	from, to := rowsPlace{kind: 2, device: src, pitch: uintptr(bytes)}, onHost(dst, at, pitch)
	return s.copyRows(from, to, bytes, n)
}

func onHost(p pinned, at, pitch int) rowsPlace {
	return rowsPlace{kind: 1, host: p.addr + uintptr(at), pitch: uintptr(pitch)}
}

func (s *stream) copyRows(from, to rowsPlace, bytes, n int) error {
	s.rows = rowsCopy{from, to, uintptr(bytes), uintptr(n)}
	return s.g.try(cuMemcpy2DAsync, []uintptr{address(&s.rows), s.handle}, "copying %d rows of %d bytes", n, bytes)
}

// within queues a copy of n bytes from one place of the device to another.
func (s *stream) within(dst, src pointer, n int64) error {
	return s.g.try(cuMemcpyDtoDAsync, []uintptr{uintptr(dst), uintptr(src), uintptr(n), s.handle}, "copying %d bytes on the device", n)
}

// fill queues setting n bytes to a value.
func (s *stream) fill(dst pointer, value byte, n int64) error {
	return s.g.try(cuMemsetD8Async, []uintptr{uintptr(dst), uintptr(value), uintptr(n), s.handle}, "clearing %d bytes", n)
}

// function is a kernel of a module.
type function struct {
	name   string
	handle uintptr
	shared uint32 // bytes of dynamic shared memory of each block
	param  int    // bytes of its one parameter
	early  bool   // it may begin before those in front of it end: it waits for them itself (waitForRows)
}

// grid is how many blocks a launch has in each direction, or how many threads a block has.
type grid struct{ x, y, z uint32 }

// launch queues a kernel with a struct of params.go as its parameter. A kernel that is early begins when the one before
// lets it.
func launch[T any](s *stream, f *function, blocks grid, threads int, param *T) error {
	size := int(unsafe.Sizeof(*param))
	if size != f.param {
		return fmt.Errorf("cuda: %s takes a parameter of %d bytes; it is given %d", f.name, f.param, size)
	}
	if size > len(s.param) {
		return fmt.Errorf("cuda: %s takes a parameter of %d bytes; there is room for %d", f.name, size, len(s.param))
	}
	copy(s.param[:], unsafe.Slice((*byte)(unsafe.Pointer(param)), size)) // from the stack, perhaps, to the heap
	s.params = [1]uintptr{address(&s.param[0])}
	var c code
	if f.early {
		const programmaticStreamSerialization = 6
		s.early.id, s.early.value[0] = programmaticStreamSerialization, 1
		s.config = launchConfig{
			blocks: blocks, threads: grid{uint32(threads), 1, 1}, shared: f.shared, stream: s.handle,
			attributes: address(&s.early), n: 1,
		}
		c = s.g.lib.call(cuLaunchKernelEx, address(&s.config), f.handle, address(&s.params[0]), 0)
	} else {
		c = s.g.lib.call(cuLaunchKernel, f.handle, uintptr(blocks.x), uintptr(blocks.y), uintptr(blocks.z),
			uintptr(threads), 1, 1, uintptr(f.shared), s.handle, address(&s.params[0]), 0)
	}
	if c != success {
		return fail(s.g.lib, c, "launching %s with %d×%d×%d blocks of %d threads and %d bytes of shared memory",
			f.name, blocks.x, blocks.y, blocks.z, threads, f.shared)
	}
	return nil
}

// event is a point in a stream.
type event struct {
	g      *gpu
	handle uintptr
}

// newEvent makes an event; timed says that its time is kept.
func (g *gpu) newEvent(timed bool) (*event, error) {
	flags := uintptr(2) // no timing
	if timed {
		flags = 0
	}
	if err := g.try(cuEventCreate, []uintptr{address(&g.out[0]), flags}, "making an event"); err != nil {
		return nil, err
	}
	g.live++
	return &event{g, uintptr(g.out[0])}, nil
}

func (e *event) close() error {
	e.g.live--
	return e.g.try(cuEventDestroy, []uintptr{e.handle}, "closing an event")
}

// record puts the event behind all work queued so far.
func (e *event) record(s *stream) error {
	return s.g.try(cuEventRecord, []uintptr{e.handle, s.handle}, "recording an event")
}

// wait returns when the event has passed; one that was never recorded has.
func (e *event) wait() error {
	return e.g.try(cuEventSynchronize, []uintptr{e.handle}, "waiting for the device")
}

// graph is captured work that is replayed with one call.
type graph struct {
	g            *gpu
	handle, exec uintptr
}

// capture runs queue, and makes a graph of the work that it queues, which the stream does not do.
func (s *stream) capture(queue func() error) (*graph, error) {
	const threadLocal = 1
	if err := s.g.try(cuStreamBeginCapture, []uintptr{s.handle, threadLocal}, "capturing a graph"); err != nil {
		return nil, err
	}
	queued := queue()
	err := s.g.try(cuStreamEndCapture, []uintptr{s.handle, address(&s.g.out[0])}, "ending the capture of a graph")
	gr := &graph{g: s.g, handle: uintptr(s.g.out[0])}
	if queued != nil {
		if err == nil {
			_ = s.g.try(cuGraphDestroy, []uintptr{gr.handle}, "freeing a graph")
		}
		return nil, queued
	}
	if err != nil {
		return nil, err
	}
	if err := s.g.try(cuGraphInstantiate, []uintptr{address(&s.g.out[1]), gr.handle, 0}, "making a graph ready"); err != nil {
		_ = s.g.try(cuGraphDestroy, []uintptr{gr.handle}, "freeing a graph")
		return nil, err
	}
	gr.exec = uintptr(s.g.out[1])
	s.g.live++
	return gr, nil
}

// replay queues the graph's work.
func (s *stream) replay(gr *graph) error {
	return s.g.try(cuGraphLaunch, []uintptr{gr.exec, s.handle}, "replaying a graph")
}

func (gr *graph) close() error {
	gr.g.live--
	err := gr.g.try(cuGraphExecDestroy, []uintptr{gr.exec}, "freeing a graph")
	if e := gr.g.try(cuGraphDestroy, []uintptr{gr.handle}, "freeing a graph"); err == nil {
		err = e
	}
	return err
}
