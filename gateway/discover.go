package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
)

// source says where endpoints are found: it is the URL of an entry that stands for many. Kinds are
//
//	dns+http://name:port  each address of a name
//	srv+http://name       each target of a name's SRV records; srv+https, too
//	file:/path            each line of a file
type source struct{ kind, scheme, name, port string }

// parseSource returns ok false for the URL of one endpoint.
func parseSource(text string) (s source, ok bool, err error) {
	if path, is := strings.CutPrefix(text, "file:"); is {
		if path = strings.TrimPrefix(path, "//"); !strings.HasPrefix(path, "/") {
			return s, true, fmt.Errorf("%q; want file: and a path that begins with /", text)
		}
		return source{kind: "file", name: path}, true, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return s, false, nil
	}
	s.kind, s.scheme, ok = strings.Cut(u.Scheme, "+")
	s.name, s.port = u.Hostname(), u.Port()
	switch {
	case !ok:
		return s, false, nil
	case s.kind == "dns" && s.scheme == "http" && s.name != "" && s.port != "":
	case s.kind == "srv" && (s.scheme == "http" || s.scheme == "https") && s.name != "" && s.port == "":
	default:
		return s, true, fmt.Errorf("%q; want dns+http://name:port, srv+http://name, srv+https://name or file:/path", text)
	}
	if u.Path != "" || u.RawQuery != "" || u.User != nil {
		return s, true, fmt.Errorf("%q; want nothing behind the name", text)
	}
	return s, true, nil
}

// find returns the URLs of a source's endpoints, sorted. A name that does not exist has none.
func (s source) find(ctx context.Context, names *net.Resolver) (urls []string, err error) {
	switch s.kind {
	case "dns":
		var all []string
		all, err = names.LookupHost(ctx, s.name)
		for _, address := range all {
			urls = append(urls, s.scheme+"://"+net.JoinHostPort(address, s.port))
		}
	case "srv":
		var all []*net.SRV
		_, all, err = names.LookupSRV(ctx, "", "", s.name)
		for _, r := range all {
			host := strings.TrimSuffix(r.Target, ".")
			urls = append(urls, s.scheme+"://"+net.JoinHostPort(host, strconv.Itoa(int(r.Port))))
		}
	case "file":
		var data []byte
		data, err = guard.ReadFile(s.name, mostSource, lookTime)
		for line := range strings.Lines(string(data)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				urls = append(urls, line)
			}
		}
	}
	var none *net.DNSError
	if errors.As(err, &none) && none.IsNotFound {
		err = nil
	}
	slices.Sort(urls)
	return slices.Compact(urls), err
}

// sources returns the URLs in a configuration that stand for many endpoints.
func (c *Config) sources() map[string]source {
	all := map[string]source{}
	for _, m := range c.Models {
		for _, e := range m.Endpoints {
			if s, ok, _ := parseSource(e.URL); ok {
				all[e.URL] = s
			}
		}
	}
	return all
}

// expanded returns a configuration with the endpoints that were found in place of the entries that stand for them, each
// with the entry's settings. In the address of its KV events, * is its host.
func (c *Config) expanded(found map[string][]string) (*Config, error) {
	out := *c
	out.Models = slices.Clone(c.Models)
	for i := range out.Models {
		m := &out.Models[i]
		var all []Endpoint
		for _, e := range m.Endpoints {
			if _, many, _ := parseSource(e.URL); !many {
				all = append(all, e)
				continue
			}
			for _, u := range found[e.URL] {
				one, err := e.at(u)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", e.URL, err)
				}
				if !slices.ContainsFunc(all, func(o Endpoint) bool { return o.URL == one.URL }) {
					all = append(all, one)
				}
			}
		}
		m.Endpoints = all
	}
	if err := out.checkShared(); err != nil {
		return nil, err
	}
	return &out, out.checkExtProc()
}

// at returns the endpoint at a URL that an entry stands for.
func (e Endpoint) at(where string) (Endpoint, error) {
	e.URL = where
	if _, many, _ := parseSource(where); many {
		return e, fmt.Errorf("%q stands for many endpoints", where)
	}
	if u, err := url.Parse(where); err == nil {
		host := u.Hostname()
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		e.Events = strings.Replace(e.Events, "*", host, 1)
		e.EventsReplay = strings.Replace(e.EventsReplay, "*", host, 1)
	}
	return e, e.check("endpoint")
}

const (
	lookAgain = 2 * time.Second // after which sources are looked at again
	lookTime  = 5 * time.Second // that one look may take

	mostSource = 1 << 20 // bytes of a file of endpoints
)

// look finds the endpoints of a source. If that fails, those that were found before stay.
func (g *Gateway) look(ctx context.Context, name string, s source) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	urls, err := s.find(ctx, g.names)
	g.mu.Lock()
	defer g.mu.Unlock()
	before, known := g.found[name]
	switch {
	case ctx.Err() == context.Canceled:
		return false
	case err != nil:
		g.log.Error("endpoints cannot be found", "source", name, "error", err)
		return false
	case known && slices.Equal(before, urls):
		return false
	}
	g.found[name] = urls
	g.log.Info("endpoints were found", "source", name, "endpoints", len(urls))
	return true
}

// discover keeps looking at a source until ctx ends.
func (g *Gateway) discover(ctx context.Context, name string, s source) {
	g.watches.Add(1)
	guard.Go(func() error {
		for {
			select {
			case <-time.After(lookAgain):
			case <-ctx.Done():
				return nil
			}
			if g.look(ctx, name, s) {
				g.mu.Lock()
				now := g.setup.Load()
				if err := g.apply(g.written, now.hooks, now.prompts); err != nil && ctx.Err() == nil {
					g.log.Error("the endpoints stay as they were", "source", name, "error", err)
				}
				g.mu.Unlock()
			}
		}
	}, func(err error) {
		if err != nil {
			g.log.Error("a source of endpoints is not looked at any more", "source", name, "error", err)
		}
		g.watches.Done()
	})
}

// lookAround finds the endpoints of the sources of a configuration that were not looked at before.
func (g *Gateway) lookAround(c *Config) {
	for name, s := range c.sources() {
		g.mu.Lock()
		_, known := g.found[name]
		g.mu.Unlock()
		if !known {
			g.look(context.Background(), name, s)
		}
	}
}

// discoverOnly ends the looks at sources that a configuration does not have, and begins those that are new. g.mu is
// held.
func (g *Gateway) discoverOnly(sources map[string]source) {
	for name, stop := range g.looks {
		if _, stays := sources[name]; !stays {
			stop()
			delete(g.looks, name)
			delete(g.found, name)
		}
	}
	for name, s := range sources {
		if g.looks[name] == nil {
			ctx, stop := context.WithCancel(context.Background())
			g.looks[name] = stop
			g.discover(ctx, name, s)
		}
	}
}
