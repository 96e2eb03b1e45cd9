package fakecuda

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/kvasir-llm/kvasir/internal/ptx"
)

// copy2D is a CUDA_MEMCPY2D.
type copy2D struct {
	from, to    place
	bytes, rows uintptr
}

type place struct {
	_, _         uintptr // of the first byte: bytes, and rows
	kind         uint32  // 1 host, 2 device
	_            uint32
	host, device uintptr
	_            uintptr // an array
	pitch        uintptr
}

func (p *place) onHost() bool { return p.kind == 1 }

func (p *place) address() uintptr {
	if p.onHost() {
		return p.host
	}
	return p.device
}

// launchConfig is a CUlaunchConfig.
type launchConfig struct {
	blocks, threads [3]uint32
	shared          uint32
	stream          uintptr
	attributes      uintptr
	n               uint32 // attributes
}

// launchAttribute is a CUlaunchAttribute.
type launchAttribute struct {
	id    int32
	_     int32
	value [16]int32
}

// queue does the calls that queue work, or prepare it.
func (d *Driver) queue(name string, a []uintptr) int32 {
	if d.Work++; d.Work == d.FaultAt { // which what waits for it finds
		d.current.spoilt = badAddress
		return success
	}
	switch name {
	case "cuMemcpyHtoDAsync_v2":
		return d.copy(a[3], place{kind: 2, device: a[0]}, place{kind: 1, host: a[1]}, int64(a[2]), 1)
	case "cuMemcpyDtoHAsync_v2":
		return d.copy(a[3], place{kind: 1, host: a[0]}, place{kind: 2, device: a[1]}, int64(a[2]), 1)
	case "cuMemcpyDtoDAsync_v2":
		return d.copy(a[3], place{kind: 2, device: a[0]}, place{kind: 2, device: a[1]}, int64(a[2]), 1)
	case "cuMemcpy2DAsync_v2":
		c := at[copy2D](a[0])
		return d.copy(a[1], c.to, c.from, int64(c.bytes), int64(c.rows))
	case "cuMemsetD8Async":
		return d.set(a[3], a[0], byte(a[1]), int64(a[2]))
	case "cuGraphInstantiateWithFlags":
		if c := d.is(a[1], "graph"); c != success {
			return c
		}
		*at[uintptr](a[0]) = d.add(object{kind: "exec", graph: d.live[a[1]].graph}, 0)
	case "cuGraphDestroy":
		return d.drop(a[0], "graph")
	case "cuGraphExecDestroy":
		return d.drop(a[0], "exec")
	case "cuGraphLaunch":
		return d.replay(a[1], a[0])
	case "cuTensorMapEncodeTiled":
		return d.mapTiles(a)
	case "cuLaunchKernel":
		blocks, threads := [3]uint32{uint32(a[1]), uint32(a[2]), uint32(a[3])}, [3]uint32{uint32(a[4]), uint32(a[5]), uint32(a[6])}
		return d.launch(a[0], launchConfig{blocks: blocks, threads: threads, shared: uint32(a[7]), stream: a[8]}, a[9], a[10])
	case "cuLaunchKernelEx":
		return d.launch(a[1], *at[launchConfig](a[0]), a[2], a[3])
	default:
		return d.wrong("the fake has no %s", name)
	}
	return success
}

// copy queues a copy of rows of bytes.
func (d *Driver) copy(stream uintptr, to, from place, bytes, rows int64) int32 {
	if c := d.is(stream, "stream"); c != success {
		return c
	}
	for _, p := range []place{to, from} {
		n, check := (rows-1)*int64(p.pitch)+bytes, d.onDevice
		if p.onHost() {
			check = d.onHost
		}
		if rows > 1 && int64(p.pitch) < bytes {
			return d.wrong("rows of %d bytes are copied %d bytes apart", bytes, p.pitch)
		}
		if c := check(p.address(), n); c != success {
			return c
		}
	}
	if !d.computes {
		d.live[stream].stream.add(nothing)
		return success
	}
	d.live[stream].stream.add(func() error {
		for row := range uintptr(rows) {
			dst := d.bytesAt(to.address()+row*to.pitch, bytes, to.onHost())
			src := d.bytesAt(from.address()+row*from.pitch, bytes, from.onHost())
			if dst == nil || src == nil {
				return fmt.Errorf("memory at %#x or %#x was freed before %d bytes were copied", to.address(), from.address(), bytes)
			}
			copy(dst, src)
		}
		return nil
	})
	return success
}

func nothing() error { return nil }

// set queues setting n bytes to a value.
func (d *Driver) set(stream, address uintptr, value byte, n int64) int32 {
	if c := d.is(stream, "stream"); c != success {
		return c
	}
	if c := d.onDevice(address, n); c != success || !d.computes {
		return c
	}
	d.live[stream].stream.add(func() error {
		data := d.bytesAt(address, n, false)
		if data == nil {
			return fmt.Errorf("memory at %#x was freed before %d bytes were set", address, n)
		}
		fill(data, value)
		return nil
	})
	return success
}

// replay queues a graph's work.
func (d *Driver) replay(stream, exec uintptr) int32 {
	if c := d.is(exec, "exec"); c != success {
		return c
	}
	if c := d.is(stream, "stream"); c != success {
		return c
	}
	s := d.live[stream].stream
	if s.keeps {
		return d.wrong("a graph is replayed while one is captured")
	}
	for _, w := range d.live[exec].graph {
		s.add(w)
	}
	return success
}

// launch queues a kernel with one parameter.
func (d *Driver) launch(function uintptr, c launchConfig, params, extra uintptr) int32 {
	if code := d.is(function, "function"); code != success {
		return code
	}
	if code := d.is(c.stream, "stream"); code != success {
		return code
	}
	f, device := d.live[function], d.Devices[0]
	if params == 0 || *at[uintptr](params) == 0 || extra != 0 {
		return d.wrong("%s is launched without a parameter", f.name)
	}
	if n := int(c.shared); n > device.Shared || n > max(f.most, unlimited) {
		return d.wrong("%s is launched with %d bytes of shared memory, and allowed %d", f.name, n, max(f.most, unlimited))
	}
	for i := range 3 {
		most := []uint32{1<<31 - 1, 65535, 65535}[i]
		if c.blocks[i] == 0 || c.threads[i] == 0 || c.blocks[i] > most {
			return d.wrong("%s is launched with %v blocks of %v threads", f.name, c.blocks, c.threads)
		}
	}
	if c.threads[0]*c.threads[1]*c.threads[2] > 1024 {
		return d.wrong("%s is launched with %v threads", f.name, c.threads)
	}
	if strings.HasPrefix(f.name, "attend_tile") && c.shared == 0 {
		return d.wrong("%s has no shared memory", f.name)
	}
	const early = 6 // programmatic stream serialization
	for _, n := range unsafe.Slice(at[launchAttribute](c.attributes), c.n) {
		if n.id != early || n.value[0] != 1 || device.Major < 9 {
			return d.wrong("%s is launched with attribute %d of %d", f.name, n.id, n.value[0])
		}
	}
	w := nothing
	if d.computes {
		w = d.run(f.kernel, c, *at[uintptr](params))
	}
	d.live[c.stream].stream.add(w)
	return success
}

// mapTiles describes boxes of a tensor.
func (d *Driver) mapTiles(a []uintptr) int32 {
	m := ptx.TensorMap{
		Type: int(a[1]), Dims: int(a[2]), Address: uint64(a[3]), Interleave: int(a[8]), Swizzle: int(a[9]), Promotion: int(a[10]), Fill: int(a[11]),
	}
	copy(m.Size[:], unsafe.Slice(at[uint64](a[4]), m.Dims))
	copy(m.Pitch[:], unsafe.Slice(at[uint64](a[5]), m.Dims-1))
	copy(m.Box[:], unsafe.Slice(at[uint32](a[6]), m.Dims))
	copy(m.Step[:], unsafe.Slice(at[uint32](a[7]), m.Dims))
	made, err := m.Encode()
	if err != nil {
		return d.wrong("%v", err)
	}
	if a[0]%64 != 0 {
		return d.wrong("a tensor map at %#x, no multiple of 64", a[0])
	}
	*at[[128]byte](a[0]) = made
	return d.onDevice(a[3], m.Span())
}
