package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sched"
)

// Adapter is a LoRA adapter that requests may name.
type Adapter struct {
	Name   string
	Source string // its path, for listings
	Data   *model.Adapter
	Pinned bool // it is on the device at all times; only those of Config can be
}

// AdapterStats is an adapter and its use.
type AdapterStats struct {
	Adapter
	Loaded           time.Time
	OnDevice         bool
	Running, Waiting int // requests
}

// Errors of adapters' names.
var (
	ErrAdapterExists = errors.New("engine: there is an adapter of that name already")
	ErrNoAdapter     = errors.New("engine: there is no adapter of that name")
	ErrAdapterPinned = errors.New("engine: the adapter is pinned")
)

// adapter is an Adapter in use. All adapters are in host memory; those that run have a slot on the device, too, and
// keep it until another needs it.
type adapter struct {
	Adapter
	id     uint64 // for the scheduler, which counts those that take turns; 0 if pinned
	loaded time.Time

	live, running atomic.Int32 // requests taken; of them, those that have run
	gone          atomic.Bool  // unloaded: no request can name it any more
	slot          atomic.Int32 // 0 is none. Set by the loop.
	used          uint64       // the step that used it last. The loop's own.
}

// on returns the adapter's slot, 0 for no adapter.
func (a *adapter) on() int32 {
	if a == nil {
		return 0
	}
	return a.slot.Load()
}

// adapters are the adapters that requests may name, and the slots of the device that hold some of them.
type adapters struct {
	place func(slot int, a *model.Adapter) (compute.Placement, error)
	log   *slog.Logger

	mu    sync.Mutex
	known map[string]*adapter
	loads uint64 // adapters that were loaded

	// The loop's own.
	slots  []*adapter // by slot; the first is none's
	pinned int
	places []compute.Placement // for the next step
	steps  uint64
}

// pin gives every pinned adapter its slot, before the engine runs.
func (r *adapters) pin(all []Adapter, now time.Time) error {
	for _, a := range all {
		if !a.Pinned {
			continue
		}
		if r.pinned == len(r.slots)-1 {
			return fmt.Errorf("engine: adapter %q is to be pinned; all %d slots hold a pinned one already", a.Name, r.pinned)
		}
		if r.known[a.Name] != nil {
			return fmt.Errorf("%w: %q", ErrAdapterExists, a.Name)
		}
		p := &adapter{Adapter: a, loaded: now}
		r.pinned++
		r.known[a.Name] = p
		if err := r.put(r.pinned, p); err != nil {
			return fmt.Errorf("engine: adapter %q: %w", a.Name, err)
		}
	}
	return nil
}

// Load makes an adapter known. One of the same name is an error, unless replace is set: then it is unloaded.
func (e *Engine) Load(a Adapter, replace bool) error {
	if e.inbox.closed() {
		return ErrClosed
	}
	defer e.inbox.wake() // a slot may be empty now
	r := e.adapters
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.known[a.Name]
	switch {
	case r.pinned == len(r.slots)-1:
		return fmt.Errorf("engine: adapter %q: of %d slots, pinned adapters hold %d", a.Name, len(r.slots)-1, r.pinned)
	case old != nil && old.Pinned:
		return fmt.Errorf("%w: %q", ErrAdapterPinned, a.Name)
	case old != nil && !replace:
		return fmt.Errorf("%w: %q", ErrAdapterExists, a.Name)
	case old != nil:
		old.gone.Store(true)
	}
	r.loads++
	r.known[a.Name] = &adapter{Adapter: a, id: r.loads, loaded: e.cfg.Now()}
	return nil
}

// Unload makes an adapter unknown. Requests that were taken go on with it; when the last has ended it is dropped.
func (e *Engine) Unload(name string) error {
	defer e.inbox.wake()
	r := e.adapters
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.known[name]
	switch {
	case a == nil:
		return fmt.Errorf("%w: %q", ErrNoAdapter, name)
	case a.Pinned:
		return fmt.Errorf("%w: %q", ErrAdapterPinned, name)
	}
	delete(r.known, name)
	a.gone.Store(true)
	return nil
}

// Adapters returns the adapters that requests may name, in order of their names.
func (e *Engine) Adapters() []AdapterStats {
	r := e.adapters
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []AdapterStats
	for _, name := range slices.Sorted(maps.Keys(r.known)) {
		a := r.known[name]
		running := int(a.running.Load())
		out = append(out, AdapterStats{Adapter: a.Adapter, Loaded: a.loaded, OnDevice: a.slot.Load() != 0,
			Running: running, Waiting: max(0, int(a.live.Load())-running)})
	}
	return out
}

// take finds the adapter that a request names and holds it until release.
func (r *adapters) take(name string) (*adapter, error) {
	if name == "" {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.known[name]
	if a == nil {
		return nil, fault.New(FieldAdapter, "%q is not loaded", name)
	}
	a.live.Add(1)
	return a, nil
}

// turn returns the number of the adapter that the sequence waits for a place of, if any.
func (q *sequence) turn() uint64 {
	if q.adapter == nil {
		return 0
	}
	return q.adapter.id
}

// release lets go of what a sequence that has ended holds: its constraint and its adapter.
func (q *sequence) release() {
	if q.constraint != nil {
		q.constraint.Close()
	}
	if q.adapter == nil {
		return
	}
	if q.ran {
		q.adapter.running.Add(-1)
	}
	q.adapter.live.Add(-1)
}

// vacate empties the slots of adapters that are unloaded and no longer used.
func (r *adapters) vacate() {
	for slot, a := range r.slots {
		if a != nil && a.gone.Load() && a.live.Load() == 0 {
			a.slot.Store(0)
			if err := r.put(slot, nil); err != nil {
				r.log.Error("an adapter's slot could not be emptied", "slot", slot, "error", err)
			}
		}
	}
}

// settle gives the adapters of a plan slots, in which those of the plan must not displace each other. failed is told
// of each sequence whose adapter cannot be placed.
func (r *adapters) settle(p *sched.Plan, of func(*sched.Work) *sequence, failed func(q *sequence, err error)) {
	if len(r.slots) == 1 { // the first is for no adapter
		return
	}
	r.steps++
	wants := false
	for i := range p.Seqs {
		if q := of(&p.Seqs[i]); q != nil && q.adapter != nil {
			q.adapter.used = r.steps
			wants = wants || q.adapter.slot.Load() == 0
		}
	}
	if !wants {
		return
	}
	var bad []*sequence
	var errs []error
	for i := range p.Seqs {
		q := of(&p.Seqs[i])
		if q == nil || q.adapter == nil || q.adapter.slot.Load() != 0 {
			continue
		}
		if err := r.admit(q.adapter); err != nil {
			bad, errs = append(bad, q), append(errs, fmt.Errorf("engine: adapter %q: %w", q.adapter.Name, err))
		}
	}
	for i, q := range bad { // which changes the plan
		failed(q, errs[i])
	}
}

// admit gives an adapter a slot: an empty one, or that of the adapter that was not used for longest, of those that no
// request needs, if there are such.
func (r *adapters) admit(a *adapter) error {
	best := 0
	for slot := 1; slot < len(r.slots); slot++ {
		if o := r.slots[slot]; o == nil {
			best = slot
			break
		} else if !o.Pinned && o.used != r.steps && (best == 0 || o.before(r.slots[best])) {
			best = slot
		}
	}
	if best == 0 {
		return fmt.Errorf("all %d slots are in use", len(r.slots)-1)
	}
	if old := r.slots[best]; old != nil {
		old.slot.Store(0)
	}
	return r.put(best, a)
}

// put fills or empties a slot with the next step.
func (r *adapters) put(slot int, a *adapter) error {
	r.slots[slot] = nil
	var data *model.Adapter
	if a != nil {
		data = a.Data
	}
	p, err := r.place(slot, data)
	if err != nil {
		return err
	}
	r.places = append(r.places, p)
	if r.slots[slot] = a; a != nil {
		a.slot.Store(int32(slot))
	}
	return nil
}

// placements appends what the next step has to place.
func (r *adapters) placements(to []compute.Placement) []compute.Placement {
	to = append(to, r.places...)
	clear(r.places)
	r.places = r.places[:0]
	return to
}

// before reports whether a should lose its slot before b.
func (a *adapter) before(b *adapter) bool {
	idle, busy := a.running.Load() == 0, b.running.Load() == 0
	if idle != busy {
		return idle
	}
	return cmp.Less(a.used, b.used)
}
