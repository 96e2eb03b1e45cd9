package choose

import "math/bits"

// uniform returns a number in [0, 1) that depends on the seed and the index of the output token alone: the first 53
// bits of Philox-4x32-10 with the seed as its key and the index as its counter.
func uniform(seed, index uint64) float64 {
	u, _ := uniforms(seed, index)
	return u
}

// uniforms returns uniform's number, and one of the next 64 bits.
func uniforms(seed, index uint64) (u, v float64) {
	r := philox([4]uint32{uint32(index), uint32(index >> 32)}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	of := func(high, low uint32) float64 { return float64((uint64(high)<<32|uint64(low))>>11) / (1 << 53) }
	return of(r[0], r[1]), of(r[2], r[3])
}

// philox is the counter-based generator Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC11, table 2).
func philox(ctr [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, ctr[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, ctr[2])
		ctr = [4]uint32{hi1 ^ ctr[1] ^ key[0], lo1, hi0 ^ ctr[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return ctr
}
