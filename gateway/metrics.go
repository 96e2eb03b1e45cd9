package gateway

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvasir-llm/kvasir/trace"
)

// metrics are what /metrics shows.
type metrics struct {
	page     http.Handler
	requests *prometheus.CounterVec
	failures *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	ttft     *prometheus.HistogramVec
	itl      *prometheus.HistogramVec
	queued   *prometheus.HistogramVec
	waiting  *prometheus.GaugeVec
	chosen   *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	cache    *prometheus.CounterVec
	flying   *prometheus.GaugeVec
	up       *prometheus.GaugeVec
	blocks   *prometheus.GaugeVec
	batches  *prometheus.CounterVec
	batched  *prometheus.CounterVec
	genAI    genAI

	shadows       *prometheus.CounterVec
	shadowTokens  *prometheus.CounterVec
	shadowCost    *prometheus.CounterVec
	shadowSeconds *prometheus.HistogramVec
}

func newMetrics(traces *trace.Exporter) *metrics {
	r := prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvasir_gateway_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kvasir_gateway_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
		}, labels)
		r.MustRegister(h)
		return h
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kvasir_gateway_" + name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	if traces != nil {
		countSpans(r, traces)
	}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &metrics{
		page:     promhttp.HandlerFor(r, promhttp.HandlerOpts{}),
		requests: counter("requests_total", "Requests that have ended, by the status that the client got; 499 if it hung up.", "model", "code"),
		failures: counter("endpoint_failures_total", "Attempts that failed at an endpoint.", "endpoint", "reason"),
		seconds:  histogram("request_seconds", "Time from a request's arrival to the end of its answer.", "model"),
		ttft:     histogram("time_to_first_token_seconds", "Time from a request's arrival to the first event of its stream.", "model"),
		itl:      histogram("inter_token_seconds", "Time between two pieces of a stream with events, as they came from the endpoint.", "model"),
		waiting:  gauge("waiting", "Requests that wait for an endpoint.", "model"),
		chosen: counter("decisions_total", "Requests that an endpoint was chosen for: as the only one that could take it, as the best, "+
			"or drawn from those near the best.", "endpoint", "how"),
		queued:  histogram("queue_seconds", "Time that requests waited for an endpoint.", "model"),
		tokens:  counter("tokens_total", "Tokens of prompts (input, of which cached) and answers (output), as endpoints counted them.", "model", "direction"),
		cost:    counter("cost_total", "What answers cost, in the currency of the prices.", "model"),
		cache:   counter("cache_total", "Requests to models whose answers are kept: hit, shared with one under way, or miss.", "model", "result"),
		flying:  gauge("in_flight", "Requests under way at an endpoint.", "endpoint"),
		blocks:  gauge("kv_blocks", "KV blocks that an endpoint holds, as it told.", "endpoint"),
		genAI:   newGenAI(r),
		batches: counter("batches_total", "Requests to endpoints that stood for several clients' requests, by whether each got its answer.", "model", "result"),
		batched: counter("batched_requests_total", "Clients' requests that were answered with others.", "model"),
		shadows: counter("shadow_requests_total", "Copies of requests to a model in shadow, by the status of the answer that nobody got, "+
			"dropped for lack of room, or how they failed.", "model", "result"),
		shadowTokens:  counter("shadow_tokens_total", "Tokens of such copies, which no other metric counts.", "model", "direction"),
		shadowCost:    counter("shadow_cost_total", "What the answers to such copies cost.", "model"),
		shadowSeconds: histogram("shadow_request_seconds", "Time of such copies from the request's arrival to the end of the answer.", "model"),
		up:            gauge("endpoint_up", "Whether an endpoint takes requests.", "endpoint"),
	}
}
