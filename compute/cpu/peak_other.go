//go:build (!amd64 && !arm64) || noasm

package cpu

// peakLoops returns the loops whose speed limits an implementation: this build has portable Go only.
func peakLoops(string) peaks { return plainPeaks }
