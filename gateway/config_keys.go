package gateway

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/cache"
	"github.com/kvasir-llm/kvasir/gateway/meter"
)

// checkKeys refuses keys that cannot be meant. names are those of the models.
func (c *Config) checkKeys(names map[string]string) error {
	if err := c.checkIssuers(); err != nil {
		return err
	}
	before := map[string]bool{}
	for i := range c.Keys {
		k := &c.Keys[i]
		path := fmt.Sprintf("keys[%d]", i)
		if k.Name == "" || before["name "+k.Name] {
			return wrong(path+".name", "%q; want a name that no other key has", k.Name)
		}
		before["name "+k.Name] = true
		if err := k.checkHashes(path, before, c.issues(k.Name)); err != nil {
			return err
		}
		for j, m := range k.Models {
			if _, ok := names[m]; !ok {
				return wrong(fmt.Sprintf("%s.models[%d]", path, j), "there is no model %q", m)
			}
		}
		for j, p := range k.Paths {
			if !slices.Contains(forwarded, p) {
				return wrong(fmt.Sprintf("%s.paths[%d]", path, j), "no requests to %q are forwarded", p)
			}
		}
		if k.Team != "" && !slices.ContainsFunc(c.Teams, func(t Team) bool { return t.Name == k.Team }) {
			return wrong(path+".team", "there is no team %q", k.Team)
		}
		if k.Weight == 0 {
			k.Weight = 1
		}
		if k.MaxInFlight < 0 || !(k.Weight > 0 && k.Weight <= 1e6) {
			return wrong(path, "max_in_flight or the weight is below 0, or the weight above 1000000")
		}
		if err := k.checkPriorities(path); err != nil {
			return err
		}
		if err := checkLimits(path, k.Limits, names); err != nil {
			return err
		}
	}
	return c.checkTeams(names)
}

// issues reports whether an issuer's users have the settings of a key.
func (c *Config) issues(key string) bool {
	return slices.ContainsFunc(c.Issuers, func(i Issuer) bool { return i.Key == key })
}

func (c *Config) checkIssuers() error {
	for n := range c.Issuers {
		i := &c.Issuers[n]
		path := fmt.Sprintf("issuers[%d]", n)
		u, err := url.Parse(i.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return wrong(path+".url", "%q; want a URL such as https://login.example.org", i.URL)
		}
		if slices.ContainsFunc(c.Issuers[:n], func(b Issuer) bool { return b.URL == i.URL }) {
			return wrong(path+".url", "%s is there twice", i.URL)
		}
		if i.Audience == "" {
			return wrong(path+".audience", "it is missing; without it tokens for other services would be good here")
		}
		if !slices.ContainsFunc(c.Keys, func(k Key) bool { return k.Name == i.Key }) {
			return wrong(path+".key", "there is no key %q", i.Key)
		}
		if i.User == "" {
			i.User = "sub"
		}
	}
	return nil
}

// checkHashes refuses hashes that are none, or of which before has one. A key of an issuer needs none.
func (k *Key) checkHashes(path string, before map[string]bool, issued bool) error {
	for _, h := range []struct{ key, hash string }{{"hash", k.Hash}, {"old_hash", k.OldHash}} {
		if h.hash == "" && (issued || h.key == "old_hash") {
			continue
		}
		hash, err := parseHash(h.hash)
		if err != nil || before[string(hash[:])] {
			return wrong(path+"."+h.key, "want sha256: and 64 hexadecimal digits, of a key that is not there twice; kvasir gateway key create makes one")
		}
		before[string(hash[:])] = true
	}
	if (k.OldHash == "") != (k.OldUntil == "") {
		return wrong(path, "old_hash and old_until belong together")
	}
	for _, t := range []struct{ key, text string }{{"old_until", k.OldUntil}, {"expires", k.Expires}} {
		if _, err := parseEnd(t.text); err != nil {
			return wrong(path+"."+t.key, "%q; want a time in quotes such as \"2027-01-31T00:00:00Z\"", t.text)
		}
	}
	return nil
}

// parseEnd reads the time when something ends; the zero time is never.
func parseEnd(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, text)
}

// checkTeams refuses teams, prices and a state that cannot be meant.
func (c *Config) checkTeams(names map[string]string) error {
	seen := map[string]bool{}
	for i, t := range c.Teams {
		path := fmt.Sprintf("teams[%d]", i)
		if t.Name == "" || seen[t.Name] {
			return wrong(path+".name", "%q; want a name that no other team has", t.Name)
		}
		seen[t.Name] = true
		if err := checkLimits(path, t.Limits, names); err != nil {
			return err
		}
	}
	for i, m := range c.Models {
		path := fmt.Sprintf("models[%d]", i)
		if m.Cache < 0 {
			return wrong(path+".cache", "%v is below 0", m.Cache)
		}
		if err := m.Price.Check(); err != nil {
			return wrong(path+".price", "%v", err)
		}
		if err := checkLimits(path, m.Limits, names); err != nil {
			return err
		}
	}
	if err := cache.CheckURL(c.Cache.URL); err != nil {
		return wrong("cache.url", "%v", err)
	}
	if err := meter.CheckURL(c.State.URL); err != nil {
		return wrong("state.url", "%v", err)
	}
	if f := c.State.OnFailure; f != "open" && f != "closed" {
		return wrong("state.on_failure", "%q; want closed or open", f)
	}
	return nil
}

// StateURL names the store of a configuration's counters. Without keys and limits it is in memory.
func (c *Config) StateURL() string {
	if len(c.Keys) > 0 || slices.ContainsFunc(c.Models, func(m Model) bool { return len(m.Limits) > 0 }) {
		return c.State.URL
	}
	return "memory:"
}

func checkLimits(path string, limits []meter.Limit, names map[string]string) error {
	for i, l := range limits {
		at := fmt.Sprintf("%s.limits[%d]", path, i)
		if err := l.Check(); err != nil {
			return wrong(at, "%v", err)
		}
		if _, ok := names[l.Model]; l.Model != "" && !ok {
			return wrong(at+".model", "there is no model %q", l.Model)
		}
		same := func(b meter.Limit) bool { return b.What == l.What && b.Per == l.Per && b.Model == l.Model }
		if slices.ContainsFunc(limits[:i], same) {
			return wrong(at, "there is an earlier limit on the same")
		}
	}
	return nil
}
