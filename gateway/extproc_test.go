package gateway

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const picked = "ext_proc: {listen: \"127.0.0.1:0\", objectives: {batch: 5}}\nmodels:\n- name: m\n  upstream: inner\n  endpoints: [http://10.0.0.1, http://10.0.0.2]\n"

func twoEngines() map[string]http.Handler {
	return map[string]http.Handler{"10.0.0.1": &engine{name: "a"}, "10.0.0.2": &engine{name: "b"}}
}

// TestPicker takes requests to an endpoint and answers back, with bodies that are one message and many.
func TestPicker(t *testing.T) {
	for _, mode := range bothModes {
		for _, text := range []string{"hi", strings.Repeat("What is in a KV block? ", 20_000)} {
			t.Run(fmt.Sprint(mode, len(text)), func(t *testing.T) {
				inWorld(t, picked, twoEngines(), func(w *world) {
					conn, done := w.picker()
					defer done()
					p := dialProxy(w.t.Context(), w.t, conn, mode)
					body := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":%q}]}`, text)
					got, refused := p.ask(requestHeaders(false, "accept-encoding", "gzip"), body)
					if refused != nil {
						w.t.Fatal(refused)
					}
					if a, b := "10.0.0.1:80", "10.0.0.2:80"; got.to != a+","+b && got.to != b+","+a {
						t.Errorf("it goes to %q", got.to)
					}
					if want := strings.Replace(body, `"m"`, `"inner"`, 1); got.body != want {
						t.Errorf("%d bytes arrive, %.80q; want %d", len(got.body), got.body, len(want))
					}
					if n := got.set["content-length"]; n != fmt.Sprint(len(got.body)) {
						t.Errorf("content-length is %s of %d bytes", n, len(got.body))
					}
					if !strings.Contains(fmt.Sprint(got.removed), "accept-encoding") || w.inFlight() != 1 {
						t.Errorf("removed are %v, and %d are in flight", got.removed, w.inFlight())
					}
					time.Sleep(time.Second)
					events := []string{"data: {\"choices\":[{\"delta\":{}}]}\n", "\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n", "data: [DONE]\n\n"}
					said := p.answer(responseHeaders("200", false, "content-type", "text/event-stream"), events...)
					if said != strings.Join(events, "") || p.end() != codes.OK {
						t.Errorf("the client gets %q", said)
					}
					synctest.Wait()
					if n := w.inFlight(); n != 0 {
						t.Errorf("%d are in flight", n)
					}
					var told struct {
						Model, Endpoint string
						Status          int
						TTFT            float64 `json:"ttft_ms"`
						In              int     `json:"input_tokens"`
						Out             int     `json:"output_tokens"`
					}
					if err := json.Unmarshal([]byte(w.log.String()), &told); err != nil || told.Model != "m" || told.Status != 200 ||
						told.TTFT != 1000 || told.In != 9 || told.Out != 2 || !strings.Contains(got.to, strings.TrimPrefix(told.Endpoint, "http://")) {
						t.Errorf("%v: %s", err, w.log.String())
					}
				})
			})
		}
	}
}

// TestPickerHoldsToTheSubset chooses among the endpoints that the proxy names, as a list or a text, with or without
// ports; of none there is none.
func TestPickerHoldsToTheSubset(t *testing.T) {
	inWorld(t, picked, twoEngines(), func(w *world) {
		conn, done := w.picker()
		defer done()
		for _, hint := range []any{[]any{"10.0.0.2:80"}, []any{"10.9.9.9:80", "10.0.0.2"}, "10.0.0.2:80", "10.9.9.9:80, 10.0.0.2:80"} {
			for range 10 {
				p := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
				got, refused := p.ask(noted(requestHeaders(false), "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", hint), streamed)
				if refused != nil || got.to != "10.0.0.2:80" {
					t.Errorf("with %v it goes to %q, %v", hint, got.to, refused)
				}
				p.answer(responseHeaders("200", true))
			}
		}
		for _, hint := range []any{[]any{}, []any{"10.0.0.2:81"}, "", "elsewhere:1"} {
			p := dialProxy(w.t.Context(), w.t, conn, bothModes[1])
			got, refused := p.ask(noted(requestHeaders(false), "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset", hint), streamed)
			if refused.GetStatus().GetCode() != 503 {
				t.Errorf("with %v it goes to %q, %v", hint, got.to, refused)
			}
		}
	})
}

// TestPickerRefuses answers requests that go nowhere in place of an endpoint.
func TestPickerRefuses(t *testing.T) {
	key, hash := NewKey()
	closed := picked + "  fallbacks: []\nkeys: [{name: k, hash: \"" + hash + "\"}]\n"
	down := strings.Replace(picked, "10.0.0.1, http://10.0.0.2", "10.0.0.8, http://10.0.0.9", 1)
	for name, c := range map[string]struct {
		config, body string
		head         *procv3.ProcessingRequest
		status       int
		text         string
	}{
		"no endpoint is up": {down, streamed, requestHeaders(false), 503, "no endpoint of the model is up"},
		"no such model":     {picked, `{"model":"x","messages":[]}`, requestHeaders(false), 404, "does not exist"},
		"no model":          {picked, `{"messages":[]}`, requestHeaders(false), 400, "model is missing"},
		"no JSON":           {picked, `{"model":`, requestHeaders(false), 400, "invalid JSON"},
		"no body":           {picked, "", requestHeaders(false), 400, "invalid JSON"},
		"too large":         {picked + "max_body: 1000\n", strings.Repeat(" ", 2000), requestHeaders(false), 413, "1000 bytes"},
		"no key":            {closed, streamed, requestHeaders(false), 401, "API key"},
		"another path":      {picked, streamed, requestHeaders(false, ":path", "/sleep"), 404, "there is no POST"},
		"a path for keys":   {closed, "", requestHeaders(false, "authorization", "Bearer "+key, ":path", "/sleep"), 404, "there is no POST"},
	} {
		for _, mode := range bothModes {
			t.Run(fmt.Sprint(name, mode), func(t *testing.T) {
				inWorld(t, c.config, twoEngines(), func(w *world) {
					conn, done := w.picker()
					defer done()
					p := dialProxy(w.t.Context(), w.t, conn, mode)
					synctest.Wait() // until it is known who is up
					got, refused := p.ask(lastWins(c.head), c.body)
					if refused == nil {
						t.Errorf("it goes to %q", got.to)
						return
					}
					if int(refused.GetStatus().GetCode()) != c.status || !strings.Contains(string(refused.GetBody()), c.text) {
						t.Errorf("it goes to %q, %v; want %d with %q", got.to, refused, c.status, c.text)
					}
					if p.end() != codes.OK || w.inFlight() != 0 {
						t.Errorf("%d are in flight", w.inFlight())
					}
					if n := w.g.bodies.all; n != 0 {
						t.Errorf("%d bytes of bodies are held", n)
					}
				})
			})
		}
	}
	t.Run("no room", func(t *testing.T) {
		inWorld(t, picked, twoEngines(), func(w *world) {
			conn, done := w.picker()
			defer done()
			most := w.g.setup.Load().cfg.BodyMemory
			if !w.g.bodies.take("", 0, most, most) {
				t.Fatal("there was no room")
			}
			for _, mode := range bothModes {
				p := dialProxy(w.t.Context(), w.t, conn, mode)
				if _, refused := p.ask(requestHeaders(false), strings.Repeat(" ", 1<<20)); refused.GetStatus().GetCode() != 503 || !strings.Contains(string(refused.GetBody()), "all the memory") {
					t.Errorf("the request got %v", refused)
				}
			}
			if w.g.bodies.give("", most); w.g.bodies.all != 0 {
				t.Errorf("%d bytes of bodies are held", w.g.bodies.all)
			}
		})
	})
	t.Run("too many", func(t *testing.T) {
		config := "queue: {max_waiting: 1}\n" + strings.Replace(picked, "[http://10.0.0.1, http://10.0.0.2]", "[{url: http://10.0.0.1, max_in_flight: 1}]", 1)
		inWorld(t, config, twoEngines(), func(w *world) {
			conn, done := w.picker()
			defer done()
			first := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
			if _, refused := first.ask(requestHeaders(false), streamed); refused != nil {
				t.Fatal(refused)
			}
			var all sync.WaitGroup
			all.Go(func() {
				second := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
				if _, refused := second.ask(requestHeaders(false), streamed); refused != nil {
					t.Errorf("the second request got %v", refused)
				}
			})
			synctest.Wait()
			third := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
			_, refused := third.ask(requestHeaders(false), streamed)
			if refused.GetStatus().GetCode() != 429 || len(refused.GetHeaders().GetSetHeaders()) < 3 {
				t.Errorf("the third request got %v", refused)
			}
			first.answer(responseHeaders("200", true))
			all.Wait()
		})
	})
}

// lastWins leaves the last of equal headers.
func lastWins(m *procv3.ProcessingRequest) *procv3.ProcessingRequest {
	all, last := m.GetRequestHeaders().Headers, map[string]string{}
	for _, h := range all.Headers {
		last[h.Key] = string(h.RawValue)
	}
	var pairs []string
	for key, value := range maps.All(last) {
		pairs = append(pairs, key, value)
	}
	return &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &procv3.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: m.GetRequestHeaders().EndOfStream}}}
}

// TestPickerMinds lets keys, fairness and objectives count: a client's key and claims do not reach the engine, its
// prefixes are apart, and of two that wait the one that is no batch goes first.
func TestPickerMinds(t *testing.T) {
	key, hash := NewKey()
	config := strings.Replace(picked, "[http://10.0.0.1, http://10.0.0.2]", "[{url: http://10.0.0.1, max_in_flight: 1}]", 1) +
		"keys: [{name: k, hash: \"" + hash + "\", users: true}]\n"
	inWorld(t, config, twoEngines(), func(w *world) {
		conn, done := w.picker()
		defer done()
		mine := func(pairs ...string) *procv3.ProcessingRequest {
			return requestHeaders(false, append(pairs, "authorization", "Bearer "+key)...)
		}
		first := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
		got, _ := first.ask(mine(), streamed)
		if !strings.Contains(fmt.Sprint(got.removed), "authorization") {
			t.Errorf("removed are %v", got.removed)
		}
		if removed := fmt.Sprint(got.removed); !strings.Contains(removed, "x-kvasir-tenant") || !strings.Contains(removed, "x-kvasir-priority") {
			t.Errorf("removed are %v", removed)
		}
		if !strings.Contains(got.body, `"cache_salt":"`) {
			t.Errorf("the body has no salt of the key: %s", got.body)
		}
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for _, name := range []string{"batch", "none"} {
			all.Go(func() {
				p := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
				p.ask(mine("x-gateway-inference-objective", name, "x-gateway-inference-fairness-id", name), streamed)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				p.answer(responseHeaders("200", true))
			})
			synctest.Wait()
		}
		first.answer(responseHeaders("200", true))
		all.Wait()
		if fmt.Sprint(order) != "[none batch]" {
			t.Errorf("they went as %v", order)
		}
	})
}

// TestPickerHearsWhoServed moves a request to the endpoint that served it, and minds which one did not.
func TestPickerHearsWhoServed(t *testing.T) {
	inWorld(t, picked, twoEngines(), func(w *world) {
		conn, done := w.picker()
		defer done()
		p := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
		got, _ := p.ask(requestHeaders(false), streamed)
		second := strings.Split(got.to, ",")[1]
		p.send(noted(responseHeaders("200", false), "envoy.lb", "x-gateway-destination-endpoint-served", second))
		p.next()
		host, _, _ := net.SplitHostPort(second)
		w.g.mu.Lock()
		for url, e := range w.g.ends {
			if is := url == "http://"+host; is != (e.requests == 1) || is == (e.failed == 1) {
				t.Errorf("%s has %d requests and failed %d times; %s served", url, e.requests, e.failed, second)
			}
		}
		w.g.mu.Unlock()
		p.send(responseBody("{}", true))
		if p.next(); p.end() != codes.OK || w.inFlight() != 0 {
			t.Errorf("%d are in flight", w.inFlight())
		}
	})
}

// TestPickerRefusesDisorder ends streams whose messages come out of order, or whose modes cannot be.
func TestPickerRefusesDisorder(t *testing.T) {
	empty := &procv3.ProcessingRequest{}
	modes := func(mode modev3.ProcessingMode_BodySendMode) *procv3.ProcessingRequest {
		m := requestHeaders(false)
		m.ProtocolConfig = &procv3.ProtocolConfiguration{RequestBodyMode: mode}
		return m
	}
	watched := requestHeaders(false)
	watched.ObservabilityMode = true
	trailers := &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestTrailers{RequestTrailers: &procv3.HttpTrailers{}}}
	for name, c := range map[string]struct {
		want codes.Code
		sent []*procv3.ProcessingRequest
	}{
		"nothing":                {codes.InvalidArgument, []*procv3.ProcessingRequest{empty}},
		"a body first":           {codes.InvalidArgument, []*procv3.ProcessingRequest{requestBody("{}", true)}},
		"an answer first":        {codes.InvalidArgument, []*procv3.ProcessingRequest{responseHeaders("200", true)}},
		"headers twice":          {codes.InvalidArgument, []*procv3.ProcessingRequest{requestHeaders(false), requestHeaders(false)}},
		"a body after the end":   {codes.InvalidArgument, []*procv3.ProcessingRequest{requestHeaders(false), requestBody(streamed, true), requestBody("x", true)}},
		"an answer's body first": {codes.InvalidArgument, []*procv3.ProcessingRequest{requestHeaders(false), responseBody("x", true)}},
		"no status":              {codes.InvalidArgument, []*procv3.ProcessingRequest{requestHeaders(false), requestBody(streamed, true), responseHeaders("good", true)}},
		"no path":                {codes.InvalidArgument, []*procv3.ProcessingRequest{lastWins(requestHeaders(false, ":path", "no path"))}},
		"trailers instead":       {codes.InvalidArgument, []*procv3.ProcessingRequest{modes(modev3.ProcessingMode_BUFFERED), trailers}},
		"streamed":               {codes.FailedPrecondition, []*procv3.ProcessingRequest{modes(modev3.ProcessingMode_STREAMED)}},
		"partial":                {codes.FailedPrecondition, []*procv3.ProcessingRequest{modes(modev3.ProcessingMode_BUFFERED_PARTIAL)}},
		"watched":                {codes.FailedPrecondition, []*procv3.ProcessingRequest{watched}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, picked, twoEngines(), func(w *world) {
				conn, done := w.picker()
				defer done()
				p := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
				for _, m := range c.sent {
					p.send(m)
				}
				if got := p.end(); got != c.want {
					t.Errorf("the stream ended with %v; want %v", got, c.want)
				}
				synctest.Wait()
				if n := w.inFlight(); n != 0 {
					t.Errorf("%d are in flight", n)
				}
			})
		})
	}
}

// TestPickerCountsWhoHasGone cancels streams at every step, from many clients at once. In the end nothing is in flight,
// and the picker still picks.
func TestPickerCountsWhoHasGone(t *testing.T) {
	config := strings.Replace(picked, "[http://10.0.0.1, http://10.0.0.2]", "[{url: http://10.0.0.1, max_in_flight: 3}, {url: http://10.0.0.2, max_in_flight: 3}]", 1)
	inWorld(t, config, twoEngines(), func(w *world) {
		conn, done := w.picker()
		defer done()
		steps := []*procv3.ProcessingRequest{
			requestHeaders(false), requestBody(streamed[:10], false), requestBody(streamed[10:], true),
			responseHeaders("200", false, "content-type", "text/event-stream"), responseBody("data: {}\n\n", false), responseBody("data: [DONE]\n\n", true),
		}
		var all sync.WaitGroup
		for client := range 30 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(client), 1))
				for range 20 {
					ctx, cancel := context.WithCancel(context.Background())
					p := dialProxy(ctx, w.t, conn, bothModes[0])
					for _, m := range steps[:1+random.IntN(len(steps))] {
						p.send(m)
						time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
					}
					if random.IntN(2) == 0 {
						p.stream.CloseSend()
					}
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
					cancel()
				}
			})
		}
		all.Wait()
		synctest.Wait()
		if n := w.inFlight(); n != 0 {
			t.Errorf("%d are in flight", n)
		}
		p := dialProxy(w.t.Context(), w.t, conn, bothModes[1])
		if got, refused := p.ask(requestHeaders(false), streamed); refused != nil || got.to == "" {
			t.Errorf("it goes to %q, %v", got.to, refused)
		}
	})
}

// TestPickerWithoutBody chooses for requests that name no model, and for answers that a proxy gives itself.
func TestPickerWithoutBody(t *testing.T) {
	inWorld(t, picked, twoEngines(), func(w *world) {
		conn, done := w.picker()
		defer done()
		p := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
		p.send(lastWins(requestHeaders(true, ":method", "GET", ":path", "/v1/models")))
		m := p.next()
		got := went{set: map[string]string{}}
		if got.read(t, m.GetRequestHeaders().GetResponse(), m); w.inFlight() != 1 {
			t.Errorf("%d are in flight", w.inFlight())
		}
		p.answer(responseHeaders("200", false, "content-type", "application/json"), `{"data":[]}`)
		p.end()
		early := dialProxy(w.t.Context(), w.t, conn, bothModes[0])
		early.send(requestHeaders(false))
		early.answer(responseHeaders("408", false), "too slow")
		if early.end() != codes.OK || w.inFlight() != 0 {
			t.Errorf("%d are in flight", w.inFlight())
		}
	})
}

// TestPickerIsHealthy answers gRPC's health checks, over TLS with a certificate of the picker's own.
func TestPickerIsHealthy(t *testing.T) {
	c, err := Parse("fleet.yaml", []byte("ext_proc: {listen: \"127.0.0.1:0\", self_signed: true}\nmodels: [{name: m, endpoints: [http://127.0.0.1:1]}]"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(c, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	s, err := g.Picker()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.ServeTLS(ln, "", "")
	defer s.Close()
	conn, err := grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := grpc_health_v1.NewHealthClient(conn)
	look := func(service string) string {
		r, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			return status.Code(err).String()
		}
		return r.Status.String()
	}
	for _, draining := range []bool{false, true} {
		ready := "SERVING"
		if draining {
			g.Drain()
			ready = "NOT_SERVING"
		}
		for service, want := range map[string]string{
			"": ready, "readiness": ready, "envoy.service.ext_proc.v3.ExternalProcessor": ready, "liveness": "SERVING", "x": "NotFound",
		} {
			if got := look(service); got != want {
				t.Errorf("draining %v: %q is %s; want %s", draining, service, got, want)
			}
		}
	}
}

// TestConfigOfThePickerIsRefused is TestMistakes for what a proxy cannot be told.
func TestConfigOfThePickerIsRefused(t *testing.T) {
	const plain = "endpoints: [http://10.0.0.1:8000]"
	for _, c := range []struct{ proc, model, want string }{
		{"{self_signed: true}", plain, "ext_proc.listen: it is missing"},
		{"{listen: \":1\", cert: a}", plain, "cert and key need each other"},
		{"{listen: \":1\", cert: a, key: b, self_signed: true}", plain, "there is a cert, too"},
		{"{listen: \":1\", objectives: {batch: low}}", plain, "want a whole number"},
		{"{listen: \":1\", tls: true}", plain, "unknown key"},
		{"{listen: \":1\"}", "endpoints: [http://engine:8000]", "want an IP address and a port"},
		{"{listen: \":1\"}", "endpoints: [http://10.0.0.1/base]", "want an IP address and a port"},
		{"{listen: \":1\"}", "endpoints: [srv+http://_http._tcp.engines]", "must be found by its address"},
		{"{listen: \":1\"}", "transfer: nixl, endpoints: [{url: http://10.0.0.1, role: prefill}, http://10.0.0.2]", "neither api nor role"},
	} {
		text := "ext_proc: " + c.proc + "\nmodels: [{name: m, " + c.model + "}]\n"
		if _, err := Parse("fleet.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%v\nwant %s", text, err, c.want)
		}
	}
	for _, model := range []string{plain, "endpoints: [\"http://[::1]:80\", dns+http://engines:80]"} {
		if _, err := Parse("fleet.yaml", []byte("ext_proc: {listen: \":1\"}\nmodels: [{name: m, "+model+"}]")); err != nil {
			t.Error(err)
		}
	}
}
