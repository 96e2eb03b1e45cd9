package fakecuda

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"sync"
	"unsafe"

	"github.com/kvasir-llm/kvasir/internal/ptx"
)

// parsed keeps what PTX becomes: every device loads the same.
var parsed struct {
	sync.Mutex
	modules map[[sha256.Size]byte]*ptx.Module
}

func parse(source []byte) (*ptx.Module, error) {
	parsed.Lock()
	defer parsed.Unlock()
	sum := sha256.Sum256(source)
	if m := parsed.modules[sum]; m != nil {
		return m, nil
	}
	m, err := ptx.Parse(source)
	if err != nil {
		return nil, err
	}
	if parsed.modules == nil {
		parsed.modules = map[[sha256.Size]byte]*ptx.Module{}
	}
	parsed.modules[sum] = m
	return m, nil
}

// load makes a module of PTX.
func (d *Driver) load(a []uintptr) int32 {
	o := object{kind: "module"}
	if d.computes {
		image := at[byte](a[1])
		if bytes.Equal(unsafe.Slice(image, 4), []byte("\x7fELF")) {
			d.said[noBinary] = "the module is machine code, and the emulator runs PTX"
			return noBinary
		}
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(image), n)) != 0 {
			n++
		}
		m, err := parse(unsafe.Slice(image, n))
		if err != nil {
			d.said[badPTX] = err.Error()
			return badPTX
		}
		o.module = m
	}
	*at[uintptr](a[0]) = d.add(o, 0)
	return success
}

// function finds a kernel of a module.
func (d *Driver) function(a []uintptr) int32 {
	if c := d.is(a[1], "module"); c != success {
		return c
	}
	o := object{kind: "function"}
	for p := a[2]; *at[byte](p) != 0; p++ {
		o.name += string(*at[byte](p))
	}
	if d.computes {
		if o.kernel = d.live[a[1]].module.Entry(o.name); o.kernel == nil {
			return notFound
		}
	}
	*at[uintptr](a[0]) = d.add(o, 0)
	return success
}

// run returns the work of a launch. The parameters are read now.
func (d *Driver) run(kernel *ptx.Entry, c launchConfig, params uintptr) work {
	ints := func(v [3]uint32) [3]int { return [3]int{int(v[0]), int(v[1]), int(v[2])} }
	l := ptx.Launch{
		Grid: ints(c.blocks), Block: ints(c.threads), Shared: int(c.shared), Memory: &d.memory,
		Params: slices.Clone(unsafe.Slice(at[byte](params), kernel.ParamBytes())),
	}
	return func() error { return kernel.Run(l) }
}
