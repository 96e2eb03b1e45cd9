package sched

import (
	"errors"
	"slices"
	"sort"
)

// Stair says that what a step does for up to so many rows, attention left out, takes as long as for that many: a device
// that computes blocks of rows takes no longer for full ones. Work is in any unit.
type Stair struct {
	Rows int
	Work float64
}

// stairs are those of a device, in units of a row of the last one, beyond which each row takes as long. None are a
// device whose rows take equally long.
type stairs []Stair

// newStairs checks stairs, and brings them to that unit.
func newStairs(all []Stair) (stairs, error) {
	s := stairs(slices.Clone(all))
	for i, x := range s {
		if x.Rows < 1 || x.Work <= 0 || i > 0 && (x.Rows <= s[i-1].Rows || x.Work <= s[i-1].Work) {
			return nil, errors.New("sched: config: Stairs must rise")
		}
	}
	if n := len(s); n > 0 {
		unit := s[n-1].Work / float64(s[n-1].Rows)
		for i := range s {
			s[i].Work /= unit
		}
	}
	return s, nil
}

// of returns what so many rows take.
func (s stairs) of(rows int) float64 {
	if i := s.at(rows); rows > 0 && i < len(s) {
		return s[i].Work
	}
	return float64(rows)
}

// at returns the number of the stair that has so many rows; len(s) is beyond the last.
func (s stairs) at(rows int) int {
	return sort.Search(len(s), func(i int) bool { return s[i].Rows >= rows })
}

// worth is how many times as long as all rows on average the last ones may take, so as not to be left to later steps.
// It also says that at least a third of the rows is not left.
const worth = 1.5

// best returns how many of up to most rows more, beside rows, a step should compute: all, or those that fill a stair,
// where what they leave to later steps would take worth times as long for each row as all do on average.
func (s stairs) best(rows, most int) int {
	price := worth * (s.of(rows+most) - s.of(rows)) / float64(most)
	best, gain := most, price*float64(most)-s.of(rows+most)
	for i := s.at(rows+most) - 1; i >= 0 && s[i].Rows > rows; i-- {
		n := s[i].Rows - rows
		if g := price*float64(n) - s[i].Work; g > gain {
			best, gain = n, g
		}
	}
	return best
}
