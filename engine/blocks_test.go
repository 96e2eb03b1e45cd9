package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/sched"
)

// giver is an engine that computes prompts whose blocks another one takes.
type giver struct {
	*Engine
	close func()
	given int
}

// giver makes one that computes in other chunks than the scenario's.
func (sc scenario) giver(t *testing.T, m *model.Model, tp *tape, groups []kv.Group, adapters []Adapter, slots int) *giver {
	t.Helper()
	blocks := 40 * len(groups)
	runner, err := m.NewRunner(512, blocks, sc.block, 16)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{
		Runner: runner, tape: tp, blockTokens: int32(sc.block), slots: make([]*past, blocks*sc.block), tables: map[int32][]int32{},
		placed: map[*compute.LowRank]string{}, heard: map[prefix]bool{}, adapters: make([]string, slots+1),
		packed: tp.packed, pinner: runner, pinned: map[*byte][]byte{},
	}
	place := func(slot int, a *model.Adapter) (compute.Placement, error) {
		tp.mu.Lock()
		defer tp.mu.Unlock()
		p, err := runner.Place(slot, a)
		if a != nil && err == nil {
			l.placed[&p.Low[0]] = string(a.ID[:])
		}
		return p, err
	}
	e, err := New(Config{Runner: l, Vocab: m.Spec.Vocab, Slots: slots, Place: place, Adapters: adapters, Tiers: Tiers{Model: "metamorphic"},
		Sched: sched.Config{BlockTokens: sc.block, Blocks: blocks, Groups: groups, States: runner.Cache().Spec().States, MaxLen: 256, MaxSeqs: 4,
			TokenBudget: 512, MaxChunk: 11, PrefixCache: true}})
	if err != nil {
		t.Fatal(err)
	}
	return &giver{Engine: e, close: func() { e.Close(); runner.Close() }}
}

// completed runs a request to its end.
func completed(t *testing.T, e *Engine, r Request) *Prepared {
	t.Helper()
	p, err := e.Prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Submit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read(t, s)
	return p
}

// hand computes a prompt and hands its blocks to another engine, in all the ways in which that can end.
func (g *giver) hand(t *testing.T, to *Engine, r Request, n int) (release func()) {
	t.Helper()
	first := r
	first.MaxTokens, first.MinTokens, first.Begun, first.Salt = 1, 0, 0, "of the giver"
	p := completed(t, g.Engine, first)
	other, err := to.Prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, release, err := other.Blocks().Receive(ctx, func(without int) (io.ReadCloser, error) {
		if n%6 == 5 {
			return nil, errors.New("the other engine is gone")
		}
		var b bytes.Buffer
		if _, err := p.Blocks().Send(t.Context(), &b, without); err != nil {
			t.Error(err)
		}
		data := b.Bytes()
		switch n % 6 {
		case 1:
			data = data[:len(data)*3/4]
		case 2:
			data[len(data)*5/6] ^= 4
		case 3:
			return io.NopCloser(io.MultiReader(bytes.NewReader(data[:len(data)/2]), cancelling(cancel), bytes.NewReader(data[len(data)/2:]))), nil
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	})
	if g.given += got; n%6 == 0 && err != nil && !errors.Is(err, errFull) {
		t.Errorf("request %d: %d blocks came, then %v", n, got, err)
	}
	if n%12 == 4 {
		release() // the request was cancelled, and another one comes
	}
	return release
}

// cancelling cancels a context where it is read.
type cancelling context.CancelFunc

func (c cancelling) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

// handed computes a prompt on one engine and hands its blocks to another. damage may change the stream.
func handed(t *testing.T, from, to *Engine, r Request, damage func([]byte) []byte) (received int, err error) {
	t.Helper()
	p := completed(t, from, r)
	other, err := to.Prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	received, release, err := other.Blocks().Receive(t.Context(), func(without int) (io.ReadCloser, error) {
		var b bytes.Buffer
		_, err := p.Blocks().Send(t.Context(), &b, without)
		return io.NopCloser(bytes.NewReader(damage(b.Bytes()))), err
	})
	t.Cleanup(release)
	return received, err
}

// taker makes an engine with a tier for blocks of others, or without.
func taker(t *testing.T, model string, slots int64) *Engine {
	cfg := smallConfig()
	f := newFake(cfg)
	tiers := Tiers{Model: model}
	if slots > 0 {
		tiers.List = []tier.Spec{{Kind: "transfer", Bytes: slots * int64(f.BlockBytes())}}
	}
	return start(t, Config{Runner: f, Sched: cfg, Tiers: tiers, Model: "m"})
}

func whole(b []byte) []byte { return b }

// TestTransferLoads checks that what comes from another engine is loaded, and makes room when it was.
func TestTransferLoads(t *testing.T) {
	p, d := taker(t, "m", 0), taker(t, "m", 9)
	for n := range 3 {
		r := request(n, 21, 6)
		if got, err := handed(t, p, d, r, whole); got != 5 || err != nil {
			t.Errorf("%d blocks, %v", got, err)
		}
		s := submit(t, d, t.Context(), r)
		if got, _ := read(t, s); !slices.Equal(got, expected(r)) || s.Cached() != 20 {
			t.Errorf("%v with %d cached; want %v with 20", got, s.Cached(), expected(r))
		}
		if st := d.Report().Tiers[0]; st.Used != 0 || st.Loaded != uint64(5*(n+1)) || st.Lost > 0 {
			t.Errorf("%+v", st)
		}
		if got, err := handed(t, p, d, r, func([]byte) []byte { t.Error("what is here was asked for"); return nil }); got != 0 || err != nil {
			t.Errorf("%d blocks, %v", got, err)
		}
	}
}

// TestTransferFinds checks that only the blocks that are missing are asked for, and that only those of the same tokens
// come.
func TestTransferFinds(t *testing.T) {
	p, d := taker(t, "m", 0), taker(t, "m", 9)
	r := request(1, 20, 1) // the last block ends with the prompt
	short := r
	short.Prompt = r.Prompt[:10]
	read(t, submit(t, d, t.Context(), short))
	if got, err := handed(t, p, d, r, whole); got != 2 || err != nil {
		t.Errorf("%d blocks, %v; want 2 beside 2 that are here, of 4 that are of use", got, err)
	}
	salted := request(2, 20, 1)
	salted.Salt = "a"
	if got, err := handed(t, p, d, salted, whole); got != 4 || err != nil {
		t.Errorf("%d blocks under a salt, %v", got, err)
	}
	bare := salted
	bare.Salt = ""
	s := submit(t, d, t.Context(), bare)
	if read(t, s); s.Cached() != 0 {
		t.Errorf("%d tokens were found without the salt", s.Cached())
	}
	mine := request(3, 20, 1)
	other, err := d.Prepare(request(4, 20, 1))
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := p.Prepare(mine)
	if err != nil {
		t.Fatal(err)
	}
	read(t, submit(t, p, t.Context(), mine))
	got, release, err := other.Blocks().Receive(t.Context(), func(int) (io.ReadCloser, error) {
		var b bytes.Buffer
		_, err := prepared.Blocks().Send(t.Context(), &b, 0)
		return io.NopCloser(&b), err
	})
	if release(); got != 0 || err == nil || !strings.Contains(err.Error(), "not one of the prompt's") {
		t.Errorf("blocks of another prompt: %d, %v", got, err)
	}
}

// TestTransferBreaks checks what is told of blocks that cannot be taken, and that the request is answered all the same.
func TestTransferBreaks(t *testing.T) {
	for want, c := range map[string]struct {
		model  string
		slots  int64
		damage func([]byte) []byte
		got    int
	}{
		"no tier takes":        {"m", 0, whole, 0},
		"no more room":         {"m", 2, whole, 2},
		"it was made for":      {"another", 9, whole, 0},
		"not a stream":         {"m", 9, func(b []byte) []byte { b[20]++; return b }, 0},
		"the beginning":        {"m", 9, func(b []byte) []byte { return b[:100] }, 0},
		"header of a block":    {"m", 9, func(b []byte) []byte { b[4096]++; return b }, 0},
		"checksum":             {"m", 9, func(b []byte) []byte { b[len(b)-1]++; return b }, 4},
		"breaks off":           {"m", 9, func(b []byte) []byte { return b[:len(b)-90] }, 3},
		"breaks off in block ": {"m", 9, func(b []byte) []byte { return b[:len(b)-1] }, 4},
	} {
		p, d := taker(t, "m", 0), taker(t, c.model, c.slots)
		r := request(1, 21, 6)
		if got, err := handed(t, p, d, r, c.damage); got != c.got || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d blocks, %v; want %d", want, got, err, c.got)
		}
		s := submit(t, d, t.Context(), r)
		if got, _ := read(t, s); !slices.Equal(got, expected(r)) || s.Cached() != 4*c.got {
			t.Errorf("%s: %v with %d cached; want %v with %d", want, got, s.Cached(), expected(r), 4*c.got)
		}
	}
}

// TestSendWhileStepping checks that blocks are sent beside a request that decodes, and that an engine that ends
// says so.
func TestSendWhileStepping(t *testing.T) {
	e := taker(t, "m", 0)
	long := submit(t, e, t.Context(), request(7, 9, 150))
	r := request(1, 21, 1)
	p, err := e.Prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	read(t, submit(t, e, t.Context(), r))
	var b bytes.Buffer
	if n, err := p.Blocks().Send(t.Context(), &b, 1); n != 4 || err != nil {
		t.Errorf("%d blocks, %v", n, err)
	}
	if got, _ := read(t, long); !slices.Equal(got, expected(request(7, 9, 150))) {
		t.Errorf("the other request got %v", got)
	}
	e.Close()
	if n, err := p.Blocks().Send(t.Context(), io.Discard, 0); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %d blocks, %v", n, err)
	}
}

// TestTransferredLogits compares a model's answer with blocks that another engine computed, and says how many came.
func TestTransferredLogits(t *testing.T) {
	m, tp := loadGolden(t, "llama", cpu.Options{Threads: 1}), newTape()
	want := reference.play(t, m, tp)
	sc := scenario{name: "transferred", chunk: 512, block: 16, blocks: 300, seqs: 32, cache: true, transfer: 900}
	got, st := sc.playWith(t, m, tp, 2)
	for n := range got {
		if !slices.Equal(got[n], want[n]) {
			t.Errorf("request %d: got %v; want %v", n, got[n], want[n])
		}
	}
	if x := st.KV.Tiers[1]; x.Stored == 0 || x.Loaded == 0 || x.Lost > 0 || x.Used > 0 {
		t.Errorf("%+v", x)
	}
}

// TestTransfersInCompany hands over prompts from several goroutines at once, while the engine that takes them runs
// short of blocks and slots, and requests are cancelled.
func TestTransfersInCompany(t *testing.T) {
	p := taker(t, "m", 0)
	cfg := smallConfig()
	cfg.Blocks = 24
	f := newFake(cfg)
	d := start(t, Config{Runner: f, Sched: cfg, Model: "m", Tiers: Tiers{Model: "m", List: []tier.Spec{
		{Kind: "host", Bytes: 40 * int64(f.BlockBytes())}, {Kind: "transfer", Bytes: 13 * int64(f.BlockBytes())}}}})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 25 {
				r := request((n*7+i)%31, 9+4*((n+i)%5), 20)
				ctx, cancel := context.WithCancel(t.Context())
				prepared, err := d.Prepare(r)
				if err != nil {
					t.Error(err)
				}
				first := r
				first.MaxTokens = 1
				from, err := p.Prepare(first)
				if err != nil {
					t.Error(err)
				}
				read(t, submit(t, p, ctx, first))
				_, release, _ := prepared.Blocks().Receive(ctx, func(without int) (io.ReadCloser, error) {
					in, out := io.Pipe()
					go func() {
						_, err := from.Blocks().Send(ctx, out, without)
						if (n+i)%6 == 1 {
							err = errors.New("broken")
						}
						out.CloseWithError(err)
					}()
					return in, nil
				})
				s, err := prepared.Submit(ctx)
				if err != nil {
					t.Error(err)
				}
				if (n+i)%4 == 3 {
					cancel()
					release()
				}
				got, last := read(t, s)
				if want := expected(r); last.Err == nil && !slices.Equal(got, want) || !slices.Equal(got, want[:len(got)]) {
					t.Errorf("got %v, %v; want %v", got, last.Err, want)
				}
				release()
				cancel()
			}
		})
	}
	all.Wait()
	if _, err := d.ResetCache(t.Context()); err != nil { // which comes after all releases
		t.Error(err)
	}
	wantIdle(t, d)
	if st := d.Report().Tiers[1]; st.Loaded == 0 || st.Used != 0 {
		t.Errorf("%+v", st)
	}
}
