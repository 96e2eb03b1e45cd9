package gateway

import (
	"cmp"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// genAI are OpenTelemetry's metrics of servers of generative models, with the names, labels and buckets of its
// semantic conventions as Prometheus has them.
type genAI struct {
	duration *prometheus.HistogramVec
	first    *prometheus.HistogramVec
	later    *prometheus.HistogramVec
	tokens   *prometheus.HistogramVec
}

func newGenAI(r *prometheus.Registry) genAI {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		labels = append(labels, "gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		r.MustRegister(h)
		return h
	}
	return genAI{
		duration: histogram("gen_ai_server_request_duration_seconds", "Time of a request to its last byte or token.",
			prometheus.ExponentialBuckets(0.01, 2, 14), "error_type"),
		first: histogram("gen_ai_server_time_to_first_token_seconds", "Time to the first token of streams that went well.",
			[]float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}),
		later: histogram("gen_ai_server_time_per_output_token_seconds", "Time for each token after the first one of such streams.",
			[]float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}),
		tokens: histogram("gen_ai_client_token_usage", "Tokens of a request's prompt (input) and of its answer (output), as the gateway was told by the endpoint.",
			prometheus.ExponentialBuckets(1, 4, 14), "gen_ai_token_type"),
	}
}

// operations are what the conventions call requests to paths. Others are called by the end of their paths.
var operations = map[string]string{
	"/v1/chat/completions": "chat", "/v1/messages": "chat", "/v1/responses": "chat", "/v1/completions": "text_completion",
	"/v1/embeddings": "embeddings",
}

// operation is what a request to a path is called.
func operation(at string) string {
	return cmp.Or(operations[at], path.Base(at))
}

// providers are what the conventions call the APIs of endpoints.
var providers = map[string]string{
	"": "kvasir", "anthropic": "anthropic", "gemini": "gcp.gemini", "bedrock": "aws.bedrock", "azure": "azure.ai.openai",
}

// see counts a request that a model was to answer.
func (m genAI) see(x *exchange, model string, status int, took time.Duration) {
	labels := prometheus.Labels{"gen_ai_operation_name": operation(x.r.URL.Path), "gen_ai_provider_name": providers[x.api], "gen_ai_request_model": model}
	with := func(h *prometheus.HistogramVec, name, value string) prometheus.Observer {
		labels[name] = value
		defer delete(labels, name)
		return h.With(labels)
	}
	failed := ""
	if status >= http.StatusBadRequest {
		failed = strconv.Itoa(status)
	}
	with(m.duration, "error_type", failed).Observe(took.Seconds())
	if in := x.used.in(); in > 0 {
		with(m.tokens, "gen_ai_token_type", "input").Observe(float64(in))
	}
	out := x.used.out() + x.earlier
	if out > 0 {
		with(m.tokens, "gen_ai_token_type", "output").Observe(float64(out))
	}
	if !x.stream || status != http.StatusOK {
		return
	}
	m.first.With(labels).Observe(x.ttft.Seconds())
	if out > 1 {
		m.later.With(labels).Observe((took - x.ttft).Seconds() / float64(out-1))
	}
}
