package shelf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakes is a catalog of models that take a while to load.
type fakes struct {
	takes time.Duration
	sizes map[string]int64
	fail  error

	mu    sync.Mutex
	there map[string]bool
	most  int64 // bytes that were ever there at once
	loads int
}

type fake struct {
	from *fakes
	name string
}

func (f *fakes) List() ([]Offer, error) { return nil, nil }
func (f *fakes) Find(_ context.Context, name string) (Offer, error) {
	return Offer{Name: name}, nil
}
func (f *fakes) Need(o Offer) (int64, error) { return f.sizes[o.Name], nil }

func (f *fakes) Open(o Offer, room int64, progress func(done, total int64)) (*fake, error) {
	progress(1, 4)
	time.Sleep(f.takes)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	if room < f.sizes[o.Name] {
		return nil, fmt.Errorf("%s needs %d bytes and there are %d", o.Name, f.sizes[o.Name], room)
	}
	f.loads++
	f.there[o.Name] = true
	sum := int64(0)
	for name := range f.there {
		sum += f.sizes[name]
	}
	f.most = max(f.most, sum)
	return &fake{f, o.Name}, nil
}

func (m *fake) Size() int64 { return m.from.sizes[m.name] }

func (m *fake) Close() error {
	m.from.mu.Lock()
	defer m.from.mu.Unlock()
	delete(m.from.there, m.name)
	return nil
}

func (m *fake) alive() bool {
	m.from.mu.Lock()
	defer m.from.mu.Unlock()
	return m.from.there[m.name]
}

func shelf(f *fakes, change func(*Config[*fake])) *Shelf[*fake] {
	f.there = map[string]bool{}
	cfg := Config[*fake]{Catalog: f, Memory: 10, Keep: -1, Wait: 10 * time.Minute, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// TestClientsTakeTurns lets clients of three models, of which no two fit together, ask again and again. All get
// answers, from models that are there, and models are not loaded over and over.
func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{takes: 10 * time.Second, sizes: map[string]int64{"a": 6, "b": 7, "c": 10}}
		s := shelf(f, nil)
		var all sync.WaitGroup
		until := time.Now().Add(time.Hour)
		answers := [3]int{}
		for i, name := range []string{"a", "b", "c"} {
			all.Go(func() {
				for time.Now().Before(until) {
					m, release, err := s.Get(t.Context(), Offer{Name: name}, nil)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					time.Sleep(time.Second)
					if m.name != name || !m.alive() {
						t.Errorf("%s was given %s, and whether it is there is %v", name, m.name, m.alive())
					}
					answers[i]++
					release()
				}
			})
		}
		all.Wait()
		s.Close(t.Context())
		for _, n := range answers {
			if n < 600 {
				t.Errorf("%v answers; want about as many of each", answers)
				break
			}
		}
		if most := 3600/30 + 6; f.loads > most || f.most > 10 || len(f.there) > 0 {
			t.Errorf("%d loads, want at most %d; %d bytes were there at once; %v is left", f.loads, most, f.most, f.there)
		}
	})
}

func TestClientThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{takes: time.Minute, sizes: map[string]int64{"a": 6}}
		s := shelf(f, nil)
		defer s.Close(t.Context())
		why := errors.New("it is gone")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(why) })
		if _, _, err := s.Get(ctx, Offer{Name: "a"}, nil); err != why {
			t.Errorf("%v; want %v", err, why)
		}
		time.Sleep(time.Hour)
		if all := s.Models(); len(all) != 1 || !all[0].There || all[0].Running != 0 {
			t.Errorf("%+v; want the model, idle", all)
		}
	})
}

// TestWaitingEnds holds that a request does not wait without bound, and is told what for.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{takes: time.Hour, sizes: map[string]int64{"a": 6, "b": 6}}
		s := shelf(f, nil)
		defer s.Close(t.Context())
		var late *WaitError
		if _, _, err := s.Get(t.Context(), Offer{Name: "a"}, nil); !errors.As(err, &late) || !late.Loading || late.Share != 0.25 {
			t.Errorf("%v, %+v", err, late)
		}
		_, release, err := s.Get(t.Context(), Offer{Name: "a"}, nil)
		for ; err != nil; _, release, err = s.Get(t.Context(), Offer{Name: "a"}, nil) {
		}
		if _, _, err := s.Get(t.Context(), Offer{Name: "b"}, nil); !errors.As(err, &late) || late.Loading {
			t.Errorf("%v, %+v", err, late)
		}
		release()
	})
}

func TestKeepAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{sizes: map[string]int64{"a": 1, "b": 1, "c": 1, "pinned": 1}}
		s := shelf(f, func(c *Config[*fake]) { c.Keep = 5 * time.Minute })
		defer s.Close(t.Context())
		get := func(o Offer, keep *time.Duration) {
			_, release, err := s.Get(t.Context(), o, keep)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		minute, forever := time.Minute, time.Duration(-1)
		get(Offer{Name: "a"}, nil)
		get(Offer{Name: "b", Keep: &minute}, nil)
		get(Offer{Name: "c", Keep: &minute}, &forever)
		get(Offer{Name: "pinned", Pinned: true}, nil)
		there := func() (names string) {
			synctest.Wait()
			for _, m := range s.Models() {
				names += m.Offer.Name + " "
			}
			return names
		}
		for _, want := range []string{"a b c pinned ", "a c pinned ", "c pinned "} {
			if got := there(); got != want {
				t.Errorf("%s; want %s", got, want)
			}
			time.Sleep(2*time.Minute + time.Second)
			if want == "a c pinned " {
				time.Sleep(2 * time.Minute)
			}
		}
		s.Stop("pinned")
		if got := there(); got != "c " {
			t.Errorf("%s; want c", got)
		}
	})
}

func TestBrokenAndLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{sizes: map[string]int64{"a": 1, "huge": 11}, fail: errors.New("it is cut off")}
		s := shelf(f, nil)
		defer s.Close(t.Context())
		for range 2 {
			if _, _, err := s.Get(t.Context(), Offer{Name: "a"}, nil); !errors.Is(err, f.fail) {
				t.Errorf("%v; want %v", err, f.fail)
			}
		}
		if _, _, err := s.Get(t.Context(), Offer{Name: "huge"}, nil); !errors.As(err, new(*TooLargeError)) {
			t.Error(err)
		}
		f.fail = nil
		time.Sleep(time.Minute)
		if _, release, err := s.Get(t.Context(), Offer{Name: "a"}, nil); err != nil {
			t.Error(err)
		} else {
			release()
		}
	})
}

// TestClose holds that requests that wait are refused at once, and that Close waits for a model that is being loaded,
// which does not stay.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{takes: time.Minute, sizes: map[string]int64{"a": 1}}
		s := shelf(f, nil)
		began, closed := time.Now(), make(chan time.Duration)
		time.AfterFunc(time.Second, func() { s.Close(t.Context()); closed <- time.Since(began) })
		if _, _, err := s.Get(t.Context(), Offer{Name: "a"}, nil); err != ErrClosed || time.Since(began) != time.Second {
			t.Errorf("%v after %v; want %v after 1s", err, time.Since(began), ErrClosed)
		}
		if took := <-closed; took != time.Minute {
			t.Errorf("closed after %v; want 1m", took)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.loads != 1 || len(f.there) > 0 {
			t.Errorf("%d loads, %v is left", f.loads, f.there)
		}
		if _, _, err := s.Get(t.Context(), Offer{Name: "a"}, nil); err != ErrClosed {
			t.Errorf("%v; want %v", err, ErrClosed)
		}
	})
}

// TestCloseLeavesALoad holds that closing waits for a load no longer than its context lasts, and that what comes of
// the load is closed all the same.
func TestCloseLeavesALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{takes: time.Hour, sizes: map[string]int64{"a": 1, "b": 1}}
		s := shelf(f, nil)
		failed := make(chan error, 1)
		go func() { _, _, err := s.Get(t.Context(), Offer{Name: "a"}, nil); failed <- err }()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if s.Close(ctx) || time.Since(began) != 5*time.Second || !errors.Is(<-failed, ErrClosed) {
			t.Errorf("closed after %v; want not to be after 5s", time.Since(began))
		}
		if !s.Close(t.Context()) || time.Since(began) != time.Hour || len(f.there) > 0 {
			t.Errorf("closed after %v, with %d models; want none after an hour", time.Since(began), len(f.there))
		}
	})
}
