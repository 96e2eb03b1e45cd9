// Package residency decides which models are in memory: which one is loaded next, which ones leave for it, and which
// requests wait meanwhile. It is told what happens and says what to do, and knows nothing of checkpoints, devices, HTTP
// or clocks: times are milliseconds since any moment that its caller chooses. Read Residency first.
package residency

import (
	"cmp"
	"slices"
)

// Config is what a Residency goes by.
type Config struct {
	// Memory is what all models may take together, in bytes.
	Memory int64
	// Most is how many models may be in memory at once. 0 is any number.
	Most int
}

// Forever, as the time that a model stays after its last request, keeps it until its memory is needed.
const Forever = -1

// A model that comes back soon after it has left for another one gets a turn: it stays for at least twice the time that
// its loading took, within these bounds, though others wait for its memory. Models that do not fit together then spend
// at most a third of the time being loaded, however their requests alternate.
const (
	minTurn   = 1_000
	maxTurn   = 60_000
	soon      = 300_000 // after leaving, a request for the model counts as coming back
	failPause = 10_000  // after a failed load, in which requests for the model are refused at once
)

// Want is a request for a model.
type Want struct {
	Model  string
	Size   int64 // bytes that the model takes, as far as is known before it is loaded
	Keep   int64 // how long it stays after the request, in milliseconds; Forever is until its memory is needed
	Pinned bool  // it stays until Stop
}

// Verb is what an Action does.
type Verb int

const (
	Admit  Verb = iota // the request may use its model, until Done
	Refuse             // the request's model cannot be had: Reason says why
	Load               // load the model within Room bytes, then call Loaded or Failed
	Close              // take the model out of memory, then call Closed
)

// Reason is why a request is refused.
type Reason int

const (
	TooLarge Reason = iota // it does not fit, with nothing but pinned models beside it
	broken                 // loading it failed, just now or a moment ago
)

// Action is something that the caller has to do.
type Action struct {
	Verb    Verb
	Model   string
	Request uint64 // of Admit and Refuse
	Room    int64  // of Load: bytes that others leave
	Reason  Reason // of Refuse
}

// State is where a model is.
type State int

const (
	Absent State = iota
	Loading
	Resident
	Closing
)

// Status describes a model that is not absent, or that requests wait for.
type Status struct {
	Model   string
	State   State
	Size    int64 // bytes
	Running int   // requests that use it
	Waiting int   // requests that wait for it
	Pinned  bool
	Leaves  int64 // when it leaves if no request comes; Forever is not before its memory is needed
}

// Residency is the state machine. Each method is told something that has happened, and when, and returns what is to be
// done, in that order. Times never decrease.
//
// Requests are served in the order of their arrival, with these exceptions. A request for a model that is in memory
// does not wait, unless the model is about to leave. A model that was loaded takes all requests that have waited for
// it, those behind requests for other models included. One model is loaded at a time, and one that fits beside all that
// is in memory or about to be does not wait for requests of others to end.
//
// When a model does not fit, the least recently used idle ones leave for it; if these are not enough, also busy ones:
// they take no new requests, and leave when the last one has ended. A request for a model that is about to leave waits
// until its own turn comes, so that none is put off for ever.
type Residency struct {
	cfg    Config
	models map[string]*model
	queue  []*request // that wait, in the order of their arrival
	using  map[uint64]*request
	wake   int64 // when a turn ends that the first of the queue waits for; Forever is not known
	out    []Action
}

type model struct {
	name    string
	size    int64
	state   State
	pinned  bool
	users   int
	keep    int64
	used    int64 // when the last request came or ended
	began   int64 // being loaded
	turn    int64 // until when it stays though others want its memory
	left    int64 // when it last left for another one; Forever is never
	failed  int64 // when loading it failed last; Forever is never
	stopped bool  // it is to leave, and so are those that are marked for the first of the queue:
	leaving bool
}

type request struct {
	id    uint64
	model *model
	keep  int64
}

// New returns a Residency without models.
func New(cfg Config) *Residency {
	return &Residency{cfg: cfg, models: map[string]*model{}, using: map[uint64]*request{}, wake: Forever}
}

// Ask tells of a request, whose id no other has that still waits or runs.
func (r *Residency) Ask(id uint64, w Want, now int64) []Action {
	m := r.models[w.Model]
	if m == nil {
		m = &model{name: w.Model, left: Forever, failed: Forever}
		r.models[w.Model] = m
	}
	if m.state == Absent {
		m.size, m.keep = w.Size, w.Keep
	}
	m.pinned, m.used = w.Pinned, now
	switch {
	case m.state == Absent && m.failed != Forever && now < m.failed+failPause:
		r.refuse(id, m, broken)
	case m.state == Absent && m.size > r.cfg.Memory:
		r.refuse(id, m, TooLarge)
	default:
		r.queue = append(r.queue, &request{id, m, w.Keep})
	}
	return r.next(now)
}

func (r *Residency) refuse(id uint64, m *model, why Reason) {
	r.out = append(r.out, Action{Verb: Refuse, Model: m.name, Request: id, Reason: why})
}

// Done tells that a request has ended, or that its client no longer waits.
func (r *Residency) Done(id uint64, now int64) []Action {
	if q := r.using[id]; q != nil {
		delete(r.using, id)
		q.model.users--
		q.model.used, q.model.keep = now, q.keep
	}
	r.queue = slices.DeleteFunc(r.queue, func(q *request) bool { return q.id == id })
	return r.next(now)
}

// Loaded tells that a model is in memory, and how many bytes it takes.
func (r *Residency) Loaded(name string, size, now int64) []Action {
	m := r.models[name]
	m.state, m.size, m.failed = Resident, size, Forever
	if m.left != Forever && m.began-m.left <= soon {
		m.turn = now + min(max(2*(now-m.began), minTurn), maxTurn)
	}
	m.used = now
	r.queue = slices.DeleteFunc(r.queue, func(q *request) bool {
		if q.model == m {
			r.admit(q)
		}
		return q.model == m
	})
	return r.next(now)
}

// Failed tells that a model could not be loaded.
func (r *Residency) Failed(name string, now int64) []Action {
	m := r.models[name]
	m.state, m.failed = Absent, now
	r.queue = slices.DeleteFunc(r.queue, func(q *request) bool {
		if q.model == m {
			r.refuse(q.id, m, broken)
		}
		return q.model == m
	})
	return r.next(now)
}

// Closed tells that a model is out of memory.
func (r *Residency) Closed(name string, now int64) []Action {
	r.models[name].state = Absent
	return r.next(now)
}

// Stop makes a model leave when its requests have ended, pinned or not. Requests that come later load it again.
func (r *Residency) Stop(name string, now int64) []Action {
	if m := r.models[name]; m != nil && (m.state == Resident || m.state == Loading) {
		m.stopped = true
	}
	return r.next(now)
}

// Tick tells only the time.
func (r *Residency) Tick(now int64) []Action { return r.next(now) }

// Wake returns when Tick is due. ok is false if nothing happens by itself.
func (r *Residency) Wake() (at int64, ok bool) {
	at = r.wake
	for _, m := range r.models {
		if t := m.expires(); t != Forever && m.idle() && (at == Forever || t < at) {
			at = t
		}
	}
	return at, at != Forever
}

// Known returns the size of a model that is in memory or being loaded.
func (r *Residency) Known(name string) (size int64, ok bool) {
	m := r.models[name]
	if m == nil || m.state == Absent {
		return 0, false
	}
	return m.size, true
}

// Models describes all that are not absent or are waited for, in the order of their names.
func (r *Residency) Models() []Status {
	var all []Status
	for _, m := range r.models {
		s := Status{Model: m.name, State: m.state, Size: m.size, Running: m.users, Pinned: m.pinned, Leaves: m.expires()}
		for _, q := range r.queue {
			if q.model == m {
				s.Waiting++
			}
		}
		if m.state != Absent || s.Waiting > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Model, b.Model) })
	return all
}

func (m *model) idle() bool { return m.state == Resident && m.users == 0 }

// expires returns when m leaves by itself; Forever is never.
func (m *model) expires() int64 {
	if m.state != Resident || m.pinned || m.keep == Forever {
		return Forever
	}
	return m.used + m.keep
}
