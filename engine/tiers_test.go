package engine

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	if sc.disk > 0 {
		list = append(list, tier.Spec{Kind: "disk", Where: dir, Bytes: sc.disk * int64(block+8192)})
	}
	return list
}

// loaded reports whether blocks came back from the lower tiers of a scenario, if it has any, and whether what was
// damaged was found out.
func (sc scenario) loaded(st sched.Stats) bool {
	if sc.host+sc.disk+sc.remote+sc.eager == 0 || sc.fast {
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
