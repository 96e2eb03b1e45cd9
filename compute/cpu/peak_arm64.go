//go:build !noasm

package cpu

// peakLoops returns the loops whose speed limits an implementation.
func peakLoops(kernels string) peaks {
	p := peaks{
		read:   func(b []byte) { roofReadNEON(&b[0], len(b)) },
		floats: arithmetic{roofFMANEON, 24 * 4 * 2},
	}
	switch kernels {
	case "neondot":
		p.dots = arithmetic{roofDotNEON, 24 * 16 * 2}
	case "neon":
		p.dots = arithmetic{roofBytesNEON, 24 * 8 * 2}
	default:
		return plainPeaks
	}
	return p
}

//go:noescape
func roofReadNEON(p *byte, n int)

func roofFMANEON(n int)
func roofDotNEON(n int)
func roofBytesNEON(n int)
