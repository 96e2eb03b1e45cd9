//go:build amd64 && !noasm

package kernel

// PeakLoops returns the loops whose speed limits an implementation.
func PeakLoops(kernels string) Loops {
	p := Loops{Read: func(b []byte) { roofRead(&b[0], len(b)) }}
	switch kernels {
	case "amx":
		p.Floats = Loop{roofFMA512, 12 * 16 * 2}
		p.Pairs = Loop{func(n int) { roofPairsAMX(n, &tiles64) }, 4 * 16 * 16 * 32 * 2}
		p.Dots = Loop{func(n int) { roofTileAMX(n, &tiles64) }, 4 * 16 * 16 * 64 * 2}
	case "avx512bf16":
		p.Floats = Loop{roofFMA512, 12 * 16 * 2}
		p.Pairs = Loop{roofPairs512, 24 * 32 * 2}
		p.Dots = Loop{roofDot512, 12 * 64 * 2}
	case "avx512vnni":
		p.Floats, p.Dots = Loop{roofFMA512, 12 * 16 * 2}, Loop{roofDot512, 12 * 64 * 2}
	case "avx512":
		p.Floats, p.Dots = Loop{roofFMA512, 12 * 16 * 2}, Loop{roofDot256, 12 * 32 * 2}
	case "avxvnni":
		p.Floats, p.Dots = Loop{roofFMA256, 12 * 8 * 2}, Loop{roofDotAVXVNNI, 12 * 32 * 2}
	case "avx2":
		p.Floats, p.Dots = Loop{roofFMA256, 12 * 8 * 2}, Loop{roofDot256, 12 * 32 * 2}
	default:
		return plainPeaks
	}
	return p
}
