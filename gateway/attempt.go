package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/trace"
)

// failure is an attempt that failed.
type failure struct {
	err         error
	unreachable bool    // there was no connection
	broken      bool    // the connection broke, or the endpoint said that it leaves
	long        bool    // the prompt is too long for the model
	blameless   bool    // the endpoint lacks the adapter, or cannot go on with a stream, which is no fault of its own
	again       bool    // it may do better at the next attempt, with the adapter or in a new process
	answer      *answer // if it answered with an error
}

// answer is an answer that is short enough to be kept.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (f *failure) Error() string { return f.err.Error() }

// leaves reports whether the endpoint turned the request away as it ends, or begins anew.
func (f *failure) leaves() bool { return f.answer != nil && f.broken }

// busy reports whether the endpoint turned the request away as it has too much to do.
func (f *failure) busy() bool {
	return f != nil && f.answer != nil && f.answer.status == http.StatusTooManyRequests
}

// reason says what kind of failure it is, for metrics.
func (f *failure) reason() string {
	switch {
	case f.answer != nil:
		return strconv.Itoa(f.answer.status)
	case f.blameless:
		return "adapter"
	case f.unreachable:
		return "unreachable"
	case errors.Is(f.err, errSlow):
		return "timeout"
	}
	return "broken"
}

// refusal is what the client is told if no attempt does better.
func (f *failure) refusal() *refusal {
	if f.unreachable {
		return unavailable("no endpoint of the model is up: " + f.Error())
	}
	r := &refusal{status: http.StatusBadGateway, kind: "server_error", code: "endpoint_failed",
		message: "the endpoint failed: " + f.Error()}
	if errors.Is(f.err, errSlow) {
		r.status, r.code = http.StatusGatewayTimeout, "endpoint_timeout"
	}
	if r.answer = f.answer; r.answer != nil {
		r.status, r.message = f.answer.status, f.Error()
	}
	return r
}

// errSlow is the cause of a timeout.
var errSlow = errors.New("the endpoint took too long")

// attempt lets an endpoint answer, or two of them if the model's requests are hedged: exchange.at is the one whose
// answer counts. It returns nil if the answer was sent to the client, whole.
func (x *exchange) attempt(ctx context.Context, j *job, p *placement) (f *failure) {
	a, o := x.begun(ctx, j, p), opened{}
	if j.hedge > 0 && x.status == 0 {
		a, o = x.hedged(ctx, a, j.hedge)
	} else {
		o = a.open()
	}
	x.at, x.endpoint, x.api = a.placement, a.placement.endpoint.url, a.placement.api
	defer func() { a.leave(j) }()
	return a.take(o)
}

// take lets the client have an answer that was opened.
func (a *attempt) take(o opened) (f *failure) {
	x := a.exchange
	defer func() { a.failure = f }()
	if o.err == nil {
		defer o.res.Body.Close()
	}
	if f := a.refused(o); f != nil {
		return f
	}
	res := o.res
	switch isStream := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"); {
	case isStream && !x.body.stream && res.StatusCode == http.StatusOK:
		return &failure{err: errors.New("the answer is a stream, which nobody asked for")}
	case isStream && (x.status == 0 || res.StatusCode == x.status):
		f = a.stream(a.ctx, res)
	case x.status != 0:
		return &failure{err: fmt.Errorf("it did not go on with the stream: status %d", res.StatusCode)}
	default:
		f = a.whole(a.ctx, res)
	}
	if f == nil && a.ctx.Err() == nil {
		x.g.served(a.placement.endpoint)
		if x.kept != nil {
			x.kept.whole = true
		}
	}
	return f
}

// attempt is an exchange with one endpoint.
type attempt struct {
	*exchange
	job       *job
	placement *placement
	ctx       context.Context
	cancel    context.CancelCauseFunc
	sent      time.Time // when the request was
	began     time.Time // when the answer did
	timer     *time.Timer
	end       func(error) // of its span
	failure   *failure
	loan      *loan // of the adapter that it needs
	tells     bool  // the endpoint is asked for the tokens of a stream
	exactly   bool  // and goes on by them: its usage is of the whole answer
	unasked   bool  // it is asked for the usage of a stream, which the client did not ask for
}

// begun makes an attempt, whose time runs from now on. It ends with leave.
func (x *exchange) begun(ctx context.Context, j *job, p *placement) *attempt {
	a := &attempt{exchange: x, job: j, placement: p, sent: time.Now()}
	ctx, a.end = part(ctx, operation(x.r.URL.Path)+" "+j.model.name, trace.Client, trace.Attr{Key: "url.full", Value: p.endpoint.url + x.r.URL.Path})
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	a.timer = guard.After(x.cfg.Timeouts.FirstByte, func() error { return errSlow }, a.cancel)
	x.used = tokenUsage{}
	return a
}

// leave ends an attempt, and charges the tenant of a job for it; nil if another attempt is charged for.
func (a *attempt) leave(j *job) {
	a.timer.Stop()
	if a.failure == nil {
		a.end(context.Cause(a.ctx))
	} else {
		a.end(a.failure)
	}
	a.cancel(nil)
	tokens, seconds := 0, 0.0
	if j != nil && !a.began.IsZero() {
		tokens, seconds = max(0, a.used.out()-1), time.Since(a.began).Seconds()
	}
	cost := 0.0
	if j != nil {
		cost = a.cost()
	}
	a.g.mu.Lock()
	a.g.giveBack(a.loan)
	a.g.mu.Unlock()
	a.g.leave(j, a.placement, cost, tokens, seconds)
}

// refused says why an answer that was opened is none.
func (a *attempt) refused(o opened) *failure {
	if o.err != nil {
		var op *net.OpError
		return a.failed(a.ctx, o.err, errors.As(o.err, &op) && op.Op == "dial")
	}
	switch status := o.res.StatusCode; {
	case status == http.StatusBadRequest && a.wider:
		return tooLong(o.res)
	case status == http.StatusNotFound && a.loan != nil:
		said, _ := io.ReadAll(io.LimitReader(o.res.Body, 64<<10)) // what there is of it
		a.lost()
		return &failure{err: fmt.Errorf("status 404: %.200s", said), answer: &answer{status, o.res.Header, said}, blameless: true, again: true}
	case status >= 500 || status == http.StatusTooManyRequests:
		said, err := io.ReadAll(io.LimitReader(o.res.Body, 64<<10))
		if err != nil {
			return a.failed(a.ctx, err, false)
		}
		gone := status == http.StatusServiceUnavailable && leaves(said)
		return &failure{err: fmt.Errorf("status %d: %.200s", status, said), answer: &answer{status, o.res.Header, said}, broken: gone, again: gone}
	case status < 200 || status >= 300 && status < 400:
		return &failure{err: fmt.Errorf("status %d, which is no answer", status)}
	}
	if code := o.res.Header.Get("Content-Encoding"); code != "" && code != "identity" {
		return &failure{err: fmt.Errorf("the answer is in %.40q, which nobody asked for", code)}
	}
	return nil
}

// cost is what the answer cost its tenant. Of an endpoint that does not count, the prompt is estimated.
func (a *attempt) cost() float64 {
	in := a.used.in()
	if in == 0 && !a.began.IsZero() {
		in = a.prompt()
	}
	return float64(in + outputWeight*a.used.out())
}

// failed words a failure of the connection.
func (a *attempt) failed(ctx context.Context, err error, unreachable bool) *failure {
	if cause := context.Cause(ctx); cause != nil {
		return &failure{err: cause}
	}
	if errors.As(err, new(adapterError)) || errors.Is(err, errCannotGoOn) {
		return &failure{err: err, blameless: true}
	}
	return &failure{err: err, unreachable: unreachable, broken: !unreachable}
}

// request makes what the endpoint gets: the body as it came, but for the name of the model if the endpoint calls it by
// another, for the salt, for what the client has got already, and for where the prompt was computed.
func (a *attempt) request() (*http.Request, error) {
	x := a.exchange
	edits := append(x.body.naming(x.upstream(a.job.model)), x.demotion...)
	more, err := a.resumption()
	if err != nil {
		return nil, err
	}
	edits = append(append(edits, more...), a.asking()...)
	if a.salts() {
		edits = append(edits, x.body.salting(x.salt))
	}
	parts := x.body.edited(edits)
	if a.job.split {
		body, err := a.split(bytes.Join(parts, nil))
		if err != nil {
			return nil, err
		}
		parts, a.sent = [][]byte{body}, time.Now()
	}
	return x.to(a.ctx, a.placement, parts...), nil
}

// asking is the edit that lets an engine tell how many tokens a stream took. Its events need not have one each.
func (a *attempt) asking() []edit {
	b, e := &a.body, a.placement.endpoint
	a.g.mu.Lock()
	a.unasked = b.stream && !b.options && slices.Contains(rendered, a.r.URL.Path) && e.cfg.API == "" && e.maker.counts()
	a.g.mu.Unlock()
	if !a.unasked {
		return nil
	}
	end := bytes.LastIndexByte(b.raw, '}')
	return []edit{{[2]int{end, end}, []byte(`,"stream_options":{"include_usage":true}`)}}
}

// to makes the request with a body for an endpoint.
func (x *exchange) to(ctx context.Context, p *placement, parts ...[]byte) *http.Request {
	length := 0
	for _, p := range parts {
		length += len(p)
	}
	if length <= firstPiece {
		parts = [][]byte{bytes.Join(parts, nil)}
	}
	content := func() (io.ReadCloser, error) {
		if len(parts) == 1 && length <= firstPiece {
			return io.NopCloser(bytes.NewReader(parts[0])), nil // which net/http sends with the header
		}
		return &pieces{rest: slices.Clone(parts)}, nil
	}
	r := x.r.Clone(httptrace.WithClientTrace(ctx, settled))
	u := *x.r.URL
	r.RequestURI, r.Host = "", ""
	r.URL = &u
	scheme, rest, _ := strings.Cut(p.endpoint.url, "://")
	host, base, _ := strings.Cut(rest, "/")
	u.Scheme, u.Host, u.User, u.RawPath = scheme, host, nil, "" // a client may have sent other ones
	if base != "" {
		u.Path = "/" + base + u.Path
	}
	r.Body, _ = content()
	r.GetBody, r.ContentLength = content, int64(length)
	r.TransferEncoding, r.Close = nil, false
	dropHops(r.Header)
	r.Header.Del("Accept-Encoding")
	r.Header.Del("Expect") // the body is here
	for _, name := range own {
		r.Header.Del(name)
	}
	r.Header.Set("X-Request-Id", x.id)
	if r.Header["Idempotency-Key"] == nil { // which is not sent: http.Transport asks again if a connection that it kept is dead
		r.Header["Idempotency-Key"] = []string{}
	}
	carry(ctx, r.Header)
	if x.account != nil { // the client's key is for the gateway
		r.Header.Del("Authorization")
		r.Header.Del("X-Api-Key")
	}
	if p.endpoint.key != "" {
		r.Header.Set("Authorization", "Bearer "+p.endpoint.key)
	}
	return r
}

// upstream is what the endpoints of a model call it.
func (x *exchange) upstream(m *model) string {
	x.g.mu.Lock()
	defer x.g.mu.Unlock()
	if m.adapter(x.body.model).Name != "" {
		return x.body.model
	}
	return m.Upstream
}

// own are headers for the gateway alone.
var own = []string{"X-Kvasir-Explain", tenantHeader, priorityHeader, exactHeader}

// hops are headers of one connection, which are not passed on.
var hops = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

func dropHops(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hops {
		h.Del(name)
	}
}

// begin sends the header of an answer.
func (a *attempt) begin(res *http.Response, length int) {
	h := a.w.Header()
	for name, values := range res.Header {
		if name != "X-Request-Id" && name != "Content-Length" {
			h[name] = values
		}
	}
	dropHops(h)
	if length >= 0 {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	if why := a.placement.why; why != "" {
		h.Set("X-Kvasir-Explain", why)
	}
	if a.kept != nil {
		a.kept.kind = h.Get("Content-Type")
		h.Set("X-Kvasir-Cache", "miss")
	}
	a.status = res.StatusCode
	a.w.WriteHeader(res.StatusCode)
	a.first()
}

// first notes that the answer has begun.
func (a *attempt) first() {
	a.began = time.Now()
	seconds := 0.0 // of an answer that is no stream nothing can be learned: its first token came unseen
	if a.exchange.stream {
		seconds = a.began.Sub(a.sent).Seconds()
	}
	a.g.first(a.placement, seconds)
}

// write sends a piece of the answer.
func (x *exchange) write(piece []byte) error {
	x.kept.note(piece)
	_, err := x.w.Write(piece)
	return err
}

// buffers are for pieces of answers.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// keptWhole is the most bytes of an answer that is checked before any of it is sent.
const keptWhole = 1 << 20

// whole copies an answer that is no stream. A short one is read and checked first, so that another endpoint can try if
// it is broken.
func (a *attempt) whole(ctx context.Context, res *http.Response) *failure {
	var kept []byte // while nothing was sent
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	buf := *pooled
	for {
		n, err := res.Body.Read(buf)
		piece := buf[:n]
		if a.status == 0 {
			kept = append(kept, piece...)
			if a.hooked && len(kept) > a.cfg.MaxBody {
				return &failure{err: fmt.Errorf("the answer has more than %d bytes, which plug-ins cannot take", a.cfg.MaxBody)}
			}
			if piece = nil; len(kept) > keptWhole && err == nil && !a.hooked {
				a.begin(res, int(res.ContentLength))
				a.spoke, piece, kept = true, kept, nil
			}
		}
		if a.spoke { // until then, it is the whole answer that must come in time
			a.timer.Reset(a.cfg.Timeouts.Idle)
		}
		if len(piece) > 0 {
			if gone := a.write(piece); gone != nil {
				return &failure{err: errGone}
			}
		}
		switch {
		case errors.Is(err, io.EOF) && a.status == 0:
			return a.finish(res, kept)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			a.torn = a.status != 0
			return a.failed(ctx, err, false)
		}
	}
}

// finish sends an answer that is there as a whole.
func (a *attempt) finish(res *http.Response, kept []byte) *failure {
	if res.StatusCode == http.StatusOK {
		if !isJSON(kept) {
			return &failure{err: fmt.Errorf("it said %.40q, which is no JSON", kept)}
		}
		a.used.read(kept)
	}
	if a.hooked {
		kept = a.hookAnswer(res, kept)
	}
	a.begin(res, len(kept))
	a.write(kept) // if the client has gone, nobody is left to tell
	return nil
}
