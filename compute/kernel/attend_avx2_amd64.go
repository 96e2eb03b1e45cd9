//go:build amd64 && !noasm

package kernel

func pageKeysAVX2(p PageProduct) { avx2Products.keysByMat(p) }

func pageValuesAVX2(p PageProduct) { avx2Products.valuesByMat(p) }

var avx2Products = Table{MatF32: matF32AVX2, MatF16: matF16AVX2, MatBF16: matBF16AVX2}

func weighAVX2(most, total, s []float32, ld, n int) {
	if rows := len(most); rows > 0 && n > 0 && n%Lanes == 0 {
		_, _ = total[rows-1], s[(rows-1)*ld+n-1]
		weighRowsAVX2(&most[0], &total[0], &s[0], ld*4, n*4, rows)
		return
	}
	weigh(most, total, s, ld, n)
}

func sharesAVX2(a, b, most, total, later, laterTotal []float32) {
	if n := len(most); n > 0 {
		_, _, _, _, _, _ = n%Lanes == 0, a[n-1], b[n-1], total[n-1], later[n-1], laterTotal[n-1]
		sharesRowAVX2(&a[0], &b[0], &most[0], &total[0], &later[0], &laterTotal[0], n)
	}
}

func blendAVX2(dst, x []float32, width int, a, b, total []float32) {
	if n := len(a); n > 0 && width > 0 {
		_, _, _, _ = dst[n*width-1], x[n*width-1], b[n-1], total[n-1]
		blendRowsAVX2(&dst[0], &x[0], width*4, &a[0], &b[0], &total[0], n)
	}
}

func scaleAVX2(dst, x []float32, factor float32) {
	n := vectors(len(x))
	if n > 0 {
		_ = dst[n-1]
		scaleRowAVX2(&dst[0], &x[0], n, factor)
	}
	scale(dst[n:], x[n:], factor)
}

//go:noescape
func weighRowsAVX2(most, total, s *float32, ld, n, rows int)

//go:noescape
func sharesRowAVX2(a, b, most, total, later, laterTotal *float32, n int)

//go:noescape
func blendRowsAVX2(dst, x *float32, width int, a, b, total *float32, rows int)

//go:noescape
func scaleRowAVX2(dst, x *float32, n int, factor float32)
