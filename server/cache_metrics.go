package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/engine"
)

// cacheGauges are those of the blocks of the KV cache.
func cacheGauges(add addGauge) {
	const now, count = prometheus.GaugeValue, prometheus.CounterValue
	for state, read := range map[string]func(*engine.CacheReport) int{
		"used":   func(s *engine.CacheReport) int { return s.Used },
		"cached": func(s *engine.CacheReport) int { return s.Cached },
		"free":   func(s *engine.CacheReport) int { return s.Free },
	} {
		add("kvasir:kv_blocks", "Blocks of the KV cache: in use, kept for prompts that begin alike, and neither.", now,
			prometheus.Labels{"state": state}, func(s *engine.Report) float64 { return float64(read(&s.Cache)) })
	}
	add("kvasir:kv_pinned_blocks", "References to blocks that pins hold.", now, nil,
		func(s *engine.Report) float64 { return float64(s.Cache.Pinned) })
	add("kvasir:kv_evictions_total", "Cached blocks that were forgotten to make room.", count, nil,
		func(s *engine.Report) float64 { return float64(s.Cache.Evictions) })
	add("kvasir:kv_partial_hit_tokens_total", "Prompt tokens found in blocks that went on differently.", count, nil,
		func(s *engine.Report) float64 { return float64(s.Cache.Partial) })
	add("kvasir:kv_copied_blocks_total", "Blocks copied because others shared them.", count, nil,
		func(s *engine.Report) float64 { return float64(s.Cache.Copies) })
}

// lives collects how long blocks live. vLLM has these metrics with other buckets, and of a sample of blocks.
type lives struct {
	engine Engine
	descs  [3]*prometheus.Desc
}

func newLives(name string, e Engine) *lives {
	l := &lives{engine: e}
	for i, about := range [][2]string{
		{"vllm:kv_block_lifetime_seconds", "Time from a block's naming to its eviction."},
		{"vllm:kv_block_idle_before_evict_seconds", "Time from a block's last use to its eviction."},
		{"vllm:kv_block_reuse_gap_seconds", "Time from one use of a block to the next."},
	} {
		l.descs[i] = prometheus.NewDesc(about[0], about[1], nil, prometheus.Labels{"model_name": name, "engine": "0"})
	}
	return l
}

func (l *lives) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range l.descs {
		ch <- d
	}
}

func (l *lives) Collect(ch chan<- prometheus.Metric) {
	c := l.engine.Report().Cache
	for i, spans := range []*engine.Spans{&c.Lifetime, &c.Idle, &c.Reuse} {
		buckets := map[float64]uint64{}
		for log, n := range spans.Below {
			buckets[float64(uint64(1)<<log)/1000] = n
		}
		ch <- prometheus.MustNewConstHistogram(l.descs[i], spans.Count, spans.Sum.Seconds(), buckets)
	}
}
