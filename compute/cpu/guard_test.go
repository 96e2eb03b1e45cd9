package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// TestStepsEnd lets the goroutine of steps panic outside of a step: steps yield that the device is lost, those that it
// had not taken and those that are started later.
func TestStepsEnd(t *testing.T) {
	d, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := d.Cache(compute.CacheSpec{Blocks: 1, BlockTokens: 16, Layers: []compute.CacheLayer{{KVHeads: 1, KDim: 16, VDim: 16}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Compile(&compute.Graph{}, c, compute.Limits{Rows: 1, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	p.(*program).queue <- nil
	for range 3 {
		s, err := p.Start(new(compute.Batch))
		if err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		if f := new(compute.Fault); !errors.As(s.Wait(), &f) || !f.Lost || !strings.Contains(f.Error(), "panic") {
			t.Errorf("a step after the panic: %v", s.Wait())
		}
	}
}

// TestWorkerEnds lets a worker panic beside its jobs: that is the next job's fault, and of no other.
func TestWorkerEnds(t *testing.T) {
	p := newPool(2, nil)
	defer p.close()
	p.fail(errors.New("a worker is gone"))
	if err := p.run(8, func(int, int) {}); err == nil || !strings.Contains(err.Error(), "a worker is gone") {
		t.Errorf("the next job: %v", err)
	}
	if err := p.run(8, func(int, int) {}); err != nil {
		t.Errorf("the job after it: %v", err)
	}
}
