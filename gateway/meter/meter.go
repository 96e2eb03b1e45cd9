package meter

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// Store holds counters and what was used. Several gateways may share one. Its methods may be called from several
// goroutines.
type Store interface {
	// apply carries out an operation as a whole, or nothing of it. One whose id it has applied in the last quarter of
	// an hour it does not apply again. It returns the index of the first charge whose counter lacks room, or -1.
	apply(ctx context.Context, op operation) (short int, err error)
	// usage returns what was used in the hours from from to before to, in any order.
	usage(ctx context.Context, from, to time.Time) ([]Row, error)
	// shared reports whether other processes may use the store, over a connection that may break.
	shared() bool
	Close() error
}

// remembered is how long stores know which operations they have applied.
const remembered = 15 * time.Minute

// operation is a change of counters.
type operation struct {
	id      string
	undoes  string // if not "": the charges count only if this operation was applied; if it was not, it never will be
	charges []charge
	row     *Row // is added to what was used
	born    time.Time
}

// charge is an amount on a counter.
type charge struct {
	counter string
	amount  int64
	most    int64     // what would take the counter above it is refused; 0 refuses nothing
	ends    time.Time // when the counter may be forgotten
}

// Row is what was used in an hour by a key with a model.
type Row struct {
	Hour  time.Time
	Key   string
	Team  string
	Model string
	Use
}

// Subject is whose use is counted: a key, a team or a model.
type Subject struct {
	Name   string // unique among subjects
	Limits []Limit
}

// Refused says that a request would go beyond a limit.
type Refused struct {
	Subject string
	Limit   Limit
	Retry   time.Duration // until the window ends
}

func (r *Refused) Error() string {
	per := "in " + r.Limit.Per
	switch r.Limit.Per {
	case "ever":
		per = "for good"
	case "month":
		per = "a month"
	}
	return fmt.Sprintf("%s has used up its limit of %v %s %s", r.Subject, r.Limit.Most, r.Limit.What, per)
}

// Options are what a Meter gets besides its store.
type Options struct {
	Log     *slog.Logger
	Open    bool          // lets requests go while the store cannot be reached, and charges them later
	Timeout time.Duration // of a reservation
}

// Meter reserves and settles. Its methods may be called from several goroutines.
type Meter struct {
	store Store
	o     Options

	work    sync.WaitGroup
	mu      sync.Mutex
	wake    *sync.Cond
	late    []operation // that are to be applied
	busy    int         // workers that apply one
	closing time.Time   // when workers give up; zero if the meter is not closing
	lost    int
	down    bool // the last operation failed
}

const (
	workers  = 8       // that settle with a shared store
	mostLate = 1 << 17 // operations that wait for a shared store
)

// New makes a meter. Close ends it, and closes the store.
func New(s Store, o Options) *Meter {
	m := &Meter{store: s, o: o}
	m.wake = sync.NewCond(&m.mu)
	if l, ok := s.(*local); ok {
		l.logTo(o.Log)
	}
	if s.shared() {
		for range workers {
			m.work.Add(1)
			guard.Go(func() error { defer m.work.Done(); m.settleLate(); return nil }, func(err error) {
				if err != nil {
					o.Log.Error("a worker that settles with the store ended", "error", err)
				}
			})
		}
	}
	return m
}

// Close settles what is left, for at most 5 seconds.
func (m *Meter) Close() error {
	m.mu.Lock()
	m.closing = time.Now().Add(5 * time.Second)
	m.wake.Broadcast()
	m.mu.Unlock()
	m.work.Wait()
	if n := len(m.late) + m.lost; n > 0 {
		m.o.Log.Error("what requests used was lost: the store cannot be reached", "operations", n)
	}
	return m.store.Close()
}

// Hold is what a request has reserved. A nil Hold has reserved nothing.
type Hold struct {
	m        *Meter
	id       string
	charges  []charge
	whats    []string
	row      Row
	reserved bool
}

// Reserve takes an estimate of what a request will use from the counters of its subjects, or nothing if it lacks room
// in one: then the error is a *Refused. Another error says that the store could not be reached. id is unique. What is
// above a limit takes the whole of it.
func (m *Meter) Reserve(ctx context.Context, id, model string, subjects []Subject, estimate Use) (*Hold, error) {
	now := time.Now()
	h := &Hold{m: m, id: id, row: Row{Hour: now.UTC().Truncate(time.Hour), Model: model}}
	var owners []int
	var limits []Limit
	for i, s := range subjects {
		for _, l := range s.Limits {
			if l.Model != "" && l.Model != model {
				continue
			}
			begin, end := l.window(now)
			h.charges = append(h.charges, charge{
				counter: fmt.Sprintf("%s|%s|%s|%s|%d", s.Name, l.Model, l.What, l.Per, begin.Unix()),
				amount:  min(estimate.of(l.What), l.most()), most: l.most(), ends: end.Add(time.Hour),
			})
			h.whats, owners, limits = append(h.whats, l.What), append(owners, i), append(limits, l)
		}
	}
	if len(h.charges) == 0 {
		h.reserved = true
		return h, nil
	}
	client := ctx
	if m.store.shared() {
		limited, cancel := context.WithTimeout(ctx, m.o.Timeout)
		defer cancel()
		ctx = limited
	}
	short, err := m.store.apply(ctx, operation{id: id + "/reserve", charges: h.charges, born: now})
	if client.Err() == nil {
		m.note(err)
	}
	switch {
	case err != nil:
		m.enqueue(h.undo())
		if !m.o.Open {
			return nil, fmt.Errorf("the limits cannot be checked: %w", err)
		}
		return h, nil
	case short >= 0:
		_, end := limits[short].window(now)
		return nil, &Refused{Subject: subjects[owners[short]].Name, Limit: limits[short], Retry: end.Sub(now)}
	}
	h.reserved = true
	return h, nil
}

// undo takes back a reservation of which is not known whether it was made.
func (h *Hold) undo() operation {
	op := operation{id: h.id + "/undo", undoes: h.id + "/reserve", born: time.Now()}
	for _, c := range h.charges {
		op.charges = append(op.charges, charge{c.counter, -c.amount, 0, c.ends})
	}
	return op
}

// Settle corrects what was reserved by what a key of a team used.
func (h *Hold) Settle(key, team, model string, used Use) {
	if h == nil {
		return
	}
	h.row.Key, h.row.Team, h.row.Model, h.row.Use = key, team, model, used
	op := operation{id: h.id + "/settle", row: &h.row, born: time.Now()}
	for i, c := range h.charges {
		delta := used.of(h.whats[i])
		if h.reserved {
			delta -= c.amount
		}
		if delta != 0 {
			op.charges = append(op.charges, charge{c.counter, delta, 0, c.ends})
		}
	}
	if h.m.store.shared() {
		h.m.enqueue(op)
		return
	}
	if _, err := h.m.store.apply(context.Background(), op); err != nil {
		h.m.o.Log.Error("what a request used was not counted", "error", err)
	}
}

// note tells the log when operations begin to fail, with the error of the first one, and when they do not any more.
func (m *Meter) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down == (err != nil) {
		return
	}
	if m.down = err != nil; m.down {
		m.o.Log.Error("what requests use cannot be counted", "error", err)
		return
	}
	m.o.Log.Info("what requests use is counted again")
}

// enqueue leaves an operation to the workers.
func (m *Meter) enqueue(op operation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.late) >= mostLate || !m.store.shared() {
		m.lost++
		return
	}
	m.late = append(m.late, op)
	m.wake.Signal()
}

// settleLate applies operations until the meter closes and none is left. One that fails is tried again until the store
// would not know any more whether it has applied it.
func (m *Meter) settleLate() {
	for {
		m.mu.Lock()
		for len(m.late) == 0 && m.closing.IsZero() {
			m.wake.Wait()
		}
		if len(m.late) == 0 || !m.closing.IsZero() && time.Now().After(m.closing) {
			m.mu.Unlock()
			return
		}
		op := m.late[0]
		m.late = m.late[1:]
		m.busy++
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := m.store.apply(ctx, op)
		cancel()
		m.note(err)
		m.mu.Lock()
		if m.busy--; err == nil {
			m.mu.Unlock()
			continue
		}
		if time.Since(op.born) > remembered*2/3 {
			m.lost++
			m.o.Log.Error("what a request used was lost: the store cannot be reached", "error", err, "lost", m.lost)
		} else {
			m.late = append(m.late, op)
		}
		m.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
}

// Usage returns what was used in the hours from from to before to.
func (m *Meter) Usage(ctx context.Context, from, to time.Time) ([]Row, error) {
	return m.store.usage(ctx, from.UTC().Truncate(time.Hour), to)
}
