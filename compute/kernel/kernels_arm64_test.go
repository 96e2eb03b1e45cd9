//go:build !noasm

package kernel

import "golang.org/x/sys/cpu"

// wantKernels returns the names of the implementations that this processor can run, best first.
func wantKernels() []string {
	if cpu.ARM64.HasASIMDDP {
		return []string{"neondot", "neon"}
	}
	return []string{"neon"}
}
