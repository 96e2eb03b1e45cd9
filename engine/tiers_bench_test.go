package engine

import (
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/engine/tier"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/sched"
)

// BenchmarkTier measures the time to the first token of a prompt of 960 tokens, for the built-in model: computed, and
// with all but the last block found in the cache, in the host's memory or on a disk.
func BenchmarkTier(b *testing.B) {
	ckpt, err := builtin.Open()
	if err != nil {
		b.Fatal(err)
	}
	defer ckpt.Close()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	m, err := loader.Model(ckpt, dev, nil)
	if err != nil {
		b.Fatal(err)
	}
	const length, block = 960, 16
	for _, c := range []struct {
		name    string
		prompts int // taken in turns; the cache has room for two
		tier    string
	}{
		{"computed", 4, ""}, {"device", 1, ""}, {"host", 4, "host"}, {"disk", 4, "disk"},
	} {
		b.Run(c.name, func(b *testing.B) {
			blocks := 2 * (length/block + 1)
			runner, err := m.NewRunner(512, blocks, block, 4)
			if err != nil {
				b.Fatal(err)
			}
			cfg := Config{Runner: runner, Vocab: m.Spec.Vocab, Sched: sched.Config{
				BlockTokens: block, Blocks: blocks, MaxSeqs: 4, TokenBudget: 512, PrefixCache: true,
			}, Tiers: Tiers{Always: true}}
			switch c.tier {
			case "host":
				cfg.Tiers.List = []tier.Spec{{Kind: c.tier, Bytes: int64(4 * blocks * runner.BlockBytes())}}
			case "disk":
				cfg.Tiers.List = []tier.Spec{{Kind: c.tier, Where: b.TempDir(), Bytes: int64(4 * blocks * (runner.BlockBytes() + 8192))}}
			}
			e := start(b, cfg)
			first := func(n int) {
				r := request(1, length, 1)
				for i := range r.Prompt {
					r.Prompt[i] = int32((n*53 + i*i*11 + i) % m.Spec.Vocab)
				}
				read(b, submit(b, e, b.Context(), r))
			}
			for n := range c.prompts {
				first(n)
			}
			n := 0
			for b.Loop() {
				first(n % c.prompts)
				n++
			}
			st := e.Stats()
			if loads := st.Sched.KV.Tiers[1].Loaded; (loads > 0) != (c.tier != "") {
				b.Errorf("%d blocks were loaded", loads)
			}
			if c.tier != "" {
				b.ReportMetric(float64(runner.BlockBytes())/max(float64(st.Rates.Block[1]), 1), "GB/s")
			}
		})
	}
}

// pinning is a Runner that computes and moves nothing, with blocks of so many bytes, which it finds where they are.
type pinning struct {
	null
	block int
}

func (p *pinning) Start(b *compute.Batch) (compute.Step, error) {
	b.Out, b.Copies, b.In = b.Out[:0], b.Copies[:0], b.In[:0] // it is done
	return p.null.Start(b)
}

func (p *pinning) BlockBytes() int   { return p.block }
func (p *pinning) Pin([]byte) error  { return nil }
func (p *pinning) Pinned(int) []byte { return nil }

// BenchmarkHit measures what the host does for a prompt of 8,192 tokens, of which 511 blocks are in the host's memory,
// and for which as many leave the cache that are there already.
func BenchmarkHit(b *testing.B) {
	const length, block, prompts, room = 8192, 16, 6, 4
	runner, blocks := &pinning{block: 64}, room*length/block
	e := start(b, Config{Runner: runner, Vocab: 1000, Sched: sched.Config{
		BlockTokens: block, Blocks: blocks, MaxSeqs: 4, TokenBudget: length, PrefixCache: true,
	}, Tiers: Tiers{Always: true, List: []tier.Spec{{Kind: "host", Bytes: int64(2 * prompts * length / block * runner.block)}}}})
	var requests [prompts]Request
	for n := range requests {
		requests[n] = request(1, length, 1)
		for i := range requests[n].Prompt {
			requests[n].Prompt[i] = int32((n*53 + i*i*11 + i) % 1000)
		}
	}
	turn := 0
	first := func() {
		read(b, submit(b, e, b.Context(), requests[turn%prompts]))
		turn++
	}
	for range 2 * prompts {
		first()
	}
	before := e.Stats().Sched.KV.Tiers[1]
	b.ReportAllocs()
	for b.Loop() {
		first()
	}
	after := e.Stats().Sched.KV.Tiers[1]
	if want := uint64(turn-2*prompts) * (length/block - 1); after.Loaded-before.Loaded != want || after.Stored != before.Stored {
		b.Errorf("%d blocks were loaded and %d stored; want %d and 0", after.Loaded-before.Loaded, after.Stored-before.Stored, want)
	}
}
