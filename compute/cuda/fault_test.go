package cuda

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
)

// small makes a program of a small decoder on a driver that computes nothing: all of its logits are 0.
func small(t *testing.T) (*fake, compute.Program) {
	f := newFake(t)
	d, err := newDevice(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	g := llama(t, d, 1, 128, 256, 4, 2, 64, 1000, func(out, in int) compute.Matrix {
		return weight(t, d, bell(r, out*in, 1), out, in)
	})
	p, err := d.Compile(g, oneLayer(t, d, 100, compute.CacheLayer{KVHeads: 2, KDim: 64, VDim: 64}), compute.Limits{Rows: 64, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		clear(f.refuse)
		if err := errors.Join(p.Close(), d.Close()); err != nil {
			t.Error(err)
		}
		f.leaks()
	})
	return f, p
}

// token returns a batch of one sequence's token at a position, which chooses by c.
func token(at int, c compute.Choice) *compute.Batch {
	b := &compute.Batch{}
	b.AppendSeq(compute.Seq{Start: int32(at)}, []int32{1}, 1)
	b.Edits = []compute.TableEdit{{At: int32(at / 16), Block: int32(at / 16)}}
	b.Choosers = []compute.Chooser{{Choosing: &compute.Choosing{TopP: 1, Repetition: 1}}}
	b.Logits, b.Choose = []int32{0}, []compute.Choice{c}
	return b
}

var plainChoice = compute.Choice{Given: -1, Top: -1, After: -1, Mask: -1}

// TestFaults checks what a refused call ends: the step and those that were started meanwhile, or the device.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		refuse entry
		code   code
		lost   bool
	}{{cuGraphLaunch, 1, false}, {cuGraphLaunch, 700, true}, {cuEventSynchronize, 719, true}} {
		f, p := small(t)
		f.mu.Lock()
		f.refuse[c.refuse] = c.code
		f.mu.Unlock()
		first, err := p.Start(token(0, plainChoice))
		if err != nil {
			t.Fatal(err)
		}
		second, err := p.Start(token(1, plainChoice))
		if err != nil {
			t.Fatal(err)
		}
		var fault *compute.Fault
		if err := first.Wait(); !errors.As(err, &fault) || fault.Lost != c.lost || fault.Skipped {
			t.Errorf("code %d: the first step: %+v", c.code, err)
		}
		<-second.Done()
		if err := second.Wait(); !errors.As(err, &fault) || fault.Lost != c.lost || !c.lost && !fault.Skipped {
			t.Errorf("code %d: the second step: %+v", c.code, err)
		}
		f.mu.Lock()
		clear(f.refuse)
		f.mu.Unlock()
		third, err := p.Start(token(0, plainChoice))
		if err != nil {
			t.Fatal(err)
		}
		if err := third.Wait(); (err != nil) != c.lost {
			t.Errorf("code %d: a step after it was reported: %v", c.code, err)
		}
	}
}

// TestHostChooses checks the choices that the host makes: from logits of 0, all of which are the best.
func TestHostChooses(t *testing.T) {
	_, p := small(t)
	b := token(0, plainChoice)
	b.AppendSeq(compute.Seq{Start: 0, Slot: 1}, []int32{1, 5}, 2)
	b.Logits = []int32{0, 1, 2}
	masked, given, top, after := plainChoice, plainChoice, plainChoice, plainChoice
	masked.Mask, given.Given, top.Top, top.Row = 0, 7, 2, 1
	after.Row, after.After = 2, 2
	b.Choose = []compute.Choice{masked, given, top, after}
	b.Masks, b.Hold = make([]uint32, compute.MaskWords(1000)), true
	s, err := p.Start(b)
	if err != nil {
		t.Fatal(err)
	}
	b.Masks[3] = 1 << 4
	s.Choose()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if c := s.Chosen(0); c.Token != 3*32+4 {
		t.Errorf("under a mask of one token: %+v", c)
	}
	if c := s.Chosen(1); c.Token != 7 || c.Err != nil {
		t.Errorf("of a given token: %+v", c)
	}
	if c := s.Chosen(2); c.Token != 0 || len(c.Top) != 2 {
		t.Errorf("with alternatives: %+v", c)
	}
	if c := s.Chosen(3); c.Token != -1 {
		t.Errorf("after a choice of another token: %+v", c)
	}
}
