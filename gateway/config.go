package gateway

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/fair"
	"github.com/kvasir-llm/kvasir/gateway/meter"
	"github.com/kvasir-llm/kvasir/gateway/provider"
	"github.com/kvasir-llm/kvasir/route"
)

// Config is the configuration of a gateway, as docs/gateway.md describes it. Parse reads it from YAML, where each field
// has the name in its tag.
type Config struct {
	Listen     string   `yaml:"listen"`
	TLS        TLS      `yaml:"tls"`
	Models     []Model  `yaml:"models"`
	Keys       []Key    `yaml:"keys"`
	Queue      Queue    `yaml:"queue"`
	Timeouts   Timeouts `yaml:"timeouts"`
	Retries    int      `yaml:"retries"`
	Health     Health   `yaml:"health"`
	Prefix     Prefix   `yaml:"prefix"`
	Zone       string   `yaml:"zone"`
	MaxBody    int      `yaml:"max_body"`
	BodyMemory int      `yaml:"body_memory"` // of all bodies under way

	MaxConnections     int `yaml:"max_connections"` // open at once; 0 is any number
	MaxConnectionsEach int `yaml:"max_connections_per_address"`

	AccessLog string   `yaml:"access_log"`
	Teams     []Team   `yaml:"teams"`
	State     State    `yaml:"state"`
	Issuers   []Issuer `yaml:"issuers"`
	Cache     Cache    `yaml:"cache"`
	Hooks     []Hook   `yaml:"hooks"`
	ExtProc   ExtProc  `yaml:"ext_proc"`

	SharePrefixes bool   `yaml:"share_prefixes"` // among keys
	SecretEnv     string `yaml:"secret_env"`     // the environment variable with what keys' prefixes are kept apart by
}

// TLS has the files, in PEM, of what clients' connections speak. Without a certificate they are not encrypted.
type TLS struct {
	Cert     string `yaml:"cert"`
	Key      string `yaml:"key"`
	ClientCA string `yaml:"client_ca"` // who may connect has a certificate that one of these has signed
}

// Model is a name that requests may ask for. It has endpoints, or is divided among other models.
type Model struct {
	Name           string             `yaml:"name"`
	Adapters       []Adapter          `yaml:"adapters"`
	Aliases        []string           `yaml:"aliases"`
	Upstream       string             `yaml:"upstream"`  // what its endpoints call it; Name if empty
	Tokenizer      string             `yaml:"tokenizer"` // where the model's tokenizer and chat template are; "" is unknown
	Endpoints      []Endpoint         `yaml:"endpoints"`
	Policy         Policy             `yaml:"policy"`
	Split          map[string]float64 `yaml:"split"`   // of models, by weight
	Lengths        []Length           `yaml:"lengths"` // of prompts, each with the model that answers them
	Fallbacks      []string           `yaml:"fallbacks"`
	Shadow         Shadow             `yaml:"shadow"`
	Resume         bool               `yaml:"resume"` // its endpoints understand continue_final_message
	SLO            SLO                `yaml:"slo"`
	Transfer       string             `yaml:"transfer"`        // of KV blocks; see transfers
	TransferTokens int                `yaml:"transfer_tokens"` // fewer are computed where the decode is
	Hedge          time.Duration      `yaml:"hedge"`           // until a second endpoint is asked, too
	Price          meter.Price        `yaml:"price"`
	Batch          Batch              `yaml:"batch"`
	Cache          time.Duration      `yaml:"cache"` // how long answers are kept; 0 keeps none
	Semantic       Semantic           `yaml:"semantic"`
	Limits         []meter.Limit      `yaml:"limits"` // of all keys together
}

// Length is a part of a model that is divided by the length of prompts.
type Length struct {
	UpTo  int    `yaml:"up_to"` // tokens of the prompt, as estimated; 0 is any number
	Model string `yaml:"model"`
}

// SLO is how long answers should take; 0 is any time.
type SLO struct {
	TTFT time.Duration `yaml:"ttft"` // until the first token
	TPOT time.Duration `yaml:"tpot"` // for each later one
}

// Endpoint is an engine or a provider. In YAML it may be its URL alone.
type Endpoint struct {
	URL         string  `yaml:"url"`
	KeyEnv      string  `yaml:"key_env"` // the environment variable with the key that the endpoint wants
	MaxInFlight int     `yaml:"max_in_flight"`
	FixedLimit  bool    `yaml:"fixed_limit"` // MaxInFlight is not lowered by what is learned
	Context     int     `yaml:"context"`     // tokens
	Cost        float64 `yaml:"cost"`
	Zone        string  `yaml:"zone"`
	API         string  `yaml:"api"`     // of a provider, as in package provider; "" is OpenAI's
	Region      string  `yaml:"region"`  // of Bedrock
	Version     string  `yaml:"version"` // of Azure's API

	Adapters AdapterRoom `yaml:"adapters"`

	Role          string `yaml:"role"` // prefill, decode, or both
	BootstrapPort int    `yaml:"bootstrap_port"`

	Events       string `yaml:"events"` // the ZeroMQ address where it tells what its prefix cache holds
	EventsReplay string `yaml:"events_replay"`
	EventsTopic  string `yaml:"events_topic"`

	CacheSalt string `yaml:"cache_salt"` // always or never; "" is if it is an engine that knows it
}

// Policy is the name of a preset, or weights of scorers; see package route.
type Policy struct {
	Preset  string
	Weights route.Weights
}

// Queue bounds what waits for each model.
type Queue struct {
	MaxWaiting int           `yaml:"max_waiting"`
	MaxWait    time.Duration `yaml:"max_wait"`
	DownWait   time.Duration `yaml:"down_wait"`  // while no endpoint is up
	MaxUnused  float64       `yaml:"max_unused"` // share of all places, kept for tenants within their share
}

// Timeouts bound the phases of an answer.
type Timeouts struct {
	Body      time.Duration `yaml:"body"` // a request's
	Connect   time.Duration `yaml:"connect"`
	FirstByte time.Duration `yaml:"first_byte"` // from the request sent to the answer's first event, or its header
	Idle      time.Duration `yaml:"idle"`       // between two pieces of an answer
	Total     time.Duration `yaml:"total"`
}

// Health says how endpoints are watched.
type Health struct {
	Path       string        `yaml:"path"`
	Interval   time.Duration `yaml:"interval"`
	Timeout    time.Duration `yaml:"timeout"`
	EjectAfter int           `yaml:"eject_after"` // failures in a row
	EjectFor   time.Duration `yaml:"eject_for"`
	Metrics    string        `yaml:"metrics"` // the path of an engine's Prometheus metrics; "" leaves them unread
}

// Prefix says how prompts are remembered.
type Prefix struct {
	BlockBytes int `yaml:"block_bytes"`
	Blocks     int `yaml:"blocks"` // of each endpoint

	RenderTimeout time.Duration `yaml:"render_timeout"`
}

// Key is an API key. Only its hash is known.
type Key struct {
	Name        string        `yaml:"name"`
	Team        string        `yaml:"team"`
	Hash        string        `yaml:"hash"`      // "sha256:" and 64 hexadecimal digits
	OldHash     string        `yaml:"old_hash"`  // of the key before this one
	OldUntil    string        `yaml:"old_until"` // when that ends, in RFC 3339
	Expires     string        `yaml:"expires"`   // when the key ends, in RFC 3339; "" is never
	Models      []string      `yaml:"models"`
	Paths       []string      `yaml:"paths"` // that it may ask; all if there are none
	Limits      []meter.Limit `yaml:"limits"`
	MaxInFlight int           `yaml:"max_in_flight"`
	Weight      float64       `yaml:"weight"`
	Priority    int           `yaml:"priority"`
	Group       string        `yaml:"group"`      // of keys that share cached prefixes; "" is the key's own
	Priorities  []int         `yaml:"priorities"` // the lowest and the highest that its requests may ask for; none if empty
	Users       bool          `yaml:"users"`      // the request's user is a tenant of its own
	Admin       bool          `yaml:"admin"`
}

// Team is what several keys share.
type Team struct {
	Name   string        `yaml:"name"`
	Limits []meter.Limit `yaml:"limits"`
}

// State says where counters and what was used are kept.
type State struct {
	URL       string        `yaml:"url"`        // as meter.Open takes it
	OnFailure string        `yaml:"on_failure"` // closed or open: whether requests go while the store cannot be reached
	Timeout   time.Duration `yaml:"timeout"`    // of a reservation
}

// Cache says where answers are kept.
type Cache struct {
	URL   string `yaml:"url"`   // as cache.Open takes it
	Bytes int    `yaml:"bytes"` // in memory

	Vectors int `yaml:"vectors"` // of questions, in memory
}

// defaults are the values of what a file leaves out.
func defaults() Config {
	return Config{
		Listen:   "127.0.0.1:9000",
		Queue:    Queue{MaxWaiting: 1024, MaxWait: 30 * time.Second, DownWait: 5 * time.Second, MaxUnused: fair.Unused},
		Timeouts: Timeouts{Body: time.Minute, Connect: 2 * time.Second, FirstByte: 5 * time.Minute, Idle: time.Minute, Total: time.Hour},
		Retries:  2,
		Health: Health{
			Path: "/health", Interval: 2 * time.Second, Timeout: 2 * time.Second, EjectAfter: 3, EjectFor: 10 * time.Second,
			Metrics: "/metrics",
		},
		Prefix:  Prefix{BlockBytes: 256, Blocks: 200_000, RenderTimeout: time.Second},
		MaxBody: 32 << 20,

		MaxConnections: 4096, MaxConnectionsEach: 512,

		Cache: Cache{URL: "memory:", Bytes: 256 << 20, Vectors: 10_000},
		State: State{URL: "sqlite:", OnFailure: "closed", Timeout: time.Second},
	}
}

// defaultInFlight is how many requests an endpoint has at once if its configuration does not say.
const defaultInFlight = 256

// problem is what is wrong with a part of a configuration.
type problem struct{ path, text string }

func (p problem) Error() string { return p.path + ": " + p.text }

func wrong(path, format string, args ...any) error {
	return problem{path, fmt.Sprintf(format, args...)}
}

// check refuses what cannot be meant, fills in what depends on other values, and names the place.
func (c *Config) check() error {
	names, aliases := map[string]int{}, map[string]string{}
	if len(c.Models) == 0 {
		return wrong("models", "there is none")
	}
	for i := range c.Models {
		m := &c.Models[i]
		path := fmt.Sprintf("models[%d]", i)
		if m.Name == "" {
			return wrong(path+".name", "it is missing")
		}
		names[m.Name] = i
		for _, name := range m.names() {
			if name == "" {
				return wrong(path, "an alias or an adapter has no name")
			}
			if before, ok := aliases[name]; ok {
				return wrong(path, "the name %q is that of %s, too", name, before)
			}
			aliases[name] = path
		}
	}
	for i := range c.Models {
		if err := c.Models[i].check(fmt.Sprintf("models[%d]", i), names); err != nil {
			return err
		}
	}
	if err := c.checkShared(); err != nil {
		return err
	}
	if err := c.checkSplits(names); err != nil {
		return err
	}
	if err := c.checkKeys(aliases); err != nil {
		return err
	}
	if err := c.checkHooks(); err != nil {
		return err
	}
	if err := c.checkExtProc(); err != nil {
		return err
	}
	if t := c.TLS; (t.Cert == "") != (t.Key == "") || t.ClientCA != "" && t.Cert == "" {
		return wrong("tls", "cert and key need each other, and client_ca needs both")
	}
	return c.checkNumbers()
}

// SameStart reports whether two configurations are alike in what a gateway opens when it starts.
func (c *Config) SameStart(other *Config) bool {
	return c.sameDoor(other) && c.StateURL() == other.StateURL() && c.State == other.State && c.Cache == other.Cache &&
		c.ExtProc.same(other.ExtProc) && c.AccessLog == other.AccessLog && c.Prefix.Blocks == other.Prefix.Blocks
}

// sameDoor reports whether two configurations take connections alike.
func (c *Config) sameDoor(other *Config) bool {
	return c.Listen == other.Listen && c.TLS == other.TLS && c.MaxConnections == other.MaxConnections &&
		c.MaxConnectionsEach == other.MaxConnectionsEach
}

// names returns what requests may ask for.
func (m *Model) names() []string {
	all := append([]string{m.Name}, m.Aliases...)
	for _, a := range m.Adapters {
		all = append(all, a.Name)
	}
	return all
}

func (m *Model) check(path string, names map[string]int) error {
	if m.Upstream == "" {
		m.Upstream = m.Name
	}
	if kinds := one(len(m.Endpoints) > 0) + one(len(m.Split) > 0) + one(len(m.Lengths) > 0); kinds != 1 {
		return wrong(path, "a model has endpoints, a split or lengths, one of the three")
	}
	seen := map[string]bool{}
	for i := range m.Endpoints {
		at := fmt.Sprintf("%s.endpoints[%d]", path, i)
		e := &m.Endpoints[i]
		if err := e.check(at); err != nil {
			return err
		}
		if seen[e.URL] {
			return wrong(at, "%s is there twice", e.URL)
		}
		seen[e.URL] = true
	}
	if _, err := route.NewPolicy(m.Policy.Preset, m.Policy.Weights); err != nil {
		return wrong(path+".policy", "%v", err)
	}
	if m.Hedge < 0 {
		return wrong(path+".hedge", "%v; want at least 0", m.Hedge)
	}
	if m.SLO.TTFT < 0 || m.SLO.TPOT < 0 {
		return wrong(path+".slo", "%v and %v; want at least 0", m.SLO.TTFT, m.SLO.TPOT)
	}
	if err := m.Batch.check(path + ".batch"); err != nil {
		return err
	}
	if err := m.checkTransfer(path); err != nil {
		return err
	}
	for name, weight := range m.Split {
		if _, ok := names[name]; !ok || name == m.Name {
			return wrong(path+".split", "%q is no other model's name", name)
		}
		if !(weight > 0 && weight < 1e9) {
			return wrong(path+".split", "the weight of %q is %v; want more than 0", name, weight)
		}
	}
	if err := m.checkLengths(path, names); err != nil {
		return err
	}
	if err := m.checkSemantic(path+".semantic", names); err != nil {
		return err
	}
	if err := m.Shadow.check(path+".shadow", m.Name, names); err != nil {
		return err
	}
	for i, name := range m.Fallbacks {
		if _, ok := names[name]; !ok || name == m.Name {
			return wrong(fmt.Sprintf("%s.fallbacks[%d]", path, i), "%q is no other model's name", name)
		}
	}
	return nil
}

func (e *Endpoint) check(path string) error {
	if _, many, err := parseSource(e.URL); many && err != nil {
		return wrong(path+".url", "%v", err)
	} else if many {
		return e.checkSettings(path)
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return wrong(path+".url", "%q; want a URL such as http://127.0.0.1:8000", e.URL)
	}
	e.URL = strings.TrimSuffix(strings.TrimSuffix(e.URL, "/"), "/v1")
	if err := provider.Check(e.API, e.Region, e.Version); err != nil {
		return wrong(path, "%v", err)
	}
	if e.API != "" && e.KeyEnv == "" {
		return wrong(path+".key_env", "it is missing; a provider wants a key")
	}
	return e.checkSettings(path)
}

// checkSettings checks what endpoints that are found have in common with others.
func (e *Endpoint) checkSettings(path string) error {
	if e.MaxInFlight == 0 {
		e.MaxInFlight = defaultInFlight
	}
	if e.MaxInFlight < 1 || e.Context < 0 || !(e.Cost >= 0 && e.Cost < 1e12) {
		return wrong(path, "max_in_flight is %d, context %d and cost %v; want at least 1, 0 and 0", e.MaxInFlight, e.Context, e.Cost)
	}
	if s := e.CacheSalt; s != "" && s != alwaysSalted && s != neverSalted || s == alwaysSalted && e.API != "" {
		return wrong(path+".cache_salt", "%q; want always or never, and not always for a provider", s)
	}
	if a := e.Adapters; a.Most < 0 || a.Idle < 0 || a.Idle > 0 && a.Idle < time.Second {
		return wrong(path+".adapters", "most is %d and idle %v; want at least 0, and 1s", a.Most, a.Idle)
	}
	f := e.feed()
	if _, many, _ := parseSource(e.URL); many {
		f.events, f.replay = strings.Replace(f.events, "*", "found", 1), strings.Replace(f.replay, "*", "found", 1)
	}
	return f.check(path)
}

// checkShared refuses an endpoint of several models that is not the same in all.
func (c *Config) checkShared() error {
	before := map[string]Endpoint{}
	for i, m := range c.Models {
		for j, e := range m.Endpoints {
			if b, ok := before[e.URL]; ok && b != e {
				return wrong(fmt.Sprintf("models[%d].endpoints[%d]", i, j), "%s is in an earlier model with other settings", e.URL)
			}
			before[e.URL] = e
		}
	}
	return nil
}

// checkLengths refuses lengths of which some are for no prompt, or that leave prompts to nobody.
func (m *Model) checkLengths(path string, names map[string]int) error {
	for i, l := range m.Lengths {
		at := fmt.Sprintf("%s.lengths[%d]", path, i)
		if _, ok := names[l.Model]; !ok || l.Model == m.Name {
			return wrong(at+".model", "%q is no other model's name", l.Model)
		}
		last := i == len(m.Lengths)-1
		if last != (l.UpTo == 0) || !last && l.UpTo < 1 || !last && i > 0 && l.UpTo <= m.Lengths[i-1].UpTo {
			return wrong(at+".up_to", "%d; want numbers that rise, and none for the last model", l.UpTo)
		}
	}
	return nil
}

// checkSplits refuses models that are divided where one with endpoints is needed.
func (c *Config) checkSplits(names map[string]int) error {
	divided := func(name string) bool {
		m, ok := names[name]
		return ok && len(c.Models[m].Endpoints) == 0
	}
	for i, m := range c.Models {
		path := fmt.Sprintf("models[%d]", i)
		for name := range m.Split {
			if divided(name) {
				return wrong(path+".split", "%q is divided itself", name)
			}
		}
		for j, l := range m.Lengths {
			if divided(l.Model) {
				return wrong(fmt.Sprintf("%s.lengths[%d]", path, j), "%q is divided itself", l.Model)
			}
		}
		for j, name := range m.Fallbacks {
			if divided(name) {
				return wrong(fmt.Sprintf("%s.fallbacks[%d]", path, j), "%q is divided", name)
			}
		}
		if divided(m.Semantic.Model) {
			return wrong(path+".semantic", "%q is divided", m.Semantic.Model)
		}
		if divided(m.Shadow.Model) {
			return wrong(path+".shadow", "%q is divided", m.Shadow.Model)
		}
	}
	return nil
}

func (c *Config) checkNumbers() error {
	if c.BodyMemory == 0 {
		c.BodyMemory = max(leastMemory, 8*c.MaxBody)
	}
	for _, x := range []struct {
		path  string
		value int64
		least int64
	}{
		{"queue.max_waiting", int64(c.Queue.MaxWaiting), 1}, {"queue.max_wait", int64(c.Queue.MaxWait), 1},
		{"queue.down_wait", int64(c.Queue.DownWait), 0}, {"timeouts.connect", int64(c.Timeouts.Connect), 1},
		{"timeouts.body", int64(c.Timeouts.Body), 1}, {"body_memory", int64(c.BodyMemory), 2 * int64(c.MaxBody)},
		{"timeouts.first_byte", int64(c.Timeouts.FirstByte), 1}, {"timeouts.idle", int64(c.Timeouts.Idle), 1},
		{"timeouts.total", int64(c.Timeouts.Total), 1}, {"retries", int64(c.Retries), 0},
		{"health.interval", int64(c.Health.Interval), int64(10 * time.Millisecond)}, {"health.timeout", int64(c.Health.Timeout), 1},
		{"health.eject_after", int64(c.Health.EjectAfter), 1}, {"health.eject_for", int64(c.Health.EjectFor), 1},
		{"prefix.block_bytes", int64(c.Prefix.BlockBytes), 16}, {"prefix.blocks", int64(c.Prefix.Blocks), 1},
		{"prefix.render_timeout", int64(c.Prefix.RenderTimeout), 1},
		{"max_body", int64(c.MaxBody), 1}, {"max_connections", int64(c.MaxConnections), 0},
		{"max_connections_per_address", int64(c.MaxConnectionsEach), 0}, {"cache.bytes", int64(c.Cache.Bytes), 0}, {"cache.vectors", int64(c.Cache.Vectors), 0}, {"state.timeout", int64(c.State.Timeout), int64(time.Millisecond)},
	} {
		if x.value < x.least {
			return wrong(x.path, "%d is too low; the least is %d", x.value, x.least)
		}
	}
	if u := c.Queue.MaxUnused; !(u >= 0 && u <= 1) {
		return wrong("queue.max_unused", "%v; want a share from 0 to 1", u)
	}
	for _, p := range []struct{ path, value string }{{"health.path", c.Health.Path}, {"health.metrics", c.Health.Metrics}} {
		if p.value != "" && !strings.HasPrefix(p.value, "/") {
			return wrong(p.path, "%q; want a path that begins with /", p.value)
		}
	}
	return nil
}
