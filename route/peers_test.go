package route

import (
	"math"
	"math/rand/v2"
)

// rule is a way to choose an engine that others have published, for comparison: it sees the engines as they are, where
// the programs that have it see metrics that are late and prefixes that are guessed.
type rule func(pool []*modelled, now float64, x *traced) int

// published are the rules by name. Engines keep so many blocks.
func published(capacity int) map[string]rule {
	return map[string]rule{"AIBrix prefix-cache": aibrix, "llm-d default": llmd(capacity), "Dynamo KV router": dynamo, "sgl-router cache_aware": sglRouter}
}

// seen is what a rule sees of an engine.
type seen struct {
	running, waiting int     // answers under way, and of these prompts that wait for their turn
	prefill          float64 // tokens of prompts to be computed
	active           float64 // tokens of all requests under way
	held             float64 // of the prompt's blocks
	share            float64 // the same as a part of the prompt
}

func look(e *modelled, now float64, x *traced) (s seen) {
	for _, l := range e.ends {
		s.running++
		s.active += float64(l.input + l.output)
		if l.first > now {
			s.waiting++
			s.prefill += l.uncached
		}
	}
	s.waiting = max(0, s.waiting-1) // one is being computed
	held := make([]int, 1)
	e.cache.Match(x.Blocks, held)
	s.held = float64(held[0])
	s.share = s.held / float64(max(1, len(x.Blocks)))
	return s
}

func lookAll(pool []*modelled, now float64, x *traced) (all []seen, least, most int) {
	least = math.MaxInt
	for _, e := range pool {
		s := look(e, now, x)
		all, least, most = append(all, s), min(least, s.running), max(most, s.running)
	}
	return all, least, most
}

// aibrix is AIBrix's prefix-cache: the least loaded engine if running requests differ by more than 8, or else the one
// with the longest prefix among those with at most a standard deviation above the mean.
func aibrix(pool []*modelled, now float64, x *traced) int {
	all, least, most := lookAll(pool, now, x)
	mean, squares := 0.0, 0.0
	for _, s := range all {
		mean += float64(s.running) / float64(len(all))
	}
	for _, s := range all {
		squares += (float64(s.running) - mean) * (float64(s.running) - mean) / float64(len(all))
	}
	best := -1
	for i, s := range all {
		switch {
		case most-least > 8 && s.running > least, s.held == 0, float64(s.running) > mean+math.Sqrt(squares):
		case best < 0 || s.share > all[best].share || s.share == all[best].share && s.running < all[best].running:
			best = i
		}
	}
	if best < 0 {
		best = leastRunning(all)
	}
	return best
}

var drawn = rand.New(rand.NewPCG(1, 2))

// leastRunning draws one of those with the fewest requests.
func leastRunning(all []seen) int {
	best, ties := 0, 0
	for i, s := range all {
		switch {
		case s.running < all[best].running:
			best, ties = i, 1
		case s.running == all[best].running:
			if ties++; drawn.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// llmd is llm-d's default profile: a weighted sum of the queue, of the free KV cache and of the prefix.
func llmd(capacity int) rule {
	return func(pool []*modelled, now float64, x *traced) int {
		all, _, _ := lookAll(pool, now, x)
		least, most := math.MaxInt, 0
		for _, s := range all {
			least, most = min(least, s.waiting), max(most, s.waiting)
		}
		best, high, ties := 0, -1.0, 0
		for i, s := range all {
			queue := 1.0
			if most > least {
				queue = float64(most-s.waiting) / float64(most-least)
			}
			score := 2*queue + 2*(1-s.active/float64(capacity*tracedBlock)) + 3*s.share
			if score > high {
				best, high, ties = i, score, 0
			}
			if score == high {
				if ties++; drawn.IntN(ties) == 0 {
					best = i
				}
			}
		}
		return best
	}
}

// dynamo is Dynamo's KV router: the least blocks to prefill, less those cached, and blocks that are active.
func dynamo(pool []*modelled, now float64, x *traced) int {
	all, _, _ := lookAll(pool, now, x)
	best, low := 0, math.Inf(1)
	for i, s := range all {
		cost := max(0, s.prefill/tracedBlock+float64(len(x.Blocks))-s.held) + s.active/tracedBlock + float64(len(x.Blocks))
		if cost < low {
			best, low = i, cost
		}
	}
	return best
}

// sglRouter is cache_aware with the defaults of its command line: the shortest queue where one engine has more than 64
// requests more than another and 1.5 times as many, or else the longest prefix if it is above 0.3, or else the engine
// that holds the least.
func sglRouter(pool []*modelled, now float64, x *traced) int {
	all, least, most := lookAll(pool, now, x)
	if most-least > 64 && float64(most) > 1.5*float64(least) {
		return leastRunning(all)
	}
	best, small := 0, 0
	for i, s := range all {
		if s.share > all[best].share {
			best = i
		}
		if pool[i].cache.order[0].n < pool[small].cache.order[0].n {
			small = i
		}
	}
	if all[best].share > 0.3 {
		return best
	}
	return small
}
