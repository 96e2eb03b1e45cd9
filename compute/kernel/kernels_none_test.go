//go:build (!amd64 && !arm64) || noasm

package kernel

// wantKernels is empty: this build has portable Go only.
func wantKernels() []string { return nil }
