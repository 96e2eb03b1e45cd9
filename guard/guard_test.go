package guard_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

func TestGo(t *testing.T) {
	failed := errors.New("failed")
	ended := make(chan error)
	for _, c := range []struct {
		f    func() error
		want string
	}{
		{func() error { return nil }, ""},
		{func() error { return failed }, "failed"},
		{func() error { panic("boom") }, "panic: boom\n"},
		{func() error { return errors.New([]string{}[len(os.Args[:0])]) }, "guard_test.go"},
	} {
		guard.Go(c.f, func(err error) { ended <- err })
		err := <-ended
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v; want an error with %q", err, c.want)
		}
	}
}

// TestAfter holds that what a timer or the end of a context starts is guarded too, and can be stopped.
func TestAfter(t *testing.T) {
	ended := make(chan error)
	boom, tell := func() error { panic("boom") }, func(err error) { ended <- err }
	timer := guard.After(0, boom, tell)
	ctx, cancel := context.WithCancel(t.Context())
	first := <-ended
	timer.Reset(0)
	again := <-ended
	guard.OnDone(ctx, boom, tell)
	cancel()
	for _, err := range []error{first, again, <-ended} {
		if p := new(guard.Panic); !errors.As(err, &p) || p.Value != "boom" {
			t.Errorf("%v; want a panic with boom", err)
		}
	}
	if !guard.After(time.Hour, boom, tell).Stop() || !guard.OnDone(t.Context(), boom, tell)() {
		t.Error("one that has not begun cannot be stopped")
	}
}

// TestGroup holds that Wait waits for all, and returns the first error, be it a panic.
func TestGroup(t *testing.T) {
	var g guard.Group
	var n atomic.Int32
	first := make(chan struct{})
	g.Start(func() error { defer close(first); panic("boom") })
	<-first
	for range 10 {
		g.Start(func() error { n.Add(1); return nil })
	}
	err := g.Wait()
	if p := new(guard.Panic); !errors.As(err, &p) || p.Value != "boom" || n.Load() != 10 {
		t.Errorf("%v of %d goroutines", err, n.Load())
	}
	if err := new(guard.Group).Wait(); err != nil {
		t.Error(err)
	}
}
