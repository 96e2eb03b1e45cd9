package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/residency"
	"github.com/kvasir-llm/kvasir/shelf"
)

// OnDemand are models that are loaded when a request names them.
type OnDemand struct {
	Catalog Catalog
	// Memory is how many bytes they may take together, and Most how many they may be; 0 is any number.
	Memory int64
	Most   int
	// Keep is how long one stays after its last request, unless its offer or the request says; a negative time is until
	// its memory is needed.
	Keep time.Duration
	// Wait is how long a request waits for its model. 0 is 10 minutes.
	Wait time.Duration
}

// Catalog has the models on demand.
type Catalog interface {
	shelf.Catalog[*Loaded]
	// About says what a model is made of, without loading it.
	About(shelf.Offer) (About, error)

	// Create adds a model, or puts it in place of one that was added.
	Create(name string, r Recipe) error
	// Delete takes a model away.
	Delete(name string) error
	// Pull fetches a model from the hub. progress is told its files, and the bytes of them that are there.
	Pull(ctx context.Context, name string, progress func(file string, done, total int64)) error
}

// Recipe says what a model is made from.
type Recipe struct {
	From     string         // the name of another one, or "":
	Files    []File         // its checkpoint
	Adapter  []File         // that all of its requests use
	System   string         // what begins conversations; "" is as with the other one, and so on
	Template string         // a chat template
	Context  int            // tokens; 0 is as with the other one
	Options  map[string]any // of Ollama's API
}

// File is a file of a Recipe: what it is called, and where it is.
type File struct{ Name, Path string }

// RecipeError says what is wrong with a Recipe.
type RecipeError struct{ Problem string }

func (e *RecipeError) Error() string { return e.Problem }

// ErrFixed is what a Catalog returns for changes that it does not take.
var ErrFixed = errors.New("server: the models here are fixed")

// Preset returns what options of Ollama's API set in requests that do not say otherwise.
func Preset(options map[string]any) (func(*text.Request), error) {
	if len(options) == 0 {
		return func(*text.Request) {}, nil
	}
	body, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	g := given{known: ollamaParams}
	err = wire.Decode(body, func(c *wire.Cursor, key string) error {
		if key == "seed" || key == "num_ctx" { // which are a request's, and a model's
			return c.Unsupported()
		}
		known, err := g.read(c, key)
		if !known && err == nil {
			err = c.Unsupported()
		}
		return err
	})
	return func(r *text.Request) {
		for _, set := range g.set {
			set(r)
		}
	}, err
}

// Loaded is a model on demand that is in memory.
type Loaded struct {
	Served
	Free func() error // takes it out of memory

	uncount func() // takes it out of /metrics
}

// Size implements shelf.Model.
func (l *Loaded) Size() int64 { return l.Served.Size }

// Close implements shelf.Model.
func (l *Loaded) Close() error {
	l.uncount()
	return l.Free()
}

// usualContext is the context for which a server with models on demand is made, since theirs are not known: it bounds
// bodies and the buckets of metrics.
const usualContext = 1 << 17

// keepFor sets how long models on demand stay after the request of ctx; nil is as they are configured. Where there are
// API keys, others use them too, and no request makes them leave before that.
func keepFor(ctx context.Context, keep *time.Duration) {
	if h, _ := ctx.Value(leasesKey{}).(*leases); h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.keep = keep
	}
}

func (s *Server) newShelf(o OnDemand) *shelf.Shelf[*Loaded] {
	return shelf.New(shelf.Config[*Loaded]{Catalog: counted{o.Catalog, s}, Memory: o.Memory, Most: o.Most, Keep: o.Keep,
		Wait: cmp.Or(o.Wait, 10*time.Minute), Logger: s.cfg.Logger})
}

// counted is a catalog whose models are in /metrics, and are asked in the name of tenants.
type counted struct {
	shelf.Catalog[*Loaded]
	of *Server
}

func (c counted) Open(o shelf.Offer, room int64, progress func(done, total int64)) (*Loaded, error) {
	l, err := c.Catalog.Open(o, room, progress)
	if err != nil {
		return nil, err
	}
	l.Model, l.onDemand = apart{l.Model}, true
	l.uncount = c.of.metrics.add(&l.Served)
	return l, nil
}

// holding returns a context whose requests may ask for models on demand. These stay in memory until letGo is called.
func (s *Server) holding(ctx context.Context) (_ context.Context, letGo func()) {
	if s.shelf == nil {
		return ctx, func() {}
	}
	h := &leases{models: map[string]*Served{}}
	return context.WithValue(ctx, leasesKey{}, h), h.letGo
}

type leasesKey struct{}

// leases are the models on demand that a request uses.
type leases struct {
	mu      sync.Mutex
	keep    *time.Duration // how long models stay after the request; nil is as they are configured
	longer  bool           // than the request says
	models  map[string]*Served
	release []func()
}

// longer reports whether models stay for longer than the request of ctx says.
func longer(ctx context.Context) bool {
	h, _ := ctx.Value(leasesKey{}).(*leases)
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.longer
}

func (h *leases) letGo() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.release {
		f()
	}
	h.release = nil
}

// demand returns a model on demand, which the request of ctx then holds. The error is shelf.ErrNotFound if there is
// none of this name.
func (s *Server) demand(ctx context.Context, name string) (*Served, error) {
	if s.shelf == nil {
		return nil, shelf.ErrNotFound
	}
	o, err := s.shelf.Catalog().Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if m := s.byName[o.Name]; m != nil { // by another of its names
		return m, nil
	}
	h, _ := ctx.Value(leasesKey{}).(*leases)
	if h == nil {
		return nil, errors.New("server: a model on demand is asked for by a request that cannot hold it")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.models[o.Name]; m != nil {
		return m, nil
	}
	keep := h.keep
	if usual := value(o.Keep, s.cfg.OnDemand.Keep); keep != nil && *keep >= 0 && (usual < 0 || *keep < usual) && tenantOf(ctx).Name != "" {
		keep, h.longer = nil, true
	}
	l, release, err := s.shelf.Get(ctx, o, keep)
	if err != nil {
		return nil, err
	}
	h.models[o.Name], h.release = &l.Served, append(h.release, release)
	return &l.Served, nil
}

// preload loads the pinned models, until ctx ends.
func (s *Server) preload(ctx context.Context) {
	for _, st := range s.offers() {
		if !st.Offer.Pinned {
			continue
		}
		guard.Go(func() error {
			_, release, err := s.shelf.Get(ctx, st.Offer, nil)
			if err == nil {
				release()
			}
			return err
		}, func(err error) {
			if err != nil && ctx.Err() == nil {
				s.cfg.Logger.Error("a pinned model is not loaded", "model", st.Offer.Name, "error", err)
			}
		})
	}
}

// notLoaded words why a model on demand is not there, nil if err is about something else.
func notLoaded(err error) *failure {
	var (
		large  *shelf.TooLargeError
		broken *shelf.BrokenError
		late   *shelf.WaitError
		recipe *RecipeError
	)
	switch {
	case errors.Is(err, ErrFixed):
		return refuse(http.StatusForbidden, "", "models_fixed", "%s", strings.TrimPrefix(err.Error(), "server: "))
	case errors.As(err, &recipe):
		return refuse(http.StatusBadRequest, "", wire.CodeInvalidValue, "%s", recipe.Problem)
	case errors.As(err, &large):
		return refuse(http.StatusBadRequest, "model", "model_too_large",
			"The model `%s` needs about %d MiB of memory; the models here may take %d MiB.", large.Name, large.Need>>20,
			large.Memory>>20)
	case errors.As(err, &broken):
		return refuse(http.StatusInternalServerError, "model", "model_not_loaded",
			"The model `%s` could not be loaded; the server's log says why.", broken.Name)
	case errors.As(err, &late) && late.Loading:
		f := refuse(http.StatusServiceUnavailable, "model", "model_loading",
			"The model `%s` is still being loaded; %.0f%% is there. Please try again later.", late.Name, 100*late.Share)
		f.wait = 10 * time.Second
		return f
	case errors.As(err, &late):
		f := refuse(http.StatusServiceUnavailable, "model", "model_waiting",
			"The model `%s` waits for memory that other models use. Please try again later.", late.Name)
		f.wait = 10 * time.Second
		return f
	}
	return nil
}

// present returns the models that are in memory.
func (s *Server) present() []*Served {
	var all []*Served
	for i := range s.models {
		all = append(all, &s.models[i])
	}
	if s.shelf != nil {
		for _, st := range s.shelf.Models() {
			if st.There {
				all = append(all, &st.Model.Served)
			}
		}
	}
	return all
}

// offers returns the models on demand, in memory or not, in the order of their names.
func (s *Server) offers() []shelf.Status[*Loaded] {
	if s.shelf == nil {
		return nil
	}
	list, err := s.shelf.Catalog().List()
	if err != nil {
		s.cfg.Logger.Error("the models on demand cannot be listed", "error", err)
	}
	listed := func(name string) bool {
		return slices.ContainsFunc(list, func(o shelf.Offer) bool { return o.Name == name })
	}
	all := slices.DeleteFunc(s.shelf.Models(), func(st shelf.Status[*Loaded]) bool { // which was deleted meanwhile
		return st.State == residency.Closing && !listed(st.Offer.Name)
	})
	for _, o := range list {
		i := slices.IndexFunc(all, func(st shelf.Status[*Loaded]) bool { return st.Offer.Name == o.Name })
		if i >= 0 {
			all[i].Offer = o
		} else if s.byName[o.Name] == nil {
			all = append(all, shelf.Status[*Loaded]{Offer: o})
		}
	}
	slices.SortFunc(all, func(a, b shelf.Status[*Loaded]) int { return cmp.Compare(a.Offer.Name, b.Offer.Name) })
	return all
}

// offered returns their names.
func (s *Server) offered() (names []string) {
	for _, st := range s.offers() {
		names = append(names, st.Offer.Name)
	}
	return names
}

// valueOf is what APIs call a state.
var valueOf = map[residency.State]string{residency.Absent: "unloaded", residency.Loading: "loading",
	residency.Resident: "loaded", residency.Closing: "unloading"}

func describeOffer(st shelf.Status[*Loaded]) openai.Model {
	name := st.Offer.Name
	m := openai.Model{ID: name, Object: openai.ObjectModel, Created: max(0, st.Offer.Modified.Unix()), OwnedBy: "kvasir",
		Root: name}
	if st.There {
		m = describeServed(name, &st.Model.Served)
	}
	m.Status = &openai.ModelStatus{Value: valueOf[st.State]}
	if st.State == residency.Loading {
		m.Status.Progress = &st.Loaded
	}
	return m
}

// process is an entry of /models: a model in memory, or one that requests wait for.
type process struct {
	ID      string     `json:"id"`
	State   string     `json:"state"`              // as in openai.ModelStatus
	Loaded  *float64   `json:"progress,omitempty"` // of loading, 0 to 1
	Size    int64      `json:"size"`               // bytes
	Device  string     `json:"device,omitempty"`
	Context int        `json:"context,omitempty"` // tokens
	Running int        `json:"running"`           // requests
	Waiting int        `json:"waiting"`
	Pinned  bool       `json:"pinned"`
	Leaves  *time.Time `json:"leaves,omitempty"` // if no request comes; absent: not before its memory is needed
}

// processList is the answer of /models.
type processList struct {
	Data []process `json:"data"`
}

// processes describes the models that are in memory or waited for, as far as a tenant may know them.
func (s *Server) processes(t *tenant) []process {
	all := []process{}
	for i := range s.models {
		m := &s.models[i]
		info, report := m.Model.Info(), m.Engine.Report()
		all = append(all, process{ID: info.Name, State: "loaded", Size: m.Size, Device: m.Device, Context: info.Context,
			Running: report.Running, Waiting: report.Waiting, Pinned: true})
	}
	if s.shelf != nil {
		for _, st := range s.shelf.Models() {
			p := process{ID: st.Offer.Name, State: valueOf[st.State], Size: st.Size, Running: st.Running, Waiting: st.Waiting,
				Pinned: st.Offer.Pinned}
			if st.State == residency.Loading {
				p.Loaded = &st.Loaded
			}
			if st.There {
				p.Device, p.Context = st.Model.Device, st.Model.Model.Info().Context
			}
			if !st.Leaves.IsZero() {
				p.Leaves = &st.Leaves
			}
			all = append(all, p)
		}
	}
	return slices.DeleteFunc(all, func(p process) bool { return !t.may(p.ID) })
}

func (s *Server) ps(w http.ResponseWriter, r *http.Request) {
	s.write(w, http.StatusOK, processList{s.processes(tenantOf(r.Context()))})
}

// named is the request of /models/load and /models/unload.
type named struct{ model string }

func decodeNamed(body []byte) (*named, error) {
	n := new(named)
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		if key != "model" {
			return c.Unsupported()
		}
		n.model, err = c.Text()
		return err
	})
	if err == nil && n.model == "" {
		err = wire.Missing("model", "the name of a model")
	}
	return n, err
}

func (s *Server) loadModel(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, decodeNamed)
	if err == nil {
		_, _, err = s.lookup(r.Context(), req.model)
	}
	s.succeed(w, r, err)
}

func (s *Server) unloadModel(w http.ResponseWriter, r *http.Request) {
	req, err := read(w, r, decodeNamed)
	if err == nil {
		err = s.unload(r.Context(), req.model)
	}
	s.succeed(w, r, err)
}

// success answers a request that has nothing to tell.
type success struct {
	Success bool `json:"success"`
}

// succeed answers a request that has nothing to tell.
func (s *Server) succeed(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, success{true})
}

// unload makes a model on demand leave when its requests have ended. One that is not in memory is left alone.
func (s *Server) unload(ctx context.Context, name string) error {
	if t := tenantOf(ctx); !t.may(name) {
		return s.noModel(t, name)
	}
	if s.byName[name] != nil {
		return refuse(http.StatusConflict, "model", "model_stays",
			"The model `%s` was named when the server was started, and stays.", name)
	}
	if s.shelf == nil {
		return s.noModel(tenantOf(ctx), name)
	}
	o, err := s.shelf.Catalog().Find(ctx, name)
	if errors.Is(err, shelf.ErrNotFound) {
		return s.noModel(tenantOf(ctx), name)
	}
	if err == nil {
		s.shelf.Stop(o.Name)
	}
	return err
}
