package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/guard"
)

// Key is an API key. Requests with one key find no cached prefixes of requests with another, unless both are of one
// Group.
type Key struct {
	Name   string // unique; "" is "key-" and its position, from 1
	Secret string // what requests carry
	Group  string // "" is a group of the key's own

	MaxRequests int      // answered at once; 0 is any number
	Priorities  []int    // the lowest and the highest of its requests; nil is 0 and math.MaxInt32
	Models      []string // models, aliases and adapters that it may ask for; nil is all
}

// keyring holds the accepted keys.
type keyring struct {
	tenants []*tenant
	digests [][32]byte // of the tenants' keys, in their order
	admins  [][32]byte
	nobody  *tenant // makes the requests of a server without keys
}

// tenant makes requests, all with one key.
type tenant struct {
	Key                   // without its Secret
	owner   string        // whom what the tenant stores belongs to: as long as the key has its name, or else its secret
	running *atomic.Int64 // requests
	held    *atomic.Int64 // bytes of their bodies
	answers *atomic.Int64 // bytes of their answers
	// namespace separates the tenant's cached prefixes from those of others. nil shares them with everyone whose is
	// nil.
	namespace []byte
}

// newKeyring checks keys. Tenants of the names of others in before, which may be nil, count requests on from there.
func newKeyring(cfg *Config, keys []Key, before *keyring) (*keyring, error) {
	k, names := &keyring{nobody: &tenant{running: new(atomic.Int64), held: new(atomic.Int64), answers: new(atomic.Int64)}}, map[string]bool{}
	for i, key := range keys {
		owner := "name " + key.Name
		if key.Name == "" {
			owner = "key " + hex.EncodeToString(mac([]byte("owner"), key.Secret)[:16])
			key.Name = fmt.Sprintf("key-%d", i+1)
		}
		if err := key.check(); err != nil {
			return nil, fmt.Errorf("server: the API key %q: %w", key.Name, err)
		}
		d, _ := digestOf(key.Secret)
		if names[key.Name] || index(k.digests, d) >= 0 {
			return nil, fmt.Errorf("server: the API key %q, or one of its name, is given twice", key.Name)
		}
		names[key.Name] = true
		t := &tenant{Key: key, owner: owner, running: new(atomic.Int64), held: new(atomic.Int64), answers: new(atomic.Int64)}
		if old := before.named(key.Name); old != nil {
			t.running, t.held, t.answers = old.running, old.held, old.answers
		}
		switch {
		case cfg.SharePrefixes:
		case key.Group != "":
			t.namespace = mac(cfg.Secret, "group "+key.Group)
		default:
			t.namespace = mac(cfg.Secret, "key "+key.Secret)
		}
		t.Secret = ""
		k.tenants, k.digests = append(k.tenants, t), append(k.digests, d)
	}
	for i, key := range cfg.AdminKeys {
		d, err := digestOf(key)
		if err != nil {
			return nil, fmt.Errorf("server: admin key %d of %d: it %w", i+1, len(cfg.AdminKeys), err)
		}
		if index(k.digests, d) >= 0 {
			return nil, fmt.Errorf("server: admin key %d of %d is an API key too", i+1, len(cfg.AdminKeys))
		}
		k.admins = append(k.admins, d)
	}
	return k, nil
}

// digestOf makes keys of one length, so that comparing them takes one time.
func digestOf(key string) ([32]byte, error) {
	if strings.TrimSpace(key) != key || key == "" {
		return [32]byte{}, errors.New("is empty or has white space around it")
	}
	return sha256.Sum256([]byte(key)), nil
}

// index returns the position of a digest, -1 if it is not among them. Its time does not depend on what they are.
func index(all [][32]byte, d [32]byte) int {
	found := -1
	for i := range all {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(all[i][:], d[:]), i, found)
	}
	return found
}

func mac(key []byte, of string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(of))
	return h.Sum(nil)
}

// keyOf returns the digest of the key that a request carries: as a bearer token, or in the header own. ok is false if
// it carries none.
func keyOf(r *http.Request, own string) (d [32]byte, ok bool) {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if own != "" && r.Header.Get(own) != "" {
		scheme, key = "Bearer", r.Header.Get(own)
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return d, false
	}
	d, err := digestOf(strings.TrimSpace(key))
	return d, err == nil
}

// client returns the tenant that a request is from, nil if its key is none of those there are.
func (k *keyring) client(r *http.Request, own string) *tenant {
	if len(k.tenants) == 0 {
		return k.nobody
	}
	if d, ok := keyOf(r, own); ok {
		if i := index(k.digests, d); i >= 0 {
			return k.tenants[i]
		}
	}
	return nil
}

// admin reports whether a request may manage the server: with an admin key, or, where there are no keys of any kind,
// from this machine.
func (k *keyring) admin(r *http.Request, own string) bool {
	if len(k.admins) == 0 {
		return len(k.tenants) == 0 && onThisMachine(r)
	}
	d, ok := keyOf(r, own)
	return ok && index(k.admins, d) >= 0
}

// named returns the tenant whose key has a name, nil if none has.
func (k *keyring) named(name string) *tenant {
	if k == nil {
		return nil
	}
	for _, t := range k.tenants {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// owner returns the tenant whom what is stored belongs to, nil if there is none.
func (k *keyring) owner(name string) *tenant {
	if name == k.nobody.owner && len(k.tenants) == 0 {
		return k.nobody
	}
	for _, t := range k.tenants {
		if t.owner == name {
			return t
		}
	}
	return nil
}

// salt returns what separates the KV blocks of a request that has a cache salt of its own.
func (t *tenant) salt(own string) string {
	if t.namespace == nil {
		return own
	}
	return hex.EncodeToString(mac(t.namespace, own))
}

// may reports whether the tenant may ask for a model, alias or adapter.
func (t *tenant) may(name string) bool { return t.Models == nil || slices.Contains(t.Models, name) }

// enter counts a request in, unless there are as many as the tenant may have. The caller counts it out of running.
func (t *tenant) enter() error {
	if n := t.running.Add(1); t.MaxRequests > 0 && n > int64(t.MaxRequests) {
		t.running.Add(-1)
		return refuse(http.StatusTooManyRequests, "", "too_many_requests",
			"This API key may have %d requests at once.", t.MaxRequests)
	}
	return nil
}

// SetKeys puts other keys in place of all API keys. Requests under way go on as they began.
func (s *Server) SetKeys(keys []Key) error {
	if len(keys) == 0 && len(s.ring().tenants) > 0 {
		return errors.New("server: without any API key the server would be open, and it was not")
	}
	next, err := newKeyring(&s.cfg, keys, s.ring())
	if err == nil {
		s.keys.Store(next)
	}
	return err
}

// ring returns the keys that are accepted now.
func (s *Server) ring() *keyring { return s.keys.Load() }

type tenantKey struct{}

// from returns a context for the requests of a tenant, which prepares them in its turn.
func from(ctx context.Context, t *tenant) context.Context {
	return guard.As(context.WithValue(ctx, tenantKey{}, t), t.owner)
}

// apart is a Model whose requests are those of the tenant in their context. Every request for the engine comes through
// it, so that no endpoint can leave the tenant out.
type apart struct{ Model }

// tenantOf returns the tenant whose request a context is for, nil if it is for none.
func tenantOf(ctx context.Context) *tenant {
	t, _ := ctx.Value(tenantKey{}).(*tenant)
	return t
}

// claim makes a request its tenant's, or refuses what the tenant may not ask for.
func claim(ctx context.Context, p *engine.Params) error {
	t := tenantOf(ctx)
	if t == nil {
		return errors.New("server: a request for a model is nobody's")
	}
	p.Salt = t.salt(p.Salt)
	p.Background = ctx.Value(backgroundKey{}) != nil
	if t.Name == "" {
		return nil
	}
	p.Tenant, p.Payer = strings.TrimSuffix(t.Name+"/"+p.Tenant, "/"), t.Name
	low, high := 0, math.MaxInt32
	if t.Priorities != nil {
		low, high = t.Priorities[0], t.Priorities[1]
	}
	if p.Priority == 0 { // as it is where nothing was asked for
		p.Priority = min(max(0, low), high)
	}
	if p.Priority < low || p.Priority > high {
		return fault.New(fieldPriority, "is %d; this API key may use %d to %d", p.Priority, low, high)
	}
	return nil
}

// fieldPriority is where engine.Params.Priority comes from.
const fieldPriority fault.Field = "priority"

func (a apart) Prepare(ctx context.Context, r text.Request) (*text.Prompt, error) {
	if err := claim(ctx, &r.Params); err != nil {
		return nil, err
	}
	return a.Model.Prepare(ctx, r)
}

func (a apart) Embed(ctx context.Context, r text.EmbedRequest) ([]float32, int, error) {
	if err := claim(ctx, &r.Params); err != nil {
		return nil, 0, err
	}
	return a.Model.Embed(ctx, r)
}

func (a apart) Classify(ctx context.Context, r text.EmbedRequest) ([]float32, int, error) {
	if err := claim(ctx, &r.Params); err != nil {
		return nil, 0, err
	}
	return a.Model.Classify(ctx, r)
}

func (a apart) Score(ctx context.Context, r text.ScoreRequest) (float32, int, error) {
	if err := claim(ctx, &r.Params); err != nil {
		return 0, 0, err
	}
	return a.Model.Score(ctx, r)
}
