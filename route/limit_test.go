package route

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// serves simulates an engine that has room for so many requests, which take first seconds to the first token and whole
// in all, give or take a fifth. If it tells, it says every 2 s how many of them wait. There is always one more request
// when the limit allows it. It returns the limit in the end, the requests served a second and the mean time to the
// first token in the last half.
func serves(l *limit, tells bool, room, configured int, first, whole, seconds float64, seed uint64) (most int, speed, ttft float64) {
	random := rand.New(rand.NewPCG(seed, 1))
	type flight struct {
		sent, begin, first, end float64
		requests                int
	}
	var flying []flight
	free := make([]float64, room) // when a place of the engine becomes free
	ended, sum, firsts := 0.0, 0.0, 0.0
	for i, now := 0, 0.0; now < seconds; i, now = i+1, now+0.01 {
		flying = slices.DeleteFunc(flying, func(f flight) bool {
			if f.first > 0 && f.first <= now {
				l.learn(500, f.requests, f.first-f.sent)
			}
			if f.end <= now && now > seconds/2 {
				ended++
			}
			return f.end <= now
		})
		for i := range flying {
			if f := &flying[i]; f.first > 0 && f.first <= now {
				if now > seconds/2 {
					sum += f.first - f.sent
					firsts++
				}
				f.first = 0
			}
		}
		if tells && i%200 == 0 {
			running := 0
			for _, f := range flying {
				if f.begin <= now {
					running++
				}
			}
			l.told(len(flying), running, len(flying)-running)
		}
		for m := l.of(configured); len(flying) < m; {
			i := slices.Index(free, slices.Min(free))
			begin := max(now, free[i])
			free[i] = begin + whole*(0.8+0.4*random.Float64())
			flying = append(flying, flight{now, begin, begin + first*(0.8+0.4*random.Float64()), free[i], len(flying) + 1})
		}
	}
	return l.of(configured), ended / (seconds / 2), sum / firsts
}

// TestLimit holds that the limit comes to what an engine has room for and a few more, whatever that is, that the
// engine is about as fast as without one, and that the first tokens come soon.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		tells        bool
		room         int
		first, whole float64
		most         float64 // of the room
	}{
		{false, 6, 0.1, 5, 2}, {false, 32, 0.1, 5, 2}, {false, 100, 0.1, 5, 2}, {false, 16, 0.3, 1.3, 3},
		{true, 6, 0.1, 5, 1.7}, {true, 32, 0.1, 5, 1.3}, {true, 100, 0.1, 5, 1.3}, {true, 16, 0.3, 1.3, 1.4},
	} {
		var l limit
		for seed := range uint64(3) {
			most, speed, ttft := serves(&l, c.tells, c.room, 256, c.first, c.whole, 600, seed)
			free := float64(c.room) / c.whole
			t.Logf("room for %d, tells: %t; limit %d, %.2f of %.2f requests a second, %.2f s to the first token", c.room, c.tells, most, speed, free, ttft)
			if most < c.room*3/4 || float64(most) > c.most*float64(c.room) || speed < 0.85*free || ttft > 2 {
				t.Errorf("room for %d, tells: %t; limit %d, %.1f of %.1f requests a second, %.2f s to the first token", c.room, c.tells, most, speed, free, ttft)
			}
		}
	}
	for _, tells := range []bool{false, true} {
		var l limit
		serves(&l, tells, 16, 256, 0.1, 5, 600, 1)
		if most, speed, _ := serves(&l, tells, 64, 256, 0.1, 5, 1200, 2); most < 50 || speed < 0.85*64/5 {
			t.Errorf("an engine that got room for 64 has limit %d and serves %.1f", most, speed)
		}
		serves(&l, tells, 64, 256, 0.5, 5, 1200, 3)
		if most, speed, _ := serves(&l, tells, 64, 256, 0.5, 5, 1200, 4); most < 50 || speed < 0.85*64/5 {
			t.Errorf("an engine whose first tokens take five times as long has limit %d and serves %.1f", most, speed)
		}
		serves(&l, tells, 64, 256, 0.5, 5, 1200, 5)
		if most, speed, _ := serves(&l, false, 64, 256, 0.5, 5, 1200, 6); most < 50 || speed < 0.85*64/5 {
			t.Errorf("an engine that tells no more has limit %d and serves %.1f", most, speed)
		}
	}
}

// TestNoLimit holds that an engine with room for all gets no limit, be its prompts short or long and its times noisy.
func TestNoLimit(t *testing.T) {
	var l limit
	random := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		tokens := random.Float64() * random.Float64() * 100_000
		l.learn(tokens, 1+random.IntN(256), (0.02+tokens/5000)*(1+2*random.ExpFloat64()/3))
	}
	if got := l.of(256); got != 256 {
		t.Errorf("limit %d", got)
	}
	for i := range 1000 { // one after the other, and slow at times
		l.learn(100, 1+i%4, []float64{0.01, 1}[i/100%2])
	}
	for range 10_000 { // answers at once, at all loads
		l.learn(10, 200, 0.0001+0.02*random.Float64())
	}
	if got := l.of(0); got != 0 {
		t.Errorf("limit %d", got)
	}
	if l.refused(100); l.of(256) != 90 {
		t.Errorf("limit %d after a refusal with 100 in flight", l.of(256))
	}
}
