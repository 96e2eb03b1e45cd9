package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/trace"
)

// trace begins the span of a request, if its trace is recorded.
func (x *exchange) trace() {
	x.span = x.g.traces.Start(x.r.Header, x.r.Method+" "+x.r.URL.Path, x.began, trace.Attr{Key: "http.request.method", Value: x.r.Method},
		trace.Attr{Key: "http.route", Value: x.r.URL.Path}, trace.Attr{Key: "gen_ai.operation.name", Value: operation(x.r.URL.Path)},
		trace.Attr{Key: "gen_ai.request.id", Value: x.id})
}

// part begins a span below that of a context, and returns a context with it. end ends the span, with the error that
// ended what it covers.
func part(ctx context.Context, name string, kind trace.Kind, attrs ...trace.Attr) (inner context.Context, end func(error)) {
	span := trace.From(ctx).Child(name, kind, time.Now(), attrs...)
	return trace.With(ctx, span), func(err error) {
		if err != nil {
			span.Fail(err.Error())
		}
		span.End(time.Now())
	}
}

// carry puts the place of a context's span into the header of a request to an endpoint. Without a span the header stays
// as it came.
func carry(ctx context.Context, h http.Header) {
	if span := trace.From(ctx); span != nil {
		span.Context().Set(h)
	}
}

// endTrace notes what came of a request in its span.
func (x *exchange) endTrace(status int) {
	if x.span == nil {
		return
	}
	x.span.Set(trace.Attr{Key: "http.response.status_code", Value: status}, trace.Attr{Key: "gen_ai.request.model", Value: x.body.model},
		trace.Attr{Key: "gen_ai.response.model", Value: x.model}, trace.Attr{Key: "gen_ai.usage.input_tokens", Value: x.used.in()},
		trace.Attr{Key: "gen_ai.usage.output_tokens", Value: x.used.out() + x.earlier},
		trace.Attr{Key: "gen_ai.usage.cache_read.input_tokens", Value: x.used.cached()})
	if status >= http.StatusInternalServerError {
		x.span.Fail(x.problem)
	}
	x.span.End(time.Now())
}

// countSpans shows what became of spans.
func countSpans(r *prometheus.Registry, x *trace.Exporter) {
	for outcome, read := range map[string]func(trace.Stats) uint64{
		"sent":    func(s trace.Stats) uint64 { return s.Sent },
		"dropped": func(s trace.Stats) uint64 { return s.Dropped },
		"failed":  func(s trace.Stats) uint64 { return s.Failed },
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "kvasir_gateway_spans_total", Help: "Spans of traces: taken by the collector, dropped since too many waited, or not taken by it.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(read(x.Stats())) }))
	}
}
