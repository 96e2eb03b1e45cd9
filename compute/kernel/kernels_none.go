//go:build (!amd64 && !arm64) || noasm

package kernel

// nativeKernels is empty: this build has portable Go only.
func nativeKernels() []*Table { return nil }
