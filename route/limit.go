package route

import "math/bits"

// limit learns how many requests an endpoint can have in flight. An engine starts the requests that it has room for
// soon, and lets others wait. If it says how many wait, the limit falls to those that run. If it does not, times to
// first tokens say so, which grow to many times what they are at best, and the limit falls until they do not. It rises
// again slowly while it is reached. So most of what waits, waits where its turn is decided.
type limit struct {
	most    float64 // requests; 0 until something was learned, which is no limit
	best    [bins]float64
	answers int // since the limit changed last, as all below
	sum     float64
	peak    int

	tells  bool    // the endpoint says what waits,
	room   float64 // for so many there was room when it said last that some wait,
	waits  bool    // which it said last,
	silent int     // answers since; no more than trusted
	step   float64 // by which the limit rises next
}

const (
	bins        = 24   // of prompts by their tokens to compute, each twice as long as the one before
	patience    = 5    // a time to the first token may be so many times the best one of such prompts,
	slack       = .05  // and so many seconds more
	trusted     = 1000 // answers for which what an endpoint said last counts
	longest     = 20   // times too long at most, so that one answer has only so much weight
	rise        = 1.01
	leastFlying = 4
)

// learn takes note of a time to the first token, in seconds, of a request that was sent as one of so many in flight.
func (l *limit) learn(uncached float64, requests int, seconds float64) {
	bin := min(bits.Len(uint(max(uncached, 0))), bins-1)
	if requests <= leastFlying { // while more are in flight, an answer may be late for them alone
		l.best[bin] *= rise
	}
	if l.best[bin] == 0 || seconds < l.best[bin] {
		l.best[bin] = seconds
	}
	l.answers++
	if l.silent++; l.silent > trusted {
		l.tells = false
	}
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
	case most > 0 && float64(l.peak) > 0.9*most-1 && !(l.tells && l.waits):
		step := max(1, most/8)
		if l.tells {
			l.waits = true // until it says again that none waits
			step = min(step, l.step)
			l.step *= 2
		}
		l.set(most + step)
	default:
		l.set(most)
	}
}

// told takes note of what an endpoint with so many requests in flight from here says of all that it has: how many run,
// and how many wait. It counts when it says so twice, as a burst waits for a moment.
func (l *limit) told(requests, running, waiting int) {
	before, again := l.room, l.tells && l.waits
	l.tells, l.silent, l.waits = true, 0, waiting > 0 && running > 0 && requests > leastFlying
	if !l.waits {
		l.room, l.step = 0, max(1, l.step)
		return
	}
	l.room, l.step = float64(requests)*float64(running)/float64(running+waiting), 1
	if most := max(l.room, before); again && before > 0 && (l.most == 0 || l.most > most) {
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
