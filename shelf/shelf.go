// Package shelf keeps models that are loaded when someone asks for them: it carries out, with goroutines and a clock,
// what a residency.Residency decides. It knows nothing of what a model is, but that it is opened by a Catalog, takes
// memory and can be closed. Read Shelf first.
package shelf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/residency"
)

// Offer is a model that can be had.
type Offer struct {
	Name     string // which no other has
	Bytes    int64  // of its files
	Modified time.Time
	Pinned   bool           // once it is loaded, it stays
	Keep     *time.Duration // how long it stays after a request, if the request does not say; nil is Config.Keep
}

// Model is what a Catalog opens.
type Model interface {
	Size() int64 // bytes of memory, of which it may not use all yet
	Close() error
}

// Catalog has the models. Its methods may be called from several goroutines, but Open runs once at a time.
type Catalog[M Model] interface {
	// List returns all offers in the order of their names.
	List() ([]Offer, error)
	// Find returns what a name means, or ErrNotFound. Its Name is the one that List has, which may be another.
	Find(ctx context.Context, name string) (Offer, error)
	// Need returns about how many bytes Open will take.
	Need(Offer) (int64, error)
	// Open loads a model within room bytes. progress is told how much of it is loaded.
	Open(o Offer, room int64, progress func(done, total int64)) (M, error)
}

// Errors of Get. Those of a Catalog are returned, too.
var (
	ErrNotFound = errors.New("shelf: no such model")
	ErrClosed   = errors.New("shelf: closed")
)

// TooLargeError says that a model does not fit, with nothing but pinned models beside it.
type TooLargeError struct {
	Name         string
	Need, Memory int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("shelf: %s needs about %d bytes of memory; all models may take %d together", e.Name, e.Need, e.Memory)
}

// BrokenError says that a model could not be loaded, just now or a moment ago.
type BrokenError struct {
	Name string
	Err  error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("shelf: loading %s: %v", e.Name, e.Err) }
func (e *BrokenError) Unwrap() error { return e.Err }

// WaitError says that a model was not there in time.
type WaitError struct {
	Name    string
	Loading bool    // else it waits for memory that others use
	Share   float64 // loaded, 0 to 1
}

func (e *WaitError) Error() string {
	if e.Loading {
		return fmt.Sprintf("shelf: %s is still being loaded; %.0f%% is there", e.Name, 100*e.Share)
	}
	return fmt.Sprintf("shelf: %s waits for memory that other models use", e.Name)
}

// Config configures a Shelf.
type Config[M Model] struct {
	Catalog Catalog[M]
	// Memory is how many bytes the models may take together, and Most how many they may be; 0 is any number.
	Memory int64
	Most   int
	// Keep is how long a model stays after its last request; a negative time is until its memory is needed.
	Keep time.Duration
	// Wait is how long Get waits at most.
	Wait   time.Duration
	Logger *slog.Logger
}

// Shelf has the models that are in memory. Its methods may be called from several goroutines.
type Shelf[M Model] struct {
	cfg   Config[M]
	began time.Time
	loads sync.WaitGroup // models that are being loaded
	ends  sync.WaitGroup // models that are being closed

	mu     sync.Mutex // guards the rest
	core   *residency.Residency
	ids    uint64
	waits  map[uint64]chan error
	books  map[string]*book[M]
	timer  *time.Timer
	closed bool
}

// book is a model that was asked for.
type book[M Model] struct {
	offer       Offer
	need        int64
	there       bool // model can be used
	model       M
	done, total atomic.Int64 // bytes loaded, and to load
	err         error        // of the last load
}

// New returns a Shelf without models.
func New[M Model](cfg Config[M]) *Shelf[M] {
	s := &Shelf[M]{cfg: cfg, began: time.Now(), waits: map[uint64]chan error{}, books: map[string]*book[M]{},
		core: residency.New(residency.Config{Memory: cfg.Memory, Most: cfg.Most})}
	s.timer = guard.After(time.Hour, s.tick, func(err error) {
		if err != nil {
			s.cfg.Logger.Error("models that are idle stay in memory", "error", err)
		}
	})
	s.timer.Stop()
	return s
}

// Catalog returns what New was given.
func (s *Shelf[M]) Catalog() Catalog[M] { return s.cfg.Catalog }

// now returns the time as the core has it.
func (s *Shelf[M]) now() int64 { return time.Since(s.began).Milliseconds() }

func (s *Shelf[M]) tick() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.carry(s.core.Tick(s.now()))
	}
	return nil
}

// Get returns a model, loading it if it is not in memory, and holds it until release is called. keep is how long it
// stays afterwards; nil is as the offer says.
func (s *Shelf[M]) Get(ctx context.Context, o Offer, keep *time.Duration) (m M, release func(), err error) {
	need, err := s.need(o)
	if err != nil {
		return m, nil, err
	}
	id, came, err := s.ask(o, need, keep)
	if err != nil {
		return m, nil, err
	}
	limit := time.NewTimer(s.cfg.Wait)
	defer limit.Stop()
	select {
	case err = <-came:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-limit.C:
		err = s.late(o.Name)
	}
	if err != nil {
		s.done(id)
		return m, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[o.Name]
	if !b.there {
		return m, nil, ErrClosed
	}
	return b.model, sync.OnceFunc(func() { s.done(id) }), nil
}

// need returns the bytes that a model takes.
func (s *Shelf[M]) need(o Offer) (int64, error) {
	s.mu.Lock()
	size, known := s.core.Known(o.Name)
	s.mu.Unlock()
	if known {
		return size, nil
	}
	return s.cfg.Catalog.Need(o)
}

func (s *Shelf[M]) ask(o Offer, need int64, keep *time.Duration) (id uint64, came chan error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, nil, ErrClosed
	}
	for _, k := range []*time.Duration{o.Keep, &s.cfg.Keep} {
		if keep == nil {
			keep = k
		}
	}
	w := residency.Want{Model: o.Name, Size: need, Keep: residency.Forever, Pinned: o.Pinned}
	if *keep >= 0 {
		w.Keep = keep.Milliseconds()
	}
	b := s.books[o.Name]
	if b == nil {
		b = new(book[M])
		s.books[o.Name] = b
	}
	b.offer, b.need = o, need
	s.ids++
	came = make(chan error, 1)
	s.waits[s.ids] = came
	s.carry(s.core.Ask(s.ids, w, s.now()))
	return s.ids, came, nil
}

func (s *Shelf[M]) done(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, id)
	if !s.closed {
		s.carry(s.core.Done(id, s.now()))
	}
}

// late says why a model is not there yet.
func (s *Shelf[M]) late(name string) error {
	for _, st := range s.Models() {
		if st.Offer.Name == name {
			return &WaitError{name, st.State == residency.Loading, st.Loaded}
		}
	}
	return &WaitError{Name: name}
}

// carry does what the core says. The caller holds mu.
func (s *Shelf[M]) carry(actions []residency.Action) {
	for _, a := range actions {
		b := s.books[a.Model]
		switch a.Verb {
		case residency.Admit:
			s.tell(a.Request, nil)
		case residency.Refuse:
			var err error = &BrokenError{a.Model, b.err}
			if a.Reason == residency.TooLarge {
				err = &TooLargeError{a.Model, b.need, s.cfg.Memory}
			}
			s.tell(a.Request, err)
		case residency.Load:
			s.load(b, a.Room)
		case residency.Close:
			s.end(b)
		}
	}
	if at, ok := s.core.Wake(); ok {
		s.timer.Reset(time.Duration(at-s.now()) * time.Millisecond)
	} else {
		s.timer.Stop()
	}
}

// tell answers a request that waits, if it still does.
func (s *Shelf[M]) tell(id uint64, err error) {
	if came := s.waits[id]; came != nil {
		delete(s.waits, id)
		came <- err
	}
}

// load opens a model on a goroutine of its own.
func (s *Shelf[M]) load(b *book[M], room int64) {
	b.done.Store(0)
	b.total.Store(b.offer.Bytes)
	o := b.offer
	var m M
	s.loads.Add(1)
	guard.Go(func() (err error) {
		m, err = s.cfg.Catalog.Open(o, room, func(done, total int64) {
			b.done.Store(done)
			b.total.Store(total)
		})
		return err
	}, func(err error) {
		defer s.loads.Done()
		if err != nil {
			s.cfg.Logger.Error("a model could not be loaded", "model", o.Name, "error", err)
		}
		if s.loaded(b, m, err) {
			s.close(o.Name, m) // which nobody waits for any more
		}
	})
}

// loaded takes the result of a load. It reports whether the model is to be closed, since the shelf is.
func (s *Shelf[M]) loaded(b *book[M], m M, err error) (late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch b.err = err; {
	case s.closed:
		return err == nil
	case err != nil:
		s.carry(s.core.Failed(b.offer.Name, s.now()))
	default:
		b.there, b.model = true, m
		s.carry(s.core.Loaded(b.offer.Name, m.Size(), s.now()))
	}
	return false
}

// end closes a model on a goroutine of its own.
func (s *Shelf[M]) end(b *book[M]) {
	var none M // the memory is not kept from the collector
	name, m := b.offer.Name, b.model
	b.there, b.model = false, none
	s.ends.Add(1)
	guard.Go(func() error { s.close(name, m); return nil }, func(err error) {
		defer s.ends.Done()
		if err != nil {
			s.cfg.Logger.Error("closing a model failed", "model", name, "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.carry(s.core.Closed(name, s.now()))
		}
	})
}

func (s *Shelf[M]) close(name string, m M) {
	if err := m.Close(); err != nil {
		s.cfg.Logger.Error("closing a model failed", "model", name, "error", err)
		return
	}
	s.cfg.Logger.Info("unloaded", "model", name)
}

// Stop makes a model leave memory when its requests have ended.
func (s *Shelf[M]) Stop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.carry(s.core.Stop(name, s.now()))
	}
}

// Status describes a model that is in memory, or that requests wait for.
type Status[M Model] struct {
	Offer            Offer
	State            residency.State
	Size             int64 // bytes
	Running, Waiting int   // requests
	Loaded           float64
	Leaves           time.Time // when, if no request comes; zero is not before its memory is needed
	There            bool      // Model can be used, until its next closing
	Model            M
}

// Models describes all models that are in memory or waited for, in the order of their names.
func (s *Shelf[M]) Models() []Status[M] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status[M]
	for _, st := range s.core.Models() {
		b := s.books[st.Model]
		out := Status[M]{Offer: b.offer, State: st.State, Size: st.Size, Running: st.Running, Waiting: st.Waiting,
			There: b.there, Model: b.model}
		if st.Leaves != residency.Forever {
			out.Leaves = s.began.Add(time.Duration(st.Leaves) * time.Millisecond)
		}
		switch total := b.total.Load(); {
		case b.there:
			out.Loaded = 1
		case st.State == residency.Loading && total > 0:
			out.Loaded = min(1, float64(b.done.Load())/float64(total))
		}
		all = append(all, out)
	}
	return all
}

// Close takes all models out of memory, whether they are used or not, and refuses requests. A model that is being
// loaded is waited for until ctx is done, and closed when it is there. Close reports whether all are closed.
func (s *Shelf[M]) Close(ctx context.Context) bool {
	s.mu.Lock()
	s.closed = true
	s.timer.Stop()
	for id := range s.waits {
		s.tell(id, ErrClosed)
	}
	for _, b := range s.books {
		if b.there {
			s.end(b)
		}
	}
	s.mu.Unlock()
	s.ends.Wait()
	done := make(chan struct{})
	guard.Go(func() error { s.loads.Wait(); return nil }, func(error) { close(done) })
	select {
	case <-done:
		return true
	case <-ctx.Done():
		s.cfg.Logger.Warn("a model is still being loaded, and is left")
		return false
	}
}
