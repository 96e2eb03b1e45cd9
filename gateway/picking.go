package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/extproc"
)

// What the endpoint picker protocol of the Gateway API Inference Extension names.
const (
	destination = "x-gateway-destination-endpoint"
	subset      = "x-gateway-destination-endpoint-subset"
	served      = "x-gateway-destination-endpoint-served"
	lb          = "envoy.lb"
	subsetHint  = "envoy.lb.subset_hint"
)

// Headers by which a request says whose it is and how it matters; the second ones are llm-d's names.
var (
	fairnessHeaders  = []string{"X-Gateway-Inference-Fairness-Id", "X-Llm-D-Inference-Fairness-Id"}
	objectiveHeaders = []string{"X-Gateway-Inference-Objective", "X-Llm-D-Inference-Objective"}
)

// pieceBytes is the most bytes of a piece of a body that goes back to a proxy, which takes pieces of up to 64 KiB.
const pieceBytes = 62_000

// picking is a request that a proxy forwards: the gateway says where, and sees the answer.
type picking struct {
	*exchange
	talk     *extproc.Stream
	modes    extproc.Modes
	seen     [2]extproc.Part // the last part of the request, and of its answer
	ended    [2]bool         // nothing follows it
	subset   []string        // addresses of endpoints that may be chosen; nil is all
	raw      []byte          // what came of the request's body
	decided  bool            // where the request goes, or that it does not
	went     *job            // nil if it goes nowhere
	sent     time.Time       // when it went
	begun    time.Time       // when the answer's first piece came
	events   events          // of an answer that is a stream
	whole    []byte          // an answer that is none
	finished bool
}

// pick serves a stream of ext_proc, which is about one request.
func (g *Gateway) pick(s *extproc.Stream) error {
	x := &exchange{g: g, began: time.Now(), cfg: g.setup.Load().cfg}
	p := &picking{exchange: x, talk: s, modes: extproc.Modes{Request: extproc.FullDuplex, Response: extproc.FullDuplex}}
	defer p.finish()
	for {
		m, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.take(m); err != nil || p.finished {
			return err
		}
	}
}

// take takes a part of the request, or of its answer, and answers it.
func (p *picking) take(m *extproc.Message) error {
	if err := p.order(m); err != nil {
		return err
	}
	switch m.Part {
	case extproc.RequestHeaders:
		return p.requestHeaders(m)
	case extproc.RequestBody:
		return p.requestBody(m)
	case extproc.RequestTrailers:
		return p.requestTrailers()
	case extproc.ResponseHeaders:
		return p.responseHeaders(m)
	case extproc.ResponseBody:
		return p.responseBody(m)
	}
	defer p.finish()
	return p.talk.Send(&extproc.Answer{Part: m.Part})
}

// order refuses parts that come out of order: headers come once, before bodies, and these before trailers.
func (p *picking) order(m *extproc.Message) error {
	side := int(m.Part) & 1
	before := p.seen[side]
	first := m.Part == extproc.RequestHeaders || m.Part == extproc.ResponseHeaders
	switch {
	case m.Observe:
		return &extproc.Error{Code: extproc.FailedPrecondition, Message: "observability_mode is on; a picker's answers must count"}
	case p.modes.Request == extproc.Buffered && m.Part == extproc.RequestTrailers && !p.decided,
		p.seen[0] == 0 && m.Part != extproc.RequestHeaders, first != (before == 0), m.Part < before, p.ended[side]:
		return extproc.Invalid("%v is out of order", m.Part)
	}
	p.seen[side], p.ended[side] = m.Part, m.End
	return nil
}

func (p *picking) requestHeaders(m *extproc.Message) error {
	if m.Modes != nil {
		p.modes = *m.Modes
		if mode := p.modes.Request; !m.End && mode != extproc.FullDuplex && mode != extproc.Buffered {
			return &extproc.Error{Code: extproc.FailedPrecondition,
				Message: fmt.Sprintf("request_body_mode is %v; want FULL_DUPLEX_STREAMED or BUFFERED", mode)}
		}
	}
	path := m.Headers.Get(":path")
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return extproc.Invalid(":path is %.100q", path)
	}
	r := &http.Request{Method: m.Headers.Get(":method"), URL: u, Host: m.Headers.Get(":authority"), Header: m.Headers, ProtoMajor: 1, ProtoMinor: 1}
	for name := range m.Headers {
		if strings.HasPrefix(name, ":") {
			delete(m.Headers, name)
		}
	}
	p.r = r.WithContext(p.talk.Context())
	if p.id = p.r.Header.Get("X-Request-Id"); p.id == "" || len(p.id) > 128 {
		p.id = unique()
	}
	if hint, ok := m.Metadata[subsetHint][subset]; ok {
		p.subset = []string{}
		for _, list := range hint {
			for name := range strings.SplitSeq(list, ",") {
				p.subset = append(p.subset, strings.TrimSpace(name))
			}
		}
	}
	var refused *refusal
	if p.account, refused = p.g.authorize(p.r); refused != nil {
		return p.refuse(refused)
	}
	switch {
	case m.End:
		return p.decide()
	case p.modes.Request == extproc.Buffered: // the body comes when the headers are answered
		return p.talk.Send(&extproc.Answer{Part: extproc.RequestHeaders})
	}
	return nil
}

func (p *picking) requestBody(m *extproc.Message) error {
	if len(p.raw)+len(m.Body) > p.cfg.MaxBody {
		return p.refuse(tooLarge(p.cfg.MaxBody))
	}
	if !p.g.bodies.take(p.who(), p.held, len(m.Body), p.cfg.BodyMemory) {
		return p.refuse(noRoom())
	}
	p.held += len(m.Body)
	if p.raw = append(p.raw, m.Body...); !m.End && p.modes.Request == extproc.FullDuplex {
		return nil
	}
	return p.decide()
}

func (p *picking) requestTrailers() error {
	if !p.decided {
		if err := p.decide(); err != nil || p.finished {
			return err
		}
	}
	return p.talk.Send(&extproc.Answer{Part: extproc.RequestTrailers})
}

// refuse answers the client in place of an endpoint.
func (p *picking) refuse(f *refusal) error {
	p.problem, p.status, p.decided = f.message, f.status, true
	headers := [][2]string{{"content-type", "application/json"}, {"x-request-id", p.id}}
	if f.retry > 0 {
		headers = append(headers, [2]string{"retry-after", f.seconds()})
	}
	err := p.talk.Reply(&extproc.Immediate{Status: f.status, Headers: headers, Body: f.json(), Why: f.code})
	p.finish()
	return err
}

// decide finds the endpoint of a request that is there as a whole, and lets it go.
func (p *picking) decide() error {
	p.decided = true
	var at *placement
	var refused *refusal
	if slices.Contains(forwarded, p.r.URL.Path) && p.r.Method == http.MethodPost {
		at, refused = p.choose()
	} else {
		at, refused = p.chooseAny()
	}
	if refused != nil {
		return p.refuse(refused)
	}
	p.at, p.endpoint, p.attempts, p.sent = at, at.endpoint.url, 1, time.Now()
	return p.send()
}

// choose chooses for a request that names a model.
func (p *picking) choose() (*placement, *refusal) {
	var err error
	if p.body, err = scan(p.raw); err != nil {
		return nil, invalid("", err.Error())
	}
	p.model = p.body.model
	if p.body.modelAt[1] == 0 {
		return nil, invalid("model", "model is missing")
	}
	if refused := p.hookRequest(); refused != nil {
		return nil, refused
	}
	if p.hooked {
		return nil, invalid("", "a plug-in sees the model's answers, which a proxy has")
	}
	p.separate()
	if refused := p.claim(); refused != nil {
		return nil, refused
	}
	choices := p.resolve()
	if len(choices) == 0 {
		return nil, noModel(p.body.model)
	}
	if refused := p.reserve(choices[0]); refused != nil {
		return nil, refused
	}
	ctx, cancel := context.WithTimeout(p.r.Context(), p.cfg.Timeouts.Total)
	defer cancel()
	var at *placement
	var refused *refusal
	for _, m := range choices {
		if at, refused = p.place(ctx, m); refused == nil {
			return at, nil
		}
	}
	return nil, refused
}

// chooseAny chooses for a request without a body, such as one for the list of models: an endpoint of the first model.
// Where there are keys, it must be for that list.
func (p *picking) chooseAny() (*placement, *refusal) {
	if len(p.raw) > 0 || p.account != nil && p.r.URL.Path != "/v1/models" {
		return nil, noPath(p.r)
	}
	s := p.g.setup.Load()
	i := slices.IndexFunc(s.cfg.Models, func(m Model) bool { return len(m.Endpoints) > 0 })
	if i < 0 {
		return nil, unavailable("no endpoint is there")
	}
	return p.place(p.r.Context(), s.models[s.cfg.Models[i].Name])
}

// place waits for an endpoint of a model.
func (p *picking) place(ctx context.Context, m *model) (*placement, *refusal) {
	j := p.exchange.job(m)
	p.model, p.price = m.name, p.g.priceOf(m)
	p.setExact(ctx, j)
	j.next = p.cfg.Retries
	p.g.mu.Lock()
	j.route.Only = m.among(p.subset)
	p.g.mu.Unlock()
	if id := header(p.r, fairnessHeaders); id != "" && (p.account == nil || p.account.key.Users) {
		if err := checkName(fairnessHeaders[0], id); err != nil {
			return nil, invalid(fairnessHeaders[0], err.Error())
		}
		j.fair.Tenant = strings.TrimPrefix(id, "/")
		if p.account != nil {
			j.fair.Tenant = p.account.key.Name + "/" + id
		}
	}
	if priority, ok := p.cfg.ExtProc.Objectives[header(p.r, objectiveHeaders)]; ok {
		if p.account != nil { // whose key says how early its requests may be
			priority = max(priority, p.account.key.Priority)
		}
		j.fair.Priority = priority
	}
	queued := time.Now()
	at, refused := p.g.place(ctx, j)
	p.queued += time.Since(queued)
	if refused == nil {
		p.went = j
	}
	return at, refused
}

// header returns the first of some headers that a request has.
func header(r *http.Request, names []string) string {
	for _, name := range names {
		if value := r.Header.Get(name); value != "" {
			return value
		}
	}
	return ""
}

// send lets the request go to its endpoint, under the name that the endpoint has for the model.
func (p *picking) send() error {
	var addresses []string
	for _, e := range append([]*endpoint{p.at.endpoint}, p.at.next...) {
		if at, err := e.cfg.address(); err == nil {
			addresses = append(addresses, at)
		}
	}
	to := strings.Join(addresses, ",")
	head := extproc.Answer{
		Part: extproc.RequestHeaders, Reroute: true,
		Set:      [][2]string{{destination, to}, {"x-request-id", p.id}},
		Remove:   []string{"accept-encoding", "x-kvasir-explain", strings.ToLower(tenantHeader), strings.ToLower(priorityHeader)},
		Metadata: map[string]map[string]string{lb: {destination: to}},
	}
	if p.account != nil { // the client's key is for the gateway
		head.Remove = append(head.Remove, "authorization", "x-api-key")
	}
	if key := p.at.endpoint.key; key != "" {
		head.Set = append(head.Set, [2]string{"authorization", "Bearer " + key})
		head.Remove = slices.DeleteFunc(head.Remove, func(name string) bool { return name == "authorization" })
	}
	if p.seen[0] == extproc.RequestHeaders { // there is no body
		return p.talk.Send(&head)
	}
	body, changed := p.raw, false
	if p.body.raw != nil {
		edits := append(p.body.naming(p.upstream(p.went.model)), p.demotion...)
		p.g.mu.Lock()
		if p.apart && p.at.endpoint.salts() != saltForeign {
			edits = append(edits, p.body.salting(p.salt))
		}
		p.g.mu.Unlock()
		changed = len(edits) > 0 || len(p.body.raw) != len(p.raw) || &p.body.raw[0] != &p.raw[0]
		body = slices.Concat(p.body.edited(edits)...)
	}
	p.raw, p.body.raw = nil, nil
	defer p.release()
	head.Set = append(head.Set, [2]string{"content-length", strconv.Itoa(len(body))})
	if p.modes.Request == extproc.Buffered {
		head.Part = extproc.RequestBody
		if changed {
			head.Body = body
		}
		return p.talk.Send(&head)
	}
	if err := p.talk.Send(&head); err != nil {
		return err
	}
	return p.pieces(extproc.RequestBody, body, p.seen[0] == extproc.RequestBody)
}

// pieces sends a body back to a proxy that has given it away. end says whether nothing follows, such as trailers.
func (p *picking) pieces(part extproc.Part, body []byte, end bool) error {
	for {
		n := min(len(body), pieceBytes)
		last := n == len(body)
		if err := p.talk.Send(&extproc.Answer{Part: part, Duplex: true, Body: body[:n], End: end && last}); err != nil || last {
			return err
		}
		body = body[n:]
	}
}

func (p *picking) responseHeaders(m *extproc.Message) error {
	say := &extproc.Answer{Part: extproc.ResponseHeaders}
	if p.went == nil { // the proxy answers itself
		return p.talk.Send(say)
	}
	status, err := strconv.Atoi(m.Headers.Get(":status"))
	if err != nil || status < 100 || status > 999 {
		return extproc.Invalid(":status is %.20q", m.Headers.Get(":status"))
	}
	p.status = status
	if by := m.Metadata[lb][served]; len(by) == 1 {
		p.servedBy(by[0])
	}
	if status >= 500 || status == http.StatusTooManyRequests {
		p.g.failedAt(p.at.endpoint, &failure{err: fmt.Errorf("status %d", status), answer: &answer{status: status}})
	}
	p.stream = strings.HasPrefix(m.Headers.Get("Content-Type"), "text/event-stream")
	if why := p.at.why; why != "" {
		say.Set = append(say.Set, [2]string{"x-kvasir-explain", why})
	}
	if !p.stream {
		p.first(0)
	}
	if err := p.talk.Send(say); err != nil {
		return err
	}
	if m.End {
		p.finish()
	}
	return nil
}

// servedBy notes which endpoint answered, if it is not the first of those that the proxy was told.
func (p *picking) servedBy(address string) {
	first := p.at.endpoint
	for _, e := range p.at.next {
		if at, err := e.cfg.address(); err == nil && at == address {
			p.g.failedAt(first, &failure{err: errors.New("the proxy went on to another endpoint"), broken: true})
			p.g.moved(p.went, p.at, e)
			p.endpoint, p.attempts = e.url, p.attempts+1
			return
		}
	}
}

// first notes that the answer has begun: after so many seconds, if something can be learned from them.
func (p *picking) first(seconds float64) {
	p.begun = time.Now()
	p.ttft = p.begun.Sub(p.began)
	p.g.first(p.at, seconds)
}

func (p *picking) responseBody(m *extproc.Message) error {
	if p.went != nil {
		p.look(m.Body)
	}
	var err error
	if p.modes.Response == extproc.FullDuplex {
		err = p.pieces(extproc.ResponseBody, m.Body, m.End)
	} else {
		err = p.talk.Send(&extproc.Answer{Part: extproc.ResponseBody})
	}
	if err == nil && m.End {
		p.finish()
	}
	return err
}

// look takes note of a piece of the answer. What is wrong with it is for the client to see.
func (p *picking) look(piece []byte) {
	switch {
	case !p.stream:
		if len(p.whole)+len(piece) <= keptWhole {
			p.whole = append(p.whole, piece...)
		}
		return
	case p.begun.IsZero() && len(piece) > 0:
		p.first(time.Since(p.sent).Seconds())
	}
	if p.problem == "" {
		if _, err := p.events.add(piece); err != nil {
			p.problem = err.Error()
		}
	}
}

// finish counts the request, once: its answer has ended, or the proxy has gone.
func (p *picking) finish() {
	if p.finished {
		return
	}
	p.finished = true
	p.release()
	if p.r == nil { // there was no request
		return
	}
	if p.went != nil {
		p.land()
	}
	if p.hold != nil {
		p.settle()
	}
	p.report()
}

// land ends the request's flight.
func (p *picking) land() {
	p.used.read(p.whole)
	if p.events.usage != nil {
		p.used.read(p.events.usage)
	}
	if p.used.out() == 0 {
		p.used.Completion = p.events.count
	}
	tokens, seconds, cost := 0, 0.0, 0.0
	if !p.begun.IsZero() {
		tokens, seconds = max(0, p.used.out()-1), time.Since(p.begun).Seconds()
		in := p.used.in()
		if in == 0 {
			in = p.prompt()
		}
		cost = float64(in + outputWeight*p.used.out())
	}
	p.g.leave(p.went, p.at, cost, tokens, seconds)
	if p.status > 0 && p.status < 500 && p.ended[1] {
		p.g.served(p.at.endpoint)
	}
}
