package engine

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// slowRule is a rule whose masks take long, by the clock of a test.
type slowRule struct {
	rule
	masks, clock *atomic.Int64
}

func (r *slowRule) Mask(dst []uint32) {
	r.masks.Add(1)
	r.clock.Add(int64(60 * time.Millisecond))
	r.rule.Mask(dst)
}

func (r *slowRule) Forced() []int32 { return nil }
func (r *slowRule) Close()          {}

// watchRule notes how many masks slow rules have made whenever it makes one.
type watchRule struct {
	rule
	masks *atomic.Int64
	seen  *[]int64
}

func (r *watchRule) Mask(dst []uint32) {
	*r.seen = append(*r.seen, r.masks.Load())
	r.rule.Mask(dst)
}

func (r *watchRule) Forced() []int32 { return nil }
func (r *watchRule) Close()          {}

// TestSlowConstraint holds that requests with slow constraints sit out while others run, that they go on when these
// have ended, and that their tokens are those that they would have alone.
func TestSlowConstraint(t *testing.T) {
	var clock, masks atomic.Int64
	epoch := time.Now()
	cfg := smallConfig()
	e := start(t, Config{Runner: newFake(cfg), Sched: cfg, Now: func() time.Time { return epoch.Add(time.Duration(clock.Load())) }})
	var seen []int64
	fast := request(1, 8, 40)
	fast.Constraint = func() Constraint { return &watchRule{masks: &masks, seen: &seen} }
	var slow []*Stream
	for n := range 3 {
		r := request(2+n, 8, 30)
		r.Constraint = func() Constraint { return &slowRule{masks: &masks, clock: &clock} }
		slow = append(slow, submit(t, e, t.Context(), r))
	}
	if ids, last := read(t, submit(t, e, t.Context(), fast)); !slices.Equal(ids, constrained(request(1, 8, 40))) || last.Err != nil {
		t.Errorf("the fast request: %v, %+v", ids, last)
	}
	// The clock moves by a quarter of the pause for each token of a slow one. So a few of them have a turn.
	if n := seen[len(seen)-1] - seen[0]; n > 20 {
		t.Errorf("%d slow masks beside 40 tokens of another", n)
	}
	for n, s := range slow {
		if ids, last := read(t, s); !slices.Equal(ids, constrained(request(2+n, 8, 30))) || last.Err != nil {
			t.Errorf("slow request %d: %v, %+v", n, ids, last)
		}
	}
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	wantIdle(t, e)
}
