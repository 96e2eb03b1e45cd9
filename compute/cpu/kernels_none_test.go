//go:build (!amd64 && !arm64) || noasm

package cpu

// wantKernels is empty: this build has portable Go only.
func wantKernels() []string { return nil }
