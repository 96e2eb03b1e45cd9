package route

import "math/bits"

// limit learns how many requests an endpoint can have in flight. An engine soon starts the requests that it has room
// for, and lets others wait. If it says how many wait, the limit falls to those that run. If it does not, the limit
// falls while times to first tokens are many times the best ones. It rises again slowly while it is reached. So most
// requests that have to wait do so before they are sent, where their turn is decided.
type limit struct {
	most    float64 // requests; 0 until something was learned, which is no limit
	best    [bins]float64
	answers int // since the limit changed last, as all below
	sum     float64
	peak    int

	tells  bool    // the endpoint says how many requests wait
	waits  bool    // it said last that some do
	room   float64 // for how many there was room then; 0: none waited
	silent int     // answers since it said anything; at most trusted
	step   float64 // by which the limit rises next
}

const (
	bins        = 24   // of prompts by their tokens to compute, each twice as long as the one before
	patience    = 5    // how many times the best one of such prompts a time to the first token may be,
	slack       = .05  // plus these seconds
	trusted     = 1000 // for how many answers what an endpoint said counts
	longest     = 20   // how many times too long an answer counts at most, which bounds its weight
	rise        = 1.01 // of a best time with each answer, so that it is not the best forever
	leastFlying = 4    // requests in flight that no limit is below
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

// told takes note of how many requests an endpoint says that it runs and lets wait, of all its clients; so many of them
// were sent from here. That some wait counts if it is said twice in a row, since a burst waits for a moment.
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

// refused takes note that an endpoint turned a request away since it has too many, of which so many are from here.
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
