//go:build !noasm

package cpu

import "golang.org/x/sys/cpu"

// nativeKernels returns the assembly implementations that this processor can run, best first. NEON is part of all of them.
func nativeKernels() []*kernels {
	if cpu.ARM64.HasASIMDDP {
		return []*kernels{&neondot, &neon}
	}
	return []*kernels{&neon}
}
