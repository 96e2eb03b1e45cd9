//go:build !noasm

package cpu

// peakLoops returns the loops whose speed limits an implementation.
func peakLoops(kernels string) peaks {
	if kernels == portable.name {
		return plainPeaks
	}
	return peaks{
		read:   func(b []byte) { roofReadNEON(&b[0], len(b)) },
		floats: arithmetic{roofFMANEON, 24 * 4 * 2},
		dots:   plainPeaks.dots,
	}
}

//go:noescape
func roofReadNEON(p *byte, n int)

func roofFMANEON(n int)
