package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/kvasir-llm/kvasir/gateway"
	"github.com/kvasir-llm/kvasir/gateway/cache"
	"github.com/kvasir-llm/kvasir/gateway/meter"
	"github.com/kvasir-llm/kvasir/guard"
)

// gatewayCmd is the front door of a fleet.
type gatewayCmd struct {
	Serve  gatewayServeCmd  `cmd:"" default:"withargs" help:"Serve; the word may be left out."`
	Config gatewayConfigCmd `cmd:"" help:"Print a configuration in full, with what is set by default."`
	Key    struct {
		Create gatewayKeyCmd `cmd:"" help:"Make an API key, and the hash of it that goes into the configuration."`
	} `cmd:"" help:"API keys."`
}

type gatewayServeCmd struct {
	File  string `name:"config" required:"" help:"The configuration in YAML, as in docs/gateway.md; read again on SIGHUP." placeholder:"FILE" type:"existingfile"`
	Check bool   `help:"Only say what is wrong with the configuration."`
	traceFlags
	DrainTimeout time.Duration `help:"How long answers under way may go on after SIGTERM." default:"20s"`
}

func (gatewayServeCmd) Help() string {
	return `Forwards the OpenAI API to the endpoints of a configuration: for each request the one that has most of its prompt cached and least to do.

Examples:
  kvasir gateway --config fleet.yaml
  kvasir gateway serve --config fleet.yaml --check`
}

func (c *gatewayServeCmd) Run(ctx context.Context) error {
	cfg, err := readGatewayConfig(c.File)
	if err != nil || c.Check {
		return err
	}
	if c.DrainTimeout < 0 {
		return usageError{fmt.Sprintf("--drain-timeout is %v; want at least 0", c.DrainTimeout)}
	}
	hangUps, stop := heedHangUps()
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	access, closeAccess, err := openAccessLog(cfg.AccessLog)
	if err != nil {
		return err
	}
	defer closeAccess()
	traces, stopTraces, err := c.traceFlags.open(log)
	if err != nil {
		return err
	}
	defer stopTraces()
	files := certificates{cert: cfg.TLS.Cert, key: cfg.TLS.Key, clientCA: cfg.TLS.ClientCA,
		names: [3]string{"tls.cert", "tls.key", "tls.client_ca"}}
	over, err := files.open()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", cfg.Listen, rootOf(err))
	}
	defer ln.Close()
	state, err := meter.Open(cfg.StateURL())
	if err != nil {
		return err
	}
	answers, err := cache.Open(cfg.Cache.URL, cfg.Cache.Bytes)
	if err != nil {
		return errors.Join(err, state.Close())
	}
	g, err := gateway.New(cfg, gateway.Options{Logger: log, Access: access, Seed: rand.Uint64(), State: state, Answers: answers, Traces: traces, Prompts: openPrompts})
	if err != nil {
		return err
	}
	defer g.Close()
	onHangUp(hangUps, log, func() {
		files.reload(log)
		c.reload(g, log, cfg)
	})
	d := guard.Door{Most: cfg.MaxConnections, MostEach: cfg.MaxConnectionsEach, TLS: over, Accept: cfg.Timeouts.Idle, Log: log,
		Known: len(cfg.Keys)+len(cfg.Issuers) > 0 || cfg.TLS.ClientCA != ""}
	servers := []door{{d.Server(g), &d, d.Listen(ln)}}
	scheme := map[bool]string{false: "http://", true: "https://"}[over != nil]
	log.Info("serving", "address", scheme+ln.Addr().String())
	if at := cfg.ExtProc.Listen; at != "" {
		s, err := g.Picker()
		if err != nil {
			return fmt.Errorf("ext_proc: %w", err)
		}
		ln, err := net.Listen("tcp", at)
		if err != nil {
			return fmt.Errorf("ext_proc: cannot listen on %s: %w", at, rootOf(err))
		}
		defer ln.Close()
		p := guard.Door{Most: d.Most, MostEach: d.MostEach, Accept: d.Accept, Log: log, Known: true} // by a proxy
		p.Bound(s)
		servers = append(servers, door{s, &p, p.Listen(ln)})
		log.Info("picking endpoints", "address", ln.Addr().String(), "tls", s.TLSConfig != nil)
	}
	return c.serve(ctx, g, servers)
}

// door is a server with its door and listener.
type door struct {
	*http.Server
	guard *guard.Door
	ln    net.Listener
}

// Serve serves with TLS if the server has a certificate.
func (l *door) Serve() error {
	if l.TLSConfig != nil {
		return l.ServeTLS(l.ln, "", "")
	}
	return l.Server.Serve(l.ln)
}

// serve answers until ctx ends, and then lets what is under way come to its end.
func (c *gatewayServeCmd) serve(ctx context.Context, g *gateway.Gateway, servers []door) error {
	ended := make(chan error, len(servers))
	for _, s := range servers {
		guard.Go(s.Serve, func(err error) { ended <- err })
	}
	select {
	case err := <-ended:
		for _, s := range servers {
			err = errors.Join(err, s.Close())
		}
		return err
	case <-ctx.Done():
	}
	g.Drain()
	drain, cancel := context.WithTimeout(context.Background(), c.DrainTimeout)
	defer cancel()
	var failed error
	for _, s := range servers {
		if err := s.guard.Shutdown(drain); err != nil {
			failed = errors.Join(failed, fmt.Errorf("answers under way were cut off: %w", err), s.Close())
		}
	}
	return failed
}

// reload reads the configuration again. One that is not good changes nothing.
func (c *gatewayServeCmd) reload(g *gateway.Gateway, log *slog.Logger, before *gateway.Config) {
	cfg, err := readGatewayConfig(c.File)
	if err == nil && !cfg.SameStart(before) {
		err = errors.New("listen, tls, a bound of connections, state, cache, ext_proc, access_log or prefix.blocks is another: that needs a new start")
	}
	if err == nil {
		err = g.Apply(cfg)
	}
	if err != nil {
		log.Error("the configuration stays as it was", "error", err)
		return
	}
	log.Info("read the configuration again", "models", len(cfg.Models))
}

func readGatewayConfig(file string) (*gateway.Config, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	return gateway.Parse(file, data)
}

// openAccessLog opens the file that requests are logged to, "-" for the standard output. There is none for "".
func openAccessLog(file string) (log *slog.Logger, done func() error, err error) {
	switch file {
	case "":
		return nil, func() error { return nil }, nil
	case "-":
		return slog.New(slog.NewJSONHandler(os.Stdout, nil)), func() error { return nil }, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return nil, nil, err
	}
	return slog.New(slog.NewJSONHandler(f, nil)), f.Close, nil
}

type gatewayConfigCmd struct {
	File string `name:"config" required:"" help:"The configuration in YAML." placeholder:"FILE" type:"existingfile"`
}

func (gatewayConfigCmd) Help() string { return "Example:\n  kvasir gateway config --config fleet.yaml" }

func (c *gatewayConfigCmd) Run() error {
	cfg, err := readGatewayConfig(c.File)
	if err != nil {
		return err
	}
	text, err := cfg.Print()
	if err != nil {
		return err
	}
	fmt.Print(text)
	return nil
}

type gatewayKeyCmd struct{}

func (gatewayKeyCmd) Help() string { return "Example:\n  kvasir gateway key create" }

func (gatewayKeyCmd) Run() error {
	key, hash := gateway.NewKey()
	fmt.Printf("key:  %s\nhash: %s\n", key, hash)
	return nil
}
