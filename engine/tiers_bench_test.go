package engine

import (
	"testing"

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
