package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/server"
	"github.com/kvasir-llm/kvasir/shelf"
)

// demandFlags are models that are loaded when a request names them; docs/on-demand.md.
type demandFlags struct {
	OnDemand  bool          `help:"Also load the built-in model and those of the local cache when a request names them. So it is if neither models nor --models are given."`
	ModelList string        `name:"models" help:"A YAML file of models that are loaded when a request names them; docs/on-demand.md." placeholder:"FILE" type:"existingfile"`
	AllowPull bool          `help:"Fetch what requests name from the hub if it is not in the local cache."`
	Memory    size          `name:"models-memory" help:"Memory for the models that are loaded on demand, with their KV caches; 0 is what is free at the start." default:"0" placeholder:"SIZE"`
	Most      int           `name:"max-models" help:"Most of them in memory at once; 0 is any number." default:"0" placeholder:"N"`
	Keep      keepAlive     `name:"keep-alive" help:"How long such a model stays in memory after its last request, such as 10m; forever is until its memory is needed." default:"5m" placeholder:"TIME"`
	LoadWait  time.Duration `help:"How long a request waits for its model to be loaded before it is told to come back." default:"10m" placeholder:"TIME"`
}

// keepAlive is how long a model stays in memory; a negative time is until its memory is needed.
type keepAlive time.Duration

func (k *keepAlive) UnmarshalText(b []byte) error {
	if string(b) == "forever" {
		*k = -1
		return nil
	}
	d, err := time.ParseDuration(string(b))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time to stay; want such as 10m, 0s or forever", b)
	}
	*k = keepAlive(d)
	return nil
}

// check refuses flags that would count for nothing.
func (f *demandFlags) check(models []string) error {
	f.OnDemand = f.OnDemand || f.AllowPull || len(models) == 0 && f.ModelList == ""
	if f.Most < 0 || f.LoadWait <= 0 {
		return usageError{fmt.Sprintf("--max-models is %d and --load-wait %v; want at least 0, and more than 0", f.Most, f.LoadWait)}
	}
	return nil
}

// wanted reports whether any model is loaded on demand.
func (f *demandFlags) wanted() bool { return f.OnDemand || f.ModelList != "" }

// MarshalText writes the time as UnmarshalText reads it.
func (k keepAlive) MarshalText() ([]byte, error) {
	if k < 0 {
		return []byte("forever"), nil
	}
	return []byte(time.Duration(k).String()), nil
}

// catalog has the models that are loaded on demand.
type catalog struct {
	serve *serveCmd
	log   *slog.Logger

	mu      sync.Mutex                       // guards changes of entries and of the file
	entries atomic.Pointer[map[string]entry] // by name; the map is not changed
}

// named returns the entries of the file, and those that were created, by name.
func (c *catalog) named() map[string]entry { return *c.entries.Load() }

// onDemand returns the models that the flags let be loaded on demand. They may use room bytes.
func (c *serveCmd) onDemand(log *slog.Logger, room int64) (*server.OnDemand, error) {
	all := &catalog{serve: c, log: log}
	entries := map[string]entry{}
	if c.ModelList != "" {
		var err error
		if entries, err = readModels(c.ModelList); err != nil {
			return nil, err
		}
	}
	all.entries.Store(&entries)
	if c.demandFlags.Memory > 0 {
		room = int64(c.demandFlags.Memory)
	}
	return &server.OnDemand{Catalog: all, Memory: room, Most: c.Most, Keep: time.Duration(c.Keep), Wait: c.LoadWait}, nil
}

// List implements shelf.Catalog.
func (c *catalog) List() ([]shelf.Offer, error) {
	var all []shelf.Offer
	entries := c.named()
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		all = append(all, entries[name].offer(name))
	}
	if !c.serve.OnDemand {
		return all, nil
	}
	all = append(all, shelf.Offer{Name: builtin.Name, Bytes: builtin.Size()})
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return all, err
	}
	cached, err := client.List()
	for _, m := range cached {
		if m.Format != "adapter" {
			all = append(all, shelf.Offer{Name: m.Name.String(), Bytes: m.Size, Modified: m.Modified})
		}
	}
	slices.SortStableFunc(all, func(a, b shelf.Offer) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b shelf.Offer) bool { return a.Name == b.Name }), err
}

// Find implements shelf.Catalog. A name is an entry of the file, the built-in model's or a hub's, and never a path: a
// client does not choose which files are read.
func (c *catalog) Find(ctx context.Context, name string) (shelf.Offer, error) {
	if e, ok := c.named()[name]; ok {
		return e.offer(name), nil
	}
	if !c.serve.OnDemand {
		return shelf.Offer{}, shelf.ErrNotFound
	}
	if name == builtin.Name {
		return shelf.Offer{Name: name, Bytes: builtin.Size()}, nil
	}
	n, err := hub.ParseName(name)
	if err != nil {
		return shelf.Offer{}, shelf.ErrNotFound
	}
	client, err := hub.FromEnv(os.Getenv)
	if err != nil {
		return shelf.Offer{}, err
	}
	_, ok, err := client.Lookup(n)
	if err == nil && !ok && c.serve.AllowPull {
		c.log.Info("fetching", "model", n)
		client.UserAgent = "kvasir/" + version()
		_, err = client.Pull(ctx, n, func(hub.Event) {})
		ok = err == nil
		if errors.Is(err, hub.ErrNotFound) || errors.Is(err, hub.ErrDenied) {
			c.log.Warn("a model cannot be fetched", "model", n, "error", err)
			err = shelf.ErrNotFound
		}
	}
	if err == nil && !ok {
		err = shelf.ErrNotFound
	}
	return shelf.Offer{Name: n.String()}, err
}

// entry returns what is known of an offer.
func (c *catalog) entry(o shelf.Offer) entry {
	if e, ok := c.named()[o.Name]; ok {
		return e
	}
	return entry{Model: o.Name}
}

// Need implements shelf.Catalog.
func (c *catalog) Need(o shelf.Offer) (int64, error) {
	e := c.entry(o)
	found, err := e.open(o.Name)
	if err != nil {
		return 0, err
	}
	defer found.ckpt.Close()
	spec, err := family.Read(found.ckpt)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", o.Name, err)
	}
	options, err := c.options(e, o.Name)
	if err != nil {
		return 0, err
	}
	size := found.ckpt.Size()
	if options.Draft, err = e.openDraft(); err != nil {
		return 0, err
	}
	if options.Draft != nil {
		size += options.Draft.Size()
		err = options.Draft.Close()
	}
	return text.Need(spec, size, options), err
}

// About implements server.Catalog.
func (c *catalog) About(o shelf.Offer) (server.About, error) {
	e := c.entry(o)
	options, err := c.options(e, o.Name)
	if err != nil {
		return server.About{}, err
	}
	found, err := e.open(o.Name)
	if err != nil {
		return server.About{}, err
	}
	defer found.ckpt.Close()
	return about(o.Name, found.ckpt, &options)
}

// options returns how a model is served: as the flags say, where its entry does not say otherwise.
func (c *catalog) options(e entry, name string) (text.Options, error) {
	o := c.serve.options(name)
	c.serve.schedFlags.apply(&o)
	c.serve.transferFlags.room(&o)
	c.serve.draftFlags.apply(&o)
	o.Pooling, o.AllLogprobs = engine.Pooling(c.serve.Pooling), c.serve.MaxLogprobs < 0
	if err := c.serve.guideFlags.apply(&o); err != nil {
		return o, err
	}
	o.MaxLoRAs, o.MaxRank = c.serve.MaxLoRAs, c.serve.MaxRank
	o.MaxWaiting, o.MaxQueue, o.Logger, o.Lost = c.serve.MaxWaiting, c.serve.MaxQueueTime, c.log, c.serve.losses.lost
	return o, e.apply(&o)
}

// Open implements shelf.Catalog.
func (c *catalog) Open(o shelf.Offer, room int64, progress func(done, total int64)) (*server.Loaded, error) {
	begin := time.Now()
	e := c.entry(o)
	options, err := c.options(e, o.Name)
	if err != nil {
		return nil, err
	}
	if options.Draft, err = e.openDraft(); err != nil {
		return nil, err
	}
	if options.Draft != nil {
		defer options.Draft.Close()
	}
	observer := new(server.Observer)
	options.Memory, options.Progress, options.Observer = room, progress, observer
	found, err := e.open(o.Name)
	if err != nil {
		return nil, err
	}
	defer debug.FreeOSMemory() // what loading leaves
	defer found.ckpt.Close()
	what, err := about(o.Name, found.ckpt, &options)
	if err != nil {
		return nil, err
	}
	options.Context = min(options.Context, what.Context)
	m, err := text.Open(found.ckpt, options)
	if err != nil {
		return nil, err
	}
	tell(c.log, m, begin)
	served := server.FromText(m)
	served.Observer, served.About, served.Root = observer, what, e.Model
	return &server.Loaded{Served: served, Free: func() error {
		err := m.Close()
		debug.FreeOSMemory() // which the next model is planned with
		return err
	}}, nil
}
