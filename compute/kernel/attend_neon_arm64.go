//go:build !noasm

package kernel

func pageKeysNEON(p PageProduct) { neonProducts.keysByMat(p) }

func pageValuesNEON(p PageProduct) { neonProducts.valuesByMat(p) }

var neonProducts = Table{MatF32: matF32NEON, MatF16: matF16NEON, MatBF16: matBF16NEON}

func weighNEON(most, total, s []float32, ld, n int) {
	if rows := len(most); rows > 0 && n > 0 && n%Lanes == 0 {
		_, _ = total[rows-1], s[(rows-1)*ld+n-1]
		weighRowsNEON(&most[0], &total[0], &s[0], ld*4, n, rows)
		return
	}
	weigh(most, total, s, ld, n)
}

func sharesNEON(a, b, most, total, later, laterTotal []float32) {
	if n := len(most); n > 0 {
		_, _, _, _, _, _ = n%Lanes == 0, a[n-1], b[n-1], total[n-1], later[n-1], laterTotal[n-1]
		sharesRowNEON(&a[0], &b[0], &most[0], &total[0], &later[0], &laterTotal[0], n)
	}
}

func blendNEON(dst, x []float32, width int, a, b, total []float32) {
	if n := len(a); n > 0 && width > 0 {
		_, _, _, _ = dst[n*width-1], x[n*width-1], b[n-1], total[n-1]
		blendRowsNEON(&dst[0], &x[0], width, &a[0], &b[0], &total[0], n)
	}
}

func scaleNEON(dst, x []float32, factor float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		scaleRowNEON(&dst[0], &x[0], n, factor)
	}
	scale(dst[n:], x[n:], factor)
}

//go:noescape
func weighRowsNEON(most, total, s *float32, ld, n, rows int)

//go:noescape
func sharesRowNEON(a, b, most, total, later, laterTotal *float32, n int)

//go:noescape
func blendRowsNEON(dst, x *float32, width int, a, b, total *float32, rows int)

//go:noescape
func scaleRowNEON(dst, x *float32, n int, factor float32)
