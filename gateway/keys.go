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

	"github.com/kvasir-llm/kvasir/guard"
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

// account is who asks: an API key, or a user of an issuer with a key's settings.
type account struct{ key Key }

// pass is a way to an account: a key's hash, and when it ends.
type pass struct {
	*account
	ends time.Time // zero is never
}

// openAccounts makes the passes of a configuration's keys.
func openAccounts(keys []Key) map[[sha256.Size]byte]pass {
	passes := map[[sha256.Size]byte]pass{}
	for _, k := range keys {
		a := &account{k}
		ends, _ := parseEnd(k.Expires) // Config.check has seen these
		if hash, err := parseHash(k.Hash); err == nil {
			passes[hash] = pass{a, ends}
		}
		if k.OldHash != "" {
			until, _ := parseEnd(k.OldUntil)
			hash, _ := parseHash(k.OldHash)
			if !ends.IsZero() && ends.Before(until) {
				until = ends
			}
			passes[hash] = pass{a, until}
		}
	}
	return passes
}

// pages tells requests of the gateway's own page from those of others.
var pages = http.NewCrossOriginProtection()

// fromPage refuses a request of a web page in a user's browser that is not the gateway's own.
func fromPage(r *http.Request) *refusal {
	if guard.Rebound(r) {
		return &refusal{status: http.StatusForbidden, kind: "invalid_request_error", code: "host_not_allowed",
			message: fmt.Sprintf("a gateway without keys on a loopback address may not be used as %.100q", r.Host)}
	}
	if pages.Check(r) != nil {
		return &refusal{status: http.StatusForbidden, kind: "invalid_request_error", code: "origin_not_allowed",
			message: fmt.Sprintf("pages of %.100q may not use a gateway without keys", r.Header.Get("Origin"))}
	}
	return nil
}

// admit does what authorize does, for a request that a client sends to the gateway itself. Without keys it refuses
// those of strangers' web pages, which a browser that reaches the gateway would make for them.
func (g *Gateway) admit(r *http.Request) (*account, *refusal) {
	if len(g.setup.Load().cfg.Keys) == 0 {
		return nil, fromPage(r)
	}
	return g.authorize(r)
}

// authorize returns the account of a request's key, nil if the gateway wants no keys. Keys are found by their hash, so
// that no comparison depends on how much of a key is right.
func (g *Gateway) authorize(r *http.Request) (*account, *refusal) {
	s := g.setup.Load()
	if len(s.cfg.Keys) == 0 {
		return nil, nil
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		key = r.Header.Get("X-Api-Key")
	}
	p := s.accounts[sha256.Sum256([]byte(key))]
	if i := s.issuerOf(key); i != nil && p.account == nil {
		var err error
		if p.account, err = i.account(r.Context(), key); err != nil {
			return nil, &refusal{status: http.StatusUnauthorized, kind: "invalid_request_error", code: "invalid_token",
				message: "the token is not good: " + err.Error()}
		}
	}
	if p.account == nil || !p.ends.IsZero() && !time.Now().Before(p.ends) {
		return nil, &refusal{status: http.StatusUnauthorized, kind: "invalid_request_error", code: "invalid_api_key",
			message: "the API key is missing, not known or has ended"}
	}
	if paths := p.key.Paths; len(paths) > 0 && slices.Contains(forwarded, r.URL.Path) && !slices.Contains(paths, r.URL.Path) {
		return nil, &refusal{status: http.StatusForbidden, kind: "invalid_request_error", code: "not_allowed",
			message: "the API key may not ask " + r.URL.Path}
	}
	return p.account, nil
}

// may reports whether a key may use a model, by any of its names. Gateway.mu is held.
func (a *account) may(m *model, name string) bool {
	return a == nil || len(a.key.Models) == 0 || slices.Contains(a.key.Models, name) ||
		slices.Contains(a.key.Models, m.Name) || slices.ContainsFunc(m.Aliases, func(s string) bool { return slices.Contains(a.key.Models, s) })
}
