package kv

// EventKind says what has happened to contents of the cache.
type EventKind uint8

const (
	Stored  EventKind = iota // a block can be found by its name from now on
	Removed                  // it cannot any more
	Cleared                  // none can
)

// Event is one thing that has happened to what the cache can be searched for. Of a Removed block, Name and Group are
// told; of a Cleared cache nothing.
type Event struct {
	Kind         EventKind
	Group        int  // of layers
	Name, Parent Hash // Parent is zero where a sequence starts
	Keys         Keys // of the sequence; they are part of the name if it starts there
	Tokens       []int32
}

// events are those since they were drained last. Their tokens are copies, since a node's may be replaced meanwhile.
type events struct {
	list   []Event
	tokens []int32
}

// Events returns what has happened since it was called last, in order, if Config.Events is set. It is valid until the
// pool's next change.
func (p *Pool) Events() []Event {
	list := p.events.list
	p.events.list, p.events.tokens = list[:0], p.events.tokens[:0]
	return list
}

// stored notes that node n can be found for a group.
func (p *Pool) stored(n int32, group int) {
	if !p.cfg.Events {
		return
	}
	e := p.event(n, group)
	at := len(p.events.tokens)
	p.events.tokens = append(p.events.tokens, e.Tokens...)
	e.Tokens = p.events.tokens[at:len(p.events.tokens):len(p.events.tokens)]
	p.events.list = append(p.events.list, e)
}

// removed notes that node n cannot be found for a group any more.
func (p *Pool) removed(n int32, group int) {
	if x := &p.tree.nodes[n]; p.cfg.Events {
		p.events.list = append(p.events.list, Event{Kind: Removed, Group: group, Name: x.name})
	}
}

// cleared replaces the events from index first on, if nothing can be found now.
func (p *Pool) cleared(first int) {
	if p.cfg.Events && p.tree.index.n == 0 && len(p.events.list) > first {
		p.events.list = append(p.events.list[:first], Event{Kind: Cleared})
	}
}

// event describes node n as stored for a group.
func (p *Pool) event(n int32, group int) Event {
	x := &p.tree.nodes[n]
	return Event{Kind: Stored, Group: group, Name: x.name, Parent: x.before, Keys: x.keys, Tokens: p.tree.contents(n)}
}

// Snapshot returns the events that tell a newcomer what can be found now, those of a parent before those of what
// follows it. They share no memory with the pool.
func (p *Pool) Snapshot() []Event {
	var all []Event
	told := make([]bool, len(p.tree.nodes))
	var path []int32
	for n := range p.tree.named() {
		for path = path[:0]; n >= 0 && !told[n]; n = p.tree.nodes[n].parent {
			told[n] = true
			path = append(path, n)
		}
		for i := len(path) - 1; i >= 0; i-- {
			for g := range p.cfg.Groups {
				if p.tree.block(path[i], g) != none {
					e := p.event(path[i], g)
					e.Tokens = append([]int32(nil), e.Tokens...)
					all = append(all, e)
				}
			}
		}
	}
	return all
}
