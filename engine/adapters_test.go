package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// randomAdapter makes an adapter of rank 2 to 9 for a model's queries, values, outputs and ups, but not for experts.
func randomAdapter(t testing.TB, m *model.Model, seed uint64) *model.Adapter {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	rank := 2 + rng.IntN(8)
	var tensors []weights.Source
	matrix := func(name string, out, in int) {
		var data []byte
		for range out * in {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(rng.NormFloat64())/4))
		}
		tensors = append(tensors, weights.Source{Name: name, Type: quant.F32, Shape: []int{out, in}, Write: weights.Bytes(data)})
	}
	for i, l := range m.Spec.Layers {
		h := m.Spec.Hidden
		type target struct {
			path    string
			out, in int
		}
		var targets []target
		switch a := l.Mixer.(type) {
		case model.Delta:
			targets = []target{{"linear_attn.out_proj", h, a.ValueHeads * a.ValueDim}}
		case model.Latent:
			targets = []target{{"self_attn.o_proj", h, a.Heads * a.ValueDim}}
		case model.GQA:
			targets = []target{{"self_attn.o_proj", h, a.Heads * a.ValueDim}, {"self_attn.v_proj", a.KVHeads * a.ValueDim, h}}
		}
		if a, ok := l.Mixer.(model.GQA); ok && !m.Spec.Recurrent() {
			targets = append(targets, target{"self_attn.q_proj", a.Heads * a.HeadDim, h})
			if l.FFN.Experts.Count == 0 {
				targets = append(targets, target{"mlp.up_proj", l.FFN.Width, h})
			}
		}
		for _, w := range targets {
			name := fmt.Sprintf("base_model.model.model.layers.%d.%s", i, w.path)
			matrix(name+".lora_A.weight", rank, w.in)
			matrix(name+".lora_B.weight", w.out, rank)
		}
	}
	var out bytes.Buffer
	if err := weights.WriteSafetensors(&out, tensors, nil); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`{"peft_type": "LORA", "r": %d, "lora_alpha": 4, "target_modules": "all-linear"}`, rank)
	for name, data := range map[string][]byte{"adapter_model.safetensors": out.Bytes(), "adapter_config.json": []byte(config)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ckpt, err := weights.Open(filepath.Join(dir, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	a, err := loader.Adapter(m, ckpt)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shelf is a Place that remembers what is in each slot, for the fake Runner. Its adapters hold nothing but an ID.
type shelf struct {
	mu   sync.Mutex
	log  []string
	fail byte // an adapter that cannot be placed
}

func (s *shelf) place(slot int, a *model.Adapter) (compute.Placement, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := compute.Placement{Slot: int32(slot)}
	if a == nil {
		s.log = append(s.log, fmt.Sprint(slot, " empty"))
		return p, nil
	}
	if a.ID[0] == s.fail {
		return p, errors.New("no memory")
	}
	p.Low = make([]compute.LowRank, 1)
	s.log = append(s.log, fmt.Sprintf("%d %c", slot, a.ID[0]))
	return p, nil
}

func (s *shelf) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func lettered(c byte) *model.Adapter { return &model.Adapter{ID: [32]byte{c}} }

// startAdapters starts an engine with two slots.
func startAdapters(t *testing.T, adapters ...Adapter) (*Engine, *shelf, *fake) {
	t.Helper()
	cfg := smallConfig()
	cfg.PrefixCache = true
	s, f := new(shelf), newFake(cfg)
	full := map[int32]bool{}
	f.forward = func(b *compute.Batch) error {
		for _, p := range b.Place {
			full[p.Slot] = p.Low != nil
		}
		for _, q := range b.Seqs {
			if q.Adapter != 0 && !full[q.Adapter] {
				return fmt.Errorf("slot %d is empty", q.Adapter)
			}
		}
		return nil
	}
	return start(t, Config{Runner: f, Vocab: fakeVocab, Sched: cfg, Slots: 2, Place: s.place, Adapters: adapters}), s, f
}

func ask(t *testing.T, e *Engine, adapter string) *Stream {
	t.Helper()
	r := request(1, 20, 4)
	r.Adapter = adapter
	s := submit(t, e, t.Context(), r)
	if _, last := read(t, s); last.Err != nil {
		t.Fatalf("adapter %q: %v", adapter, last.Err)
	}
	return s
}

func TestAdaptersTakeTurns(t *testing.T) {
	e, s, _ := startAdapters(t, Adapter{Name: "a", Data: lettered('a')}, Adapter{Name: "b", Data: lettered('b')})
	if err := e.Load(Adapter{Name: "c", Data: lettered('c')}, false); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		want []string
	}{{"a", []string{"1 a"}}, {"", nil}, {"b", []string{"2 b"}}, {"a", nil}, {"c", []string{"2 c"}}, {"b", []string{"1 b"}}, {"c", nil}} {
		ask(t, e, step.name)
		if got := s.took(); !slices.Equal(got, step.want) {
			t.Errorf("a request for %q placed %q; want %q", step.name, got, step.want)
		}
	}
}

func TestPinnedAdaptersStay(t *testing.T) {
	e, s, _ := startAdapters(t, Adapter{Name: "p", Data: lettered('p'), Pinned: true}, Adapter{Name: "a", Data: lettered('a')},
		Adapter{Name: "b", Data: lettered('b')})
	for _, name := range []string{"a", "b", "p", "a"} {
		ask(t, e, name)
	}
	if got, want := s.took(), []string{"1 p", "2 a", "2 b", "2 a"}; !slices.Equal(got, want) {
		t.Errorf("placed %q; want %q", got, want)
	}
	if err := e.Unload("p"); !errors.Is(err, ErrAdapterPinned) {
		t.Errorf("unloading a pinned adapter: %v", err)
	}
	if err := e.Load(Adapter{Name: "p", Data: lettered('x')}, true); !errors.Is(err, ErrAdapterPinned) {
		t.Errorf("replacing a pinned adapter: %v", err)
	}
}

func TestTooManyPinned(t *testing.T) {
	pinned := func(name string) Adapter { return Adapter{Name: name, Data: lettered(name[0]), Pinned: true} }
	s := new(shelf)
	cfg := Config{Runner: newFake(smallConfig()), Vocab: fakeVocab, Sched: smallConfig(), Slots: 2, Place: s.place}
	cfg.Adapters = []Adapter{pinned("p"), pinned("q"), pinned("r")}
	if _, err := New(cfg); err == nil {
		t.Error("three adapters were pinned in two slots")
	}
	cfg.Adapters = cfg.Adapters[:2]
	e := start(t, cfg)
	if err := e.Load(Adapter{Name: "a", Data: lettered('a')}, false); err == nil {
		t.Error("an adapter was loaded that could never run")
	}
}

// TestReloadedAdapter loads another adapter under the same name: it finds no blocks of the first, and that one's are
// found again once it is back.
func TestReloadedAdapter(t *testing.T) {
	e, s, _ := startAdapters(t, Adapter{Name: "a", Data: lettered('a')})
	cached := func(want bool) {
		t.Helper()
		if n := ask(t, e, "a").Cached(); n > 0 != want {
			t.Errorf("%d tokens were cached", n)
		}
	}
	cached(false)
	cached(true)
	if n := ask(t, e, "").Cached(); n != 0 {
		t.Errorf("the model itself found %d tokens of an adapter", n)
	}
	if err := e.Load(Adapter{Name: "a", Data: lettered('b')}, false); !errors.Is(err, ErrAdapterExists) {
		t.Errorf("loading a name again: %v", err)
	}
	if err := e.Load(Adapter{Name: "a", Data: lettered('b')}, true); err != nil {
		t.Fatal(err)
	}
	cached(false)
	cached(true)
	if err := e.Load(Adapter{Name: "a", Data: lettered('a')}, true); err != nil {
		t.Fatal(err)
	}
	cached(true)
	if got := s.took(); !slices.Contains(got, "1 empty") || !slices.Contains(got, "2 empty") && !slices.Contains(got, "1 b") {
		t.Errorf("the replaced adapters were not removed from their slots: %q", got)
	}
	for _, salt := range []string{"a", fmt.Sprintf("%x", lettered('a').ID), fmt.Sprintf("a@%x", lettered('a').ID)} {
		r := request(1, 20, 4)
		r.Salt = salt
		stream := submit(t, e, t.Context(), r)
		if read(t, stream); stream.Cached() != 0 {
			t.Errorf("the salt %q found %d tokens of an adapter's", salt, stream.Cached())
		}
	}
}

// TestUnloadInUse unloads an adapter while a request runs with it. The request comes to its end; then the slot is
// empty.
func TestUnloadInUse(t *testing.T) {
	e, s, f := startAdapters(t, Adapter{Name: "a", Data: lettered('a')})
	hold, checks := make(chan struct{}), f.forward
	f.forward = func(b *compute.Batch) error {
		<-hold
		return checks(b)
	}
	r := request(1, 5, 9)
	r.Adapter = "a"
	stream := submit(t, e, t.Context(), r)
	if got := e.Adapters(); len(got) != 1 || got[0].Running+got[0].Waiting != 1 {
		t.Errorf("adapters %+v; want one with a request", got)
	}
	if err := e.Unload("a"); err != nil {
		t.Fatal(err)
	}
	if err := e.Unload("a"); !errors.Is(err, ErrNoAdapter) {
		t.Errorf("unloading twice: %v", err)
	}
	if _, err := e.Submit(t.Context(), r); err == nil {
		t.Error("an unloaded adapter was taken")
	}
	close(hold)
	if ids, last := read(t, stream); last.Err != nil || len(ids) != 9 {
		t.Errorf("%d tokens, error %v", len(ids), last.Err)
	}
	ask(t, e, "")
	if got, want := s.took(), []string{"1 a", "1 empty"}; !slices.Equal(got, want) {
		t.Errorf("placed %q; want %q", got, want)
	}
}

func TestAdapterThatCannotBePlaced(t *testing.T) {
	e, s, _ := startAdapters(t, Adapter{Name: "a", Data: lettered('a')}, Adapter{Name: "b", Data: lettered('b')})
	s.fail = 'a'
	r := request(1, 5, 3)
	r.Adapter = "a"
	if _, last := read(t, submit(t, e, t.Context(), r)); last.Err == nil {
		t.Error("the request has no error")
	}
	ask(t, e, "b")
	wantIdle(t, e)
}

// TestAdaptersUnderFire loads, replaces and unloads adapters of a real model while requests for them come from all
// sides. Each answer is that of one of the adapters that bore the name.
func TestAdaptersUnderFire(t *testing.T) {
	m := loadGolden(t, "llama", cpu.Options{Threads: 2})
	m.MakeSlots(2)
	runner, err := m.NewRunner(64, 200, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	cfg := smallConfig()
	cfg.Blocks, cfg.BlockTokens, cfg.MaxSeqs, cfg.TokenBudget, cfg.PrefixCache, cfg.MaxPassed = 200, 16, 16, 64, true, 8
	cfg.MaxLen = 0
	e := start(t, Config{Runner: runner, Vocab: m.Spec.Vocab, Sched: cfg, Slots: 2, Place: runner.Place})
	names := []string{"a", "b", "c", "d"}
	var versions [2][]*model.Adapter
	answers := map[string]map[string]bool{}
	for i, name := range names {
		answers[name] = map[string]bool{}
		for v := range versions {
			versions[v] = append(versions[v], randomAdapter(t, m, uint64(10*v+i)))
			if err := e.Load(Adapter{Name: name, Data: versions[v][i]}, true); err != nil {
				t.Fatal(err)
			}
			r := request(1, 20, 6)
			r.Adapter = name
			ids, _ := read(t, submit(t, e, t.Context(), r))
			answers[name][fmt.Sprint(ids)] = true
		}
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for range 60 {
				i := rng.IntN(len(names))
				if w == 0 {
					e.Unload(names[rng.IntN(len(names))])
					e.Load(Adapter{Name: names[i], Data: versions[rng.IntN(2)][i]}, true)
					e.Adapters()
				}
				r := request(1, 20, 6)
				r.Adapter = names[i]
				s, err := e.Submit(t.Context(), r)
				if err != nil {
					continue // unloaded at the moment
				}
				if rng.IntN(5) == 0 {
					s.Stop()
					continue
				}
				if ids, last := read(t, s); last.Err != nil || !answers[names[i]][fmt.Sprint(ids)] {
					t.Errorf("adapter %q: tokens %v, error %v; want one of %v", names[i], ids, last.Err, answers[names[i]])
				}
			}
		})
	}
	all.Wait()
	if err := e.Drain(t.Context()); err != nil { // of those that were stopped
		t.Error(err)
	}
	wantIdle(t, e)
	for _, a := range e.Adapters() {
		if a.Running+a.Waiting != 0 {
			t.Errorf("adapter %q has %d running and %d waiting requests", a.Name, a.Running, a.Waiting)
		}
	}
}
