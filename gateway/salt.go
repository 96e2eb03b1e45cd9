package gateway

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// saltKey is the member of a request that keeps its KV blocks apart from those of requests with another value.
const saltKey = "cache_salt"

// salted are the paths whose requests leave KV blocks in an engine.
var salted = []string{
	"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/rerank", "/v1/score",
	"/rerank", "/score",
}

// Values of Endpoint.CacheSalt. The default is to ask what engine it is.
const (
	alwaysSalted = "always"
	neverSalted  = "never"
)

// salting is what is known of whether an engine knows cache_salt.
type salting int

const (
	saltUnknown salting = iota
	saltKnown
	saltForeign
)

// mac is an HMAC-SHA-256.
func mac(key []byte, of string) []byte {
	h := hmac.New(sha256.New, key)
	io.WriteString(h, of)
	return h.Sum(nil)
}

// secret returns what the salts of tenants are made with, which clients must not know: that of the configuration, or
// else one that is made of the engines' keys, so that gateways with the same configuration have the same, or else this
// gateway's own.
func (g *Gateway) secret(c *Config) ([]byte, error) {
	if c.SecretEnv != "" {
		text := os.Getenv(c.SecretEnv)
		if len(text) < minSecret {
			return nil, fmt.Errorf("secret_env: the environment's %s has %d characters; want at least %d", c.SecretEnv, len(text), minSecret)
		}
		return mac([]byte(text), "secret"), nil
	}
	var keys []string
	for _, m := range c.Models {
		for _, e := range m.Endpoints {
			if key := os.Getenv(e.KeyEnv); e.API == "" && e.KeyEnv != "" && key != "" {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return g.own, nil
	}
	slices.Sort(keys)
	return mac([]byte(strings.Join(slices.Compact(keys), "\n")), "keys of engines"), nil
}

// minSecret is the fewest characters of a secret.
const minSecret = 16

// namespace separates the cached prefixes of an account from those of others. It is nil where they are shared.
func (s *setup) namespace(a *account) []byte {
	switch {
	case a == nil || s.cfg.SharePrefixes:
		return nil
	case a.key.Group != "":
		return mac(s.secret, "group "+a.key.Group)
	}
	return mac(s.secret, "key "+a.key.Name)
}

// separate decides the salt of the request: one of its account's own, into which that of the client goes.
func (x *exchange) separate() {
	if !slices.Contains(salted, x.r.URL.Path) {
		return
	}
	x.salt = x.body.salt
	if of := x.g.setup.Load().namespace(x.account); of != nil {
		x.salt, x.apart = base64.RawURLEncoding.EncodeToString(mac(of, x.body.salt)), true
	}
}

// salting is the edit that puts a salt in place of the client's own.
func (b *body) salting(salt string) edit {
	quoted := []byte(`"` + salt + `"`)
	if b.saltAt[1] > 0 {
		return edit{b.saltAt, quoted}
	}
	end := bytes.LastIndexByte(b.raw, '}') // before it is at least the model
	return edit{[2]int{end, end}, slices.Concat([]byte(`,"`+saltKey+`":`), quoted)}
}

// salts reports whether an endpoint knows salts: by its configuration, since engines that publish KV events do, or by
// what engine it is. Gateway.mu is held.
func (e *endpoint) salts() salting {
	switch {
	case e.cfg.API != "" || e.cfg.CacheSalt == neverSalted:
		return saltForeign
	case e.cfg.CacheSalt == alwaysSalted || e.cfg.Events != "":
		return saltKnown
	case e.maker == unmet:
		return saltUnknown
	case e.maker.salts():
		return saltKnown
	}
	return saltForeign
}

// saltOf returns what tells the prompts of a request in the index of a model's prefixes from those of others: its salt,
// if an endpoint of the model may know it. Gateway.mu is held.
func (x *exchange) saltOf(m *model) string {
	if slices.ContainsFunc(m.pool, func(e *endpoint) bool { return e.salts() != saltForeign }) {
		return x.salt
	}
	return ""
}

// salts reports whether the endpoint gets the request's salt. One of which that is not known is asked what engine it
// is; if it does not say, it gets the salt.
func (a *attempt) salts() bool {
	g, e := a.g, a.placement.endpoint
	if !a.apart {
		return false
	}
	g.mu.Lock()
	how := e.salts()
	g.mu.Unlock()
	if how != saltUnknown {
		return how == saltKnown
	}
	g.meet(a.ctx, e)
	g.mu.Lock()
	defer g.mu.Unlock()
	return e.salts() != saltForeign
}
