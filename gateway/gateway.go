package gateway

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/fair"
	"github.com/kvasir-llm/kvasir/gateway/cache"
	"github.com/kvasir-llm/kvasir/gateway/meter"
	"github.com/kvasir-llm/kvasir/gateway/prompt"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/route"
	"github.com/kvasir-llm/kvasir/trace"
)

// Gateway is an http.Handler. Its methods may be called from several goroutines.
type Gateway struct {
	log       *slog.Logger
	access    *slog.Logger    // nil writes none
	traces    *trace.Exporter // nil records none
	began     time.Time
	names     *net.Resolver
	transport *http.Transport
	metrics   *metrics
	answers   cache.Store
	vectors   *cache.Index
	meter     *meter.Meter
	setup     atomic.Pointer[setup]
	draining  atomic.Bool
	bodies    bodies
	work      *guard.Budget // of bodies that are taken apart
	calls     *guard.Budget // of plug-ins, of which each takes aCall
	watches   sync.WaitGroup
	own       []byte          // a secret, where the configuration has none
	life      context.Context // ends with the gateway

	openPrompts func(name string) (*prompt.Model, error)
	end         context.CancelFunc

	mu      sync.Mutex // guards all below, and what models and endpoints say it does
	fleet   *route.Fleet
	ends    map[string]*endpoint          // by URL
	written *Config                       // with the sources of endpoints
	found   map[string][]string           // the URLs of endpoints, by source
	looks   map[string]context.CancelFunc // at sources
	flights map[string]int                // requests under way, by the names of accounts
	asked   map[string]*flight            // requests under way whose answers are kept, by their names
	batches map[string]*batch             // that wait for more, by what their requests have in common
	random  *rand.Rand
	closed  bool
}

// setup is what a configuration makes. It is replaced as a whole.
type setup struct {
	cfg      *Config
	models   map[string]*model          // by name
	names    map[string]*model          // by name and alias
	accounts map[[sha256.Size]byte]pass // by the hash of a key
	issuers  map[string]*issuer         // by URL
	hooks    []*hook
	prompts  map[string]*prompt.Model // by Model.Tokenizer
	teams    map[string][]meter.Limit
	secret   []byte // of which the salts of tenants are made
}

// Options are what a Gateway gets besides its configuration.
type Options struct {
	Logger  *slog.Logger
	Access  *slog.Logger    // gets a record of every request; nil gets none
	Seed    uint64          // of what is drawn
	Names   *net.Resolver   // of endpoints that are found by DNS; nil is the system's
	State   meter.Store     // counts what is used, and is closed with the gateway; nil is one in memory
	Traces  *trace.Exporter // takes spans of requests; nil takes none
	Answers cache.Store     // keeps answers, and is closed with the gateway; nil is one in memory

	// Prompts opens the tokenizer and the chat template that a configuration names.
	Prompts func(name string) (*prompt.Model, error)
}

// New makes a gateway and begins to watch its endpoints. Close ends that.
func New(c *Config, o Options) (*Gateway, error) {
	g := &Gateway{
		log: o.Logger, access: o.Access, began: time.Now(), metrics: newMetrics(o.Traces), traces: o.Traces,
		fleet: route.NewFleet(route.Options{Seed: o.Seed, Blocks: c.Prefix.Blocks}),
		ends:  map[string]*endpoint{}, found: map[string][]string{}, looks: map[string]context.CancelFunc{},
		flights: map[string]int{}, asked: map[string]*flight{}, batches: map[string]*batch{}, own: make([]byte, sha256.Size),
		work:        guard.NewBudget(int64(max(c.BodyMemory, leastMemory)), max(1, runtime.GOMAXPROCS(0)/2)),
		calls:       guard.NewBudget(allCalls, runtime.GOMAXPROCS(0)),
		openPrompts: o.Prompts, names: cmp.Or(o.Names, net.DefaultResolver), random: rand.New(rand.NewPCG(o.Seed, 1)),
	}
	g.life, g.end = context.WithCancel(context.Background())
	crand.Read(g.own)
	dialer := net.Dialer{KeepAlive: 30 * time.Second, Resolver: g.names}
	g.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, g.setup.Load().cfg.Timeouts.Connect)
			defer cancel()
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return newLine(c), nil
		},
		MaxIdleConnsPerHost: 4096, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
		ForceAttemptHTTP2: true, WriteBufferSize: 16 << 10, ReadBufferSize: 16 << 10, MaxResponseHeaderBytes: 256 << 10,
	}
	state := o.State
	if state == nil {
		var err error
		if state, err = meter.Open("memory:"); err != nil {
			return nil, err
		}
	}
	g.meter = meter.New(state, meter.Options{Log: o.Logger, Open: c.State.OnFailure == "open", Timeout: c.State.Timeout})
	g.answers = o.Answers
	if g.answers == nil {
		var err error
		if g.answers, err = cache.Open("memory:", c.Cache.Bytes); err != nil {
			return nil, err
		}
	}
	g.vectors = cache.NewIndex(c.Cache.Vectors)
	g.setup.Store(&setup{cfg: c})
	if err := g.Apply(c); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close ends what a gateway does in the background.
func (g *Gateway) Close() error {
	g.end()
	g.mu.Lock()
	g.closed = true
	g.discoverOnly(nil)
	for _, e := range g.ends {
		e.stop()
		e.unfollow()
	}
	g.retire(g.setup.Load().hooks)
	g.mu.Unlock()
	g.watches.Wait()
	g.transport.CloseIdleConnections()
	g.answers.Close()
	return g.meter.Close()
}

// Drain makes the gateway's health page say that it is about to end, so that who balances load over gateways looks for
// another.
func (g *Gateway) Drain() { g.draining.Store(true) }

// now is the time for the pure cores.
func (g *Gateway) now() time.Duration { return time.Since(g.began) }

// Apply puts a configuration, which Parse has checked, in place of the present one. Requests under way go on; those
// that wait for a model that stays keep their places. If Apply fails, nothing has changed.
func (g *Gateway) Apply(c *Config) error {
	if len(c.Keys) == 0 && len(g.setup.Load().cfg.Keys) > 0 { // as in half a file
		return errors.New("keys: there is none, and the gateway, which wants one, would be open: that needs a new start")
	}
	hooks, err := openHooks(c)
	if err != nil {
		return err
	}
	prompts, err := g.promptsOf(c)
	if err != nil {
		return errors.Join(err, closeHooks(hooks))
	}
	g.lookAround(c)
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.setup.Load()
	if err := g.apply(c, hooks, prompts); err != nil {
		if g.setup.Load() == before {
			err = errors.Join(err, closeHooks(hooks))
		}
		return err
	}
	g.retire(before.hooks)
	g.written = c
	g.discoverOnly(c.sources())
	return nil
}

// apply puts a configuration, with the endpoints that were found, in place of the present one. g.mu is held.
func (g *Gateway) apply(c *Config, hooks []*hook, prompts map[string]*prompt.Model) error {
	secret, err := g.secret(c)
	if err != nil {
		return err
	}
	if c, err = c.expanded(g.found); err != nil {
		return err
	}
	before := g.setup.Load()
	keys, err := endpointKeys(c)
	if err != nil {
		return err
	}
	if n := len(keys); n > route.MaxEndpoints {
		return fmt.Errorf("the models have %d endpoints together; at most %d are possible", n, route.MaxEndpoints)
	}
	s := &setup{cfg: c, secret: secret, models: map[string]*model{}, names: map[string]*model{}, teams: map[string][]meter.Limit{}}
	s.accounts, s.issuers = openAccounts(c.Keys), openIssuers(c, g.transport)
	for _, t := range c.Teams {
		s.teams[t.Name] = t.Limits
	}
	s.hooks, s.prompts = hooks, prompts
	g.setup.Store(s) // watches read it
	for url, e := range g.ends {
		if _, stays := keys[url]; !stays || e.key != keys[url] {
			g.remove(e)
		}
	}
	for _, m := range c.Models {
		if err := g.applyModel(s, before.models[m.Name], m, keys); err != nil {
			return err
		}
	}
	for name, m := range before.models {
		if s.models[name] == nil {
			m.pool, m.ids = nil, nil
			for j := range m.jobs {
				m.queue.Remove(&j.fair)
				j.refuse(noModel(name))
			}
		}
	}
	g.pumpAll()
	return nil
}

// endpointKeys returns the keys that endpoints want, by their URLs.
func endpointKeys(c *Config) (map[string]string, error) {
	keys := map[string]string{}
	for _, m := range c.Models {
		for _, e := range m.Endpoints {
			key := ""
			if e.KeyEnv != "" {
				if key = os.Getenv(e.KeyEnv); key == "" {
					return nil, fmt.Errorf("the environment has no %s, the key of endpoint %s", e.KeyEnv, e.URL)
				}
			}
			if before, ok := keys[e.URL]; ok && before != key {
				return nil, fmt.Errorf("endpoint %s has two different keys", e.URL)
			}
			keys[e.URL] = key
		}
	}
	return keys, nil
}

// applyModel makes a model of a configuration, or changes the one of that name that is there.
func (g *Gateway) applyModel(s *setup, m *model, c Model, keys map[string]string) error {
	if m == nil {
		m = &model{queue: fair.NewQueue(s.cfg.Queue.MaxWaiting), jobs: map[*job]struct{}{}, name: c.Name}
	}
	policy, err := route.NewPolicy(c.Policy.Preset, c.Policy.Weights)
	if err != nil {
		return err
	}
	m.Model, m.policy, m.pool, m.ids, m.prefill, m.prefillIDs = c, policy, nil, nil, nil, nil
	if m.transfer, err = transfers.Find("transfer", c.Transfer); err != nil {
		return err
	}
	m.queue.SetMost(s.cfg.Queue.MaxWaiting)
	m.queue.SetUnused(s.cfg.Queue.MaxUnused)
	for _, cfg := range c.Endpoints {
		e, err := g.join(cfg, keys[cfg.URL])
		if err != nil {
			return err
		}
		if cfg.Role == "prefill" {
			m.prefill, m.prefillIDs = append(m.prefill, e), append(m.prefillIDs, e.id)
			continue
		}
		m.pool, m.ids = append(m.pool, e), append(m.ids, e.id)
	}
	s.models[c.Name] = m
	for _, name := range c.names() {
		s.names[name] = m
	}
	return nil
}

// join returns the endpoint of a configuration, which it begins to watch if it is new.
func (g *Gateway) join(cfg Endpoint, key string) (*endpoint, error) {
	known := route.Endpoint{Name: cfg.URL, Cost: cfg.Cost, Zone: cfg.Zone, Limit: cfg.MaxInFlight, Fixed: cfg.FixedLimit, Context: cfg.Context}
	if e := g.ends[cfg.URL]; e != nil {
		e.cfg = cfg
		g.fleet.Change(e.id, known)
		if from := cfg.feed(); from != e.feed {
			e.unfollow()
			e.feed, e.unfollow = from, g.follow(e, from)
		}
		return e, nil
	}
	id, err := g.fleet.Join(known)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &endpoint{url: cfg.URL, key: key, id: id, stop: stop, cfg: cfg, turn: make(chan struct{}, 1)}
	g.ends[cfg.URL] = e
	g.metrics.up.WithLabelValues(e.url).Set(1)
	g.watches.Add(1)
	g.watch(ctx, e)
	e.feed = cfg.feed()
	e.unfollow = g.follow(e, e.feed)
	return e, nil
}

// remove takes an endpoint out of the fleet. What is under way there goes on.
func (g *Gateway) remove(e *endpoint) {
	e.gone = true
	e.stop()
	e.unfollow()
	g.fleet.Leave(e.id)
	delete(g.ends, e.url)
	g.metrics.up.DeleteLabelValues(e.url)
}
