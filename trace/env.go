package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config configures an Exporter. FromEnv fills it in.
type Config struct {
	Endpoint string            // the URL that spans are posted to
	Headers  map[string]string // of these requests
	JSON     bool              // in place of protobuf
	Gzip     bool
	Timeout  time.Duration // of a request
	TLS      *tls.Config   // nil is the system's
	Sampler  Sampler
	// Version is the program's, and Attributes are what all spans come from, service.name among them.
	Version    string
	Attributes []Attr
	// Queue is how many spans may wait, more are dropped; Batch how many a request has at most; and Delay how long the
	// first of fewer waits for others.
	Queue, Batch int
	Delay        time.Duration
}

// Sampler says which traces are recorded.
type Sampler struct {
	Share  float64 // of the traces that begin here, by their ids
	Parent bool    // traces that begin elsewhere are recorded if they are there, else as if they began here
}

// sampled decides on a trace. above is whether it is recorded elsewhere, if it began there.
func (s Sampler) sampled(id [16]byte, above, remote bool) bool {
	if remote && s.Parent {
		return above
	}
	// Of the last 63 bits of the id, as all of OpenTelemetry's libraries do it.
	return s.Share >= 1 || float64(binary.BigEndian.Uint64(id[8:])>>1) < s.Share*(1<<63)
}

// tracesPath is where collectors take spans.
const tracesPath = "/v1/traces"

// env reads OpenTelemetry's variables. Empty ones are as good as none.
type env struct {
	get func(string) string
	err error
}

// otlp returns a variable of the exporter: that for traces, or else that for all signals.
func (e *env) otlp(name string) string {
	return cmp.Or(e.get("OTEL_EXPORTER_OTLP_TRACES_"+name), e.get("OTEL_EXPORTER_OTLP_"+name))
}

func (e *env) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

// whole returns an integer from least on.
func (e *env) whole(name, value string, least, otherwise int) int {
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > 1<<30 {
		e.fail("%s is %q; want an integer from %d on", name, value, least)
	}
	return n
}

// FromEnv returns what OpenTelemetry's variables say. endpoint, if not "", is where spans go whatever they say: a URL,
// to which /v1/traces is added if it has no path. on is false if nothing says where they go, or that they go nowhere.
func FromEnv(getenv func(string) string, endpoint, version string) (c Config, on bool, err error) {
	e := &env{get: func(name string) string { return strings.TrimSpace(getenv(name)) }}
	c = Config{Version: version, Endpoint: endpoint}
	if endpoint == "" {
		if strings.EqualFold(e.get("OTEL_SDK_DISABLED"), "true") || e.get("OTEL_TRACES_EXPORTER") == "none" {
			return c, false, nil
		}
		if c.Endpoint = e.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); c.Endpoint == "" {
			if c.Endpoint = strings.TrimSuffix(e.get("OTEL_EXPORTER_OTLP_ENDPOINT"), "/"); c.Endpoint == "" {
				return c, false, nil
			}
			c.Endpoint += tracesPath
		}
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return c, false, fmt.Errorf("the endpoint of traces is %q; want such as http://localhost:4318%s: OTLP goes over HTTP here, not over gRPC",
			c.Endpoint, tracesPath)
	}
	if u.Path == "" || endpoint != "" && u.Path == "/" {
		u.Path = tracesPath
		c.Endpoint = u.String()
	}
	switch v := e.get("OTEL_TRACES_EXPORTER"); v {
	case "", "otlp", "none": // an endpoint on the command line counts for more
	default:
		e.fail("OTEL_TRACES_EXPORTER is %q; want otlp or none", v)
	}
	e.transport(&c)
	e.sampler(&c)
	e.attributes(&c)
	c.Queue = e.whole("OTEL_BSP_MAX_QUEUE_SIZE", e.get("OTEL_BSP_MAX_QUEUE_SIZE"), 1, 2048)
	c.Batch = min(c.Queue, e.whole("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", e.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"), 1, 512))
	c.Delay = time.Duration(e.whole("OTEL_BSP_SCHEDULE_DELAY", e.get("OTEL_BSP_SCHEDULE_DELAY"), 0, 5000)) * time.Millisecond
	return c, e.err == nil, e.err
}

// transport reads how requests are made.
func (e *env) transport(c *Config) {
	switch v := e.otlp("PROTOCOL"); v {
	case "", "http/protobuf":
	case "http/json":
		c.JSON = true
	default:
		e.fail("OTEL_EXPORTER_OTLP_PROTOCOL is %q; want http/protobuf or http/json", v)
	}
	switch v := e.otlp("COMPRESSION"); v {
	case "", "none":
	case "gzip":
		c.Gzip = true
	default:
		e.fail("OTEL_EXPORTER_OTLP_COMPRESSION is %q; want gzip or none", v)
	}
	c.Timeout = time.Duration(e.whole("OTEL_EXPORTER_OTLP_TIMEOUT", e.otlp("TIMEOUT"), 1, 10_000)) * time.Millisecond
	c.Headers = e.pairs("OTEL_EXPORTER_OTLP_HEADERS", e.otlp("HEADERS"))
	e.certificates(c)
}

// certificates reads whom requests trust, and who they say they are from.
func (e *env) certificates(c *Config) {
	ca, cert, key := e.otlp("CERTIFICATE"), e.otlp("CLIENT_CERTIFICATE"), e.otlp("CLIENT_KEY")
	if ca == "" && cert == "" && key == "" {
		return
	}
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		c.TLS.RootCAs = x509.NewCertPool()
		if err != nil {
			e.fail("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		} else if !c.TLS.RootCAs.AppendCertsFromPEM(pem) {
			e.fail("OTEL_EXPORTER_OTLP_CERTIFICATE: %s holds no certificate in PEM", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			e.fail("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _KEY: %w", err)
		}
		c.TLS.Certificates = []tls.Certificate{pair}
	}
}

// sampler reads which traces are recorded.
func (e *env) sampler(c *Config) {
	c.Sampler = Sampler{Share: 1, Parent: true}
	name := cmp.Or(e.get("OTEL_TRACES_SAMPLER"), "parentbased_always_on")
	kind, parent := strings.CutPrefix(name, "parentbased_")
	c.Sampler.Parent = parent
	switch kind {
	case "always_on":
	case "always_off":
		c.Sampler.Share = 0
	case "traceidratio":
		arg := cmp.Or(e.get("OTEL_TRACES_SAMPLER_ARG"), "1")
		share, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			e.fail("OTEL_TRACES_SAMPLER_ARG is %q; want a number from 0 to 1", arg)
		}
		c.Sampler.Share = share
	default:
		e.fail("OTEL_TRACES_SAMPLER is %q; want always_on, always_off or traceidratio, or one of them after parentbased_", name)
	}
}

// attributes reads what the spans come from.
func (e *env) attributes(c *Config) {
	own := e.pairs("OTEL_RESOURCE_ATTRIBUTES", e.get("OTEL_RESOURCE_ATTRIBUTES"))
	if name := cmp.Or(e.get("OTEL_SERVICE_NAME"), own["service.name"], "kvasir"); own == nil {
		own = map[string]string{"service.name": name}
	} else {
		own["service.name"] = name
	}
	if c.Version != "" && own["service.version"] == "" {
		own["service.version"] = c.Version
	}
	for _, key := range sortedKeys(own) {
		c.Attributes = append(c.Attributes, Attr{key, own[key]})
	}
}

// pairs reads names and values as W3C's baggage has them: name=value,name=value, with percent signs in values.
func (e *env) pairs(variable, list string) map[string]string {
	var out map[string]string
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			e.fail("%s has %q; want such as name=value, and commas between them", variable, name) // no value: it may be a key
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}
