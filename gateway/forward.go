package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/fair"
	"github.com/kvasir-llm/kvasir/gateway/meter"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/route"
	"github.com/kvasir-llm/kvasir/trace"
)

const (
	statusHungUp  = 499 // of a request whose client has gone, in metrics and logs
	usualAnswer   = 256 // tokens that an answer is taken to have if the request does not say
	bytesPerToken = 4   // of a prompt's JSON, about
	outputWeight  = 2   // an answer's token costs as much as two of a prompt, as in VTC
)

// exchange is one request with its answer.
type exchange struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	id      string
	body    body
	account *account
	cfg     *Config
	held    int // bytes of the body
	began   time.Time

	span     *trace.Span // nil if nobody records the trace
	tenant   string      // whose turn it takes
	priority int
	demotion []edit // that takes a priority out of the body which the client's key does not allow

	model     string // that answered, or was asked for
	attempts  int
	queued    time.Duration
	endpoint  string
	salt      string     // keeps its KV blocks apart; the client's own where tenants share them
	apart     bool       // the salt is the account's
	api       string     // of that endpoint
	at        *placement // of the last attempt
	status    int        // that the client got; 0 if it got none
	spoke     bool       // it got something of the answer, too
	stream    bool       // the answer is one
	ttft      time.Duration
	used      tokenUsage  // by the last attempt
	earlier   int         // tokens of attempts before it that the client got
	said      *transcript // what the client got of a stream that can be resumed; nil if it cannot
	torn      bool        // what was sent of the answer is not whole, and does not say so
	problem   string      // what went wrong, for the log
	hold      *meter.Hold // what is reserved
	hooked    bool        // hooks see the answer
	wider     bool        // another model can answer if the prompt is too long for this one
	kept      *keeping    // what of the answer is to be kept; nil is nothing
	tokenizer string      // that ids are of; "" before there was one
	ids       []int32     // the prompt's tokens; nil if they are not known
	price     meter.Price // of the model that answers
	cost      float64     // of the answer, in the currency of the prices
}

// forward serves a request by endpoints.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	x := &exchange{g: g, w: w, r: r, began: time.Now(), cfg: g.setup.Load().cfg, id: r.Header.Get("X-Request-Id")}
	if x.id == "" || len(x.id) > 128 {
		x.id = unique()
	}
	w.Header().Set("X-Request-Id", x.id)
	defer x.release()
	x.trace()
	if refused := x.serve(); refused != nil {
		x.problem = refused.message
		if x.r.Context().Err() == nil || refused.status == http.StatusRequestTimeout { // which ends the context, too
			x.status = refused.status
			refused.to(r.URL.Path).write(w)
		}
	}
	x.report()
	if x.torn {
		panic(http.ErrAbortHandler) // the client must see that the answer is not whole
	}
}

// unique makes a name that no other request has: a random UUID, since some engines refuse an X-Request-Id that is none.
func unique() string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// serve reads the request and lets a model answer it. A refusal that it returns has not been sent.
func (x *exchange) serve() (refused *refusal) {
	if x.account, refused = x.g.admit(x.r); refused != nil {
		guard.Dismiss(x.w, x.r)
		return refused
	}
	raw, refused := x.read()
	if refused != nil {
		guard.Dismiss(x.w, x.r)
		return refused
	}
	var err error
	if x.body, err = scan(raw); err != nil {
		return invalid("", err.Error())
	}
	x.model = x.body.model
	if x.body.modelAt[1] == 0 {
		return invalid("model", "model is missing")
	}
	if refused = x.hookRequest(); refused != nil {
		return refused
	}
	x.separate()
	if refused = x.claim(); refused != nil {
		return refused
	}
	choices := x.resolve()
	if len(choices) == 0 {
		return noModel(x.body.model)
	}
	if x.recall(choices[0]) {
		return nil
	}
	defer x.remember()
	x.tokenize(x.r.Context(), choices[0])
	if refused = x.reserve(choices[0]); refused != nil {
		return refused
	}
	defer x.settle()
	ctx, cancel := context.WithTimeoutCause(x.r.Context(), x.cfg.Timeouts.Total, fmt.Errorf("%w for the whole answer", errSlow))
	defer cancel()
	ctx = trace.With(ctx, x.span)
	x.shadow(choices[0])
	if joined, refused := x.join(ctx, choices[0]); joined {
		return refused
	}
	for i, m := range choices {
		x.wider = i < len(choices)-1
		if refused = x.try(ctx, m); refused == nil || ctx.Err() != nil {
			return refused
		}
	}
	return refused
}

// prompt counts the tokens of the prompt if they are known, and else estimates them; answer estimates those of the
// answer.
func (x *exchange) prompt() int {
	if x.ids != nil {
		return len(x.ids)
	}
	return (len(x.body.tools) + len(x.body.prompt)) / bytesPerToken
}

func (x *exchange) answer() int {
	if x.r.URL.Path != "/v1/chat/completions" && x.r.URL.Path != "/v1/completions" && x.body.most == 0 {
		return 0
	}
	most := x.body.most
	if most == 0 {
		most = usualAnswer
	}
	return most * max(1, x.body.answers)
}

// resolve returns the models that may answer, in the order in which they are tried: the one asked for, of a divided one
// a part, and its fallbacks.
func (x *exchange) resolve() []*model {
	g, s := x.g, x.g.setup.Load()
	g.mu.Lock()
	m := s.names[x.body.model]
	if m == nil || !x.account.may(m, x.body.model) {
		g.mu.Unlock()
		return nil
	}
	divided := len(m.Lengths) > 0
	g.mu.Unlock()
	if divided { // by the number of tokens
		x.tokenize(x.r.Context(), m)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	fallbacks := slices.Clone(m.Fallbacks)
	if parts := x.parts(m); len(parts) > 0 {
		m = s.models[parts[0]]
		fallbacks = slices.Concat(parts[1:], fallbacks, m.Fallbacks)
	}
	choices := []*model{m}
	for _, name := range fallbacks {
		if f := s.models[name]; !slices.Contains(choices, f) {
			choices = append(choices, f)
		}
	}
	return choices
}

// parts are those of a divided model that may answer: one that is drawn, or all that are for prompts of such a length.
func (x *exchange) parts(m *model) (names []string) {
	if len(m.Split) > 0 {
		return []string{x.part(m.Split)}
	}
	if len(m.Lengths) == 0 {
		return nil
	}
	tokens := x.prompt()
	if ids := x.body.tokens(); x.ids == nil && ids != nil {
		tokens = len(ids)
	}
	for _, l := range m.Lengths {
		if l.UpTo == 0 || tokens <= l.UpTo {
			names = append(names, l.Model)
		}
	}
	return names
}

// part draws a part of a divided model. Requests of one session, or else of one user, get the same.
func (x *exchange) part(split map[string]float64) string {
	who := x.body.session
	if who == "" {
		who = x.body.user
	}
	at := x.g.random.Float64()
	if who != "" {
		at = float64(route.Seed(who)>>11) / (1 << 53)
	}
	names, total := []string(nil), 0.0
	for name, w := range split {
		names = append(names, name)
		total += w
	}
	slices.Sort(names)
	for _, name := range names {
		if at -= split[name] / total; at < 0 {
			return name
		}
	}
	return names[len(names)-1]
}

// job makes the request that a model's queue and policy see.
func (x *exchange) job(m *model) *job {
	ids := x.tokenize(x.r.Context(), m)
	prompt, answer := x.prompt(), x.answer()
	x.g.mu.Lock()
	adapter, salt := m.adapter(x.body.model), x.saltOf(m)
	slo, hedge, split := m.SLO, m.Hedge, m.transfer != noTransfer
	x.g.mu.Unlock()
	j := &job{model: m, hedge: hedge, split: split, explain: x.r.Header.Get("X-Kvasir-Explain") != ""}
	j.route = route.Request{Tokens: prompt, Output: answer, Context: prompt + x.body.most, Session: x.session(), Zone: x.cfg.Zone,
		SLO: route.SLO{TTFT: slo.TTFT.Seconds(), TPOT: slo.TPOT.Seconds()}}
	j.adapter, j.route.Adapter = adapter, adapter.Name
	j.route.Blocks = x.blocks(m, adapter.Name, salt, ids)
	j.fair = fair.Request{Tenant: x.tenant, Priority: x.priority, Cost: float64(prompt + outputWeight*answer)}
	if x.account != nil {
		j.fair.Weight = x.account.key.Weight
	}
	return j
}

// session names the session of the request, "" if it has none: those of different accounts are different ones, and all
// names are of one length, since they are remembered.
func (x *exchange) session() string {
	name := cmp.Or(x.r.Header.Get("X-Session-Id"), x.body.session)
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(x.who() + "\x00" + name))
	return string(sum[:16])
}

// blocks names the blocks of the prompt: of its tokens, if they are known, or else of its bytes.
func (x *exchange) blocks(m *model, adapter, salt string, ids []int32) []uint64 {
	seed, size := route.Seed(m.name, adapter, salt), x.cfg.Prefix.BlockBytes
	if ids != nil {
		size = max(1, size/bytesPerToken)
		return route.TokenBlocks(make([]uint64, 0, len(ids)/size), seed, ids, size)
	}
	tools, prompt := x.body.tools, x.body.prompt
	blocks := route.Blocks(make([]uint64, 0, (len(tools)+len(prompt))/size+2), seed, tools, size)
	if len(tools) > 0 { // the tools as a whole, also what is left after their last block
		seed = route.Seed(m.name, adapter, salt, string(tools))
	}
	return route.Blocks(blocks, seed, prompt, size)
}

// try lets the endpoints of a model answer. It returns nil once anything was sent to the client.
func (x *exchange) try(ctx context.Context, m *model) *refusal {
	j := x.job(m)
	x.model = m.name
	x.price = x.g.priceOf(m)
	x.setExact(ctx, j)
	x.record(m)
	var last *failure
	var busy []int // endpoints in Tried that had too much to do
	for left := x.cfg.Retries; ; left-- {
		queued := time.Now()
		_, taken := part(ctx, "queue", trace.Internal)
		p, refused := x.g.place(ctx, j)
		taken(asError(refused))
		x.queued += time.Since(queued)
		if refused != nil && x.status != 0 {
			x.breakOff(last)
			return nil
		}
		if refused != nil && last.busy() && x.comeAgain(ctx, last) {
			j.route.Tried = slices.DeleteFunc(j.route.Tried, func(id int) bool { return slices.Contains(busy, id) })
			j.fair, busy = again(&j.fair), nil
			left++
			continue
		}
		if refused != nil && last != nil {
			return last.refusal() // which says more
		}
		if refused != nil {
			return refused
		}
		x.attempts++
		if last = x.attempt(ctx, j, p); last == nil {
			return nil
		}
		if x.problem = last.Error(); last.long {
			return last.refusal()
		}
		if x.r.Context().Err() == nil && !errors.Is(last.err, errGone) {
			x.g.failedAt(x.at.endpoint, last)
		}
		if last.leaves() {
			left++ // it tried nothing
		}
		if x.status != 0 && (ctx.Err() != nil || left == 0 || x.spoke && !x.said.resumable(&x.body)) {
			x.breakOff(last)
			return nil
		}
		if last.busy() && x.status == 0 && !x.wider {
			busy = append(busy, x.at.endpoint.id)
			left++ // nor did this one
		}
		if ctx.Err() != nil || left == 0 {
			return last.refusal()
		}
		if x.status != 0 {
			x.earlier += x.used.out()
		}
		if j.fair = again(&j.fair); !last.again && (last.answer != nil || !last.unreachable && !x.g.alone(m)) {
			j.route.Tried = append(j.route.Tried, x.at.endpoint.id)
		}
	}
}

// again is a request that went and takes another turn.
func again(r *fair.Request) fair.Request {
	return fair.Request{Tenant: r.Tenant, Weight: r.Weight, Priority: r.Priority, Cost: r.Cost, Again: true}
}

const (
	leastPause = 100 * time.Millisecond // before endpoints that had too much to do are asked again
	mostPause  = time.Second
)

// comeAgain waits before the endpoints of a model, which all had too much to do, are asked again. It returns false if
// there is no time for that, or another model can answer.
func (x *exchange) comeAgain(ctx context.Context, last *failure) bool {
	pause := leastPause
	if seconds, err := strconv.Atoi(last.answer.header.Get("Retry-After")); err == nil && seconds > 0 {
		pause = mostPause
	}
	if x.wider || x.status != 0 || time.Since(x.began)+pause > x.cfg.Queue.MaxWait {
		return false
	}
	began := time.Now()
	defer func() { x.queued += time.Since(began) }()
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// report counts and logs the request when it has ended.
func (x *exchange) report() {
	g, status := x.g, x.status
	if status == 0 {
		status = statusHungUp
	}
	name := x.model
	if x.attempts == 0 {
		name = "" // of a request that no model answered, whose name a client may make up
	}
	total := time.Since(x.began)
	x.endTrace(status)
	g.metrics.requests.WithLabelValues(name, strconv.Itoa(status)).Inc()
	if x.attempts > 0 {
		g.metrics.seconds.WithLabelValues(name).Observe(total.Seconds())
		g.metrics.genAI.see(x, name, status, total)
		g.metrics.queued.WithLabelValues(name).Observe(x.queued.Seconds())
		g.metrics.tokens.WithLabelValues(name, "input").Add(float64(x.used.in()))
		g.metrics.tokens.WithLabelValues(name, "cached").Add(float64(x.used.cached()))
		g.metrics.cost.WithLabelValues(name).Add(x.cost)
		g.metrics.tokens.WithLabelValues(name, "output").Add(float64(x.used.out() + x.earlier))
	}
	if x.stream && x.attempts > 0 && x.status == http.StatusOK {
		g.metrics.ttft.WithLabelValues(name).Observe(x.ttft.Seconds())
	}
	if g.access == nil {
		return
	}
	key := ""
	if x.account != nil {
		key = x.account.key.Name
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	g.access.LogAttrs(context.Background(), slog.LevelInfo, "request",
		slog.String("id", x.id), slog.String("path", x.r.URL.Path), slog.String("key", key), slog.String("model", x.model),
		slog.String("endpoint", x.endpoint), slog.Int("status", status), slog.Bool("stream", x.stream),
		slog.Int("attempts", x.attempts), slog.Float64("queue_ms", ms(x.queued)), slog.Float64("ttft_ms", ms(x.ttft)),
		slog.Float64("total_ms", ms(total)), slog.Int("input_tokens", x.used.in()), slog.Int("output_tokens", x.used.out()+x.earlier), slog.Int("cached_tokens", x.used.cached()), slog.Float64("cost", x.cost),
		slog.String("trace", x.span.Context().ID()), slog.String("error", x.problem))
}
