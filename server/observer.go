package server

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/engine"
)

// Observer turns what an engine reports into the histograms of /metrics. The zero value is given to the engine, as its
// engine.Observer, and to New, in Served; what is reported in between is not counted.
type Observer struct{ meters atomic.Pointer[meters] }

var (
	firstTokenBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
		160, 640, 2560}
	tokenTimeBuckets = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	latencyBuckets   = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
		7680}
	iterationBuckets = append([]float64{1}, prometheus.ExponentialBuckets(8, 2, 12)...) // to 16384
)

// tokenBuckets returns 1, 2, 5, 10, … up to most.
func tokenBuckets(most int) []float64 {
	var out []float64
	for ten := 1; ; ten *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*ten > max(most, 1) {
				return out
			}
			out = append(out, float64(m*ten))
		}
	}
}

// histograms holds the families of which each model has one member.
type histograms struct {
	vec     map[string]*prometheus.HistogramVec
	success *prometheus.CounterVec
	source  *prometheus.CounterVec
	cached  *prometheus.CounterVec
}

func newHistograms(r *prometheus.Registry, longest int) *histograms {
	h := &histograms{vec: map[string]*prometheus.HistogramVec{}}
	tokens := tokenBuckets(longest)
	for _, f := range []struct {
		name, help string
		buckets    []float64
	}{
		{"time_to_first_token_seconds", "Time from a request's arrival to its first token.", firstTokenBuckets},
		{"inter_token_latency_seconds", "Time from one token to the next.", tokenTimeBuckets},
		{"request_time_per_output_token_seconds", "A request's mean time per token after the first.", tokenTimeBuckets},
		{"e2e_request_latency_seconds", "Time from a request's arrival to its end.", latencyBuckets},
		{"request_queue_time_seconds", "Time that a request waited before its first step.", latencyBuckets},
		{"request_inference_time_seconds", "Time from a request's first step to its last token.", latencyBuckets},
		{"request_prefill_time_seconds", "Time from a request's first step to its first token.", latencyBuckets},
		{"request_decode_time_seconds", "Time from a request's first token to its last.", latencyBuckets},
		{"request_prompt_tokens", "Tokens of a request's prompt.", tokens},
		{"request_generation_tokens", "Tokens generated for a request.", tokens},
		{"request_max_num_generation_tokens", "Most tokens generated for one answer of a request.", tokens},
		{"request_prefill_kv_computed_tokens", "Prompt tokens computed, not found in the cache.", tokens},
		{"request_params_n", "Answers asked for (n).", []float64{1, 2, 5, 10, 20}},
		{"request_params_max_tokens", "Tokens asked for at most (max_tokens).", tokens},
		{"iteration_tokens_total", "Tokens computed in a step.", iterationBuckets},
	} {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vllm:" + f.name, Help: f.help, Buckets: f.buckets},
			labels)
		r.MustRegister(v)
		h.vec["vllm:"+f.name] = v
	}
	counter := func(name, help string, extra ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:" + name, Help: help}, append(extra, labels...))
		r.MustRegister(c)
		return c
	}
	h.success = counter("request_success_total", "Requests that have ended, by why.", "finished_reason")
	h.source = counter("prompt_tokens_by_source_total", "Prompt tokens of ended requests, by where their KV came from.",
		"source")
	h.cached = counter("prompt_tokens_cached_total", "Prompt tokens of ended requests found in the prefix cache.")
	return h
}

// meters are one model's members of the families.
type meters struct {
	firstToken, gap, perToken, total, queue, inference, prefill, decode prometheus.Observer
	prompt, generated, longest, computed, rows                          prometheus.Observer
	ended                                                               map[engine.FinishReason]prometheus.Counter
	fresh, reused, cached                                               prometheus.Counter
}

// bind makes o count for a model from now on.
func (o *Observer) bind(h *histograms, model string) {
	of := func(name string) prometheus.Observer { return h.vec["vllm:"+name].WithLabelValues(model, "0") }
	ended := func(reason string) prometheus.Counter { return h.success.WithLabelValues(reason, model, "0") }
	o.meters.Store(&meters{
		firstToken: of("time_to_first_token_seconds"), gap: of("inter_token_latency_seconds"),
		perToken: of("request_time_per_output_token_seconds"), total: of("e2e_request_latency_seconds"),
		queue: of("request_queue_time_seconds"), inference: of("request_inference_time_seconds"),
		prefill: of("request_prefill_time_seconds"), decode: of("request_decode_time_seconds"),
		prompt: of("request_prompt_tokens"), generated: of("request_generation_tokens"),
		longest: of("request_max_num_generation_tokens"), computed: of("request_prefill_kv_computed_tokens"),
		rows: of("iteration_tokens_total"),
		ended: map[engine.FinishReason]prometheus.Counter{engine.FinishStop: ended("stop"),
			engine.FinishLength:    ended("length"),
			engine.FinishCancelled: ended("abort"), engine.FinishError: ended("error")},
		fresh: h.source.WithLabelValues("local_compute", model, "0"), reused: h.source.WithLabelValues("local_cache_hit",
			model, "0"),
		cached: h.cached.WithLabelValues(model, "0"),
	})
}

func observe(o prometheus.Observer, d time.Duration) { o.Observe(d.Seconds()) }

// StepDone is called by the engine.
func (o *Observer) StepDone(s engine.StepDone) {
	m := o.meters.Load()
	if m == nil {
		return
	}
	m.rows.Observe(float64(s.Rows))
	for _, d := range s.Gaps {
		observe(m.gap, d)
	}
	for _, d := range s.FirstTokens {
		observe(m.firstToken, d)
	}
}

// RequestDone is called by the engine.
func (o *Observer) RequestDone(r engine.RequestDone) {
	m := o.meters.Load()
	if m == nil {
		return
	}
	if c := m.ended[r.Reason]; c != nil {
		c.Inc()
	}
	observe(m.total, r.Total)
	m.prompt.Observe(float64(r.Prompt))
	m.generated.Observe(float64(r.Generated))
	m.longest.Observe(float64(r.Generated))
	if r.FirstToken == 0 { // it never came to a token
		return
	}
	m.computed.Observe(float64(r.Prompt - r.Cached))
	m.fresh.Add(float64(r.Prompt - r.Cached))
	m.reused.Add(float64(r.Cached))
	m.cached.Add(float64(r.Cached))
	observe(m.queue, r.Queue)
	observe(m.prefill, r.FirstToken-r.Queue)
	observe(m.decode, r.Decode)
	observe(m.inference, r.FirstToken-r.Queue+r.Decode)
	if r.Generated > 1 {
		observe(m.perToken, r.Decode/time.Duration(r.Generated-1))
	}
}
