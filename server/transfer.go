package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
)

// transfersPath is where KV blocks are fetched. The header transferHeader has the id of the transfer, since paths get
// into logs; the query may say how many of the first blocks are not wanted.
const (
	transfersPath  = "/kv/transfers"
	transferHeader = "Kvasir-Transfer"
)

// A prompt's blocks are offered for offerTime, of mostOffers prompts and mostOffered tokens of theirs at once; older
// offers end sooner. Blocks that the cache evicts meanwhile are not sent. Fetching ends after fetchTime, and after
// silence, in which the other server sends nothing.
const (
	offerTime   = time.Minute
	mostOffers  = 1024
	mostOffered = 4 << 20
	fetchTime   = time.Minute
	silence     = 5 * time.Second
)

// transfers are the ways of KV blocks from and to other servers.
type transfers struct {
	give   bool
	from   []string // hosts, with or without a port
	nets   []netip.Prefix
	id     string // of this server
	client *http.Client
	log    *slog.Logger

	mu     sync.Mutex
	offers []handover // the oldest first
	tokens int        // of their prompts

	given, taken, failed, blocks prometheus.Counter
}

// handover is a prompt whose blocks can be fetched, once.
type handover struct {
	id     string
	blocks Blocks
	tokens int
	until  time.Time
}

func newTransfers(cfg *Config, registry *prometheus.Registry) (*transfers, error) {
	t := &transfers{give: cfg.GiveKV, id: rand.Text(), log: cfg.Logger}
	if cfg.GiveKV && cfg.TLS != nil {
		return nil, errors.New("server: KV blocks are given over plain HTTP, and this server speaks TLS")
	}
	for _, from := range cfg.TakeKVFrom {
		if strings.Contains(from, "/") {
			prefix, err := netip.ParsePrefix(from)
			if err != nil {
				return nil, fmt.Errorf("server: KV blocks from %q: want a host, host:port or a network such as 10.0.0.0/16", from)
			}
			t.nets = append(t.nets, prefix)
			continue
		}
		if from == "" || strings.ContainsAny(from, " @?#") {
			return nil, fmt.Errorf("server: KV blocks from %q: want a host, host:port or a network such as 10.0.0.0/16", from)
		}
		t.from = append(t.from, strings.ToLower(from))
	}
	dialer := net.Dialer{Timeout: silence}
	t.client = &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: silence,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dialer.DialContext(ctx, network, address)
				return talkative{c}, err
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	count := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		if t.give || t.takes() {
			registry.MustRegister(c)
		}
		return c
	}
	t.given = count("kvasir:kv_transfers_given_total", "Prompts whose KV blocks another server has fetched.")
	t.blocks = count("kvasir:kv_transfer_blocks_given_total", "KV blocks that were sent to other servers.")
	t.taken = count("kvasir:kv_transfers_taken_total", "Prompts whose KV blocks, as far as they were not here, another server has sent.")
	t.failed = count("kvasir:kv_transfers_failed_total", "Prompts whose KV blocks could not all be sent or fetched; the rest is computed.")
	return t, nil
}

// talkative is a connection that ends if the other side is silent for too long.
type talkative struct{ net.Conn }

func (c talkative) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// takes reports whether blocks may come from any server.
func (t *transfers) takes() bool { return len(t.from)+len(t.nets) > 0 }

// allowed reports whether blocks may come from a server.
func (t *transfers) allowed(host string, port int) bool {
	host = strings.ToLower(host)
	if slices.Contains(t.from, host) || slices.Contains(t.from, net.JoinHostPort(host, strconv.Itoa(port))) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(t.nets, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}

// check refuses what a request asks for that is not served.
func (t *transfers) check(asked *openai.KVTransfer, prompts int) error {
	const params = "kv_transfer_params"
	switch {
	case asked == nil:
		return nil
	case prompts > 1:
		return wire.Invalid(params, wire.CodeInvalidValue, "only with one prompt; found %d", prompts)
	case asked.DoRemoteDecode && !t.give:
		return wire.Invalid(params+".do_remote_decode", wire.CodeUnsupported, "must be false; this server gives KV blocks to no other (--kv-give)")
	case asked.DoRemotePrefill && !t.takes():
		return wire.Invalid(params+".do_remote_prefill", wire.CodeUnsupported, "must be false; this server takes KV blocks from no other (--kv-take-from)")
	}
	return nil
}

// offer lets others fetch the blocks of a job's prompt, if its request asked for that, and tells them where.
func (t *transfers) offer(r *http.Request, j *job) {
	if j.transfer == nil || !j.transfer.DoRemoteDecode || j.served.Blocks == nil {
		return
	}
	p := j.choices[0].prompt
	blocks := j.served.Blocks(p)
	host, port := address(r.Host)
	if blocks.Full() == 0 || host == "" {
		return
	}
	o := handover{id: rand.Text(), blocks: blocks, tokens: p.Len(), until: time.Now().Add(offerTime)}
	j.offered = &openai.KVTransfer{DoRemotePrefill: true, EngineID: t.id, RequestID: o.id, Blocks: blocks.Full(), Host: host, Port: port}
	t.add(o)
}

// add adds an offer, and ends those before it that are too old or too many.
func (t *transfers) add(o handover) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.offers, t.tokens = append(t.offers, o), t.tokens+o.tokens
	for len(t.offers) > 0 && (len(t.offers) > mostOffers || t.tokens > mostOffered || time.Now().After(t.offers[0].until)) {
		t.drop(0)
	}
}

// drop ends an offer. The caller holds mu.
func (t *transfers) drop(i int) {
	t.tokens -= t.offers[i].tokens
	t.offers = slices.Delete(t.offers, i, i+1)
}

// address splits the Host of a request, by which its sender reaches this server.
func address(host string) (name string, port int) {
	name, text, err := net.SplitHostPort(host)
	if err != nil {
		return strings.Trim(host, "[]"), 80
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return "", 0
	}
	return name, port
}

// claim returns the blocks of an offer, which then ends.
func (t *transfers) claim(id string) Blocks {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.offers, func(o handover) bool { return o.id == id })
	if i < 0 {
		return nil
	}
	o := t.offers[i]
	if t.drop(i); time.Now().After(o.until) {
		return nil
	}
	return o.blocks
}

// giveBlocks answers with the blocks of a prompt.
func (s *Server) giveBlocks(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "without")
	without := 0
	if err == nil && q["without"] != "" {
		if without, err = strconv.Atoi(q["without"]); err != nil || without < 0 {
			err = refuse(http.StatusBadRequest, "without", wire.CodeInvalidValue, "without is %q; want a number of blocks", q["without"])
		}
	}
	t := s.transfers
	var blocks Blocks
	if err == nil {
		if blocks = t.claim(r.Header.Get(transferHeader)); blocks == nil {
			err = refuse(http.StatusNotFound, "", "no_transfer", "The header %s names no prompt whose KV blocks can be fetched here, or not any more.", transferHeader)
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	n, err := blocks.Send(r.Context(), w, without)
	t.blocks.Add(float64(n))
	if err != nil {
		t.failed.Inc()
		t.log.Warn("KV blocks were not all sent", "to", r.RemoteAddr, "sent", n, "error", err)
		panic(http.ErrAbortHandler) // so that the other server knows
	}
	t.given.Inc()
}

// take fetches the KV blocks of a job's prompt, if its request says where they are. What does not come is computed.
// release is to be called once the job has ended.
func (t *transfers) take(w http.ResponseWriter, r *http.Request, j *job) (release func()) {
	asked := j.transfer
	if asked == nil || !asked.DoRemotePrefill || asked.EngineID == t.id || j.served.Blocks == nil || j.choices[0].prompt.Request.PromptLogprobs >= 0 {
		return func() {}
	}
	if !t.allowed(asked.Host, asked.Port) {
		t.failed.Inc()
		t.log.Warn("KV blocks are taken from other servers only (--kv-take-from)", "host", asked.Host, "port", asked.Port)
		warn(w, []string{"kv_transfer_params.remote_host"})
		return func() {}
	}
	ctx, cancel := context.WithTimeout(r.Context(), fetchTime)
	defer cancel()
	began := time.Now()
	n, release, err := j.served.Blocks(j.choices[0].prompt).Receive(ctx, func(without int) (io.ReadCloser, error) {
		return t.open(ctx, asked, without)
	})
	about := []any{"from", net.JoinHostPort(asked.Host, strconv.Itoa(asked.Port)), "blocks", n, "of", asked.Blocks, "duration", time.Since(began)}
	if err != nil {
		t.failed.Inc()
		t.log.Warn("KV blocks did not all come, and the rest is computed", append(about, "error", err)...)
	} else {
		t.taken.Inc()
		t.log.Debug("KV blocks came from another server", about...)
	}
	return release
}

// open asks another server for the blocks of a prompt.
func (t *transfers) open(ctx context.Context, from *openai.KVTransfer, without int) (io.ReadCloser, error) {
	url := fmt.Sprintf("http://%s%s?without=%d", net.JoinHostPort(from.Host, strconv.Itoa(from.Port)), transfersPath, without)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set(transferHeader, from.RequestID)
	res, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("status %d", res.StatusCode)
	}
	return res.Body, nil
}
