//go:build linux && (amd64 || arm64) && !nocuda && !emulate

package cuda

import (
	"fmt"
	"sync"

	"github.com/ebitengine/purego"
)

// libcuda is the driver's library, opened once and never closed.
type libcuda [entries]uintptr

// openLibrary opens the driver's library. The error says why there is none.
var openLibrary = sync.OnceValues(func() (library, error) {
	handle, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("no NVIDIA driver: %w", err)
	}
	lib := new(libcuda)
	for f, name := range symbols {
		if lib[f], err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("the NVIDIA driver is too old: it has no %s", name)
		}
	}
	return lib, nil
})

func (l *libcuda) call(f entry, args ...uintptr) code {
	r, _, _ := purego.SyscallN(l[f], args...)
	return code(int32(r))
}
