package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// login is an issuer of tokens.
type login struct {
	keys  []jose.JSONWebKey // what it publishes
	asked int               // for its keys
}

func newJWK(t *testing.T, id string) jose.JSONWebKey {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: secret, KeyID: id, Algorithm: "ES256", Use: "sig"}
}

func (l *login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		fmt.Fprint(w, `{"issuer":"http://login","jwks_uri":"http://login/keys","id_token_signing_alg_values_supported":["ES256"]}`)
	case "/keys":
		l.asked++
		var set jose.JSONWebKeySet
		for _, k := range l.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		json.NewEncoder(w).Encode(set)
	default:
		http.NotFound(w, r)
	}
}

// token signs claims, on top of good ones; nil leaves one out.
func token(t *testing.T, key jose.JSONWebKey, claims map[string]any) string {
	all := map[string]any{"iss": "http://login", "aud": "kvasir", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(all)
	signed, err := signer.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestTokens lets users of an issuer in by their tokens, while the issuer changes its keys.
func TestTokens(t *testing.T) {
	first, second, strange := newJWK(t, "1"), newJWK(t, "2"), newJWK(t, "1")
	shared := jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32)), KeyID: "1", Algorithm: "HS256"}
	l := &login{keys: []jose.JSONWebKey{first}}
	const config = `
health: {path: "", metrics: ""}
models: [{name: m, endpoints: [http://a]}]
teams: [{name: red, limits: [{what: requests, per: 1h, most: 4}]}]
keys: [{name: staff, limits: [{what: requests, per: 1h, most: 2}]}]
issuers: [{url: http://login, audience: kvasir, key: staff, team: group}]
`
	inWorld(t, config, map[string]http.Handler{"a": &engine{name: "a"}, "login": l}, func(w *world) {
		ask := func(key jose.JSONWebKey, claims map[string]any, status int, text string) {
			t.Helper()
			if claims["group"] == nil {
				claims["group"] = "red"
			}
			w.want(w.chat(plain, "Authorization", "Bearer "+token(t, key, claims)), status, text)
		}
		type c = map[string]any
		ask(first, c{"exp": time.Now().Add(-time.Minute).Unix()}, 401, "expired")
		ask(first, c{"nbf": time.Now().Add(time.Hour).Unix()}, 401, "nbf")
		ask(first, c{"aud": "other"}, 401, "audience")
		ask(first, c{"iss": "http://else"}, 401, "not known")
		ask(first, c{"sub": nil}, 401, "claim sub")
		ask(first, c{"sub": 7}, 401, "")
		ask(first, c{"group": 7}, 401, "claim group")
		ask(strange, c{}, 401, "signature")
		ask(shared, c{}, 401, "")
		unsigned := token(t, first, c{})
		unsigned = "eyJhbGciOiJub25lIn0" + unsigned[strings.Index(unsigned, "."):strings.LastIndex(unsigned, ".")+1]
		w.want(w.chat(plain, "Authorization", "Bearer "+unsigned), 401, "")
		for range 2 {
			ask(first, c{}, 200, "")
		}
		ask(first, c{}, 429, "the API key staff/ann has used up")
		ask(first, c{"sub": "bob", "aud": []string{"x", "kvasir"}}, 200, "")
		ask(first, c{"sub": "bob"}, 200, "")
		ask(first, c{"sub": "eve"}, 429, "the team red has used up")
		if l.asked > 1 {
			t.Errorf("the issuer was asked %d times for its keys", l.asked)
		}
		time.Sleep(calmFor + time.Second)
		l.keys = []jose.JSONWebKey{second} // which the gateway has not seen yet
		ask(second, c{"group": "blue"}, 429, "the API key staff/ann")
		ask(second, c{"group": "blue", "sub": "zoe"}, 200, "")
		time.Sleep(newKeysAfter + time.Second)
		ask(first, c{"group": "blue", "sub": "zoe"}, 401, "signature") // withdrawn
		w.kill("login")
		ask(second, c{"group": "blue", "sub": "zoe"}, 200, "")
		time.Sleep(newKeysAfter + time.Second)
		ask(second, c{"group": "blue", "sub": "joe"}, 200, "") // the issuer is down: the keys stay
		w.start("login", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		time.Sleep(newKeysAfter + time.Second)
		began := time.Now()
		var all sync.WaitGroup
		for n := range 20 { // the issuer does not answer: the keys stay, and nobody waits for long
			all.Go(func() { ask(second, c{"group": "blue", "sub": fmt.Sprint("n", n)}, 200, "") })
		}
		all.Wait()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("20 requests took %v", took)
		}
		w.kill("login")
		before := l.asked
		for range 20 {
			ask(strange, c{"kid": "other"}, 401, "")
		}
		if l.asked > before+1 {
			t.Errorf("bad tokens made the gateway ask %d times for keys", l.asked-before)
		}
	})
	for text, want := range map[string]string{
		"audience: x, key: staff":                                    "issuers[0].url",
		"url: http://login, key: staff":                              "issuers[0].audience",
		"url: http://login, audience: x, key: none":                  `there is no key "none"`,
		"url: http://l, audience: x, key: staff}, {url: http://l":    "twice",
		"url: http://l, audience: x, key: staff, audiences: [other]": "unknown key",
	} {
		bad := "models: [{name: m, endpoints: [http://a]}]\nkeys: [{name: staff}]\nissuers: [{" + text + "}]\n"
		if _, err := Parse("f", []byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}
