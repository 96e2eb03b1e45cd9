//go:build !amd64 || noasm

package cpu

// peakLoops returns the loops whose speed limits an implementation: this build has portable Go only.
func peakLoops(string) (read func([]byte), floats, dots arithmetic) {
	return plainRead, arithmetic{plainFloats, 4 * 2}, arithmetic{plainDots, 4 * 2}
}
