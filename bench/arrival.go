package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals describes when conversations begin.
type Arrivals struct {
	Rate float64 // conversations a second, on average; +Inf is all at once
	// Burstiness is the shape of the gamma distribution of the times between arrivals: 1 is a Poisson process, smaller
	// is burstier, larger is more even.
	Burstiness float64
	Burst      int // conversations that arrive together
}

// Schedule sets the times at which conversations arrive. The same seed gives the same times.
func (a Arrivals) Schedule(cs []Conversation, seed uint64) error {
	if !(a.Rate > 0) || !(a.Burstiness > 0) || math.IsInf(a.Burstiness, 0) || a.Burst < 1 {
		return fmt.Errorf("bench: arrivals at %v a second with burstiness %v in bursts of %d; want all above 0", a.Rate, a.Burstiness, a.Burst)
	}
	r, at := rand.New(rand.NewPCG(seed, 0x617272)), 0.0
	mean := float64(a.Burst) / a.Rate
	for i := range cs {
		if i > 0 && i%a.Burst == 0 {
			at += gamma(r, a.Burstiness) / a.Burstiness * mean
		}
		if at > maxSeconds {
			return fmt.Errorf("bench: at %v a second, conversation %d of %d arrives after more than %d hours", a.Rate, i+1, len(cs), maxSeconds/3600)
		}
		cs[i].At = time.Duration(at * float64(time.Second))
	}
	return nil
}

// maxSeconds bounds the length of a load.
const maxSeconds = 1000 * 3600

// gamma draws from the gamma distribution of scale 1 (Marsaglia and Tsang, "A simple method for generating gamma
// variables", 2000). A shape below 1 is drawn as the shape plus 1 and scaled by a power of a uniform number.
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
