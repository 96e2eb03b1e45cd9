//go:build amd64 && !noasm

package kernel

//go:noescape
func roofRead(p *byte, n int)

func roofFMA512(n int)
func roofDot512(n int)
func roofPairs512(n int)
func roofFMA256(n int)
func roofDot256(n int)
func roofDotAVXVNNI(n int)

//go:noescape
func roofPairsAMX(n int, config *tileConfig)
