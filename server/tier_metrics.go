package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/kv"
)

// tierGauges adds what the tiers below the device tell.
func tierGauges(add func(metric, help string, kind prometheus.ValueType, extra prometheus.Labels, read func(*engine.Stats) float64)) {
	const now, count = prometheus.GaugeValue, prometheus.CounterValue
	for t := kv.Host; t < kv.Tiers; t++ {
		labels := prometheus.Labels{"tier": t.String()}
		add("kvasir:tier_blocks", "KV blocks that a tier below the device can store.", now, labels,
			func(s *engine.Stats) float64 { return float64(s.Sched.KV.Tiers[t].Slots) })
		add("kvasir:tier_blocks_used", "Of these, blocks that it stores.", now, labels,
			func(s *engine.Stats) float64 { return float64(s.Sched.KV.Tiers[t].Used) })
		add("kvasir:tier_stored_blocks_total", "KV blocks that were stored in a tier.", count, labels,
			func(s *engine.Stats) float64 { return float64(s.Sched.KV.Tiers[t].Stored) })
		add("kvasir:tier_loaded_blocks_total", "KV blocks that were to be loaded from a tier.", count, labels,
			func(s *engine.Stats) float64 { return float64(s.Sched.KV.Tiers[t].Loaded) })
		add("kvasir:tier_lost_blocks_total", "Of these, blocks that were not as they had been stored, and were computed anew.", count, labels,
			func(s *engine.Stats) float64 { return float64(s.Sched.KV.Tiers[t].Lost) })
		add("kvasir:tier_evicted_blocks_total", "KV blocks that a tier forgot to make room.", count, labels,
			func(s *engine.Stats) float64 { return float64(s.Sched.KV.Tiers[t].Evicted) })
		add("kvasir:tier_block_seconds", "What it takes to load a block from a tier, a moving average.", now, labels,
			func(s *engine.Stats) float64 { return float64(s.Rates.Block[t]) / 1e9 })
	}
	add("kvasir:prompt_token_seconds", "What it takes to compute a token of a prompt, a moving average; kept if there are tiers.", now, nil,
		func(s *engine.Stats) float64 { return float64(s.Rates.Token) / 1e9 })
}
