package cpu

import (
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// TestPoolRunsEveryItemOnce runs many small jobs on more threads than there are processors, so that workers are put to
// sleep at every point of a job, and counts what each does.
func TestPoolRunsEveryItemOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPool(5, false)
	defer p.close()
	runs := 5000
	if testing.Short() {
		runs = 1000
	}
	var counts [7]atomic.Int32
	for run := range runs {
		items := run % (len(counts) + 1)
		if err := p.run(items, func(_, item int) { counts[item].Add(1) }); err != nil {
			t.Fatal(err)
		}
		for i := range counts {
			want := int32(0)
			if i < items {
				want = 1
			}
			if got := counts[i].Swap(0); got != want {
				t.Fatalf("run %d: item %d of %d was run %d times", run, i, items, got)
			}
		}
	}
}

func TestPoolReportsPanics(t *testing.T) {
	p := newPool(3, false)
	defer p.close()
	for range 100 {
		err := p.run(10, func(_, item int) {
			if item == 4 {
				panic("item 4 is bad")
			}
		})
		if err == nil || !strings.Contains(err.Error(), "item 4 is bad") {
			t.Fatalf("error %v", err)
		}
		if err := p.run(10, func(int, int) {}); err != nil {
			t.Fatalf("the job after a panic: %v", err)
		}
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := newPool(2, false)
	defer p.close()
	job := func(int, int) {}
	if n := testing.AllocsPerRun(100, func() { p.run(8, job) }); n != 0 {
		t.Errorf("a run allocates %v times", n)
	}
}
