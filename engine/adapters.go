package engine

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sampling"
)

// Adapter is a LoRA adapter that requests may name.
type Adapter struct {
	Name   string
	Source string // where it came from, for those who list adapters
	Data   *model.Adapter
	Pinned bool // it is on the device at all times; only those of Config can be
}

// AdapterStats is an adapter and who uses it.
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

// adapter is an Adapter in use. All adapters are in host memory; those that run have a slot on the device, too, and keep it
// until another needs it.
type adapter struct {
	Adapter
	id     uint64 // by which the scheduler tells those that take turns; 0 if pinned
	loaded time.Time

	live, running atomic.Int32 // requests taken; of them, those that have run
	gone          atomic.Bool  // unloaded: no request can name it any more
	slot          atomic.Int32 // 0 is none. Set by the loop.
	used          uint64       // the step that used it last. The loop's own.
}

// key names the adapter in the names of KV blocks: another adapter under the same name never finds its blocks.
func (a *adapter) key() string { return a.Name + "@" + hex.EncodeToString(a.Data.ID[:]) }

// longSalt ends the salt of sequences whose rotary embeddings are those of long ones.
const longSalt = "@long"

// likeKey reports whether a cache salt could be taken for an adapter's key.
func likeKey(salt string) bool {
	at := strings.LastIndexByte(salt, '@')
	id, err := hex.DecodeString(salt[at+1:])
	return at >= 0 && err == nil && len(id) == len(model.Adapter{}.ID)
}

// placePinned gives every pinned adapter its slot, before the engine runs.
func (e *Engine) placePinned() error {
	for _, a := range e.cfg.Adapters {
		if !a.Pinned {
			continue
		}
		if len(e.pinned) == e.cfg.Slots {
			return fmt.Errorf("engine: adapter %q is to be pinned; all %d slots hold a pinned one already", a.Name, e.cfg.Slots)
		}
		p := &adapter{Adapter: a, loaded: e.cfg.Now()}
		if e.adapters[a.Name] != nil {
			return fmt.Errorf("%w: %q", ErrAdapterExists, a.Name)
		}
		e.pinned = append(e.pinned, p)
		p.slot.Store(int32(len(e.pinned)))
		e.slots[len(e.pinned)], e.adapters[a.Name] = p, p
		if err := e.cfg.Place(len(e.pinned), a.Data); err != nil {
			return fmt.Errorf("engine: adapter %q: %w", a.Name, err)
		}
	}
	return nil
}

// Load makes an adapter known. One of the same name is an error, unless replace is set: then it is unloaded.
func (e *Engine) Load(a Adapter, replace bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	old := e.adapters[a.Name]
	switch {
	case e.closing:
		return ErrClosed
	case e.cfg.Slots == len(e.pinned):
		return fmt.Errorf("engine: adapter %q: of %d slots, pinned adapters hold %d", a.Name, e.cfg.Slots, len(e.pinned))
	case old != nil && old.Pinned:
		return fmt.Errorf("%w: %q", ErrAdapterPinned, a.Name)
	case old != nil && !replace:
		return fmt.Errorf("%w: %q", ErrAdapterExists, a.Name)
	case old != nil:
		old.gone.Store(true)
		e.wake()
	}
	e.loads++
	e.adapters[a.Name] = &adapter{Adapter: a, id: e.loads, loaded: e.cfg.Now()}
	return nil
}

// Unload makes an adapter unknown. Requests that were taken go on with it; when the last has ended it is forgotten.
func (e *Engine) Unload(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.adapters[name]
	switch {
	case a == nil:
		return fmt.Errorf("%w: %q", ErrNoAdapter, name)
	case a.Pinned:
		return fmt.Errorf("%w: %q", ErrAdapterPinned, name)
	}
	delete(e.adapters, name)
	a.gone.Store(true)
	e.wake()
	return nil
}

// Adapters returns the adapters that requests may name, in order of their names.
func (e *Engine) Adapters() []AdapterStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []AdapterStats
	for _, name := range slices.Sorted(maps.Keys(e.adapters)) {
		a := e.adapters[name]
		running := int(a.running.Load())
		out = append(out, AdapterStats{Adapter: a.Adapter, Loaded: a.loaded, OnDevice: a.slot.Load() != 0,
			Running: running, Waiting: max(0, int(a.live.Load())-running)})
	}
	return out
}

// take finds the adapter that a request names and holds it until release.
func (e *Engine) take(name string) (*adapter, error) {
	if name == "" {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.adapters[name]
	if a == nil {
		return nil, &sampling.ParamError{Field: "model", Problem: fmt.Sprintf("there is no adapter %q", name)}
	}
	a.live.Add(1)
	return a, nil
}

// keys returns what names the sequence's KV blocks beside its tokens.
func (q *sequence) keys() kv.Keys { return keysOf(q.adapter, q.req.Salt, q.long) }

// turn returns the number of the adapter that the sequence waits for a place of, if any.
func (q *sequence) turn() uint64 {
	if q.adapter == nil {
		return 0
	}
	return q.adapter.id
}

// release lets go of a sequence's adapter.
func (q *sequence) release() {
	if q.adapter == nil {
		return
	}
	if !q.scheduled.IsZero() {
		q.adapter.running.Add(-1)
	}
	q.adapter.live.Add(-1)
}

// vacate empties the slots of adapters that are unloaded and no longer used. Nothing computes meanwhile.
func (e *Engine) vacate() {
	for slot, a := range e.slots {
		if a != nil && a.gone.Load() && a.live.Load() == 0 {
			e.slots[slot] = nil
			a.slot.Store(0)
			if err := e.cfg.Place(slot, nil); err != nil {
				e.cfg.Logger.Error("an adapter's slot could not be emptied", "slot", slot, "error", err)
			}
		}
	}
}

// settle gives the adapters of the plan in hand slots, in which those of the plan must not displace each other. A request
// whose adapter cannot be placed ends with an error.
func (e *Engine) settle() {
	step := e.counts.Steps + 1
	for _, w := range e.plan.Seqs {
		if q := e.seqs[w.ID]; q != nil && q.adapter != nil {
			q.adapter.used = step
		}
	}
	for _, w := range e.plan.Seqs {
		q := e.seqs[w.ID]
		if q == nil || q.adapter == nil || q.adapter.slot.Load() != 0 {
			continue
		}
		if err := e.place(q.adapter, step); err != nil {
			e.fail(q, fmt.Errorf("engine: adapter %q: %w", q.adapter.Name, err))
		}
	}
}

// place gives an adapter a slot: an empty one, or that of the adapter that was not used for longest, of those that no
// request needs, if there are such.
func (e *Engine) place(a *adapter, step uint64) error {
	best := 0
	for slot := 1; slot < len(e.slots); slot++ {
		if o := e.slots[slot]; o == nil {
			best = slot
			break
		} else if !o.Pinned && o.used != step && (best == 0 || o.before(e.slots[best])) {
			best = slot
		}
	}
	if best == 0 {
		return fmt.Errorf("all %d slots are in use", e.cfg.Slots)
	}
	if old := e.slots[best]; old != nil {
		old.slot.Store(0)
	}
	e.slots[best] = nil
	if err := e.cfg.Place(best, a.Data); err != nil {
		return err
	}
	e.slots[best] = a
	a.slot.Store(int32(best))
	return nil
}

// before reports whether a should lose its slot before b.
func (a *adapter) before(b *adapter) bool {
	idle, busy := a.running.Load() == 0, b.running.Load() == 0
	if idle != busy {
		return idle
	}
	return cmp.Less(a.used, b.used)
}
