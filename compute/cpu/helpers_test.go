package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/quant"
)

// eachKernels runs check for every implementation of this machine.
func eachKernels(t *testing.T, check func(t *testing.T, k *kernel.Table)) {
	for _, k := range kernel.Implementations() {
		t.Run(k.Name, func(t *testing.T) { check(t, k) })
	}
}

// sameBits compares floats by their bits; two NaN are the same.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: value %d is %g (%#x), want %g (%#x)", what, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// byteView returns the bytes of v.
func byteView(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4)
}

// medianOf sorts times.
func medianOf(times []time.Duration) float64 {
	slices.Sort(times)
	return times[len(times)/2].Seconds()
}

// half16 returns the bits of a random finite float16.
func half16(r *rand.Rand) uint16 {
	for {
		if h := uint16(r.Uint32()); h&0x7c00 != 0x7c00 {
			return h
		}
	}
}

// randomBlocks returns n random blocks of a quantised type, each with a greatest value of ordinary size.
func randomBlocks(r *rand.Rand, t quant.Type, n int) []byte {
	size, values := t.BlockBytes(), make([]float32, t.BlockValues())
	data := make([]byte, n*size)
	for b := range n {
		for block, most := data[b*size:][:size], float32(0); !(most > 0.02 && most < 50); {
			for i := range block {
				block[i] = byte(r.Uint32())
			}
			most = 0
			if err := quant.Decode(values, block, t); err != nil {
				continue
			}
			for _, v := range values {
				most = max(most, v, -v)
			}
		}
	}
	return data
}

// wildNumbers returns n random floats: mostly ordinary, sometimes a zero of either sign, subnormal, tiny or large.
func wildNumbers(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = wildNumber(r)
	}
	return v
}

func wildNumber(r *rand.Rand) float32 {
	v := float32(r.NormFloat64())
	switch r.IntN(24) {
	case 0:
		return 0
	case 1:
		return float32(math.Copysign(0, -1))
	case 2:
		return math.Float32frombits(r.Uint32() & 0x807fffff)
	case 3:
		return v * 1e-30
	case 4:
		return v * 1e16
	}
	return v
}

// nearBF16 returns a random float, often near the least that counts, halfway between two bfloat16, or with few bits.
func nearBF16(r *rand.Rand) float32 {
	v := wildNumber(r)
	switch r.IntN(8) {
	case 0:
		return math.Float32frombits(math.Float32bits(v)&0x807fffff | uint32(76+r.IntN(3))<<23)
	case 1:
		return math.Float32frombits(math.Float32bits(v)&0xffff0000 | 0x8000)
	case 2:
		return math.Float32frombits(math.Float32bits(v) & 0xff800000)
	}
	return v
}
