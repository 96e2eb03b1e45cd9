package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

// Mover is a Runner whose blocks can be stored elsewhere. It is used by one goroutine at a time, never during Forward.
type Mover interface {
	BlockBytes() int
	PackBlock(block int32, dst []byte) // writes BlockBytes bytes
	UnpackBlock(block int32, src []byte)
	CopyBlock(from, to int32)
}

// Tiers say where blocks go that the Runner's cache has no place for. The zero value is nowhere.
type Tiers struct {
	HostBytes int64  // memory, besides the Runner's; 0: none
	Dir       string // of a file, which outlives the engine; "": none
	DiskBytes int64  // its size
	// Model says what the contents of blocks depend on beside their names: weights, types, shapes. A file that was made for
	// another is refused.
	Model string
	// Always loads whatever is found. Otherwise it is measured what computing and loading take, and the faster is done.
	Always bool
}

// tiers carry out what the scheduler's plans say about blocks of the lower tiers. A nil one has nothing to do.
type tiers struct {
	always bool
	mover  Mover
	host   *tier.Host
	disk   *tier.Disk

	stores, loads []kv.Move // of the step in hand
	data          [][]byte  // of loads
	buffers       [][]byte  // for those from the disk
	failed        []kv.Move // stores that were not made
	loaded        [kv.Tiers]int
	took          [kv.Tiers]time.Duration
	rates         kv.Rates
}

// newTiers opens the tiers and tells the scheduler's configuration how large they are.
func newTiers(cfg *Config) (t *tiers, err error) {
	o := cfg.Tiers
	if o.HostBytes == 0 && o.Dir == "" {
		return nil, nil
	}
	mover, ok := cfg.Runner.(Mover)
	if !ok {
		return nil, fmt.Errorf("engine: config: tiers need a Runner that is a Mover; %T is none", cfg.Runner)
	}
	t = &tiers{mover: mover, always: o.Always}
	size := mover.BlockBytes()
	if o.HostBytes != 0 {
		if o.HostBytes < int64(size) {
			return nil, fmt.Errorf("engine: %d bytes of memory for KV blocks of %d", o.HostBytes, size)
		}
		t.host = tier.NewHost(o.HostBytes, size)
		cfg.Sched.Slots[kv.Host] = t.host.Slots()
	}
	if o.Dir != "" {
		if t.disk, err = tier.OpenDisk(o.Dir, o.DiskBytes, size, o.Model); err != nil {
			return nil, err
		}
		cfg.Sched.Slots[kv.Disk] = t.disk.Slots()
	}
	return t, nil
}

// adopt tells a new scheduler what the tiers hold.
func (t *tiers) adopt(s *sched.Scheduler) {
	if t == nil {
		return
	}
	t.stores, t.loads, t.data, t.failed = t.stores[:0], t.loads[:0], t.data[:0], t.failed[:0]
	tell := func(tier kv.Tier, names []kv.Name) {
		for at, name := range names {
			if name != (kv.Name{}) {
				s.Adopt(name, kv.Place{Tier: tier, At: int32(at)})
			}
		}
	}
	if t.host != nil {
		tell(kv.Host, t.host.Names())
	}
	if t.disk != nil {
		tell(kv.Disk, t.disk.Names())
	}
}

// prepare gets what a plan moves to the device, before it is packed. What cannot be had, or is not as it was stored, the
// scheduler hears of.
func (t *tiers) prepare(s *sched.Scheduler, p *sched.Plan, now func() time.Time, log *slog.Logger) {
	if t == nil {
		return
	}
	t.stores, t.loads, t.data = t.stores[:0], t.loads[:0], t.data[:0]
	for _, m := range p.Moves {
		if m.To.Tier != kv.Device {
			t.stores = append(t.stores, m)
			continue
		}
		begin := now()
		data, err := t.get(m)
		if err != nil {
			log.Warn("a stored KV block is lost, and computed anew", "error", err)
			s.Lost(p, m)
			continue
		}
		t.loads, t.data = append(t.loads, m), append(t.data, data)
		t.took[m.From.Tier] += now().Sub(begin)
		t.loaded[m.From.Tier]++
	}
}

// get returns what is stored under the name of a move, verified.
func (t *tiers) get(m kv.Move) ([]byte, error) {
	if m.From.Tier == kv.Host {
		return t.host.Get(m.From.At, m.Name)
	}
	i := len(t.loads)
	for len(t.buffers) <= i {
		t.buffers = append(t.buffers, nil)
	}
	if t.buffers[i] == nil {
		t.buffers[i] = make([]byte, t.mover.BlockBytes())
	}
	return t.buffers[i], t.disk.Get(m.From.At, m.Name, t.buffers[i])
}

// carry makes the moves of the step in hand: those from the device come first, then the batch's copies, then those to it.
func (t *tiers) carry(b *compute.Batch) {
	if t == nil {
		return
	}
	for _, m := range t.stores {
		if !t.store(m) {
			t.failed = append(t.failed, m)
		}
	}
	t.stores = t.stores[:0]
	if len(t.loads) == 0 {
		return
	}
	for _, c := range b.Copies {
		t.mover.CopyBlock(c[0], c[1])
	}
	b.Copies = b.Copies[:0]
	for i, m := range t.loads {
		begin := time.Now()
		t.mover.UnpackBlock(m.To.At, t.data[i])
		t.took[m.From.Tier] += time.Since(begin)
	}
	t.loads, t.data = t.loads[:0], t.data[:0]
}

// store makes a move to a lower tier.
func (t *tiers) store(m kv.Move) bool {
	fill := func(dst []byte) { t.mover.PackBlock(m.From.At, dst) }
	if m.From.Tier == kv.Host {
		data, err := t.host.Get(m.From.At, m.Name)
		if err != nil {
			return false
		}
		fill = func(dst []byte) { copy(dst, data) }
	}
	if m.To.Tier == kv.Host {
		t.host.Put(m.To.At, m.Name, fill)
		return true
	}
	return t.disk.Put(m.To.At, m.Name, fill)
}

// measuredRows is how many rows a step must have, most of them of prompts, to tell what computing a token of one takes.
const measuredRows = 32

// computed hears how long a batch took.
func (t *tiers) computed(b *compute.Batch, d time.Duration) {
	if t == nil || b.Rows() < measuredRows || b.Rows() < 8*len(b.Seqs) {
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

// settle tells the scheduler how a step's moves went, and returns what was measured.
func (t *tiers) settle(s *sched.Scheduler, p *sched.Plan) kv.Rates {
	if t == nil {
		return kv.Rates{}
	}
	for _, m := range t.failed {
		s.Lost(p, m)
	}
	t.failed = t.failed[:0]
	for tier, n := range t.loaded {
		if n > 0 {
			average(&t.rates.Block[tier], t.took[tier], n)
		}
		t.loaded[tier], t.took[tier] = 0, 0
	}
	if !t.always {
		s.Measured(t.rates)
	}
	return t.rates
}

// flush stores on the disk what is only in faster tiers.
func (t *tiers) flush(s *sched.Scheduler) {
	if t == nil || t.disk == nil {
		return
	}
	for _, m := range s.Flush() {
		if !t.store(m) && t.disk.Err() == nil {
			t.disk.Sync()
			t.store(m)
		}
	}
}

// close frees what the tiers hold.
func (t *tiers) close() error {
	if t == nil || t.disk == nil {
		return nil
	}
	return t.disk.Close()
}
