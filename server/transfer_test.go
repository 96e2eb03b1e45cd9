package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/quant"
)

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

// host is a server of the built-in model with an engine of its own.
type host struct {
	*httptest.Server
	t    *testing.T
	log  *logged
	self *Server
}

func newHost(t *testing.T, cfg Config, o text.Options) *host {
	t.Helper()
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	o.Name, o.Context, o.KVBytes, o.Compute.Threads = "kvasir-mini", 512, 8<<20, 1
	if len(cfg.TakeKVFrom) > 0 {
		o.TakeKVBytes = 4 << 20
	}
	m, err := text.Open(ckpt, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	h := &host{t: t, log: &logged{}}
	cfg.Models, cfg.Logger = []Served{FromText(m)}, slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.self = build(t, cfg)
	h.Server = httptest.NewServer(h.self)
	t.Cleanup(h.Close)
	return h
}

// address returns the host and the port.
func (h *host) address() (string, int) {
	u, _ := url.Parse(h.URL)
	port, _ := strconv.Atoi(u.Port())
	return u.Hostname(), port
}

// completion is what these tests look at of an answer.
type completion struct {
	Choices []struct{ Text string }
	Usage   struct {
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Transfer *openai.KVTransfer `json:"kv_transfer_params"`
	Error    struct{ Param, Message string }
	header   http.Header
}

// story is a prompt of a few hundred tokens.
var story = strings.Repeat("Once upon a time there was a king who had three sons and a great dragon. ", 16) + "One day"

// ask asks for a completion of the story with more members.
func (h *host) ask(key, more string) (status int, c completion) {
	h.t.Helper()
	body := fmt.Sprintf(`{"prompt":%q,"temperature":0%s}`, story, more)
	r, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&c); err != nil {
		h.t.Fatal(err)
	}
	c.header = res.Header
	return res.StatusCode, c
}

const remoteDecode = `,"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`

// prefill computes the story's KV blocks and says where they are.
func (h *host) prefill(key string) *openai.KVTransfer {
	h.t.Helper()
	status, c := h.ask(key, remoteDecode)
	if status != 200 || c.Transfer == nil {
		h.t.Fatalf("status %d, %+v", status, c)
	}
	return c.Transfer
}

// decode goes on with the story where another server has its blocks.
func (h *host) decode(key string, from *openai.KVTransfer) completion {
	h.t.Helper()
	params, _ := json.Marshal(from)
	status, c := h.ask(key, `,"max_tokens":12,"kv_transfer_params":`+string(params))
	if status != 200 {
		h.t.Fatalf("status %d, %+v", status, c)
	}
	return c
}

func (h *host) metric(name string) string {
	for line := range strings.Lines(metrics1(h.self)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "none"
}

func metrics1(s *Server) string { _, body := get(s, "", "/metrics"); return body }

// TestTransfer hands a prompt's blocks from one server to another, each with keys of its own.
func TestTransfer(t *testing.T) {
	p := newHost(t, Config{GiveKV: true, Keys: []Key{{Secret: "of p"}}}, text.Options{})
	name, port := p.address()
	d := newHost(t, Config{TakeKVFrom: []string{fmt.Sprintf("%s:%d", name, port)}, Keys: []Key{{Secret: "a"}, {Secret: "b"}}}, text.Options{})
	_, want := p.ask("of p", `,"max_tokens":12`)
	from := p.prefill("of p")
	if from.Host != name || from.Port != port || !from.DoRemotePrefill || from.DoRemoteDecode || len(from.RequestID) < 22 || from.Blocks < 10 || from.EngineID == "" {
		t.Errorf("%+v", from)
	}
	got := d.decode("a", from)
	if got.Choices[0].Text != want.Choices[0].Text || got.Usage.Details.Cached != 16*from.Blocks {
		t.Errorf("%+v; want %q with %d cached", got, want.Choices[0].Text, 16*from.Blocks)
	}
	if other := d.decode("b", from); other.Usage.Details.Cached != 0 || other.Choices[0].Text != want.Choices[0].Text {
		t.Errorf("an id is good twice, or another key finds the blocks: %+v", other)
	}
	if n := d.metric(`kvasir:tier_loaded_blocks_total{engine="0",model_name="kvasir-mini",tier="transfer"}`); n != strconv.Itoa(from.Blocks) {
		t.Errorf("%s blocks were loaded; want %d", n, from.Blocks)
	}
	if ok, failed := d.metric("kvasir:kv_transfers_taken_total"), d.metric("kvasir:kv_transfers_failed_total"); ok != "1" || failed != "1" {
		t.Errorf("%s transfers, %s failed", ok, failed)
	}
	for _, h := range []*host{p, d} {
		h.log.mu.Lock()
		if text := h.log.String(); strings.Contains(text, from.RequestID) || !strings.Contains(text, "request") {
			t.Errorf("the log has the id, or nothing: %s", text)
		}
		h.log.mu.Unlock()
	}
}

// cut passes connections on to a server, and ends each after so many bytes of the answer.
func cut(t *testing.T, to string, after int64) (port int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go io.Copy(server, c)
			io.CopyN(c, server, after)
			c.Close()
			server.Close()
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port
}

// TestTransferFails breaks transfers in every way: the answer is the same, and the request does not fail.
func TestTransferFails(t *testing.T) {
	p := newHost(t, Config{GiveKV: true}, text.Options{})
	_, want := p.ask("", `,"max_tokens":12`)
	name, port := p.address()
	other := newHost(t, Config{GiveKV: true}, text.Options{KVType: quant.F16})
	dead := httptest.NewServer(http.NotFoundHandler())
	redirects := httptest.NewServer(http.RedirectHandler(p.URL+transfersPath, http.StatusFound))
	t.Cleanup(redirects.Close)
	at := func(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }
	dead.Close()
	broken := cut(t, fmt.Sprintf("%s:%d", name, port), 200_000)
	for _, c := range []struct {
		name    string
		from    func() *openai.KVTransfer
		some    bool // of the blocks come
		ignored bool
		log     string
	}{
		{"an id that there is not", func() *openai.KVTransfer { x := p.prefill(""); x.RequestID = "x"; return x }, false, false, "status 404"},
		{"a server that is gone", func() *openai.KVTransfer { x := p.prefill(""); x.Port = at(dead); return x }, false, false, "refused"},
		{"another model", func() *openai.KVTransfer { return other.prefill("") }, false, false, "of no use here"},
		{"a redirect", func() *openai.KVTransfer { x := p.prefill(""); x.Port = at(redirects); return x }, false, false, "status 302"},
		{"a stream that breaks off", func() *openai.KVTransfer { x := p.prefill(""); x.Port = broken; return x }, true, false, "breaks off"},
		{"a host that is not allowed", func() *openai.KVTransfer { x := p.prefill(""); x.Host = "127.0.0.2"; return x }, false, true, "--kv-take-from"},
	} {
		d := newHost(t, Config{TakeKVFrom: []string{"127.0.0.1/32"}}, text.Options{})
		got := d.decode("", c.from())
		d.log.mu.Lock()
		log := d.log.String()
		d.log.mu.Unlock()
		if got.Choices[0].Text != want.Choices[0].Text || (got.Usage.Details.Cached > 0) != c.some || !strings.Contains(log, c.log) {
			t.Errorf("%s: %+v; want %q\n%s", c.name, got, want.Choices[0].Text, log)
		}
		if ignored := got.header.Get(ignoredHeader) == "kv_transfer_params.remote_host"; ignored != c.ignored {
			t.Errorf("%s: %v", c.name, got.header)
		}
		if n := d.metric("kvasir:kv_transfers_failed_total"); n != "1" {
			t.Errorf("%s: %s failed", c.name, n)
		}
	}
}

// TestTransferIsRefused checks what is told of parameters that are not served.
func TestTransferIsRefused(t *testing.T) {
	both := build(t, Config{Models: []Served{served(newFake("fake", "Hello"))}, GiveKV: true, TakeKVFrom: []string{"p"}})
	none := build(t, Config{Models: []Served{served(newFake("fake", "Hello"))}})
	for _, c := range []struct {
		s           *Server
		body, param string
	}{
		{none, `{"prompt":"a","kv_transfer_params":{"do_remote_decode":true}}`, "kv_transfer_params.do_remote_decode"},
		{none, `{"prompt":"a","kv_transfer_params":{"do_remote_prefill":true,"remote_host":"p","remote_port":1,"remote_request_id":"x"}}`, "kv_transfer_params.do_remote_prefill"},
		{none, `{"prompt":"a","kv_transfer_params":{"do_remote_prefill":false,"do_remote_decode":false,"transfer_id":"x"}}`, ""},
		{both, `{"prompt":"a","kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":true}}`, "kv_transfer_params.do_remote_decode"},
		{both, `{"prompt":"a","stream":true,"kv_transfer_params":{"do_remote_decode":true}}`, "kv_transfer_params.do_remote_decode"},
		{both, `{"prompt":["a","b"],"kv_transfer_params":{"do_remote_decode":true}}`, "kv_transfer_params"},
		{both, `{"prompt":"a","kv_transfer_params":{"do_remote_prefill":true}}`, "kv_transfer_params.remote_request_id"},
		{both, `{"prompt":"a","kv_transfer_params":{"do_remote_prefill":true,"remote_request_id":"x"}}`, "kv_transfer_params.remote_host"},
		{both, `{"prompt":"a","kv_transfer_params":{"do_remote_prefill":true,"remote_request_id":"x","remote_host":"p"}}`, "kv_transfer_params.remote_port"},
		{none, `{"prompt":"a","kv_transfer_params":{"do_remote_prefill":false,"remote_host":"p"}}`, "kv_transfer_params.remote_host"},
		{both, `{"prompt":"a","kv_transfer_params":{"do_remote_decode":true,"remote_request_id":"x"}}`, "kv_transfer_params.remote_request_id"},
		{both, `{"prompt":"a","kv_transfer_params":{"remote_port":70000}}`, "kv_transfer_params.remote_port"},
		{both, `{"prompt":"a","kv_transfer_params":{"remote_block_ids":[1]}}`, "kv_transfer_params.remote_block_ids"},
		{both, `{"prompt":"a","kv_transfer_params":{"tp_size":2}}`, "kv_transfer_params.tp_size"},
		{both, `{"prompt":"a","kv_transfer_params":{"do_remote_decode":true}}`, ""},
	} {
		r, w := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(c.body)), httptest.NewRecorder()
		c.s.ServeHTTP(w, r)
		var got completion
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || (w.Code == 200) != (c.param == "") || got.Error.Param != c.param {
			t.Errorf("%s: %d %s; want param %q", c.body, w.Code, w.Body, c.param)
		}
	}
	for _, from := range []string{"", "10.0.0.0/99", "a b", "http://p"} {
		if _, err := New(Config{Models: []Served{served(newFake("fake", "Hello"))}, TakeKVFrom: []string{from}}); err == nil {
			t.Errorf("blocks from %q", from)
		}
	}
	for path, code := range map[string]int{transfersPath: 404, transfersPath + "?without=-1": 400, transfersPath + "?x=1": 400} {
		if got, body := get(both, "", path); got != code {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
}

// TestTransferFrom checks from which servers blocks may come.
func TestTransferFrom(t *testing.T) {
	s := build(t, Config{Models: []Served{served(newFake("fake", "Hello"))}, TakeKVFrom: []string{"P.example", "q:81", "10.1.0.0/16", "[fd00::1]:82", "fd01::/64"}})
	for host, want := range map[string]bool{
		"p.example:1": true, "P.EXAMPLE:2": true, "q:81": true, "q:80": false, "10.1.2.3:9": true, "10.2.2.3:9": false, "[::ffff:10.1.2.3]:9": true,
		"[fd00::1]:82": true, "[fd00::1]:83": false, "[fd01::7]:1": true, "10.1.2.3.example:1": false, "localhost:81": false,
	} {
		name, port := address(host)
		if got := s.transfers.allowed(name, port); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
}

// TestOffersEnd checks how long and how many prompts' blocks can be fetched.
func TestOffersEnd(t *testing.T) {
	tr := &transfers{}
	add := func(id string, tokens int, until time.Time) {
		tr.add(handover{id: id, blocks: fakeBlocks{}, tokens: tokens, until: until})
	}
	later := time.Now().Add(time.Hour)
	add("late", 1, time.Now().Add(-time.Second))
	if tr.claim("late") != nil || tr.tokens != 0 || len(tr.offers) != 0 {
		t.Error("an offer that has ended")
	}
	add("large", mostOffered, later)
	add("next", 7, later)
	if tr.claim("large") != nil || tr.claim("next") == nil || tr.claim("next") != nil || tr.tokens != 0 {
		t.Errorf("%d tokens, %v", tr.tokens, tr.offers)
	}
	for i := range mostOffers + 3 {
		add(fmt.Sprint(i), 1, later)
	}
	if len(tr.offers) != mostOffers || tr.tokens != mostOffers || tr.claim("2") != nil || tr.claim("3") == nil {
		t.Errorf("%d offers of %d tokens", len(tr.offers), tr.tokens)
	}
}

type fakeBlocks struct{ Blocks }
