// Package trace records what happens to requests as OpenTelemetry spans, and sends them to a collector: OTLP over HTTP,
// in protobuf or JSON. Read Exporter first.
package trace

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Kind is what a span is to other processes. The numbers are OTLP's.
type Kind int

const (
	Internal Kind = 1
	server   Kind = 2 // it answers a request
	Client   Kind = 3 // it waits for the answer to one
)

// Attr is a property of a span. Value is a string, an int, an int64, a float64, a bool or a []string.
type Attr struct {
	Key   string
	Value any
}

// maxText bounds the bytes of a string in a span.
const maxText = 4096

// Span is something that takes time. A nil Span records nothing, and all methods may be called on it. They may be
// called from several goroutines.
type Span struct {
	exporter *Exporter
	own      Context
	parent   [8]byte // zeros: it is the trace's first
	name     string
	kind     Kind
	begin    time.Time

	mu    sync.Mutex // guards the rest
	end   time.Time
	attrs []Attr
	fault string // why it failed
	bad   bool
	ended bool
}

// Start begins the span of a request that carries the header h. It belongs to the trace that the header names, or else
// begins one. The result is nil if x is, or if the trace is not recorded.
func (x *Exporter) Start(h http.Header, name string, begin time.Time, attrs ...Attr) *Span {
	if x == nil {
		return nil
	}
	above, ok := FromHeader(h)
	own := above.child()
	if own.Sampled = x.cfg.Sampler.sampled(own.Trace, above.Sampled, ok); !own.Sampled {
		return nil
	}
	return &Span{exporter: x, own: own, parent: above.Span, name: name, kind: server, begin: begin, attrs: attrs}
}

// Child begins a span below s.
func (s *Span) Child(name string, kind Kind, begin time.Time, attrs ...Attr) *Span {
	if s == nil {
		return nil
	}
	return &Span{exporter: s.exporter, own: s.own.child(), parent: s.own.Span, name: name, kind: kind, begin: begin, attrs: attrs}
}

// Context returns the span's place in its trace, for requests to other processes; the zero value of a nil Span.
func (s *Span) Context() Context {
	if s == nil {
		return Context{}
	}
	return s.own
}

// Set adds attributes. Those with an empty string are left out.
func (s *Span) Set(attrs ...Attr) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attrs {
		if a.Value != "" {
			s.attrs = append(s.attrs, a)
		}
	}
}

// Fail marks the span as failed. The first reason counts.
func (s *Span) Fail(why string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.bad {
		s.bad, s.fault = true, why
	}
}

// End ends the span, once, and queues it to be sent. It never waits.
func (s *Span) End(at time.Time) {
	if s == nil {
		return
	}
	s.mu.Lock()
	again := s.ended
	if !again {
		s.ended, s.end = true, at
	}
	s.mu.Unlock()
	if !again {
		s.exporter.queue(s)
	}
}

type spanKey struct{}

// With returns a context in which From returns s.
func With(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, s)
}

// From returns the span of a context, nil if it has none.
func From(ctx context.Context) *Span {
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}
