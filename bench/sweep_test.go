package bench

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// oneAtATime answers a request in 100 ms when no other is being answered: 10 a second at most.
type oneAtATime chan struct{}

func (q oneAtATime) Answer(ctx context.Context, _ []Message, _ int, piece func()) (Answer, error) {
	q <- struct{}{}
	defer func() { <-q }()
	time.Sleep(100 * tick) // of the bubble's clock
	piece()
	return Answer{Generated: 1}, ctx.Err()
}

func TestSweep(t *testing.T) {
	evenly := func(n int, rate float64) ([]Conversation, error) {
		cs := make([]Conversation, 100)
		for i := range cs {
			cs[i] = talk(time.Duration(float64(i)/rate*float64(time.Second)), "x")
		}
		return cs, nil
	}
	o := SweepOptions{Load: LoadOptions{Duration: time.Hour, SLO: SLO{TTFT: 101 * tick}}, Attain: 1, Within: 0.02}
	for _, start := range []float64{0.3, 7, 3000} {
		synctest.Test(t, func(t *testing.T) {
			o.Start = start
			heard := 0
			rate, points, err := Sweep(t.Context(), make(oneAtATime, 1), o, evenly, func(SweepPoint) { heard++ })
			if err != nil || rate < 10/1.02 || rate > 10 || heard != len(points) {
				t.Errorf("from %v: %v a second, %d points, %v; want 10", start, rate, len(points), err)
			}
			for _, p := range points {
				if p.Met != (p.Rate <= 10) || p.Met && p.Attained != 1 {
					t.Errorf("%v a second: met %v, attained %v", p.Rate, p.Met, p.Attained)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		o.Load.SLO.TTFT = 99 * tick
		if rate, points, err := Sweep(t.Context(), make(oneAtATime, 1), o, evenly, nil); rate != 0 || len(points) != maxSweep || err != nil {
			t.Errorf("nothing can meet it: %v after %d points, %v", rate, len(points), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		o.Load.SLO.TTFT = time.Hour // which a hundred cannot miss, at any rate
		if _, _, err := Sweep(t.Context(), make(oneAtATime, 1), o, evenly, nil); err == nil || !strings.Contains(err.Error(), "too few") {
			t.Errorf("error %v; want one that says that the conversations are too few", err)
		}
	})
	broken := errors.New("broken")
	if _, _, err := Sweep(t.Context(), nil, o, func(int, float64) ([]Conversation, error) { return nil, broken }, nil); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	for _, change := range []func(*SweepOptions){
		func(o *SweepOptions) { o.Load.Clients = 1 }, func(o *SweepOptions) { o.Load.SLO = SLO{} }, func(o *SweepOptions) { o.Start = 0 },
		func(o *SweepOptions) { o.Start = math.Inf(1) }, func(o *SweepOptions) { o.Attain = 2 }, func(o *SweepOptions) { o.Within = math.NaN() },
	} {
		bad := o
		change(&bad)
		if _, _, err := Sweep(t.Context(), nil, bad, evenly, nil); err == nil {
			t.Errorf("%+v was swept", bad)
		}
	}
}
