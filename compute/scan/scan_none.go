//go:build !(amd64 || arm64) || noasm

package scan

// nativeKernels is empty: this build has portable Go only.
func nativeKernels() []*kernels { return nil }
