//go:build !noasm

package kernel

// PeakLoops returns the loops whose speed limits an implementation.
func PeakLoops(kernels string) Loops {
	p := Loops{
		Read:   func(b []byte) { roofReadNEON(&b[0], len(b)) },
		Floats: Loop{roofFMANEON, 24 * 4 * 2},
	}
	switch kernels {
	case "neondot":
		p.Dots = Loop{roofDotNEON, 24 * 16 * 2}
	case "neon":
		p.Dots = Loop{roofBytesNEON, 24 * 8 * 2}
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
