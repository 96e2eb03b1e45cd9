package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/kvasir-llm/kvasir/engine"
)

// metrics are those of /metrics. Their names and buckets are vLLM's, so that dashboards and routers made for it work;
// what vLLM does not have is named kvasir:.
type metrics struct {
	registry        *prometheus.Registry
	histograms      *histograms
	paramsN         *prometheus.HistogramVec
	paramsMaxTokens *prometheus.HistogramVec

	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

var labels = []string{"model_name", "engine"}

func newMetrics(r *prometheus.Registry, models []Served, longest int) *metrics {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h := newHistograms(r, longest)
	m := &metrics{registry: r, histograms: h, paramsN: h.vec["vllm:request_params_n"],
		paramsMaxTokens: h.vec["vllm:request_params_max_tokens"]}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total",
		Help: "HTTP requests, by route, method and class of status."}, []string{"handler", "method", "status"})
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_request_duration_seconds",
		Help: "Time to answer an HTTP request, by route and method.", Buckets: latencyBuckets}, []string{"handler", "method"})
	r.MustRegister(m.requests, m.seconds)
	for i := range models {
		m.add(&models[i])
	}
	return m
}

// add includes a model in /metrics, until remove is called. Its counters of ended requests stay.
func (m *metrics) add(s *Served) (remove func()) {
	name := s.Model.Info().Name
	own := []prometheus.Collector{newGauges(name, s), newAdapterInfo(name, s), newLives(name, s.Engine)}
	m.registry.MustRegister(own...)
	if s.Observer != nil {
		s.Observer.bind(m.histograms, name)
	}
	return func() {
		for _, c := range own {
			m.registry.Unregister(c)
		}
	}
}

// answered notes the answer to an HTTP request, by its route, or as "none" if it has none. What probes ask is left out.
func (m *metrics) answered(handler, method string, status int, took time.Duration) {
	switch handler {
	case "/metrics", "/load", "/health", "/ping", "/version":
		return
	}
	if method != http.MethodGet && method != http.MethodPost {
		method = "other"
	}
	m.requests.WithLabelValues(handler, method, strconv.Itoa(status/100)+"xx").Inc()
	m.seconds.WithLabelValues(handler, method).Observe(took.Seconds())
}

// request notes what a request asks for.
func (m *metrics) request(j *job) {
	name := j.served.Model.Info().Name
	m.paramsN.WithLabelValues(name, "0").Observe(float64(j.given))
	if most := j.choices[0].prompt.Request.MaxTokens; most > 0 {
		m.paramsMaxTokens.WithLabelValues(name, "0").Observe(float64(most))
	}
}

// gauges collects what an engine reports, at the time of asking.
type gauges struct {
	engine Engine
	list   []gauge
}

// addGauge adds a gauge, or a counter, with labels of its own.
type addGauge func(metric, help string, kind prometheus.ValueType, extra prometheus.Labels, read reader)

// reader reads the value of a gauge.
type reader func(*engine.Report) float64

type gauge struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read reader
}

func newGauges(name string, m *Served) *gauges {
	g := &gauges{engine: m.Engine}
	add := func(metric, help string, kind prometheus.ValueType, extra prometheus.Labels, read reader) {
		constant := prometheus.Labels{"model_name": name, "engine": "0"}
		for k, v := range extra {
			constant[k] = v
		}
		g.list = append(g.list, gauge{prometheus.NewDesc(metric, help, nil, constant), kind, read})
	}
	const now, count = prometheus.GaugeValue, prometheus.CounterValue
	waiting := func(s *engine.Report) float64 { return float64(s.Waiting) }
	add("vllm:num_requests_running", "Sequences being computed.", now, nil,
		func(s *engine.Report) float64 { return float64(s.Running) })
	add("vllm:num_requests_waiting", "Sequences waiting to be computed.", now, nil, waiting)
	add("vllm:num_requests_waiting_by_reason", "Sequences waiting, by what they wait for.", now,
		prometheus.Labels{"reason": "capacity"}, waiting)
	add("vllm:kv_cache_usage_perc", "Share of the KV cache's blocks in use; 1 is all.", now, nil,
		(*engine.Report).Usage)
	add("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", count, nil,
		func(s *engine.Report) float64 { return float64(s.Cache.Queries) })
	add("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", count, nil,
		func(s *engine.Report) float64 { return float64(s.Cache.Hits) })
	add("vllm:num_preemptions_total", "Times that a running sequence had to give up its blocks.", count, nil,
		func(s *engine.Report) float64 { return float64(s.Preemptions) })
	add("vllm:prompt_tokens_total", "Prompt tokens computed or found in the cache.", count, nil,
		func(s *engine.Report) float64 { return float64(s.PromptTokens) })
	add("vllm:generation_tokens_total", "Tokens generated.", count, nil,
		func(s *engine.Report) float64 { return float64(s.GeneratedTokens) })
	add("kvasir:kv_held_tokens_total", "Tokens that the blocks of running sequences have room for, summed over steps.",
		count, nil,
		func(s *engine.Report) float64 { return float64(s.Held) })
	add("kvasir:kv_unfilled_tokens_total", "Of these, tokens not computed yet: memory that is allocated but not used.",
		count, nil,
		func(s *engine.Report) float64 { return float64(s.Unfilled) })
	draftGauges(add)
	cacheGauges(add)
	tierGauges(add, m.Engine.Report().Tiers)
	blocks := strconv.Itoa(m.Engine.Report().Cache.Blocks)
	add("vllm:cache_config_info", "How the KV cache is laid out.", now,
		prometheus.Labels{"block_size": strconv.Itoa(m.Model.Info().BlockTokens), "num_gpu_blocks": blocks},
		func(*engine.Report) float64 { return 1 })
	return g
}

// Describe and Collect make gauges a prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range g.list {
		ch <- one.desc
	}
}

func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	report := g.engine.Report()
	for _, one := range g.list {
		ch <- prometheus.MustNewConstMetric(one.desc, one.kind, one.read(&report))
	}
}

// draftGauges adds what became of tokens that were guessed ahead.
func draftGauges(add addGauge) {
	const count = prometheus.CounterValue
	add("vllm:spec_decode_num_drafts_total", "Times that tokens guessed ahead were verified.", count, nil,
		func(r *engine.Report) float64 { return float64(r.Drafts.Drafts) })
	add("vllm:spec_decode_num_draft_tokens_total", "Tokens guessed ahead, and verified.", count, nil,
		func(r *engine.Report) float64 { return float64(r.Drafts.Proposed) })
	add("vllm:spec_decode_num_accepted_tokens_total", "Of these, tokens that were right.", count, nil,
		func(r *engine.Report) float64 { return float64(r.Drafts.Accepted) })
	for i := range engine.MostDraft {
		add("vllm:spec_decode_num_accepted_tokens_per_pos_total", "Of these, by their position in the guess; the first 16 are told.",
			count, prometheus.Labels{"position": strconv.Itoa(i)},
			func(r *engine.Report) float64 { return float64(r.Drafts.ByPlace[i]) })
	}
}
