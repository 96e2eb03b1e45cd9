package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/kvasir-llm/kvasir/trace"
)

// traceFlags say where spans of requests go; docs/traces.md.
type traceFlags struct {
	Traces string `name:"otlp-traces-endpoint" help:"Send OpenTelemetry spans of requests to this collector (OTLP over HTTP), such as http://localhost:4318. By default as OTEL_EXPORTER_OTLP_ENDPOINT says; docs/traces.md." placeholder:"URL"`
}

// flushTime is how long the spans that wait may take to be sent when the program ends.
const flushTime = 5 * time.Second

// open returns what sends spans, nil if nothing says where to. stop sends what waits.
func (f *traceFlags) open(log *slog.Logger) (x *trace.Exporter, stop func(), err error) {
	cfg, on, err := trace.FromEnv(os.Getenv, f.Traces, version())
	if err != nil {
		return nil, nil, usageError{err.Error()}
	}
	if !on {
		return nil, func() {}, nil
	}
	x = trace.New(cfg, log)
	log.Info("traces", "endpoint", cfg.Endpoint)
	return x, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		x.Close(ctx)
	}, nil
}
