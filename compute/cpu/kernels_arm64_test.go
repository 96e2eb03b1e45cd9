//go:build !noasm

package cpu

// wantKernels returns the names of the implementations that this processor can run, best first.
func wantKernels() []string { return []string{"neon"} }
