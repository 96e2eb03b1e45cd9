//go:build amd64 && !noasm

package cpu

// peakLoops returns the loops whose speed limits an implementation.
func peakLoops(kernels string) peaks {
	p := peaks{read: func(b []byte) { roofRead(&b[0], len(b)) }}
	switch kernels {
	case "amx":
		p.floats = arithmetic{roofFMA512, 12 * 16 * 2}
		p.pairs = arithmetic{func(n int) { roofPairsAMX(n, &tiles64) }, 4 * 16 * 16 * 32 * 2}
		p.dots = arithmetic{func(n int) { roofTileAMX(n, &tiles64) }, 4 * 16 * 16 * 64 * 2}
	case "avx512bf16":
		p.floats = arithmetic{roofFMA512, 12 * 16 * 2}
		p.pairs = arithmetic{roofPairs512, 24 * 32 * 2}
		p.dots = arithmetic{roofDot512, 12 * 64 * 2}
	case "avx512vnni":
		p.floats, p.dots = arithmetic{roofFMA512, 12 * 16 * 2}, arithmetic{roofDot512, 12 * 64 * 2}
	case "avx512":
		p.floats, p.dots = arithmetic{roofFMA512, 12 * 16 * 2}, arithmetic{roofDot256, 12 * 32 * 2}
	case "avxvnni":
		p.floats, p.dots = arithmetic{roofFMA256, 12 * 8 * 2}, arithmetic{roofDotAVXVNNI, 12 * 32 * 2}
	case "avx2":
		p.floats, p.dots = arithmetic{roofFMA256, 12 * 8 * 2}, arithmetic{roofDot256, 12 * 32 * 2}
	default:
		return plainPeaks
	}
	return p
}
