package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/kv"
)

// storedPrompt plays a request on an engine whose disk outlives it.
func storedPrompt(t *testing.T, r Request) Config {
	t.Helper()
	cfg := smallConfig()
	c := Config{Runner: newFake(cfg), Sched: cfg, Tiers: Tiers{List: []tier.Spec{{Kind: "disk", Where: t.TempDir(), Bytes: 1 << 20}}, Always: true}}
	e := start(t, c)
	if ids, _ := read(t, submit(t, e, t.Context(), r)); !slices.Equal(ids, expected(r)) {
		t.Fatalf("got %v; want %v", ids, expected(r))
	}
	e.Close() // which stores what is cached
	c.Runner = newFake(cfg)
	return c
}

// gatedDisk is a disk that yields a block for each value that gate receives, and an error if it is one. Each read is
// told to asked, and once it is delivered to told.
type gatedDisk struct {
	tier.Tier
	asked, told chan kv.Name
	gate        chan error
}

func (d *gatedDisk) Get(slot int32, name kv.Name, dst []byte, done func(time.Duration, error)) (tier.Answer, error) {
	d.asked <- name
	return d.Tier.Get(slot, name, dst, func(took time.Duration, err error) {
		if bad := <-d.gate; bad != nil {
			err = bad
		}
		done(took, err)
		d.told <- name
	})
}

// slowDisk makes an engine whose disk takes its time.
func slowDisk(t *testing.T, c Config) (*Engine, *gatedDisk) {
	t.Helper()
	e := start(t, c)
	d := &gatedDisk{e.tiers.list[0].Tier, make(chan kv.Name, 100), make(chan kv.Name, 100), make(chan error, 100)}
	e.tiers.list[0].Tier = d
	t.Cleanup(func() { close(d.gate) })
	return e, d
}

// TestOthersPassADisk lets a disk take its time: others are served meanwhile, and who waits for it gets its blocks.
func TestOthersPassADisk(t *testing.T) {
	r := request(1, 21, 10)
	c := storedPrompt(t, r)
	c.Sched.MaxPassed = 4
	e, d := slowDisk(t, c)
	s := submit(t, e, t.Context(), r)
	<-d.asked
	other := request(2, 9, 20)
	if ids, _ := read(t, submit(t, e, t.Context(), other)); !slices.Equal(ids, expected(other)) {
		t.Errorf("the other got %v; want %v", ids, expected(other))
	}
	if st := e.Stats().Sched; st.Waiting != 1 {
		t.Errorf("%d wait; want the one whose blocks are on the disk", st.Waiting)
	}
	for range 5 { // 20 of its 21 tokens
		d.gate <- nil
	}
	if ids, _ := read(t, s); !slices.Equal(ids, expected(r)) {
		t.Errorf("got %v; want %v", ids, expected(r))
	}
	st := e.Stats().Sched
	if d := st.KV.Tiers[1]; d.Loaded != 5 || d.Lost != 0 || st.KV.Hits != 20 {
		t.Errorf("%d tokens were found, by a disk of %+v; want 20, 5 blocks", st.KV.Hits, d)
	}
	wantIdle(t, e)
}

// TestDiskFailsLate loses a block on its way: its tokens, and those after it, are computed.
func TestDiskFailsLate(t *testing.T) {
	r := request(1, 21, 10)
	e, d := slowDisk(t, storedPrompt(t, r))
	s := submit(t, e, t.Context(), r)
	for i := range 5 {
		if i == 2 {
			d.gate <- errors.New("the disk has a bad sector")
		} else {
			d.gate <- nil
		}
	}
	if ids, _ := read(t, s); !slices.Equal(ids, expected(r)) {
		t.Errorf("got %v; want %v", ids, expected(r))
	}
	if st := e.Stats().Sched; st.KV.Hits != 8 || st.KV.Tiers[1].Lost != 1 {
		t.Errorf("%d tokens were found, by a disk of %+v; want 8 and one block lost", st.KV.Hits, st.KV.Tiers[1])
	}
	wantIdle(t, e)
}

// TestNoOneWaitsForADisk cancels the request that waits: what arrives later is dropped, and the engine can be closed
// with a read under way.
func TestNoOneWaitsForADisk(t *testing.T) {
	r := request(1, 21, 10)
	e, d := slowDisk(t, storedPrompt(t, r))
	ctx, cancel := context.WithCancel(t.Context())
	s := submit(t, e, ctx, r)
	<-d.asked
	cancel()
	if _, last := read(t, s); last.Finish != FinishCancelled {
		t.Errorf("the cancelled request ends for %q", last.Finish)
	}
	d.gate <- nil
	<-d.told
	other := request(2, 9, 5)
	read(t, submit(t, e, t.Context(), other))
	here := make(chan int)
	e.inbox.post(message{ask: func() { here <- len(e.tiers.here) }})
	if n := <-here; n != 0 {
		t.Errorf("%d blocks are kept for no one", n)
	}
	wantIdle(t, e)
	for range 4 {
		d.gate <- nil
	}
}
