package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/trace"
)

// traced begins the span of a request to a route, or of a line of a batch, nil if its trace is not recorded. Requests
// that only look are not.
func (s *Server) traced(r *http.Request, found route, id string, began time.Time) *trace.Span {
	if found.access != clients || found.method != http.MethodPost {
		return nil
	}
	handler := s.handlerOf(r)
	span := s.cfg.Traces.Start(r.Header, r.Method+" "+handler, began, trace.Attr{Key: "http.request.method", Value: r.Method},
		trace.Attr{Key: "http.route", Value: handler}, trace.Attr{Key: "url.path", Value: r.URL.Path},
		trace.Attr{Key: "gen_ai.provider.name", Value: "kvasir"}, trace.Attr{Key: "gen_ai.request.id", Value: id})
	span.Set(trace.Attr{Key: "gen_ai.operation.name", Value: operationOf(handler)})
	return span
}

// tracedLine begins the span of a line of a batch, in a trace of its own.
func (s *Server) tracedLine(r *http.Request, found route, id string, one *openai.BatchLine) *trace.Span {
	span := s.traced(r, found, id, time.Now())
	batch, _ := r.Context().Value(backgroundKey{}).(string)
	span.Set(trace.Attr{Key: "kvasir.batch.id", Value: batch}, trace.Attr{Key: "kvasir.batch.custom_id", Value: one.CustomID})
	return span
}

type traceIDKey struct{}

// withTrace returns the context of a request with its span, and its id for spans below.
func withTrace(ctx context.Context, span *trace.Span, id string) context.Context {
	if span == nil {
		return ctx
	}
	return context.WithValue(trace.With(ctx, span), traceIDKey{}, id)
}

// traceID returns the id of the trace that a request belongs to, "" if it belongs to none.
func traceID(r *http.Request, span *trace.Span) string {
	if above, ok := trace.FromHeader(r.Header); ok {
		return above.ID()
	}
	return span.Context().ID()
}

// endTrace ends the span of a request that was answered.
func endTrace(span *trace.Span, status int) {
	span.Set(trace.Attr{Key: "http.response.status_code", Value: status})
	if status >= 500 {
		span.Fail(http.StatusText(status))
	}
	span.End(time.Now())
}

// failTrace notes in the span of a request why it gets no answer.
func failTrace(ctx context.Context, f *failure) {
	span := trace.From(ctx)
	span.Set(trace.Attr{Key: "error.type", Value: f.code})
	if f.status >= 500 {
		span.Fail(f.message)
	}
}

// operations are what OpenTelemetry calls what APIs do, by a part of the path. It has no word for what others do.
var operations = []struct{ part, name string }{{"render", ""}, {"count_tokens", ""}, {"chat", "chat"}, {"messages", "chat"},
	{"responses", "chat"}, {"embed", "embeddings"}, {"pooling", "embeddings"}, {"completion", "text_completion"},
	{"generate", "text_completion"}, {"infill", "text_completion"}, {"invocations", "chat"}}

// operationOf returns what OpenTelemetry calls what a path does, "" if it has no word for it.
func operationOf(path string) string {
	for _, o := range operations {
		if strings.Contains(path, o.part) {
			return o.name
		}
	}
	return ""
}

// describe notes in the request's span what is asked of which model.
func (t *tracing) describe(ctx context.Context, j *job) {
	id, _ := ctx.Value(traceIDKey{}).(string)
	r := &j.choices[0].prompt.Request
	p := &r.Sampling
	t.request = []trace.Attr{{Key: "gen_ai.request.model", Value: j.title()}, {Key: "gen_ai.response.model", Value: j.title()},
		{Key: "gen_ai.request.max_tokens", Value: r.MaxTokens}, {Key: "gen_ai.request.temperature", Value: float64(p.Temperature)},
		{Key: "gen_ai.request.top_p", Value: float64(p.TopP)}, {Key: "gen_ai.request.n", Value: j.given}}
	if j.given > 1 {
		t.request = append(t.request, trace.Attr{Key: "gen_ai.request.choice.count", Value: j.given})
	}
	t.span.Set(t.request...)
	t.request = append(t.request, trace.Attr{Key: "gen_ai.request.id", Value: id})
}

// tracing is what a job notes in the spans of its request.
type tracing struct {
	span    *trace.Span // of the request; nil records nothing
	request []trace.Attr
}

// record adds to the request's span what came of it, and a span of each answer, with the names of attributes that
// OpenTelemetry's conventions and vLLM have.
func (t *tracing) record(j *job) {
	span := t.span
	if t.span = nil; span == nil {
		return
	}
	u, reasons := j.usage(), []string{}
	for _, c := range j.choices {
		if c.finish != "" {
			reasons = append(reasons, c.finish)
		}
		if c.gen != nil {
			c.record(span, t.request)
		}
	}
	span.Set(trace.Attr{Key: "gen_ai.usage.input_tokens", Value: u.Prompt},
		trace.Attr{Key: "gen_ai.usage.output_tokens", Value: u.Generated},
		trace.Attr{Key: "gen_ai.usage.cache_read.input_tokens", Value: u.Cached},
		trace.Attr{Key: "gen_ai.response.finish_reasons", Value: reasons})
}

// record adds the span of an answer to that of its request, and those of its time in the queue, of its prompt and of
// its tokens.
func (c *choice) record(above *trace.Span, request []trace.Attr) {
	at, end := c.gen.Times(), c.ended
	if end.IsZero() {
		end = time.Now()
	}
	if at.Arrived.IsZero() {
		at.Arrived = c.began
	}
	one := above.Child("llm_request", trace.Internal, at.Arrived, request...)
	one.Set(trace.Attr{Key: "gen_ai.usage.num_sequences", Value: 1},
		trace.Attr{Key: "gen_ai.usage.prompt_tokens", Value: c.usage.Prompt},
		trace.Attr{Key: "gen_ai.usage.completion_tokens", Value: c.usage.Generated},
		trace.Attr{Key: "gen_ai.latency.e2e", Value: end.Sub(at.Arrived).Seconds()})
	if c.finish == "" {
		one.Fail("it did not come to its end")
	} else {
		one.Set(trace.Attr{Key: "gen_ai.response.finish_reasons", Value: []string{c.finish}})
	}
	phases(one, at, end, c.usage)
	one.End(end)
}

// maxTextSpans bounds the texts of a request for vectors or scores that have a span.
const maxTextSpans = 64

// one computes a text and counts its tokens. times is where f leaves when it began, for the span of the text.
func (p *pooling) one(ctx context.Context, times **engine.Times, f func() (tokens int, err error)) error {
	above := trace.From(ctx)
	if above != nil && p.traced.Add(1) > maxTextSpans {
		above = nil
	}
	var at engine.Times
	began := time.Now()
	if above != nil {
		*times = &at
	}
	n, err := f()
	p.tokens.Add(int64(n))
	if above == nil || at.Arrived.IsZero() { // it was refused before it came to the engine
		return err
	}
	id, _ := ctx.Value(traceIDKey{}).(string)
	end := time.Now()
	span := above.Child("llm_request", trace.Internal, began, trace.Attr{Key: "gen_ai.request.model", Value: p.name()},
		trace.Attr{Key: "gen_ai.request.id", Value: id}, trace.Attr{Key: "gen_ai.usage.prompt_tokens", Value: n},
		trace.Attr{Key: "gen_ai.latency.e2e", Value: end.Sub(began).Seconds()})
	if err != nil {
		span.Fail("it did not come to its end")
	}
	phases(span, at, end, text.Usage{Prompt: n})
	span.End(end)
	return err
}

// phases adds what an answer has spent its time on.
func phases(one *trace.Span, at engine.Times, end time.Time, u text.Usage) {
	phase := func(name, latency string, from, to time.Time, attrs ...trace.Attr) {
		if from.IsZero() {
			return
		}
		if to.IsZero() || to.After(end) {
			to = end
		}
		if to.Before(from) {
			to = from
		}
		one.Child(name, trace.Internal, from, attrs...).End(to)
		one.Set(trace.Attr{Key: "gen_ai.latency." + latency, Value: to.Sub(from).Seconds()})
	}
	phase("queue", "time_in_queue", at.Arrived, at.Scheduled)
	phase("prefill", "time_in_model_prefill", at.Scheduled, at.First,
		trace.Attr{Key: "gen_ai.usage.prompt_tokens", Value: u.Prompt},
		trace.Attr{Key: "gen_ai.usage.cache_read.input_tokens", Value: u.Cached})
	if u.Generated == 0 {
		return
	}
	phase("decode", "time_in_model_decode", at.First, end,
		trace.Attr{Key: "gen_ai.usage.completion_tokens", Value: u.Generated})
	if !at.First.IsZero() {
		one.Set(trace.Attr{Key: "gen_ai.latency.time_to_first_token", Value: at.First.Sub(at.Arrived).Seconds()},
			trace.Attr{Key: "gen_ai.latency.time_in_model_inference", Value: max(0, end.Sub(at.Scheduled).Seconds())})
	}
}

// countTraces puts the fates of spans into /metrics.
func countTraces(r *prometheus.Registry, x *trace.Exporter) {
	if x == nil {
		return
	}
	for outcome, read := range map[string]func(trace.Stats) uint64{
		"sent":    func(s trace.Stats) uint64 { return s.Sent },
		"dropped": func(s trace.Stats) uint64 { return s.Dropped },
		"failed":  func(s trace.Stats) uint64 { return s.Failed },
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "kvasir:otlp_spans_total",
			Help:        "Spans of traces: taken by the collector, dropped since too many waited, or not taken by it.",
			ConstLabels: prometheus.Labels{"outcome": outcome}}, func() float64 { return float64(read(x.Stats())) }))
	}
}
