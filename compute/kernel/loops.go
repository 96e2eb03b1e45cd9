package kernel

// Loops are the loops of an implementation.
type Loops struct {
	Read                func([]byte)
	Floats, Pairs, Dots Loop // no pairs are as many as floats
}

// Loop is a loop on registers alone.
type Loop struct {
	Run func(passes int)
	Ops int // of one pass
}

// plainPeaks are loops in Go alone.
var plainPeaks = Loops{Read: plainRead, Floats: Loop{plainFloats, 4 * 2}, Dots: Loop{plainDots, 4 * 2}}

func plainRead(b []byte) {
	words := View[uint64](b)
	var s [4]uint64
	for len(words) >= 4 {
		s[0], s[1], s[2], s[3] = s[0]^words[0], s[1]^words[1], s[2]^words[2], s[3]^words[3]
		words = words[4:]
	}
	keep(s[0] ^ s[1] ^ s[2] ^ s[3])
}

func plainFloats(passes int) {
	var a, b, c, d float32
	x, y := float32(0.5), float32(passes)
	for range passes {
		a, b, c, d = a*x+y, b*x+y, c*x+y, d*x+y
	}
	keep(uint64(a + b + c + d))
}

func plainDots(passes int) {
	var a, b, c, d int32
	x, y := int32(int8(passes)), int32(uint8(passes>>8))
	for range passes {
		a, b, c, d = a+x*y, b+(x+1)*y, c+x*(y+1), d+(x+1)*(y+1)
		x++
	}
	keep(uint64(a + b + c + d))
}

// keep makes a result one that the compiler must compute.
//
//go:noinline
func keep(uint64) {}
