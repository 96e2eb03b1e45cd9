package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/engine"
)

// tierGauges adds what the tiers below the device tell.
func tierGauges(add addGauge, tiers []engine.TierReport) {
	const now, count = prometheus.GaugeValue, prometheus.CounterValue
	for t := range tiers {
		labels := prometheus.Labels{"tier": tiers[t].Name}
		add("kvasir:tier_blocks", "KV blocks that a tier below the device can store.", now, labels,
			func(s *engine.Report) float64 { return float64(s.Tiers[t].Blocks) })
		add("kvasir:tier_blocks_used", "Of these, blocks that it stores.", now, labels,
			func(s *engine.Report) float64 { return float64(s.Tiers[t].Used) })
		add("kvasir:tier_stored_blocks_total", "KV blocks that were stored in a tier.", count, labels,
			func(s *engine.Report) float64 { return float64(s.Tiers[t].Stored) })
		add("kvasir:tier_loaded_blocks_total", "KV blocks that were to be loaded from a tier.", count, labels,
			func(s *engine.Report) float64 { return float64(s.Tiers[t].Loaded) })
		add("kvasir:tier_lost_blocks_total",
			"Of these, blocks that were not as they had been stored, and were computed anew.", count, labels,
			func(s *engine.Report) float64 { return float64(s.Tiers[t].Lost) })
		add("kvasir:tier_errors_total", "KV blocks that could not be written to a tier, as on a full disk.", count, labels,
			func(s *engine.Report) float64 { return float64(s.Tiers[t].Errors) })
		add("kvasir:tier_evicted_blocks_total", "KV blocks that a tier forgot to make room.", count, labels,
			func(s *engine.Report) float64 { return float64(s.Tiers[t].Evicted) })
		add("kvasir:tier_block_seconds", "What it takes to load a block from a tier, a moving average.", now, labels,
			func(s *engine.Report) float64 { return s.Tiers[t].BlockLoadTime.Seconds() })
	}
	add("kvasir:prompt_token_seconds",
		"What it takes to compute a token of a prompt, a moving average; kept if there are tiers.", now, nil,
		func(s *engine.Report) float64 { return s.TokenTime.Seconds() })
}
