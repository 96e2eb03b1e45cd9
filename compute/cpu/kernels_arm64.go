//go:build !noasm

package cpu

// nativeKernels returns the assembly implementations that this processor can run, best first. NEON is part of all of them.
func nativeKernels() []*kernels { return []*kernels{&neon} }
