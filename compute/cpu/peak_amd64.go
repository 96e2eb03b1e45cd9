//go:build amd64 && !noasm

package cpu

// peakLoops returns the loops whose speed limits an implementation.
func peakLoops(kernels string) (read func([]byte), floats, dots arithmetic) {
	read = func(b []byte) { roofRead(&b[0], len(b)) }
	switch kernels {
	case "amx":
		return read, arithmetic{roofFMA512, 12 * 16 * 2}, arithmetic{func(n int) { roofTileAMX(n, &tiles64) }, 4 * 16 * 16 * 64 * 2}
	case "avx512vnni":
		return read, arithmetic{roofFMA512, 12 * 16 * 2}, arithmetic{roofDot512, 12 * 64 * 2}
	case "avx512":
		return read, arithmetic{roofFMA512, 12 * 16 * 2}, arithmetic{roofDot256, 12 * 32 * 2}
	case "avx2":
		return read, arithmetic{roofFMA256, 12 * 8 * 2}, arithmetic{roofDot256, 12 * 32 * 2}
	}
	return plainRead, arithmetic{plainFloats, 4 * 2}, arithmetic{plainDots, 4 * 2}
}
