package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	kvevents "github.com/kvasir-llm/kvasir/events"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/route"
	"github.com/kvasir-llm/kvasir/trace"
)

// feed is where an engine's KV events come from. It is empty for one that publishes none.
type feed struct{ events, replay, topic string }

func (e *Endpoint) feed() feed { return feed{e.Events, e.EventsReplay, e.EventsTopic} }

// check refuses addresses that nobody can connect to.
func (f feed) check(path string) error {
	for _, a := range []struct{ key, address string }{{"events", f.events}, {"events_replay", f.replay}} {
		if a.address == "" {
			continue
		}
		if at, err := kvevents.ParseEndpoint(a.address); err != nil {
			return wrong(path+"."+a.key, "%v", err)
		} else if at.Network == "tcp" && (strings.HasPrefix(at.Address, ":") || strings.HasSuffix(at.Address, ":0")) {
			return wrong(path+"."+a.key, "%q; want an address to connect to, such as tcp://127.0.0.1:5557", a.address)
		}
	}
	if f.events == "" && f != (feed{}) {
		return wrong(path, "events_replay and events_topic need events")
	}
	return nil
}

// follow hears of an endpoint's KV events, if it publishes them, until the function that it returns is called. g.mu is
// held.
func (g *Gateway) follow(e *endpoint, from feed) (stop func()) {
	if from.events == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	tells := func(t route.Coverage) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if ctx.Err() == nil {
			e.windowed = nil
			g.fleet.SetCoverage(e.id, t)
		}
	}
	f := &kvevents.Feed{
		Endpoint: from.events, Replay: from.replay, Topic: from.topic, Logger: g.log,
		Snapshot: func(ctx context.Context) ([]byte, uint64, error) { return g.snapshot(ctx, e) },
		Begin: func(whole bool) {
			if whole {
				tells(route.ToldFully)
			} else {
				tells(route.ToldPartly)
			}
		},
		End:  func() { tells(route.Untold) },
		Tell: func(list []kvevents.Told) error { return g.told(ctx, e, list) },
	}
	g.watches.Add(1)
	f.Start(ctx, g.watches.Done)
	return func() {
		cancel()
		e.windowed = nil
		g.fleet.SetCoverage(e.id, route.Untold)
	}
}

const (
	mostBlocks   = 4 << 20 // that an endpoint may tell of
	mostSnapshot = 1 << 30 // bytes
	snapshotTime = 30 * time.Second
	toldAtOnce   = 64 // events, while requests wait for Gateway.mu
)

// snapshot asks a kvasir engine for all that its prefix cache holds.
func (g *Gateway) snapshot(ctx context.Context, e *endpoint) (payload []byte, next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	res, err := g.fetch(ctx, e, http.MethodGet, "/kv/events/snapshot", nil)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode >= 400 && res.StatusCode < 500 {
		return nil, 0, kvevents.ErrNoSnapshot
	}
	next, err = strconv.ParseUint(res.Header.Get("Kvasir-Kv-Next"), 10, 64)
	if res.StatusCode != http.StatusOK || err != nil {
		return nil, 0, fmt.Errorf("the snapshot of KV events came with status %d and no number", res.StatusCode)
	}
	payload, err = io.ReadAll(io.LimitReader(res.Body, mostSnapshot))
	return payload, next, err
}

// fetch sends an endpoint a request of the gateway's own.
func (g *Gateway) fetch(ctx context.Context, e *endpoint, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, e.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if e.key != "" && !g.foreign(e) {
		r.Header.Set("Authorization", "Bearer "+e.key)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	carry(ctx, r.Header)
	return g.transport.RoundTrip(r)
}

// told takes a batch of KV events of an endpoint.
func (g *Gateway) told(ctx context.Context, e *endpoint, list []kvevents.Told) error {
	for some := range slices.Chunk(list, toldAtOnce) {
		g.mu.Lock()
		for i := range some {
			if ctx.Err() == nil {
				g.toldOne(e, &some[i])
			}
		}
		held := g.fleet.Held(e.id)
		g.mu.Unlock()
		if held > mostBlocks {
			return fmt.Errorf("%s tells of more than %d blocks", e.url, mostBlocks)
		}
	}
	return nil
}

// toldOne takes one event. Blocks of layers that attend to a window say nothing of whole prompts, and blocks in other
// memory than the device's take time to come back: both are left out. g.mu is held.
func (g *Gateway) toldOne(e *endpoint, t *kvevents.Told) {
	switch {
	case t.Kind == kv.Cleared:
		g.fleet.SetCoverage(e.id, route.ToldFully)
	case t.Elsewhere || slices.Contains(e.windowed, t.Group):
	case t.Kind == kv.Removed:
		for _, name := range t.Names {
			g.fleet.Remove(e.id, name)
		}
	case t.Windowed:
		e.windowed = append(e.windowed, t.Group)
	default:
		parent := t.Parent
		for i, name := range t.Names {
			b := route.Block{Name: name, Parent: parent, Tokens: t.Tokens[i*t.BlockTokens : (i+1)*t.BlockTokens]}
			var keys []string
			if len(t.Keys) > 0 {
				keys = t.Keys[i]
			}
			b.Seed = blockSeed(parent == 0, t.Adapter, keys)
			g.fleet.Store(e.id, b)
			parent = name
		}
	}
}

// blockSeed is the seed of a block that an engine told of. A prompt has the same if its adapter and its salt are the
// same, and nothing else is known of it, such as images.
func blockSeed(first bool, adapter string, keys []string) uint64 {
	var rest []string
	for i := 0; i < len(keys); i++ {
		switch k := keys[i]; {
		case i+1 < len(keys) && (k == "model" || k == "adapter" || k == "adapter-id"): // kvasir's labels, with values
			i++
		case k != adapter:
			rest = append(rest, k)
		}
	}
	switch {
	case !first && len(rest) == 0:
		return 0
	case first && len(rest) == 0:
		return route.Seed(adapter, "")
	}
	return route.Seed(append([]string{adapter}, rest...)...)
}

// rendered are the paths whose prompts engines turn into tokens, at the path and "/render".
var rendered = []string{"/v1/chat/completions", "/v1/completions"}

// muteFor is how long an endpoint that could not render a prompt is not asked again.
const muteFor = 10 * time.Second

// setExact names the blocks of tokens of a job's prompt, if an endpoint of its model tells of such blocks. If the
// model's tokenizer is not known here, and the prompt has not come as tokens, one of these endpoints turns it into
// tokens, as long as there is a choice. Where that fails the job goes by the bytes of its prompt.
func (x *exchange) setExact(ctx context.Context, j *job) {
	g, path := x.g, x.r.URL.Path
	if !slices.Contains(rendered, path) {
		return
	}
	g.mu.Lock()
	sizes := g.fleet.BlockTokens(j.model.ids)
	e, salt := g.renderer(j.model), x.saltOf(j.model)
	g.mu.Unlock()
	tokens := x.tokenize(ctx, j.model)
	if len(sizes) == 0 || e == nil && tokens == nil || x.prompt() < slices.Min(sizes)/2 {
		return
	}
	if tokens == nil {
		tokens = x.body.tokens()
	}
	if tokens == nil {
		var err error
		if tokens, err = x.render(ctx, e, j.model); err != nil {
			g.mu.Lock()
			e.mute = g.now() + muteFor
			g.mu.Unlock()
			g.log.Info("a prompt was not rendered", "endpoint", e.url, "error", err)
			return
		}
	}
	j.route.Tokens, j.route.Context = len(tokens), len(tokens)+x.body.most
	seed := route.Seed(j.route.Adapter, salt)
	for _, size := range sizes {
		j.route.Exact = append(j.route.Exact, route.BlockNames{
			BlockTokens: size, Names: route.TokenBlocks(make([]uint64, 0, len(tokens)/size), seed, tokens, size),
		})
	}
}

// renderedPerByte is the most bytes that tell of the tokens of a byte of a body.
const renderedPerByte = 16

// renderer returns the endpoint of a model that turns prompts into tokens: of those that tell of blocks, the one with
// the fewest requests. It is nil if there is none, or if there is nothing to choose. g.mu is held.
func (g *Gateway) renderer(m *model) (best *endpoint) {
	up := 0
	for _, e := range m.pool {
		if e.down != "" {
			continue
		}
		up++
		if e.cfg.Events != "" && e.mute <= g.now() && (best == nil || e.requests < best.requests) {
			best = e
		}
	}
	if up < 2 {
		return nil
	}
	return best
}

// render asks an endpoint for the tokens of the request's prompt, of the first one if there are several.
func (x *exchange) render(ctx context.Context, e *endpoint, m *model) (ids []int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Prefix.RenderTimeout)
	defer cancel()
	ctx, end := part(ctx, "render", trace.Client, trace.Attr{Key: "url.full", Value: e.url + x.r.URL.Path + "/render"})
	defer func() { end(err) }()
	body := bytes.Join(x.body.edited(x.body.naming(x.upstream(m))), nil)
	res, err := x.g.fetch(ctx, e, http.MethodPost, x.r.URL.Path+"/render", body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, mostPage+renderedPerByte*int64(len(body))))
	if err != nil {
		return nil, err
	}
	if ids = renderedTokens(said); res.StatusCode != http.StatusOK || len(ids) == 0 {
		return nil, fmt.Errorf("status %d: %.200s", res.StatusCode, said)
	}
	return ids, nil
}

// renderedTokens reads the tokens of an answer to a request for rendering: of a prompt, or of the first one of a list.
// It returns nil if there are none. Long prompts have many, for which encoding/json takes too long.
func renderedTokens(said []byte) (ids []int32) {
	s := scanner{data: said}
	if s.next() == '[' {
		s.at++
		s.next()
	}
	start := s.at
	if s.skip() != nil {
		return nil
	}
	if members(said[start:s.at], func(key string, value []byte, _ int) error {
		if key == "token_ids" {
			ids = wholeNumbers(value)
		}
		return nil
	}) != nil {
		return nil
	}
	return ids
}

// wholeNumbers reads a list of numbers from 0 to the largest of 31 bits; nil if that is something else.
func wholeNumbers(list []byte) []int32 {
	s := scanner{data: list}
	if s.next() != '[' {
		return nil
	}
	out := make([]int32, 0, len(list)/4)
	for s.at++; ; s.at++ {
		c := s.next()
		start, n := s.at, int64(0)
		for ; c >= '0' && c <= '9' && n <= math.MaxInt32; c = s.peek() {
			n = 10*n + int64(c-'0')
			s.at++
		}
		if s.at == start || n > math.MaxInt32 {
			return nil
		}
		out = append(out, int32(n))
		switch s.next() {
		case ',':
		case ']':
			return out
		default:
			return nil
		}
	}
}

// tokens returns the prompt of a body if it came as tokens, else nil; of several prompts the first.
func (b *body) tokens() []int32 {
	if len(b.prompt) < 2 || b.prompt[0] != '[' {
		return nil
	}
	if c := (&scanner{data: b.prompt, at: 1}).next(); c != '[' && (c < '0' || c > '9') {
		return nil
	}
	if one := wholeNumbers(b.prompt); one != nil {
		return one
	}
	var all [][]int32
	if json.Unmarshal(b.prompt, &all) == nil && len(all) > 0 && len(all[0]) > 0 {
		return all[0]
	}
	return nil
}
