package route

import "math/bits"

// limit learns how many requests an endpoint can have in flight, from the times to first tokens. An engine starts the
// requests that it has room for soon, and lets others wait: then those times grow to many times what they are at best.
// The limit falls until they do not, and rises again slowly while it is reached. So most of what waits, waits where its
// turn is decided, and an engine has a few requests more than it has room for.
type limit struct {
	most    float64 // requests; 0 until something was learned, which is no limit
	best    [bins]float64
	answers int // since the limit changed last, as all below
	sum     float64
	peak    int
}

const (
	bins        = 24  // of prompts by their tokens to compute, each twice as long as the one before
	patience    = 5   // a time to the first token may be so many times the best one of such prompts,
	slack       = .05 // and so many seconds more
	longest     = 20  // times too long at most, so that one answer has only so much weight
	rise        = 1.01
	leastFlying = 4
)

// learn takes note of a time to the first token, in seconds, of a request that was sent as one of so many in flight.
func (l *limit) learn(uncached float64, requests int, seconds float64) {
	bin := min(bits.Len(uint(max(uncached, 0))), bins-1)
	if requests <= leastFlying { // while more are in flight, an answer is late for them, and not as the engine got slower
		l.best[bin] *= rise
	}
	if l.best[bin] == 0 || seconds < l.best[bin] {
		l.best[bin] = seconds
	}
	l.answers++
	l.sum += min(seconds/(patience*l.best[bin]+slack), longest)
	l.peak = max(l.peak, requests)
	if l.answers < max(leastFlying, min(l.peak, 64)) {
		return
	}
	switch late, most := l.sum/float64(l.answers), l.most; {
	case late > 1 && l.peak > leastFlying: // so few in flight are not the reason
		if most == 0 || most > float64(l.peak) {
			most = float64(l.peak)
		}
		l.set(most * max(1/late, 0.8))
	case most > 0 && float64(l.peak) > 0.9*most-1:
		l.set(most + max(1, most/8))
	default:
		l.set(most)
	}
}

// refused takes note of an endpoint that turned a request away, one of so many in flight, as it has too many.
func (l *limit) refused(requests int) {
	if l.most == 0 || l.most > float64(requests) {
		l.most = float64(requests)
	}
	l.set(l.most * 0.9)
}

func (l *limit) set(most float64) {
	if most > 0 {
		most = max(most, leastFlying)
	}
	l.most, l.answers, l.sum, l.peak = most, 0, 0, 0
}

// of returns the limit, where a configuration allows so many; 0 is any number.
func (l *limit) of(configured int) int {
	if l.most == 0 || configured > 0 && int(l.most) >= configured {
		return configured
	}
	return int(l.most)
}
