package trace

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// Exporter sends spans that have ended to a collector, on a goroutine of its own. Nothing waits for it: spans that
// find the queue full are dropped. A nil Exporter records nothing.
type Exporter struct {
	cfg    Config
	from   resource
	log    *slog.Logger
	client *http.Client
	spans  chan *Span
	stop   chan struct{}
	ended  chan struct{} // closed when the goroutine has ended
	over   context.Context
	cut    context.CancelFunc // ends what is sent now
	close  sync.Once
	quiet  time.Time // no failure is logged before

	sent, dropped, failed atomic.Uint64
}

// resource is what all spans come from.
type resource struct {
	version string
	attrs   []Attr
}

// Stats counts spans.
type Stats struct {
	Sent    uint64 // taken by the collector
	Dropped uint64 // since too many waited
	Failed  uint64 // that the collector did not take
}

// New returns an Exporter, which Close ends.
func New(cfg Config, log *slog.Logger) *Exporter {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.TLS != nil {
		transport.TLSClientConfig = cfg.TLS
	}
	x := &Exporter{cfg: cfg, from: resource{cfg.Version, cfg.Attributes}, log: cmp.Or(log, slog.New(slog.DiscardHandler)),
		client: &http.Client{Transport: transport, Timeout: cfg.Timeout, CheckRedirect: noRedirect},
		spans:  make(chan *Span, max(cfg.Queue, 1)), stop: make(chan struct{}), ended: make(chan struct{})}
	x.over, x.cut = context.WithCancel(context.Background())
	guard.Go(x.run, func(err error) {
		if err != nil {
			x.log.Error("traces are not sent any more", "error", err)
		}
		close(x.ended)
	})
	return x
}

// noRedirect keeps headers, which may hold a key, from other hosts.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Stats returns the counts so far.
func (x *Exporter) Stats() Stats {
	return Stats{Sent: x.sent.Load(), Dropped: x.dropped.Load(), Failed: x.failed.Load()}
}

// queue takes a span that has ended.
func (x *Exporter) queue(s *Span) {
	select {
	case x.spans <- s:
	default:
		x.dropped.Add(1)
	}
}

// Close sends what waits, until ctx is done, and ends the Exporter. Spans that end later are dropped.
func (x *Exporter) Close(ctx context.Context) {
	if x == nil {
		return
	}
	x.close.Do(func() { close(x.stop) })
	select {
	case <-x.ended:
	case <-ctx.Done():
		x.cut()
		<-x.ended
	}
	x.cut()
	x.client.CloseIdleConnections()
}

// run sends batches until the Exporter is closed.
func (x *Exporter) run() error {
	batch := make([]*Span, 0, max(x.cfg.Batch, 1))
	timer := time.NewTimer(x.cfg.Delay)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-x.stop:
			x.drain(batch)
			return nil
		case s := <-x.spans:
			if batch = append(batch, s); len(batch) == 1 {
				timer.Reset(x.cfg.Delay)
			}
			if len(batch) < cap(batch) {
				continue
			}
		case <-timer.C:
		}
		timer.Stop()
		batch = x.flush(batch)
	}
}

// drain sends what waits when the Exporter is closed.
func (x *Exporter) drain(batch []*Span) {
	for {
		select {
		case s := <-x.spans:
			if batch = append(batch, s); len(batch) == cap(batch) {
				batch = x.flush(batch)
			}
		default:
			x.flush(batch)
			return
		}
	}
}

// flush sends a batch, and returns it empty.
func (x *Exporter) flush(batch []*Span) []*Span {
	if len(batch) == 0 {
		return batch
	}
	n := uint64(len(batch))
	if err := x.send(batch); err != nil {
		x.failed.Add(n)
		if now := time.Now(); now.After(x.quiet) {
			x.log.Warn("traces were not sent", "error", err, "spans", n)
			x.quiet = now.Add(time.Minute)
		}
	} else {
		x.sent.Add(n)
	}
	clear(batch)
	return batch[:0]
}

// tries bounds how often a batch is sent; firstPause is the time before the second try, and the later ones are each
// twice as long, up to longestPause.
const (
	tries        = 4
	firstPause   = 500 * time.Millisecond
	longestPause = 5 * time.Second
)

// refused is an answer of a collector that is no success.
type refused struct {
	status int
	body   string
	after  time.Duration // that it asks to wait; 0 is none
}

func (r *refused) Error() string {
	return fmt.Sprintf("the collector answered %d: %s", r.status, r.body)
}

// passing reports whether it may take the same spans later.
func (r *refused) passing() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// send sends a batch, again if the collector may take it then.
func (x *Exporter) send(batch []*Span) error {
	body, err := x.encode(batch)
	if err != nil {
		return err
	}
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		err := x.post(body)
		no, _ := err.(*refused)
		if err == nil || try == tries || no != nil && !no.passing() {
			return err
		}
		wait := pause
		if no != nil {
			wait = max(wait, no.after)
		}
		if !x.sleep(min(wait, longestPause)) {
			return err
		}
	}
}

// sleep waits, but not while the Exporter is closing.
func (x *Exporter) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.stop:
		return false
	}
}

func (x *Exporter) encode(batch []*Span) ([]byte, error) {
	var body []byte
	if x.cfg.JSON {
		var err error
		if body, err = appendJSON(nil, &x.from, batch); err != nil {
			return nil, err
		}
	} else {
		body = appendProto(nil, &x.from, batch)
	}
	if !x.cfg.Gzip {
		return body, nil
	}
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	z.Write(body) // to memory
	err := z.Close()
	return small.Bytes(), err
}

func (x *Exporter) post(body []byte) error {
	r, err := http.NewRequestWithContext(x.over, http.MethodPost, x.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if x.cfg.JSON {
		r.Header.Set("Content-Type", "application/json")
	}
	if x.cfg.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	r.Header.Set("User-Agent", "kvasir/"+x.cfg.Version)
	for name, value := range x.cfg.Headers {
		r.Header.Set(name, value)
	}
	answer, err := x.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	if err != nil {
		return err
	}
	no := &refused{status: answer.StatusCode, body: strconv.QuoteToASCII(string(said[:min(len(said), 200)]))}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		no.after = time.Duration(min(seconds, 3600)) * time.Second
	}
	return no
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
