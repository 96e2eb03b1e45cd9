package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Issuer gives out tokens (JWT, by OpenID Connect) that are as good as a key.
type Issuer struct {
	URL      string `yaml:"url"`
	Audience string `yaml:"audience"`
	Key      string `yaml:"key"`  // the name of the key whose settings its users have
	User     string `yaml:"user"` // the claim that names the user
	Team     string `yaml:"team"` // the claim that names the user's team; "" is the key's
}

const (
	newKeysAfter = 10 * time.Minute // an issuer's keys are fetched again, so that one it has withdrawn ends
	calmFor      = 5 * time.Second  // an issuer is not asked the same twice, whatever tokens come
	longestToken = 16 << 10
)

// algorithms are those of signatures with a public key.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}

// issuer is an Issuer with its keys. Its methods may be called from several goroutines.
type issuer struct {
	Issuer
	key Key

	mu     sync.Mutex
	client *http.Client
	verify *oidc.IDTokenVerifier // nil before the first token
	since  time.Time
	asking bool // the issuer is asked, while others go by the keys that there are
}

func openIssuers(c *Config, t http.RoundTripper) map[string]*issuer {
	issuers := map[string]*issuer{}
	for _, i := range c.Issuers {
		for _, k := range c.Keys {
			if k.Name == i.Key {
				client := &http.Client{Transport: &calm{next: t}, Timeout: 5 * time.Second}
				issuers[i.URL] = &issuer{Issuer: i, key: k, client: client}
			}
		}
	}
	return issuers
}

// account checks a token and returns the account of its user.
func (i *issuer) account(ctx context.Context, token string) (*account, error) {
	verifier, err := i.verifier(ctx)
	if err != nil {
		return nil, err
	}
	checked, err := verifier.Verify(oidc.ClientContext(ctx, i.client), token)
	if err != nil {
		return nil, err
	}
	var claims map[string]any
	if err := checked.Claims(&claims); err != nil {
		return nil, err
	}
	user, ok := claims[i.User].(string)
	if !ok || user == "" || len(user) > 256 {
		return nil, fmt.Errorf("its claim %s is no name", i.User)
	}
	a := &account{i.key}
	a.key.Name += "/" + user
	if i.Team != "" {
		if a.key.Team, ok = claims[i.Team].(string); !ok {
			return nil, fmt.Errorf("its claim %s is no name", i.Team)
		}
	}
	return a, nil
}

// verifier returns what checks signatures, with keys that are not too old, or those that there are while the issuer is
// asked for others.
func (i *issuer) verifier(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verify != nil && (i.asking || time.Since(i.since) < newKeysAfter) {
		return i.verify, nil
	}
	p, err := i.ask(ctx)
	if err != nil {
		if i.verify != nil {
			return i.verify, nil
		}
		return nil, fmt.Errorf("the issuer cannot be asked for its keys: %w", err)
	}
	i.verify = p.Verifier(&oidc.Config{ClientID: i.Audience, SupportedSigningAlgs: algorithms})
	i.since = time.Now()
	return i.verify, nil
}

// ask asks the issuer what it is. i.mu is held, and given up meanwhile if there are keys to go by.
func (i *issuer) ask(ctx context.Context) (*oidc.Provider, error) {
	if i.verify != nil {
		i.asking = true
		i.mu.Unlock()
		defer func() {
			i.mu.Lock()
			i.asking = false
		}()
	}
	// The keys are fetched later with this context, too, which must not end with the request.
	return oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.client), i.URL)
}

// issuerOf returns the issuer that a token names; nil if it is no token, or of none that is known. The token is not
// checked.
func (s *setup) issuerOf(token string) *issuer {
	parts := strings.Split(token, ".")
	if len(s.issuers) == 0 || len(parts) != 3 || len(token) > longestToken {
		return nil
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return nil
	}
	return s.issuers[claims.Issuer]
}

// calm asks for the same only once in a while, and answers with what it got until then.
type calm struct {
	next http.RoundTripper
	mu   sync.Mutex
	last map[string]*kept // by URL
}

type kept struct {
	at     time.Time
	status int
	header http.Header
	body   []byte
	err    error
}

func (c *calm) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.last[r.URL.String()]
	if k == nil || time.Since(k.at) > calmFor {
		k = &kept{}
		res, err := c.next.RoundTrip(r)
		if k.err = err; err == nil {
			k.status, k.header = res.StatusCode, res.Header
			k.body, k.err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
			res.Body.Close()
		}
		k.at = time.Now() // after the wait for one that does not answer
		if c.last == nil {
			c.last = map[string]*kept{}
		}
		if !errors.Is(k.err, context.Canceled) {
			c.last[r.URL.String()] = k
		}
	}
	if k.err != nil {
		return nil, k.err
	}
	return &http.Response{StatusCode: k.status, Header: k.header, Body: io.NopCloser(bytes.NewReader(k.body)), Request: r,
		ContentLength: int64(len(k.body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}
