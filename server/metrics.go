package server

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kvasir-llm/kvasir/engine"
)

// metrics are those of /metrics. Their names and buckets are vLLM's, so that dashboards and routers made for it work; what
// vLLM does not have is named kvasir:.
type metrics struct {
	paramsN         *prometheus.HistogramVec
	paramsMaxTokens *prometheus.HistogramVec
}

var labels = []string{"model_name", "engine"}

func newMetrics(r *prometheus.Registry, models []Served) *metrics {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	longest := 0
	for _, s := range models {
		longest = max(longest, s.Model.Info().Context)
	}
	h := newHistograms(r, longest)
	for i := range models {
		name := models[i].Model.Info().Name
		r.MustRegister(newGauges(name, models[i].Model), newAdapterInfo(name, models[i].Model), newLives(name, models[i].Model))
		if models[i].Observer != nil {
			models[i].Observer.bind(h, name)
		}
	}
	return &metrics{h.vec["vllm:request_params_n"], h.vec["vllm:request_params_max_tokens"]}
}

// request notes what a request asks for.
func (m *metrics) request(j *job) {
	m.paramsN.WithLabelValues(j.info.Name, "0").Observe(float64(value(j.sampling.N, 1)))
	if j.choices[0].request.MaxTokens > 0 {
		m.paramsMaxTokens.WithLabelValues(j.info.Name, "0").Observe(float64(j.choices[0].request.MaxTokens))
	}
}

// gauges collects what an engine's Stats tell, at the time of asking.
type gauges struct {
	model Model
	list  []gauge
}

type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*engine.Stats) float64
}

func newGauges(name string, m Model) *gauges {
	g := &gauges{model: m}
	add := func(metric, help string, kind prometheus.ValueType, extra prometheus.Labels, read func(*engine.Stats) float64) {
		constant := prometheus.Labels{"model_name": name, "engine": "0"}
		for k, v := range extra {
			constant[k] = v
		}
		g.list = append(g.list, gauge{prometheus.NewDesc(metric, help, nil, constant), kind, read})
	}
	const now, count = prometheus.GaugeValue, prometheus.CounterValue
	waiting := func(s *engine.Stats) float64 { return float64(s.Sched.Waiting) }
	add("vllm:num_requests_running", "Sequences being computed.", now, nil,
		func(s *engine.Stats) float64 { return float64(s.Sched.Running) })
	add("vllm:num_requests_waiting", "Sequences waiting to be computed.", now, nil, waiting)
	add("vllm:num_requests_waiting_by_reason", "Sequences waiting, by what they wait for.", now, prometheus.Labels{"reason": "capacity"}, waiting)
	add("vllm:kv_cache_usage_perc", "Share of the KV cache's blocks in use; 1 is all.", now, nil,
		func(s *engine.Stats) float64 { return float64(s.Sched.KV.Used) / float64(max(s.Sched.KV.Blocks, 1)) })
	add("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", count, nil,
		func(s *engine.Stats) float64 { return float64(s.Sched.KV.Queries) })
	add("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", count, nil,
		func(s *engine.Stats) float64 { return float64(s.Sched.KV.Hits) })
	add("vllm:num_preemptions_total", "Times that a running sequence had to give up its blocks.", count, nil,
		func(s *engine.Stats) float64 { return float64(s.Sched.Preemptions) })
	add("vllm:prompt_tokens_total", "Prompt tokens computed or found in the cache.", count, nil,
		func(s *engine.Stats) float64 { return float64(s.PromptTokens) })
	add("vllm:generation_tokens_total", "Tokens generated.", count, nil,
		func(s *engine.Stats) float64 { return float64(s.GeneratedTokens) })
	add("kvasir:kv_held_tokens_total", "Tokens that the blocks of running sequences have room for, summed over steps.", count, nil,
		func(s *engine.Stats) float64 { return float64(s.Held) })
	add("kvasir:kv_unfilled_tokens_total", "Of these, tokens not computed yet: memory that is allocated but not used.", count, nil,
		func(s *engine.Stats) float64 { return float64(s.Unfilled) })
	cacheGauges(add)
	tierGauges(add)
	blocks := strconv.Itoa(m.Stats().Sched.KV.Blocks)
	add("vllm:cache_config_info", "How the KV cache is laid out.", now,
		prometheus.Labels{"block_size": strconv.Itoa(m.Info().BlockTokens), "num_gpu_blocks": blocks},
		func(*engine.Stats) float64 { return 1 })
	return g
}

// Describe and Collect make gauges a prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range g.list {
		ch <- one.desc
	}
}

func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	stats := g.model.Stats()
	for _, one := range g.list {
		ch <- prometheus.MustNewConstMetric(one.desc, one.kind, one.read(&stats))
	}
}
