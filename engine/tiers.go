package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// Tiers say where blocks go that the Runner's cache has no place for. The zero value is nowhere.
type Tiers struct {
	List []tier.Spec // the fastest first
	// Model says what the contents of blocks depend on beside their names: weights, types, shapes. What a durable tier
	// stored for another is not used.
	Model string
	// Layouts describe the Runner's blocks, as in tier.Options.
	Layouts []compute.Layout
	// Always loads whatever is found. Otherwise it is measured what computing and loading take, and the faster is done.
	Always bool
}

// tiers carry out what the scheduler's plans say about blocks of the lower tiers. A nil one has nothing to do.
type tiers struct {
	always  bool
	size    int                 // bytes of a block
	list    []level             // by kv.Tier, from 1
	here    map[kv.Name]arrived // what slow tiers have yielded for sequences that wait
	deliver func(arrived)       // takes what they yield later, on any goroutine

	now func() time.Time
	log *slog.Logger

	pinner compute.Pinner // nil: the Runner has none, or could not pin memory
	known  map[*byte]bool // pieces of memory that it knows

	batch  compute.Batch    // of moves alone
	rushed int              // plans that loaded since one was measured
	loads  [kv.MaxTiers]int // of the steps under way
	took   [kv.MaxTiers]time.Duration
	rates  kv.Rates
}

// level is a tier with what kind it is.
type level struct {
	tier.Tier
	kind   tier.Kind
	memory tier.Memory // nil: it is not in memory that answers at once
}

// arrived is a block that a slow tier was asked for, or why it is not there.
type arrived struct {
	move kv.Move
	data []byte
	took time.Duration
	err  error
}

// newTiers opens the tiers and tells the scheduler's configuration what they are.
func newTiers(cfg *Config) (*tiers, error) {
	if len(cfg.Tiers.List) == 0 {
		return nil, nil
	}
	t := &tiers{size: cfg.Runner.BlockBytes(), here: map[kv.Name]arrived{}, always: cfg.Tiers.Always, now: cfg.Now, log: cfg.Logger}
	cfg.Sched.Tiers = nil
	for _, spec := range cfg.Tiers.List {
		kind, err := tier.KindOf(spec)
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		l, err := kind.Open(tier.Options{Spec: spec, Block: t.size, Layouts: cfg.Tiers.Layouts, Model: cfg.Tiers.Model, Log: cfg.Logger})
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		memory, _ := l.(tier.Memory)
		if kind.Slow {
			memory = nil
		}
		t.list = append(t.list, level{l, kind, memory})
		cfg.Sched.Tiers = append(cfg.Sched.Tiers, kv.TierConfig{Slots: l.Slots(), Slow: kind.Slow, Durable: kind.Durable, Landing: kind.Landing})
	}
	return t, nil
}

// at returns the tier that a move comes from or goes to.
func (t *tiers) at(n kv.Tier) *level { return &t.list[n-1] }

// use takes a Runner in place of the one before, which knew what it knew.
func (t *tiers) use(r Runner) {
	if t != nil {
		t.pinner, _ = r.(compute.Pinner)
		t.known = map[*byte]bool{}
	}
}

// place returns the memory of a slot, if the device copies to and from it as it is: the Runner gets to know it piece by
// piece, as slots are used.
func (t *tiers) place(at kv.Place) []byte {
	l := t.at(at.Tier)
	if l.memory == nil {
		return nil
	}
	data, piece := l.memory.Memory(at.At)
	if t.known[&piece[0]] {
		return data
	}
	if t.pinner == nil {
		return nil
	}
	if err := t.pinner.Pin(piece); err != nil {
		if t.pinner = nil; !errors.Is(err, errors.ErrUnsupported) {
			t.log.Warn("memory for KV blocks could not be pinned; its blocks are copied twice", "error", err, "bytes", len(piece), "pinned pieces", len(t.known))
		}
		return nil
	}
	t.known[&piece[0]] = true
	return data
}

// adopt tells a new scheduler what the tiers hold.
func (t *tiers) adopt(s *sched.Scheduler) {
	if t == nil {
		return
	}
	for i := range t.list {
		if t.list[i].kind.Landing {
			continue // no sequence waits for it any more
		}
		for at, name := range t.list[i].Names() {
			if name != (kv.Name{}) {
				s.Adopt(name, kv.Place{Tier: kv.Tier(i + 1), At: int32(at)})
			}
		}
	}
}

// transfers are the moves of a plan between the device and lower tiers.
type transfers struct {
	stores  []kv.Move // from the device
	stored  [][]byte  // their contents, once the step has run
	loads   []kv.Move // to the device
	loaded  [][]byte  // their contents
	buffers [][]byte  // for those from the device, from tiers that answer at once and between tiers; kept from step to step
	used    int       // of these
	pinner  compute.Pinner
	reads   []kv.Move // what slow tiers are to be asked for when the step is done, which may store some of it
}

// buffer returns memory for one more block.
func (m *transfers) buffer(size int) []byte {
	if m.used == len(m.buffers) {
		var b []byte
		if m.pinner != nil {
			b = m.pinner.Pinned(size)
		}
		if b == nil {
			b = make([]byte, size)
		}
		m.buffers = append(m.buffers, b)
	}
	m.used++
	return m.buffers[m.used-1]
}

// pack puts the moves into the batch of their step.
func (m *transfers) pack(b *compute.Batch) {
	for i, move := range m.stores {
		b.Out = append(b.Out, compute.Transfer{Block: move.From.At, Data: m.stored[i]})
	}
	for i, move := range m.loads {
		b.In = append(b.In, compute.Transfer{Block: move.To.At, Data: m.loaded[i]})
	}
}

// fetch gets what a plan moves to the device, before it begins, and makes the moves between lower tiers. What is
// lost, or not as it was stored, the scheduler is told of. What slow tiers hold is here already.
func (t *tiers) fetch(s *sched.Scheduler, p *sched.Plan, steps *stepper) {
	if t == nil {
		return
	}
	m := &steps.free().moves
	clear(m.loaded)
	m.stores, m.stored, m.loads, m.loaded, m.reads = m.stores[:0], m.stored[:0], m.loads[:0], m.loaded[:0], m.reads[:0]
	m.used = 0
	for _, move := range p.Moves {
		switch {
		case move.To.Tier == kv.Device:
			data, err := t.load(move, m)
			if err != nil {
				t.lost(s, p, move, err)
				continue
			}
			m.loads, m.loaded = append(m.loads, move), append(m.loaded, data)
		case move.From.Tier == kv.Device:
			m.stored = append(m.stored, t.room(move.To, m, steps))
			m.stores = append(m.stores, move)
		default:
			data := m.buffer(t.size)
			if t.get(move, data) != nil || steps.moves(move.To) || !t.store(move, data) {
				s.Lost(p, move)
			}
			m.used--
		}
	}
}

// room returns memory for a block that a step stores in a place: the place's own, unless a step under way reads or
// writes that.
func (t *tiers) room(to kv.Place, m *transfers, steps *stepper) []byte {
	if !steps.moves(to) {
		if data := t.place(to); data != nil {
			t.at(to.Tier).memory.Vacate(to.At)
			return data
		}
	}
	return m.buffer(t.size)
}

// load returns what is stored under the name of a move to the device, verified, and notes how long reading it took.
func (t *tiers) load(move kv.Move, m *transfers) (data []byte, err error) {
	from := move.From.Tier
	if t.at(from).kind.Slow {
		a, ok := t.here[move.Name]
		if !ok {
			return nil, fmt.Errorf("engine: the block %v is to be loaded, but was not read", move.Name)
		}
		t.took[from] += a.took
		data = a.data
	} else if data = t.place(move.From); data != nil { // where it is, which takes no time
		if err := t.get(move, data); err != nil {
			return nil, err
		}
	} else {
		begin := t.now()
		data = m.buffer(t.size)
		if err := t.get(move, data); err != nil {
			return nil, err
		}
		t.took[from] += t.now().Sub(begin)
	}
	t.loads[from]++
	return data, nil
}

// get copies what a tier that answers at once has stored for a move.
func (t *tiers) get(m kv.Move, dst []byte) error {
	from := t.at(m.From.Tier)
	answer, err := from.Get(m.From.At, m.Name, dst, func(time.Duration, error) {})
	if err == nil && answer != tier.Hit {
		err = fmt.Errorf("engine: a tier of the kind %q did not answer at once", from.kind.Name)
	}
	return err
}

// lost tells the scheduler that a move to the device cannot be made.
func (t *tiers) lost(s *sched.Scheduler, p *sched.Plan, m kv.Move, err error) {
	t.log.Warn("a stored KV block is lost, and computed anew", "error", err)
	s.Lost(p, m)
}

// ask asks slow tiers for what waiting sequences need, once the newest step under way is done, if there is one: what
// it and those before it store is there then. It reports whether a tier has answered at once, so that sequences that
// wait may go on.
func (t *tiers) ask(s *sched.Scheduler, newest *step) (answered bool) {
	if t == nil {
		return false
	}
	if newest != nil {
		newest.moves.reads = s.Fetches(newest.moves.reads)
		return false
	}
	return t.read(s, s.Fetches(nil))
}

// read asks slow tiers for blocks, and reports whether one has answered at once. None of them keeps the loop waiting.
func (t *tiers) read(s *sched.Scheduler, moves []kv.Move) (answered bool) {
	for _, m := range moves {
		data, deliver := make([]byte, t.size), t.deliver
		done := func(took time.Duration, err error) { deliver(arrived{m, data, took, err}) }
		begin := t.now()
		answer, err := t.at(m.From.Tier).Get(m.From.At, m.Name, data, done)
		if answer != tier.Pending {
			answered = true
			t.arrive(s, arrived{m, data, t.now().Sub(begin), err})
		}
	}
	return answered
}

// arrive takes what a slow tier has answered.
func (t *tiers) arrive(s *sched.Scheduler, a arrived) {
	if a.err != nil {
		t.lost(s, nil, a.move, a.err)
	} else if s.Arrived(a.move) {
		t.here[a.move.Name] = a
	}
}

// sweep drops what has arrived and no sequence waits for any more. No plan that needs it is to be fetched.
func (t *tiers) sweep(s *sched.Scheduler) {
	if t == nil {
		return
	}
	for name := range t.here {
		if !s.Expected(name) {
			delete(t.here, name)
		}
	}
}

// storing reports whether a plan moves what a step under way is yet to store in a lower tier.
func (t *stepper) storing(p *sched.Plan) bool {
	for i := range t.n {
		for _, stored := range t.ring[(t.oldest+i)%2].moves.stores {
			if slices.ContainsFunc(p.Moves, func(m kv.Move) bool { return m.From == stored.To }) {
				return true
			}
		}
	}
	return false
}

// moves reports whether a step under way moves a block to or from a place of a lower tier.
func (t *stepper) moves(at kv.Place) bool {
	for i := range t.n {
		m := &t.ring[(t.oldest+i)%2].moves
		if slices.ContainsFunc(m.stores, func(m kv.Move) bool { return m.To == at }) ||
			slices.ContainsFunc(m.loads, func(m kv.Move) bool { return m.From == at }) {
			return true
		}
	}
	return false
}

// mostRushed is how many plans in a row load blocks without being measured.
const mostRushed = 16

// curious reports whether what loading takes is to be measured with a plan, for which no step may be under way.
func (t *tiers) curious(p *sched.Plan) bool {
	return t != nil && !t.always && slices.ContainsFunc(p.Moves, func(m kv.Move) bool {
		return m.To.Tier == kv.Device && (t.rushed >= mostRushed || t.rates.Block[m.From.Tier] == 0)
	})
}

// measure makes the moves of a step that loads blocks before it starts, if that is to be measured and no other step is
// under way, and notes what they take. What it could not do stays in the batch. Other moves are the batch's, so that
// nothing waits for them, and are not measured.
func (t *tiers) measure(s *step, r Runner, alone bool) {
	b := &s.batch
	if len(b.In) == 0 {
		return
	}
	due := t.rushed >= mostRushed || slices.ContainsFunc(s.moves.loads, func(m kv.Move) bool { return t.rates.Block[m.From.Tier] == 0 })
	if t.rushed++; !alone || !due {
		t.loads, t.took = [kv.MaxTiers]int{}, [kv.MaxTiers]time.Duration{}
		return
	}
	t.batch.Shifts, t.batch.Out, t.batch.Copies, t.batch.In = b.Shifts, b.Out, b.Copies, b.In
	begin := t.now()
	step, err := r.Start(&t.batch)
	if err == nil {
		err = step.Wait()
	}
	b.Shifts, b.Out, b.Copies, b.In = t.batch.Shifts, t.batch.Out, t.batch.Copies, t.batch.In
	if t.rushed = 0; err == nil {
		t.took[s.moves.loads[0].From.Tier] += t.now().Sub(begin)
	}
}

// stored takes the blocks that a step brought from the device to their tiers, and tells the scheduler which did not
// arrive and what was measured. Then slow tiers are asked for what waited for the step.
func (t *tiers) stored(s *sched.Scheduler, st *step) kv.Rates {
	if t == nil {
		return kv.Rates{}
	}
	for i, m := range st.moves.stores {
		if len(st.batch.Out) > 0 || !t.store(m, st.moves.stored[i]) { // the step failed, or the tier
			s.Lost(st.plan, m)
		}
	}
	for _, m := range st.moves.loads {
		if t.at(m.From.Tier).kind.Landing {
			s.Withdraw(m.Name, m.From)
		}
	}
	t.read(s, st.moves.reads)
	for tier, n := range t.loads {
		if n > 0 {
			average(&t.rates.Block[tier], t.took[tier], n)
		}
		t.loads[tier], t.took[tier] = 0, 0
	}
	if !t.always {
		s.Measured(t.rates)
	}
	return t.rates
}

// store puts a block into a lower tier.
func (t *tiers) store(m kv.Move, data []byte) bool {
	return t.at(m.To.Tier).Put(m.To.At, m.Name, data)
}

// measuredRows is how many rows a step must have, most of them of prompts, to tell what computing a token of one takes.
const measuredRows = 32

// computed hears how long a step took. One that loads blocks may have waited for them.
func (t *tiers) computed(s *step, d time.Duration) {
	b := &s.batch
	if t == nil || len(s.moves.loads) > 0 || b.Rows() < measuredRows || b.Rows() < 8*len(b.Seqs) {
		return
	}
	average(&t.rates.Token, d, b.Rows())
}

// average moves an average of nanoseconds towards the latest.
func average(to *int64, d time.Duration, n int) {
	latest := max(1, d.Nanoseconds()/int64(n))
	if *to == 0 {
		*to = latest
	}
	*to += (latest - *to) / 8
}

// flush stores in a durable tier what is only in faster ones. No step is under way.
func (t *tiers) flush(s *sched.Scheduler, r Runner) {
	if t == nil {
		return
	}
	data := make([]byte, t.size)
	shifts, moves := s.Flush()
	b := compute.Batch{Shifts: shiftsOf(shifts, nil)}
	for _, m := range moves {
		if t.contents(m, r, data, &b) == nil && !t.store(m, data) && t.at(m.To.Tier).Sync() == nil {
			t.store(m, data)
		}
	}
}

// contents copies what a move to another tier takes there, with a batch that may have Shifts left to do. It waits for a
// slow tier.
func (t *tiers) contents(m kv.Move, r Runner, dst []byte, b *compute.Batch) error {
	if m.From.Tier != kv.Device {
		read := make(chan error, 1)
		answer, err := t.at(m.From.Tier).Get(m.From.At, m.Name, dst, func(_ time.Duration, err error) { read <- err })
		if answer == tier.Pending {
			err = <-read
		}
		return err
	}
	b.Out = append(b.Out[:0], compute.Transfer{Block: m.From.At, Data: dst})
	step, err := r.Start(b)
	if err != nil {
		return err
	}
	return step.Wait()
}

// close frees what the tiers hold.
func (t *tiers) close() (err error) {
	if t == nil {
		return nil
	}
	for i := range t.list {
		err = errors.Join(err, t.list[i].Close())
	}
	return err
}

// errors returns how many blocks could not be written to a tier, of those that count them. Any goroutine may ask.
func (t *tiers) errors(of kv.Tier) uint64 {
	if counts, ok := t.list[of-1].Tier.(interface{ Errors() uint64 }); ok {
		return counts.Errors()
	}
	return 0
}
