package cpu

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/kernel"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestPoolRunsEveryItemOnce runs many small jobs on more threads than there are processors, so that workers are put to
// sleep at every point of a job, and counts what each does.
func TestPoolRunsEveryItemOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPool(5, nil)
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

// TestPoolTakesFromOthers blocks one thread in its first item until all items but those that it has are done, so that
// the others have to take what is left of its share.
func TestPoolTakesFromOthers(t *testing.T) {
	p := newPool(3, nil)
	defer p.close()
	const items = 96
	for most := 1; most <= 64; most *= 4 {
		var counts [items]atomic.Int32
		var done atomic.Int32
		var blocked atomic.Bool
		err := p.runs(items, most, func(_, from, to int) {
			if to-from > most {
				t.Errorf("%d items at once, want at most %d", to-from, most)
			}
			if blocked.CompareAndSwap(false, true) {
				for done.Load() < int32(items-(to-from)) {
					runtime.Gosched()
				}
			}
			for i := from; i < to; i++ {
				counts[i].Add(1)
			}
			done.Add(int32(to - from))
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range counts {
			if n := counts[i].Load(); n != 1 {
				t.Errorf("at most %d at once: item %d was run %d times", most, i, n)
			}
		}
	}
}

// TestForesee computes two products in turns: the weights that follow the other's are those of the one, from where each
// thread begins with them.
func TestForesee(t *testing.T) {
	d, err := New(Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var turns [2][]Product
	for i, outs := range [][]int{{64 * kernel.Lanes}, {16 * kernel.Lanes, 48 * kernel.Lanes}} {
		for _, out := range outs {
			w, err := d.Matrix(compute.Source{Type: quant.F32, Out: out, In: 32, Data: make([]byte, out*32*4)})
			if err != nil {
				t.Fatal(err)
			}
			turns[i] = append(turns[i], Product{W: w, Dst: Tensor{Rows: 1, Cols: out, Host: make([]float32, out)}})
		}
	}
	var b compute.Batch
	b.Append([]int32{0}, 0, false)
	d.Begin(&b)
	x := Tensor{Rows: 1, Cols: 32, Host: make([]float32, 32)}
	for range 2 {
		d.matMul(x, turns[0])
		d.matMul(x, turns[1])
	}
	d.matMul(x, turns[0])
	small, wide := turns[1][0].W.(*matrix), turns[1][1].W.(*matrix)
	parts := d.pool.ahead.Load().parts
	if len(parts) != 2 || &parts[0][0] != &small.data[0] || &parts[1][0] != &wide.data[16*wide.stride] {
		t.Errorf("%d threads fetch; want the first to begin with the first weight and the second with panel 16 of the other", len(parts))
	}
}

func TestPoolReportsPanics(t *testing.T) {
	p := newPool(3, nil)
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
	p := newPool(2, nil)
	defer p.close()
	job := func(int, int) {}
	if n := testing.AllocsPerRun(100, func() { p.run(8, job) }); n != 0 {
		t.Errorf("a run allocates %v times", n)
	}
}

// TestPoolLeavesProcessors holds that a worker sleeps for each processor that works on a large request, but for those
// beside the pool's, and that a job is done whole by what is left of them.
func TestPoolLeavesProcessors(t *testing.T) {
	p := newPool(3, nil)
	defer p.close()
	b := guard.NewBudget(1<<20, 4)
	for _, spare := range []int{0, 1} {
		p.spare = spare
		var all []func()
		for heavy, want := range [2][5]int{{3, 2, 1, 1, 1}, {3, 3, 2, 1, 1}}[spare] {
			if n := p.free(); n != want {
				t.Errorf("with %d spare and %d taken %d workers compute; want %d", spare, heavy, n, want)
			}
			var sum atomic.Int64
			if err := p.run(100, func(_, item int) { sum.Add(int64(item)) }); err != nil || sum.Load() != 4950 {
				t.Errorf("a job sums up to %d, %v", sum.Load(), err)
			}
			if heavy == 4 {
				break
			}
			release, err := b.Acquire(t.Context(), 1<<16)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, release)
		}
		for _, release := range all {
			release()
		}
	}
}
