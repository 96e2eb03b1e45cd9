package engine

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sched"
)

func newTape() *tape {
	return &tape{known: map[string][]float32{}, packed: map[[32]byte][]*past{}}
}

// A listener is a Mover. It knows stored blocks by their contents.
func (l *listener) BlockBytes() int { return l.Runner.(Mover).BlockBytes() }

func (l *listener) held(block int32) []*past { return l.slots[block*l.blockTokens:][:l.blockTokens] }

func (l *listener) PackBlock(block int32, dst []byte) {
	l.Runner.(Mover).PackBlock(block, dst)
	l.packed[sha256.Sum256(dst)] = slices.Clone(l.held(block))
	l.stored = append(l.stored, dst)
}

func (l *listener) UnpackBlock(block int32, src []byte) {
	l.Runner.(Mover).UnpackBlock(block, src)
	known, ok := l.packed[sha256.Sum256(src)]
	if !ok {
		l.tape.t.Errorf("block %d is loaded with what was never stored", block)
	}
	copy(l.held(block), known)
}

func (l *listener) CopyBlock(from, to int32) {
	l.Runner.(Mover).CopyBlock(from, to)
	copy(l.held(to), l.held(from))
}

// damage changes a bit of some of the blocks stored since it was called last.
func (l *listener) damage() {
	for i, block := range l.stored {
		if l.spoil && i%3 == 0 {
			block[(i*7919)%len(block)] ^= 1 << (i % 8)
		}
	}
	l.stored = l.stored[:0]
}

// loaded reports whether blocks came back from the lower tiers of a scenario, if it has any, and whether what was damaged
// was found out.
func (sc scenario) loaded(st sched.Stats) bool {
	if sc.host+sc.disk == 0 {
		return true
	}
	loads, lost := uint64(0), uint64(0)
	for _, t := range st.KV.Tiers {
		loads, lost = loads+t.Loaded, lost+t.Lost
	}
	return loads > lost && (lost > 0) == sc.spoil
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
	if st.KV.Tiers[kv.Disk].Loaded > 0 {
		t.Errorf("an empty disk: %+v", st.KV.Tiers[kv.Disk])
	}
	again, st := sc.playWith(t, m, tp, 2)
	same(again)
	if d := st.KV.Tiers[kv.Disk]; d.Loaded == 0 || d.Lost > 0 {
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
	if d := st.KV.Tiers[kv.Disk]; d.Loaded != d.Lost {
		t.Errorf("all blocks were damaged: %+v", d)
	}
}

func TestTiersAreRefused(t *testing.T) {
	cfg := sched.Config{BlockTokens: 4, Blocks: 8, MaxSeqs: 2, TokenBudget: 8, PrefixCache: true}
	_, err := New(Config{Runner: newFake(cfg), Vocab: fakeVocab, Sched: cfg, Tiers: Tiers{HostBytes: 1 << 20}})
	if err == nil || !strings.Contains(err.Error(), "Mover") {
		t.Errorf("a Runner that is no Mover: %v", err)
	}
}
