package fair

import "math"

// unlucky is the share of requests whose waits do not count: times to first tokens are compared by their 99th
// percentiles.
const unlucky = 0.01

// harm is the factor by which greedy tenants may lengthen the others' waits for first tokens. It is a tenth less than
// the aim, 1.5, for what averages miss.
const harm = 1.4

// demand is what tenants that are not greedy ask of a pool, on average.
type demand struct {
	places  float64 // of the pool
	busy    float64 // places that their requests have
	first   float64 // seconds from when a request goes until its first token
	service float64 // seconds until its end, of all tenants' requests
}

// kept returns how many places greedy tenants leave free, so that the others' requests wait little longer than without
// greedy tenants. Answers cannot be interrupted: if no places were kept, each request would wait for one to end. On
// average, at most unused places are free for that reason.
//
// Let P be the places, a those that the others' requests have, S the seconds of an answer and T those until its first
// token. The others' requests come at random times, and greedy tenants' take all but k places at once. Between P-k and
// P, the number n of busy places rises at the rate a/S and falls at the rate n/S, so n-1 is n/a times as likely as n.
// When P are busy, requests wait: that any number of them does is 1 + a/P + (a/P)² + … = 1/(1-a/P) times as likely as
// that none does. A request that finds no place waits for longer than t with probability exp(-t(P-a)/S). If it finds
// none with probability w, the unluckiest hundredth waits for longer than ln(100w)·S/(P-a). Without greedy tenants k is
// P, and w is Erlang's C.
//
// Rules that cannot foresee when answers end have only the number of busy places to go by, and of these the ones with a
// fixed k leave the fewest places unused (Miller, "A Queueing Reward System with Several Customer Classes", 1969, for
// pools in which nothing waits).
func (d demand) kept(unused float64) int {
	if d.busy >= d.places {
		return 0
	}
	busy := max(d.busy, 0.01)
	full := 1 / (1 - busy/d.places) // that no place is free; all likelihoods are multiples of that of P busy places
	total := full
	for n, likely := d.places, 1.0; n >= 1 && full > unlucky*total && likely > 1e-9*total; n-- {
		likely *= n / busy
		total += likely
	}
	alone := max(1, full/total/unlucky) // exp(t(P-a)/S) of the time that the unluckiest wait without greedy tenants
	enough := unlucky * math.Pow(alone, harm)
	if d.service > 0 {
		enough *= math.Exp((harm - 1) * d.first * (d.places - busy) / d.service)
	}
	total = full
	free, likely, k := 0.0, 1.0, 0
	for ; full > enough*total && k < int(d.places)-1; k++ {
		likely *= (d.places - float64(k)) / busy
		total += likely
		if free += float64(k+1) * likely; free > unused*total {
			break
		}
	}
	return k
}

// average is a moving average.
type average struct{ mean, of float64 }

// averaged is how many values an average is of, about.
const averaged = 512

func (a *average) add(x float64) {
	a.of = min(a.of+1, averaged)
	a.mean += (x - a.mean) / a.of
}
