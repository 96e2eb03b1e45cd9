package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// NewKey makes an API key and the hash of it that a configuration has.
func NewKey() (key, hash string) {
	secret := make([]byte, 32)
	rand.Read(secret)
	key = "kv-" + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(key))
	return key, "sha256:" + hex.EncodeToString(sum[:])
}

func parseHash(text string) (hash [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(hash) {
		return hash, fmt.Errorf("%q is no hash", text)
	}
	return [sha256.Size]byte(raw), nil
}

// account is an API key with what its requests have used.
type account struct {
	key Key
	*usage
}

// usage outlives reloads, by the key's name. Gateway.mu guards it.
type usage struct {
	requests bucket
	tokens   bucket
	inFlight int
}

// bucket is an allowance that refills steadily: at most a minute's worth, of which requests take before they go.
type bucket struct {
	perMinute float64 // 0 is no limit
	level     float64
	at        time.Duration
}

// set changes the limit. A new one begins full.
func (b *bucket) set(perMinute int, now time.Duration) {
	if limit := float64(perMinute); limit != b.perMinute {
		b.refill(now)
		if b.perMinute == 0 {
			b.level = limit
		}
		b.perMinute, b.level, b.at = limit, min(b.level, limit), now
	}
}

func (b *bucket) refill(now time.Duration) {
	b.level = min(b.perMinute, b.level+(now-b.at).Minutes()*b.perMinute)
	b.at = now
}

// wait returns how long it takes until n can be taken; 0 if that is now. What is above the whole allowance takes a full
// one.
func (b *bucket) wait(n float64, now time.Duration) time.Duration {
	if b.perMinute == 0 {
		return 0
	}
	b.refill(now)
	short := min(n, b.perMinute) - b.level
	if short <= 0 {
		return 0
	}
	return time.Duration(short / b.perMinute * float64(time.Minute))
}

// take takes n, or gives it back if it is negative. The level may fall below 0: later requests wait that much longer.
func (b *bucket) take(n float64) {
	if b.perMinute > 0 {
		b.level -= n
	}
}

// open makes the accounts of a configuration's keys, with what those of the same names have used.
func openAccounts(keys []Key, before map[[sha256.Size]byte]*account, now time.Duration) map[[sha256.Size]byte]*account {
	old := map[string]*usage{}
	for _, a := range before {
		old[a.key.Name] = a.usage
	}
	accounts := map[[sha256.Size]byte]*account{}
	for _, k := range keys {
		a := &account{k, old[k.Name]}
		if a.usage == nil {
			a.usage = &usage{}
		}
		a.requests.set(k.RequestsPerMinute, now)
		a.tokens.set(k.TokensPerMinute, now)
		hash, _ := parseHash(k.Hash) // Config.check has seen it
		accounts[hash] = a
	}
	return accounts
}

// authorize returns the account of a request's key, nil if the gateway wants no keys. Keys are found by their hash, so
// that no comparison depends on how much of a key is right.
func (g *Gateway) authorize(r *http.Request) (*account, *refusal) {
	s := g.setup.Load()
	if len(s.accounts) == 0 {
		return nil, nil
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		key = r.Header.Get("X-Api-Key")
	}
	a := s.accounts[sha256.Sum256([]byte(key))]
	if a == nil {
		return nil, &refusal{status: http.StatusUnauthorized, kind: "invalid_request_error", code: "invalid_api_key",
			message: "the API key is missing or not known"}
	}
	return a, nil
}

// may reports whether a key may use a model, by any of its names. Gateway.mu is held.
func (a *account) may(m *model, name string) bool {
	return a == nil || len(a.key.Models) == 0 || slices.Contains(a.key.Models, name) ||
		slices.Contains(a.key.Models, m.Name) || slices.ContainsFunc(m.Aliases, func(s string) bool { return slices.Contains(a.key.Models, s) })
}

// reserve takes what a request may use before it goes: one request and so many tokens. g.mu is held.
func (a *account) reserve(tokens float64, now time.Duration) *refusal {
	if a == nil {
		return nil
	}
	refuse := func(what string, wait time.Duration) *refusal {
		return &refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", code: "rate_limit_exceeded", retry: wait,
			message: fmt.Sprintf("the API key %q has used up its %s", a.key.Name, what)}
	}
	if a.key.MaxInFlight > 0 && a.inFlight >= a.key.MaxInFlight {
		return refuse("requests at once", time.Second)
	}
	if wait := a.requests.wait(1, now); wait > 0 {
		return refuse("requests a minute", wait)
	}
	if wait := a.tokens.wait(tokens, now); wait > 0 {
		return refuse("tokens a minute", wait)
	}
	a.inFlight++
	a.requests.take(1)
	a.tokens.take(tokens)
	return nil
}

// settle corrects what was reserved by what was used, once the request has ended. g.mu is held.
func (a *account) settle(reserved, used float64) {
	if a != nil {
		a.inFlight--
		a.tokens.take(used - reserved)
	}
}
