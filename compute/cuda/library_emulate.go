//go:build emulate

package cuda

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/kvasir-llm/kvasir/internal/fakecuda"
)

// emulator is a driver whose one device computes on the processor, from the kernels' PTX: of compute capability 8.0, or
// 9.0 with the folder that KVASIR_PTX names, where _gen wrote Hopper's.
type emulator struct{ *fakecuda.Driver }

var openLibrary = sync.OnceValues(func() (library, error) {
	d := fakecuda.Device{Name: "Emulated GPU", Major: 8, SMs: 8, Shared: 163 << 10, Total: 16 << 30, Driver: oldestVersion}
	if dir := os.Getenv("KVASIR_PTX"); dir != "" {
		d.Major, d.Shared = hopper, 227<<10
		inImage := kernelFile
		kernelFile = func(b Build) ([]byte, error) {
			if b.Arch == "sm_80" {
				return inImage(b)
			}
			return os.ReadFile(filepath.Join(dir, b.PTX()))
		}
	}
	return emulator{fakecuda.Emulate(d)}, nil
})

func (e emulator) call(f entry, args ...uintptr) code { return code(e.Call(symbols[f], args...)) }
