package engine

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

func newTape() *tape {
	return &tape{known: map[prefix][]float32{}, packed: map[[32]byte][]*past{}}
}

func (l *listener) held(block int32) []*past { return l.slots[block*l.blockTokens:][:l.blockTokens] }

// move moves what slots hold, as a batch says. It knows stored blocks by their contents.
func (l *listener) move(b *compute.Batch) {
	for _, sh := range b.Shifts {
		l.held(sh.To)[sh.ToAt] = l.held(sh.From)[sh.FromAt]
		l.shifted++
	}
	for _, t := range b.Out {
		l.packed[sha256.Sum256(t.Data)] = slices.Clone(l.held(t.Block))
	}
	for _, c := range b.Copies {
		copy(l.held(c[1]), l.held(c[0]))
	}
	for _, t := range b.In {
		known, ok := l.packed[sha256.Sum256(t.Data)]
		if !ok {
			l.tape.t.Errorf("block %d is loaded with what was never stored", t.Block)
		}
		copy(l.held(t.Block), known)
	}
}

// Kinds of tiers for these tests: neither the engine nor the scheduler knows of them.
func init() {
	tier.Register(tier.Kind{Name: "damaged", Open: func(o tier.Options) (tier.Tier, error) {
		return &damaged{Tier: tier.NewHost(o.Bytes, o.Block)}, nil
	}})
	tier.Register(tier.Kind{Name: "remote", Slow: true, Open: func(o tier.Options) (tier.Tier, error) {
		return &remote{Host: tier.NewHost(o.Bytes, o.Block)}, nil
	}})
	// A slow tier that always answers at once, as a disk does with what it has not written yet.
	tier.Register(tier.Kind{Name: "eager", Slow: true, Open: func(o tier.Options) (tier.Tier, error) {
		return tier.NewHost(o.Bytes, o.Block), nil
	}})
}

// damaged is memory in which one of three blocks does not last.
type damaged struct {
	tier.Tier
	stored int
	bad    map[int32]bool
}

func (d *damaged) Put(slot int32, name kv.Name, data []byte) bool {
	if d.bad == nil {
		d.bad = map[int32]bool{}
	}
	d.stored++
	d.bad[slot] = d.stored%3 == 0
	return d.Tier.Put(slot, name, data)
}

func (d *damaged) Get(slot int32, name kv.Name, dst []byte, done func(time.Duration, error)) (tier.Answer, error) {
	if d.bad[slot] {
		return tier.Miss, errors.New("the block is damaged")
	}
	return d.Tier.Get(slot, name, dst, done)
}

// remote answers in every way that a tier can: at once, later, later with an error, and not at all; and it does not
// take every block.
type remote struct {
	*tier.Host
	asked, put int
	answers    sync.WaitGroup
}

func (r *remote) Put(slot int32, name kv.Name, data []byte) bool {
	if r.put++; r.put%7 == 0 {
		r.Host.Put(slot, kv.Name{}, data)
		return false
	}
	return r.Host.Put(slot, name, data)
}

func (r *remote) Get(slot int32, name kv.Name, dst []byte, done func(time.Duration, error)) (tier.Answer, error) {
	answer, err := r.Host.Get(slot, name, dst, nil)
	r.asked++
	switch {
	case err != nil || r.asked%3 == 0:
		return answer, err
	case r.asked%8 == 7:
		return tier.Miss, errors.New("the peer does not have it any more")
	case r.asked%8 == 1:
		err = errors.New("the connection is lost")
	}
	r.answers.Go(func() { done(time.Microsecond, err) })
	return tier.Pending, nil
}

func (r *remote) Close() error {
	r.answers.Wait()
	return nil
}

// tiers lists the lower tiers of a scenario.
func (sc scenario) tiers(block int, dir string) (list []tier.Spec) {
	host := tier.Spec{Kind: "host", Bytes: sc.host * int64(block)}
	if sc.spoil {
		host.Kind = "damaged"
	}
	if sc.host > 0 {
		list = append(list, host)
	}
	if sc.remote > 0 {
		list = append(list, tier.Spec{Kind: "remote", Bytes: sc.remote * int64(block)})
	}
	if sc.eager > 0 {
		list = append(list, tier.Spec{Kind: "eager", Bytes: sc.eager * int64(block)})
	}
	if sc.transfer > 0 {
		list = append(list, tier.Spec{Kind: "transfer", Bytes: sc.transfer * int64(block)})
	}
	if sc.disk > 0 {
		list = append(list, tier.Spec{Kind: "disk", Where: dir, Bytes: sc.disk * int64(block+8192)})
	}
	return list
}

// loaded reports whether blocks came back from the lower tiers of a scenario, if it has any, and whether what was
// damaged was found out.
func (sc scenario) loaded(st sched.Stats) bool {
	if sc.host+sc.disk+sc.remote+sc.eager+sc.transfer == 0 || sc.fast {
		return true
	}
	loads, lost := uint64(0), uint64(0)
	for _, t := range st.KV.Tiers {
		loads, lost = loads+t.Loaded, lost+t.Lost
	}
	return loads > lost && (lost > 0) == (sc.spoil || sc.remote > 0)
}

// What is stored on a disk is found by the next engine that opens it, unless it was damaged meanwhile.
func TestDiskTierSurvives(t *testing.T) {
	tp := newTape()
	m := loadGolden(t, "mistral_swa", cpu.Options{Threads: 2})
	want := reference.play(t, m, tp)
	sc := scenario{name: "restarted", chunk: 512, block: 16, blocks: 300, seqs: 32, cache: true, disk: 2000, dir: t.TempDir()}
	same := func(got [][]int32) {
		for n := range got {
			if !slices.Equal(got[n], want[n]) {
				t.Errorf("request %d: got %v; want %v", n, got[n], want[n])
			}
		}
	}
	first, st := sc.playWith(t, m, tp, 2)
	same(first)
	if st.KV.Tiers[1].Loaded > 0 {
		t.Errorf("an empty disk: %+v", st.KV.Tiers[1])
	}
	again, st := sc.playWith(t, m, tp, 2)
	same(again)
	if d := st.KV.Tiers[1]; d.Loaded == 0 || d.Lost > 0 {
		t.Errorf("after a restart: %+v", d)
	}
	path := filepath.Join(sc.dir, "blocks.kvtier")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 4096; at < len(data); at += 997 {
		data[at] ^= 0x10
	}
	if err := os.WriteFile(path, data[:len(data)*2/3], 0); err != nil {
		t.Fatal(err)
	}
	damaged, st := sc.playWith(t, m, tp, 2)
	same(damaged)
	if d := st.KV.Tiers[1]; d.Loaded != d.Lost {
		t.Errorf("all blocks were damaged: %+v", d)
	}
}

// knower is a Runner that gets to know a number of pieces of memory.
type knower struct {
	Runner
	most  int
	known [][]byte
}

func (k *knower) Pinned(int) []byte { return nil }

func (k *knower) Pin(data []byte) error {
	if len(k.known) == k.most {
		return errors.New("no more can be pinned")
	}
	k.known = append(k.known, data)
	return nil
}

// TestPlacesOfHostTier checks when a step reads and writes a block in the tier's own memory: if the device knows that
// memory, and no step under way reads or writes it.
func TestPlacesOfHostTier(t *testing.T) {
	const size = 20 << 20 // a piece for each
	var log bytes.Buffer
	host := tier.NewHost(4*size, size)
	ts := &tiers{size: size, list: []level{{Tier: host, memory: host}}, log: slog.New(slog.NewTextHandler(&log, nil))}
	steps := &stepper{tiers: ts, n: 2, oldest: 1}
	steps.use(&knower{most: 2})
	at := func(slot int32) kv.Place { return kv.Place{Tier: 1, At: slot} }
	steps.ring[0].moves.loads = []kv.Move{{From: at(0), To: kv.Place{At: 3}}}
	steps.ring[1].moves.stores = []kv.Move{{From: kv.Place{At: 3}, To: at(1)}}
	own := func(slot int32) bool {
		data, _ := host.Memory(slot)
		host.Put(slot, kv.Name{Group: 5}, data)
		got := ts.room(at(slot), &transfers{}, steps)
		if held := host.Names()[slot] != (kv.Name{}); len(got) != size || held != (&got[0] != &data[0]) {
			t.Errorf("slot %d: %d bytes; holds a block: %v", slot, len(got), held)
		}
		return &got[0] == &data[0]
	}
	for slot, want := range []bool{false, false, true, true} {
		if own(int32(slot)) != want {
			t.Errorf("slot %d beside a load from 0 and a store to 1: in its own memory: %v", slot, !want)
		}
	}
	if log.Len() > 0 {
		t.Error(log.String())
	}
	if steps.n = 0; own(0) || own(1) || !own(2) {
		t.Error("the device knows 2 and 3 alone")
	}
	if n := strings.Count(log.String(), "could not be pinned"); n != 1 || !strings.Contains(log.String(), "no more can be pinned") {
		t.Errorf("the log has %d lines of it: %s", n, &log)
	}
	steps.use(&knower{most: 4})
	if !own(0) || !own(1) || !own(2) || !own(3) {
		t.Error("another Runner knows all")
	}
}

// mover does batches of moves alone, and counts them.
type mover struct {
	Runner
	b     *compute.Batch
	moved int
}

func (m *mover) Start(b *compute.Batch) (compute.Step, error) {
	m.b = b
	m.moved++
	return movedStep{b: b}, nil
}

type movedStep struct {
	compute.Step
	b *compute.Batch
}

func (s movedStep) Wait() error {
	s.b.In = s.b.In[:0]
	return nil
}

// TestMeasuredLoads loads blocks again and again: only the first load, and then one of many, is made before its step to
// be measured, and none beside another step.
func TestMeasuredLoads(t *testing.T) {
	r := &mover{}
	clock := time.Now()
	ti := &tiers{now: func() time.Time { clock = clock.Add(time.Millisecond); return clock }}
	load := func(alone bool) (apart bool) {
		s := &step{}
		s.moves.loads = []kv.Move{{From: kv.Place{Tier: 1}}}
		s.batch.In = []compute.Transfer{{Block: 1}}
		ti.loads[1] = 1
		before := r.moved
		ti.measure(s, r, alone)
		if apart = r.moved > before; apart != (len(s.batch.In) == 0) {
			t.Errorf("made before its step: %v; %d loads are left in its batch", apart, len(s.batch.In))
		}
		if n := ti.loads[1]; n > 0 {
			average(&ti.rates.Block[1], ti.took[1], n)
		}
		ti.loads, ti.took = [kv.MaxTiers]int{}, [kv.MaxTiers]time.Duration{}
		return apart
	}
	if load(false) || ti.rates.Block[1] != 0 {
		t.Error("a load beside another step is measured")
	}
	if !load(true) || ti.rates.Block[1] == 0 {
		t.Error("the first load is not measured")
	}
	apart := 0
	for range 3 * (mostRushed + 1) {
		if load(true) {
			apart++
		}
	}
	if apart != 3 {
		t.Errorf("%d of %d loads are made before their steps; want 3", apart, 3*(mostRushed+1))
	}
}
