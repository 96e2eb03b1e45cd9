//go:build (!amd64 && !arm64) || noasm

package kernel

// PeakLoops returns the loops whose speed limits an implementation: this build has portable Go only.
func PeakLoops(string) Loops { return plainPeaks }
