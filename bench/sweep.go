package bench

import (
	"context"
	"fmt"
	"math"
)

// SweepOptions configures the search for the highest rate.
type SweepOptions struct {
	Load   LoadOptions // Clients must be 0; its SLO is the goal
	Start  float64     // the first rate tried, in conversations a second
	Attain float64     // share of all requests that must meet the SLO
	Within float64     // the result is at most this share below a rate that misses the SLO
}

// SweepPoint is a rate that was tried.
type SweepPoint struct {
	Rate     float64 `json:"rate"`
	Attained float64 `json:"slo_attainment"` // share of the requests that met the SLO
	Met      bool    `json:"met"`
	Report   Report  `json:"report"`
}

// maxSweep bounds the rates tried in each direction.
const maxSweep = 24

// Sweep finds the highest rate at which a target meets an SLO. It doubles or halves the rate until it has one rate that
// meets the SLO and one that does not, and then bisects. workload makes the conversations of the n-th try; they should
// differ from those before, or caches would contain them. Sweep calls found, if not nil, after each try. The rate is 0
// if none meets the SLO. It is an error if a rate is met only because there are too few conversations for a queue to
// grow: at that rate, more conversations than there are would have been running at once.
func Sweep(ctx context.Context, t Target, o SweepOptions, workload func(n int, rate float64) ([]Conversation, error), found func(SweepPoint)) (float64, []SweepPoint, error) {
	if o.Load.Clients != 0 || o.Load.SLO == (SLO{}) || !(o.Start > 0) || math.IsInf(o.Start, 0) || !(o.Attain > 0 && o.Attain <= 1) || !(o.Within > 0) {
		return 0, nil, fmt.Errorf("bench: a sweep from %v a second, %v of the requests to meet the SLO %+v, within %v, with %d clients; want numbers above 0, an SLO, and no clients",
			o.Start, o.Attain, o.Load.SLO, o.Within, o.Load.Clients)
	}
	var points []SweepPoint
	try := func(rate float64) (bool, error) {
		cs, err := workload(len(points), rate)
		if err != nil {
			return false, err
		}
		rep, err := Load(ctx, t, cs, o.Load)
		if err != nil {
			return false, err
		}
		p := SweepPoint{Rate: rate, Report: rep}
		if all := rep.Requests + rep.CutOff; all > 0 {
			p.Attained = float64(rep.Good) / float64(all)
		}
		p.Met = p.Attained >= o.Attain
		points = append(points, p)
		if found != nil {
			found(p)
		}
		if n := float64(len(cs)); p.Met && n < rate/2*rep.Elapsed.Seconds() {
			return false, fmt.Errorf("bench: %d conversations are too few to try %.4g a second: the SLO was met, but only %.4g a second were answered; more conversations let a queue grow",
				len(cs), rate, n/rep.Elapsed.Seconds())
		}
		return p.Met, nil
	}
	low, high, err := bracket(o.Start, try)
	for err == nil && low > 0 && !math.IsInf(high, 0) && high > low*(1+o.Within) {
		middle := math.Sqrt(low * high)
		var met bool
		if met, err = try(middle); met {
			low = middle
		} else {
			high = middle
		}
	}
	return low, points, err
}

// bracket returns a rate that meets the SLO and twice that rate, which does not. low is 0 if no rate meets it, high
// +Inf if all do.
func bracket(rate float64, try func(float64) (bool, error)) (low, high float64, err error) {
	low, high = 0, math.Inf(1)
	for range maxSweep {
		met, err := try(rate)
		if err != nil {
			return low, high, err
		}
		if met {
			low, rate = rate, rate*2
		} else {
			high, rate = rate, rate/2
		}
		if low > 0 && !math.IsInf(high, 0) {
			break
		}
	}
	return low, high, nil
}
