package trace

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// collector takes spans as a collector does. answers are the statuses of its first answers; later ones are 200.
type collector struct {
	*httptest.Server
	answers []int
	hold    chan struct{} // if not nil, each answer waits until it is closed

	mu    sync.Mutex
	asked []*http.Request
	all   []*tracepb.TracesData
}

func newCollector(t *testing.T, answers ...int) *collector {
	c := &collector{answers: answers}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.hold != nil {
			<-c.hold
		}
		var from io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			from = z
		}
		body, err := io.ReadAll(from)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, r)
		if len(c.answers) > 0 {
			status := c.answers[0]
			if c.answers = c.answers[1:]; status != http.StatusOK {
				w.Header().Set("Retry-After", "0")
				http.Error(w, "not now", status)
				return
			}
		}
		c.all = append(c.all, decode(t, r.Header.Get("Content-Type"), body))
	}))
	t.Cleanup(c.Close)
	return c
}

// decode reads what OpenTelemetry's own types read. TracesData and ExportTraceServiceRequest are alike on the wire.
func decode(t *testing.T, contentType string, body []byte) *tracepb.TracesData {
	t.Helper()
	data := new(tracepb.TracesData)
	switch contentType {
	case "application/x-protobuf":
		if err := proto.Unmarshal(body, data); err != nil {
			t.Error(err)
		}
		if n := len(data.ProtoReflect().GetUnknown()); n > 0 {
			t.Errorf("%d bytes of fields that OTLP does not have", n)
		}
	case "application/json":
		if err := protojson.Unmarshal(idsInBase64(t, body), data); err != nil {
			t.Errorf("%v: %s", err, body)
		}
	default:
		t.Errorf("Content-Type %q", contentType)
	}
	return data
}

// idsInBase64 makes OTLP's JSON, whose ids are hexadecimal, the JSON of protobuf.
func idsInBase64(t *testing.T, body []byte) []byte {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for key, x := range v {
				if s, ok := x.(string); ok && (key == "traceId" || key == "spanId" || key == "parentSpanId") {
					id, err := hex.DecodeString(s)
					if err != nil {
						t.Fatal(err)
					}
					v[key] = id // which encoding/json writes in base64
				}
				walk(x)
			}
		}
	}
	walk(v)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// spans returns what has come.
func (c *collector) spans() (all []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, data := range c.all {
		for _, r := range data.ResourceSpans {
			for _, s := range r.ScopeSpans {
				all = append(all, s.Spans...)
			}
		}
	}
	return all
}

// environment returns a getenv of pairs of names and values.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// open returns an exporter to a collector.
func open(t *testing.T, c *collector, pairs ...string) *Exporter {
	t.Helper()
	cfg, on, err := FromEnv(environment(pairs...), c.URL, "v1")
	if err != nil || !on {
		t.Fatal(on, err)
	}
	x := New(cfg, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// value returns an attribute of a span.
func value(s *tracepb.Span, key string) *commonpb.AnyValue {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

// TestSpans sends a request's spans in each form, and reads them with OpenTelemetry's own types.
func TestSpans(t *testing.T) {
	for _, form := range [][]string{nil, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"}} {
		c := newCollector(t)
		x := open(t, c, append(form, "OTEL_RESOURCE_ATTRIBUTES", "zone=a%20b,service.name=other", "OTEL_SERVICE_NAME", "one",
			"OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret%3D1")...)
		at := time.Unix(1700000000, 5)
		s := x.Start(header("Traceparent", parent, "Tracestate", "a=1", "Tracestate", "b=2"), "POST /x", at, Attr{"path", "/x"})
		s.Set(Attr{"n", 3}, Attr{"share", 0.5}, Attr{"on", true}, Attr{"list", []string{"a", "b"}}, Attr{"none", ""},
			Attr{"odd", "a\xffb"}, Attr{"long", strings.Repeat("é", maxText)})
		s.Child("part", Internal, at.Add(time.Second)).End(at.Add(2 * time.Second))
		s.Fail("broke")
		s.Fail("later")
		s.End(at.Add(3 * time.Second))
		s.End(at.Add(4 * time.Second))
		x.Close(t.Context())
		if got := x.Stats(); got != (Stats{Sent: 2}) {
			t.Fatalf("%v: %+v", form, got)
		}
		all := c.spans()
		if len(all) != 2 || all[0].Name != "part" || all[1].Name != "POST /x" {
			t.Fatalf("%v: %v", form, all)
		}
		part, whole := all[0], all[1]
		trace := func(id []byte) string { return hex.EncodeToString(id) }
		if trace(whole.TraceId) != "0af7651916cd43dd8448eb211c80319c" || trace(whole.ParentSpanId) != "b7ad6b7169203331" ||
			!slices.Equal(part.TraceId, whole.TraceId) || !slices.Equal(part.ParentSpanId, whole.SpanId) || len(part.SpanId) != 8 ||
			whole.TraceState != "a=1,b=2" || slices.Equal(part.SpanId, whole.SpanId) {
			t.Errorf("%v: not in their places: %v", form, all)
		}
		if whole.Kind != tracepb.Span_SPAN_KIND_SERVER || part.Kind != tracepb.Span_SPAN_KIND_INTERNAL ||
			whole.StartTimeUnixNano != 1700000000000000005 || whole.EndTimeUnixNano != 1700000003000000005 ||
			whole.Flags != 0x301 || part.Flags != 0x101 {
			t.Errorf("%v: %v", form, all)
		}
		if d := cmp.Diff(&tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "broke"}, whole.Status, protocmp.Transform()); d != "" || part.Status != nil {
			t.Errorf("%v: %s", form, d)
		}
		if value(whole, "n").GetIntValue() != 3 || value(whole, "share").GetDoubleValue() != 0.5 || !value(whole, "on").GetBoolValue() ||
			value(whole, "list").GetArrayValue().GetValues()[1].GetStringValue() != "b" || value(whole, "none") != nil ||
			value(whole, "odd").GetStringValue() != "a\uFFFDb" || value(whole, "long").GetStringValue() != strings.Repeat("é", maxText/2) ||
			value(whole, "path").GetStringValue() != "/x" {
			t.Errorf("%v: %v", form, whole.Attributes)
		}
		from := c.all[0].ResourceSpans[0]
		got := map[string]string{}
		for _, a := range from.Resource.Attributes {
			got[a.Key] = a.Value.GetStringValue()
		}
		if d := cmp.Diff(map[string]string{"service.name": "one", "service.version": "v1", "zone": "a b"}, got); d != "" {
			t.Error(d)
		}
		if from.ScopeSpans[0].Scope.Name != "kvasir" || c.asked[0].Header.Get("X-Key") != "secret=1" || c.asked[0].URL.Path != "/v1/traces" {
			t.Errorf("%v: %v %v", form, from.ScopeSpans[0].Scope, c.asked[0].URL)
		}
	}
}

// TestSampling says which traces are recorded: those of the sampled flag, and of others as the sampler says.
func TestSampling(t *testing.T) {
	c := newCollector(t)
	off := parent[:len(parent)-1] + "0"
	for _, tt := range []struct {
		sampler, arg, header string
		want                 bool
	}{
		{"", "", "", true},
		{"", "", parent, true},
		{"", "", off, false},
		{"", "", "00-00000000000000000000000000000000-b7ad6b7169203331-00", true}, // no trace: a new one
		{"always_on", "", off, true},
		{"always_off", "", parent, false},
		{"parentbased_always_off", "", parent, true},
		{"parentbased_always_off", "", "", false},
		{"traceidratio", "0", parent, false},
		{"traceidratio", "0.6", parent, true}, // the id is at 0.52
		{"traceidratio", "0.5", parent, false},
	} {
		x := open(t, c, "OTEL_TRACES_SAMPLER", tt.sampler, "OTEL_TRACES_SAMPLER_ARG", tt.arg)
		s := x.Start(header("Traceparent", tt.header), "x", time.Now())
		if (s != nil) != tt.want {
			t.Errorf("%+v: %v", tt, s != nil)
		}
		s.Child("y", Internal, time.Now()).End(time.Now()) // a span that is nil takes all calls
	}
}

// TestContext reads and writes W3C's headers.
func TestContext(t *testing.T) {
	for _, tt := range []struct {
		header string
		ok     bool
	}{
		{parent, true}, {"cc" + parent[2:] + "-more", true}, {parent + "-more", false}, {"ff" + parent[2:], false},
		{strings.ToUpper(parent), false}, {parent[:54], false}, {"", false},
		{"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
	} {
		c, ok := FromHeader(header("Traceparent", tt.header, "Tracestate", strings.Repeat("a", 600)))
		if ok != tt.ok || c.State != "" {
			t.Errorf("%q: %v %v", tt.header, ok, c)
		}
	}
	h := header("Traceparent", parent, "Tracestate", "a=1")
	c, _ := FromHeader(h)
	own, out := c.child(), http.Header{}
	own.Set(out)
	if got := out.Get("Traceparent"); got[:36] != parent[:36] || got[36:52] == parent[36:52] || got[52:] != "-01" || out.Get("Tracestate") != "a=1" {
		t.Error(out)
	}
	if (Context{}).ID() != "" || c.ID() != parent[3:35] || From(With(t.Context(), nil)) != nil {
		t.Error("ids")
	}
}

// TestRefused holds that batches are sent again if the collector may take them later, and no others.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		answers []int
		want    Stats
		asked   int
	}{
		{[]int{503, 200}, Stats{Sent: 1}, 2},
		{[]int{400}, Stats{Failed: 1}, 1},
	} {
		c := newCollector(t, tt.answers...)
		x := open(t, c, "OTEL_BSP_SCHEDULE_DELAY", "0")
		x.Start(nil, "x", time.Now()).End(time.Now())
		for x.Stats() == (Stats{}) {
			time.Sleep(time.Millisecond)
		}
		x.Close(t.Context())
		if got := x.Stats(); got != tt.want || len(c.asked) != tt.asked {
			t.Errorf("%v: %+v after %d requests; want %+v after %d", tt.answers, got, len(c.asked), tt.want, tt.asked)
		}
	}
}

// TestSlowCollector holds that spans wait for no collector: those that find the queue full are dropped, and closing
// ends when its context does.
func TestSlowCollector(t *testing.T) {
	c := newCollector(t)
	c.hold = make(chan struct{})
	x := open(t, c, "OTEL_BSP_MAX_QUEUE_SIZE", "4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2", "OTEL_BSP_SCHEDULE_DELAY", "60000")
	const n = 100
	for range n {
		x.Start(nil, "x", time.Now()).End(time.Now())
	}
	if d := x.Stats().Dropped; d < n-4-2-2 || d > n-4 {
		t.Errorf("%d of %d are dropped", d, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x.Close(ctx)
	if got := x.Stats(); got.Sent != 0 || got.Dropped+got.Failed != n {
		t.Errorf("%+v", got)
	}
	close(c.hold)
}

// TestFromEnv says what each variable means, and which are refused.
func TestFromEnv(t *testing.T) {
	for _, tt := range []struct {
		endpoint string
		env      []string
		want     string // the endpoint; "" is off
		err      string
	}{
		{"", nil, "", ""},
		{"http://a:4318", nil, "http://a:4318/v1/traces", ""},
		{"http://a:4318/", nil, "http://a:4318/v1/traces", ""},
		{"http://a/x", []string{"OTEL_SDK_DISABLED", "true"}, "http://a/x", ""},
		{"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://b:1/base/"}, "https://b:1/base/v1/traces", ""},
		{"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://b", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c/as/is"}, "http://c/as/is", ""},
		{"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://b", "OTEL_SDK_DISABLED", "TRUE"}, "", ""},
		{"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://b", "OTEL_TRACES_EXPORTER", "none"}, "", ""},
		{"grpc://a:4317", nil, "", "not over gRPC"},
		{"http://a", []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, "", "http/protobuf or http/json"},
		{"http://a", []string{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}, "", "gzip or none"},
		{"http://a", []string{"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"}, "", "from 1 on"},
		{"http://a", []string{"OTEL_EXPORTER_OTLP_HEADERS", "secret"}, "", "name=value"},
		{"http://a", []string{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file"}, "", "no such file"},
		{"http://a", []string{"OTEL_TRACES_SAMPLER", "jaeger_remote"}, "", "always_on"},
		{"http://a", []string{"OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "2"}, "", "from 0 to 1"},
		{"http://a", []string{"OTEL_TRACES_EXPORTER", "zipkin"}, "", "otlp or none"},
	} {
		c, on, err := FromEnv(environment(tt.env...), tt.endpoint, "")
		switch {
		case (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err):
			t.Errorf("%+v: %v", tt, err)
		case on != (tt.want != "") || on && c.Endpoint != tt.want:
			t.Errorf("%+v: %v %q", tt, on, c.Endpoint)
		}
	}
}
