//go:build amd64 && !noasm

package cpu

// nativeKernels returns the assembly implementations that this processor can run, best first.
func nativeKernels() []*kernels { return nil }
