//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// nativeKernels returns the assembly implementations that this processor can run, best first. NEON is part of all of
// them.
func nativeKernels() []*Table {
	if cpu.ARM64.HasASIMDDP {
		return []*Table{&neondot, &neon}
	}
	return []*Table{&neon}
}
