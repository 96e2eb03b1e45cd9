package residency

import (
	"cmp"
	"math"
	"slices"
)

// next decides what can happen now.
func (r *Residency) next(now int64) []Action {
	r.wake = Forever
	for _, m := range r.models {
		m.leaving = m.stopped
	}
	waiting := r.queue
	r.queue = nil
	var head *model // the first that is to be loaded
	var spare space // what it leaves to those behind it
	var huge *model // it does not fit beside pinned models
	for _, q := range waiting {
		m := q.model
		switch {
		case m.state == Resident && !m.leaving:
			r.admit(q)
			continue
		case m == huge:
			r.refuse(q.id, m, TooLarge)
			continue
		case m.state == Absent && head == nil:
			if spare = r.makeRoom(m, now); !spare.fits() {
				huge = m
				r.refuse(q.id, m, TooLarge)
				continue
			}
			head = m
		case m.state == Absent && m != head && spare.less(m).fits():
			if r.load(m, now) {
				spare = spare.less(m)
			}
		}
		r.queue = append(r.queue, q)
	}
	r.dismiss(now)
	r.forget(now)
	out := r.out
	r.out = nil
	return out
}

// admit lets a request use its model.
func (r *Residency) admit(q *request) {
	q.model.users++
	q.model.keep = q.keep
	r.using[q.id] = q
	r.out = append(r.out, Action{Verb: Admit, Model: q.model.name, Request: q.id})
}

// space is room for models. It is negative if there are too many.
type space struct {
	bytes  int64
	models int
}

func (s space) less(m *model) space { return space{s.bytes - m.size, s.models - 1} }
func (s space) plus(m *model) space { return space{s.bytes + m.size, s.models + 1} }
func (s space) fits() bool          { return s.bytes >= 0 && s.models >= 0 }

// all is the space that there is without any model.
func (r *Residency) all() space { return space{r.cfg.Memory, cmp.Or(r.cfg.Most, math.MaxInt)} }

// load begins to load m, if there is space for it and nothing else is being loaded.
func (r *Residency) load(m *model, now int64) bool {
	free := r.all()
	for _, other := range r.models {
		if other.state == Loading {
			return false
		}
		if other.state != Absent {
			free = free.less(other)
		}
	}
	if !free.less(m).fits() {
		return false
	}
	m.state, m.began, m.turn, m.stopped = Loading, now, 0, false
	r.out = append(r.out, Action{Verb: Load, Model: m.name, Room: free.bytes})
	return true
}

// makeRoom loads m, or marks the models that leave for it. It returns the space that is left once m is in memory, and
// space that does not fit if m cannot be had beside pinned models.
func (r *Residency) makeRoom(m *model, now int64) space {
	if r.load(m, now) {
		return space{} // another one is not loaded meanwhile
	}
	left := r.all().less(m)
	var stay []*model // those that may be made to leave
	for _, other := range r.models {
		switch {
		case other.state == Loading: // when it is there, others may be idle
			return space{}
		case other.state == Resident && !other.leaving:
			left = left.less(other)
			if !other.pinned {
				stay = append(stay, other)
			}
		}
	}
	slices.SortFunc(stay, func(a, b *model) int { return a.leavesBefore(b, now) })
	var leave []*model
	for _, v := range stay {
		if !left.fits() {
			leave = append(leave, v)
			left = left.plus(v)
		}
	}
	leave = slices.DeleteFunc(leave, func(v *model) bool { // which the larger ones after it make unnecessary
		needless := left.less(v).fits()
		if needless {
			left = left.less(v)
		}
		return needless
	})
	for _, v := range leave {
		if v.turn > now {
			r.wake = max(r.wake, v.turn)
		}
	}
	for _, v := range leave {
		v.leaving = r.wake == Forever
	}
	return left
}

// leavesBefore orders models: those whose turn is over, the idle ones, the least recently used ones first.
func (m *model) leavesBefore(other *model, now int64) int {
	return cmp.Or(
		order(m.turn > now, other.turn > now), order(m.users > 0, other.users > 0),
		cmp.Compare(m.used, other.used), cmp.Compare(m.name, other.name))
}

// order puts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// dismiss closes idle models that are to leave, or whose time is over.
func (r *Residency) dismiss(now int64) {
	var leave []*model
	for _, m := range r.models {
		if e := m.expires(); m.idle() && (m.leaving || e != Forever && e <= now) {
			leave = append(leave, m)
		}
	}
	slices.SortFunc(leave, func(a, b *model) int { return cmp.Compare(a.name, b.name) })
	for _, m := range leave {
		if m.leaving && !m.stopped {
			m.left = now
		}
		m.state, m.stopped = Closing, false
		r.out = append(r.out, Action{Verb: Close, Model: m.name})
	}
}

// forget drops what is no longer needed of absent models.
func (r *Residency) forget(now int64) {
	for name, m := range r.models {
		waited := slices.ContainsFunc(r.queue, func(q *request) bool { return q.model == m })
		recent := m.left != Forever && now-m.left <= soon || m.failed != Forever && now < m.failed+failPause
		if m.state == Absent && !waited && !recent {
			delete(r.models, name)
		}
	}
}
