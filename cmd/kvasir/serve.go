package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/server"
)

type serveCmd struct {
	Models []string `arg:"" optional:"" name:"model" help:"Built-in names, hub names, files or folders; the built-in model if none is given."`

	Host         string        `help:"Address to listen on; 0.0.0.0 is all." default:"127.0.0.1" env:"KVASIR_HOST"`
	Port         uint16        `help:"Port to listen on; 0 is any free one." default:"8000" env:"KVASIR_PORT"`
	Name         []string      `name:"served-model-name" help:"What the models are called, in their order, if not by their own names." placeholder:"NAME"`
	APIKeys      []string      `name:"api-key" sep:"none" help:"A key that requests must bring. May be repeated." env:"KVASIR_API_KEY" placeholder:"KEY"`
	Origins      []string      `name:"cors-origin" help:"A web origin whose pages may use the server; * is all. May be repeated." placeholder:"ORIGIN"`
	MaxBody      size          `name:"max-body" help:"Largest request body." default:"32M"`
	MaxWaiting   int           `help:"Requests that may wait for their turn; more are told to come back later." default:"1024"`
	DrainTimeout time.Duration `help:"How long answers under way may go on after SIGTERM." default:"30s"`
	LogLevel     string        `help:"debug, info, warn or error; debug logs every request." default:"info" enum:"debug,info,warn,error"`
	AdapterRoot  string        `help:"Let whoever may use the server load LoRA adapters from inside this folder, and unload them, at run time." placeholder:"DIR" type:"existingdir"`
	Pooling      string        `help:"How embeddings are made of hidden states: mean, cls or last. By default as the checkpoint says, or else the last token's of a decoder and the first one's of an encoder." enum:",mean,cls,last" default:"" placeholder:"NAME"`
	adapterFlags
	eventFlags
	schedFlags
	engineFlags
}

func (serveCmd) Help() string {
	return `Serves the OpenAI API (chat completions, completions, embeddings, models), rerank and score, /tokenize, /detokenize, /health and /metrics.
SIGTERM and Ctrl-C let the answers under way come to their end; a second one does not wait.

Examples:
  kvasir serve
  kvasir serve Qwen/Qwen3-0.6B-GGUF:Q8_0 --port 9000 --api-key secret
  kvasir serve ./base --adapter pirate=./lora-pirate --adapter sql=org/sql-lora,pin
  kvasir serve ./a.gguf ./b --served-model-name small --served-model-name large`
}

// checkKeys refuses an empty API key, which would leave a server open that was meant to be closed.
func (c *serveCmd) checkKeys() error {
	if key, set := os.LookupEnv("KVASIR_API_KEY"); slices.Contains(c.APIKeys, "") || set && key == "" && len(c.APIKeys) == 0 {
		return usageError{"the API key is empty (--api-key, KVASIR_API_KEY); leave both out for a server without keys"}
	}
	return nil
}

func (c *serveCmd) Run(ctx context.Context) error {
	if err := c.checkKeys(); err != nil {
		return err
	}
	if err := c.eventFlags.check(); err != nil {
		return err
	}
	if c.NoPrefix && c.Events != "" {
		return usageError{"--kv-events tells of the prefix cache, and --no-prefix-cache leaves it out"}
	}
	if c.DrainTimeout < 0 {
		return usageError{fmt.Sprintf("--drain-timeout is %v; want at least 0", c.DrainTimeout)}
	}
	if len(c.Models) == 0 {
		c.Models = []string{""}
	}
	if len(c.Name) > len(c.Models) {
		return usageError{fmt.Sprintf("%d --served-model-name for %d model(s)", len(c.Name), len(c.Models))}
	}
	if len(c.Adapter) > 0 && len(c.Models) > 1 {
		return usageError{"--adapter is for one model, and several are served; load theirs at run time (--adapter-root)"}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ln, err := net.Listen("tcp", net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))) // before loading: a taken port is told at once
	if err != nil {
		return err
	}
	defer ln.Close()
	cfg := server.Config{
		Version: version(), APIKeys: c.APIKeys, AllowedOrigins: c.Origins, MaxBodyBytes: int64(c.MaxBody),
		DrainTimeout: c.DrainTimeout, Logger: log, AdapterRoot: c.AdapterRoot,
	}
	for i, name := range c.Models {
		served, closeModel, err := c.load(ctx, log, i, name)
		if err != nil {
			return err
		}
		defer closeModel()
		cfg.Models = append(cfg.Models, served)
	}
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	log.Info("serving", "address", "http://"+ln.Addr().String())
	return s.Serve(ctx, ln)
}

// load opens the i-th model.
func (c *serveCmd) load(ctx context.Context, log *slog.Logger, i int, name string) (server.Served, func() error, error) {
	begin := time.Now()
	found, err := openModel(ctx, name)
	if err != nil {
		return server.Served{}, nil, err
	}
	if i < len(c.Name) {
		found.name = c.Name[i]
	}
	observer := new(server.Observer)
	o := c.options(found.name)
	c.schedFlags.apply(&o)
	if err := c.adapterFlags.apply(ctx, &o); err != nil {
		return server.Served{}, nil, err
	}
	o.Pooling = engine.Pooling(c.Pooling)
	published := new(publication)
	if c.Events != "" {
		o.Events = published.tell
	}
	o.MaxWaiting, o.Logger, o.Observer = c.MaxWaiting, log, observer
	m, err := load(ctx, found, o)
	if err != nil {
		return server.Served{}, nil, err
	}
	log.Info("loaded", "model", m.Name, "family", m.Spec.Family, "device", m.Device, "context", m.Context,
		"weights", bytes(m.Bytes), "kv", bytes(m.KVBytes), "seconds", time.Since(begin).Round(time.Millisecond).Seconds())
	served := server.Served{Model: server.FromText(m), Observer: observer}
	if c.Events == "" {
		return served, m.Close, nil
	}
	if err := c.eventFlags.open(published, i, m, log); err != nil {
		return server.Served{}, nil, errors.Join(err, m.Close())
	}
	served.Events = published.Publisher
	return served, func() error { return errors.Join(m.Close(), published.Close()) }, nil
}
