package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/server"
	"github.com/kvasir-llm/kvasir/store"
)

type serveCmd struct {
	Models []string `arg:"" optional:"" name:"model" help:"Built-in names, hub names, files or folders; the built-in model if none is given. They stay in memory."`

	Host            string        `help:"Address to listen on; 0.0.0.0 is all." default:"127.0.0.1" env:"KVASIR_HOST"`
	Port            tcpPort       `help:"Port to listen on; 0 is any free one." default:"8000" env:"KVASIR_PORT"`
	Name            []string      `name:"served-model-name" help:"What the models are called, in their order, if not by their own names." placeholder:"NAME"`
	Aliases         []string      `name:"alias" help:"Another name of a served model. May be repeated." placeholder:"NAME=MODEL" sep:"none"`
	Template        string        `name:"chat-template" help:"A file with a chat template in place of the model's own." placeholder:"FILE" type:"existingfile"`
	Origins         []string      `name:"cors-origin" help:"A web origin whose pages may use the server; * is all. May be repeated." placeholder:"ORIGIN"`
	MaxBody         size          `name:"max-body" help:"Largest request body; 0 is 4M, and 32 bytes for each token of the context." default:"0"`
	RequestMemory   size          `help:"Memory for the bodies of all requests, and what is decoded of them; more are told to come back later. 0 is 8 times --max-body, at least 256M." default:"0"`
	MaxLogprobs     int           `help:"Most alternatives of a token whose log probabilities a request may ask for; -1 is all of the vocabulary, which takes much memory." default:"20" enum:"20,-1"`
	MaxWaiting      int           `help:"Requests that may wait for their turn; more are told to come back later." default:"1024"`
	MaxQueueTime    time.Duration `help:"How long a request may be predicted to wait for its first token before it is refused, once four wait; 0 is any time." default:"2s"`
	DrainTimeout    time.Duration `help:"How long answers under way may go on after SIGTERM." default:"20s"`
	LogLevel        string        `help:"debug, info, warn or error; info logs every request but GETs, debug these too." default:"info" enum:"debug,info,warn,error"`
	LogFormat       string        `help:"text, or json for a JSON object a line." default:"text" enum:"text,json"`
	State           string        `help:"Keep responses, files and batches in this folder, which is made if need be. Without it responses are kept in memory." placeholder:"DIR"`
	AdapterRoot     string        `help:"Let administrators load LoRA adapters from inside this folder, and unload them, at run time." placeholder:"DIR" type:"existingdir"`
	Pooling         string        `help:"How embeddings are made of hidden states: mean, cls or last. By default as the checkpoint says, or else the last token's of a decoder and the first one's of an encoder." enum:",mean,cls,last" default:"" placeholder:"NAME"`
	demandFlags     `group:"Models on demand"`
	guideFlags      `group:"Tools, schemas and grammars"`
	connectionFlags `group:"Connections"`
	keyFlags        `group:"Keys"`
	traceFlags      `group:"Traces"`
	adapterFlags    `group:"Adapters"`
	eventFlags      `group:"Events of the prefix cache"`
	schedFlags      `group:"Scheduling, and where KV blocks go"`
	transferFlags   `group:"Scheduling, and where KV blocks go"`
	draftFlags      `group:"Tokens guessed ahead"`
	lossFlags       `group:"Memory and computing"`
	engineFlags     `group:"Memory and computing"`

	blobs  *store.Blobs // of --state; nil without
	losses *losses
}

func (serveCmd) Help() string {
	return `Serves the OpenAI API (chat completions, completions, responses, embeddings, models, and with --state files and batches), Ollama's and Anthropic's APIs, rerank and score, /tokenize, /detokenize, /health and /metrics.
SIGTERM and Ctrl-C let the answers under way come to their end; a second one does not wait.

Examples:
  kvasir serve
  kvasir serve Qwen/Qwen3-0.6B-GGUF:Q8_0 --port 9000 --api-key secret
  kvasir serve ./base --adapter pirate=./lora-pirate --adapter sql=org/sql-lora,pin
  kvasir serve ./a.gguf ./b --served-model-name small --served-model-name large
  kvasir serve --models models.yaml --keep-alive 30m`
}

func (c *serveCmd) Run(ctx context.Context) error {
	if err := c.keyFlags.check(); err != nil {
		return err
	}
	if err := c.eventFlags.check(); err != nil {
		return err
	}
	c.schedFlags.fair(len(c.APIKeys) > 0 || c.APIKeyFile != "")
	if c.NoPrefix && c.Events != "" {
		return usageError{"--kv-events tells of the prefix cache, and --no-prefix-cache leaves it out"}
	}
	if c.DrainTimeout < 0 {
		return usageError{fmt.Sprintf("--drain-timeout is %v; want at least 0", c.DrainTimeout)}
	}
	if c.MaxQueueTime < 0 {
		return usageError{fmt.Sprintf("--max-queue-time is %v; want at least 0", c.MaxQueueTime)}
	}
	if err := c.demandFlags.check(c.Models); err != nil {
		return err
	}
	if len(c.Models) == 0 && c.ModelList == "" {
		c.Models = []string{""}
	}
	if len(c.Name) > len(c.Models) {
		return usageError{fmt.Sprintf("%d --served-model-name for %d model(s)", len(c.Name), len(c.Models))}
	}
	if err := c.checkSingle(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return err
	}
	var form slog.Handler = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	if c.LogFormat == "json" {
		form = slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	}
	log := slog.New(form)
	before, err := formerLives()
	if err != nil {
		return err
	}
	// Before loading: a taken port is told at once.
	ln, err := c.connectionFlags.openSocket(net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), &before)
	if err != nil {
		return err
	}
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	c.losses = &losses{how: c.OnLoss, lives: before, ln: ln, file: c.connectionFlags.file, drain: c.DrainTimeout, log: log, ctx: ctx, end: end}
	return c.losses.settle(c.serve(within, log, ln))
}

// serve loads the models and serves them until ctx ends.
func (c *serveCmd) serve(ctx context.Context, log *slog.Logger, ln net.Listener) error {
	defer ln.Close()
	hangUps, stop := heedHangUps()
	defer stop()
	cfg := server.Config{
		Version: version(), AllowedOrigins: c.Origins, MaxBodyBytes: int64(c.MaxBody), RequestMemory: int64(c.RequestMemory),
		DrainTimeout: c.DrainTimeout, Logger: log, AdapterRoot: c.AdapterRoot, Restarts: c.losses.lives.Restarts,
	}
	if err := errors.Join(c.connectionFlags.apply(&cfg), c.keyFlags.apply(&cfg, c.DiskKV, log),
		c.transferFlags.apply(&cfg, c.TLSCert, c.NoPrefix)); err != nil {
		return err
	}
	var flushTraces func()
	var err error
	if cfg.Traces, flushTraces, err = c.traceFlags.open(log); err != nil {
		return err
	}
	defer flushTraces()
	closeState, err := c.openState(&cfg)
	if err != nil {
		return err
	}
	defer closeState()
	opened := server.Open(ln, cfg)
	defer opened.Close()
	closeAll, err := c.loadAll(ctx, log, &cfg)
	defer closeAll()
	if err != nil {
		return err
	}
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	onHangUp(hangUps, log, func() {
		c.keyFlags.reload(s, log)
		c.connectionFlags.files.reload(log)
	})
	return c.serveUntil(ctx, log, s, opened, c.connectionFlags.scheme()+ln.Addr().String())
}

// serveUntil serves until ctx ends, and tells the log and the service manager when that begins, and the latter when it
// ends: not if the program is started anew, since the process goes on.
func (c *serveCmd) serveUntil(ctx context.Context, log *slog.Logger, s *server.Server, o *server.Opening, address string) error {
	stopping := make(chan struct{})
	told := func(err error) {
		if err != nil {
			log.Warn("systemd was not told", "error", err)
		}
	}
	undo := guard.OnDone(ctx, func() error {
		if c.losses.restarting() {
			return nil
		}
		return tellSystemd(daemon.SdNotifyStopping)
	}, func(err error) {
		told(err)
		close(stopping)
	})
	err := s.ServeOpened(ctx, o, func() {
		log.Info("serving", "address", address)
		told(tellSystemd(daemon.SdNotifyReady))
	})
	if !undo() {
		<-stopping
	}
	return err
}

// loadAll opens the models that stay, and says which ones are loaded on demand.
func (c *serveCmd) loadAll(ctx context.Context, log *slog.Logger, cfg *server.Config) (closeAll func(), err error) {
	var closers []func() error
	closeAll = func() {
		for _, f := range slices.Backward(closers) {
			f()
		}
	}
	room := int64(0)
	if c.wanted() {
		if room, err = text.Room(c.options("")); err != nil {
			return closeAll, err
		}
	}
	for i, name := range c.Models {
		served, closeModel, err := c.load(ctx, log, i, name)
		if err != nil {
			return closeAll, err
		}
		closers = append(closers, closeModel)
		served.Root = name
		cfg.Models = append(cfg.Models, served)
		room -= served.Size
	}
	if c.wanted() {
		if cfg.OnDemand, err = c.onDemand(log, max(0, room)); err != nil {
			return closeAll, err
		}
	}
	return closeAll, c.alias(cfg.Models)
}

// tellSystemd tells the service manager what the server is at, if it asks for that (Type=notify).
func tellSystemd(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("%s: %w", state, err)
	}
	return nil
}

// openState opens the folder of --state, if there is one.
func (c *serveCmd) openState(cfg *server.Config) (closeState func() error, err error) {
	if c.State == "" {
		return func() error { return nil }, nil
	}
	kept, err := store.Open(c.State, store.Limits{ResponseBytes: stateBytes, FileBytes: stateBytes})
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	cfg.State = kept
	if cfg.Blobs, err = store.OpenBlobs(filepath.Join(c.State, "blobs"), blobBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("--state: %w", err), kept.Close())
	}
	c.blobs = cfg.Blobs
	return kept.Close, nil
}

// stateBytes bounds the responses that --state keeps, and likewise the files.
const stateBytes = 16 << 30

// blobBytes bounds the files of models that clients leave there.
const blobBytes = 256 << 30

// alias gives models their other names.
func (c *serveCmd) alias(models []server.Served) error {
	for _, a := range c.Aliases {
		name, model, ok := strings.Cut(a, "=")
		i := slices.IndexFunc(models, func(m server.Served) bool { return m.Model.Info().Name == model })
		if !ok || i < 0 {
			return usageError{fmt.Sprintf("--alias %q; want a name, = and the name of a served model", a)}
		}
		models[i].Aliases = append(models[i].Aliases, name)
	}
	return nil
}

// tell logs that a model is loaded.
func tell(log *slog.Logger, m *text.Model, begin time.Time) {
	log.Info("loaded", "model", m.Name, "family", m.Spec.Family, "device", m.Device, "context", m.Context,
		"weights", bytes(m.Bytes), "kv", "at most "+bytes(m.KVBytes), "seconds", time.Since(begin).Round(time.Millisecond).Seconds())
}

// checkSingle refuses flags that are for one model, if there are others.
func (c *serveCmd) checkSingle() error {
	if c.Template != "" && len(c.Models) > 1 {
		return usageError{"--chat-template is for one model, and several are served"}
	}
	if len(c.Adapter) > 0 && len(c.Models) > 1 {
		return usageError{"--adapter is for one model, and several are served; load theirs at run time (--adapter-root)"}
	}
	if c.DraftModel != "" && len(c.Models) != 1 {
		return usageError{"--draft-model is for one model that is named; those of --models have a draft-model of their own"}
	}
	return nil
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
	c.transferFlags.room(&o)
	if err := c.draftFlags.openDraft(ctx, &o); err != nil {
		return server.Served{}, nil, err
	}
	if err := c.adapterFlags.apply(ctx, &o); err != nil {
		return server.Served{}, nil, err
	}
	o.Pooling, o.AllLogprobs = engine.Pooling(c.Pooling), c.MaxLogprobs < 0
	if err := c.guideFlags.apply(&o); err != nil {
		return server.Served{}, nil, err
	}
	if c.Template != "" {
		source, err := os.ReadFile(c.Template)
		if err != nil {
			return server.Served{}, nil, err
		}
		o.Template = string(source)
	}
	published := new(publication)
	if c.Events != "" {
		o.Events = published.tell
	}
	o.MaxWaiting, o.MaxQueue, o.Logger, o.Observer = c.MaxWaiting, c.MaxQueueTime, log, observer
	o.Lost = c.losses.lost
	what, err := about(found.name, found.ckpt, &o)
	if err != nil {
		return server.Served{}, nil, fmt.Errorf("%s: %w", found.name, err)
	}
	m, err := load(ctx, found, o)
	if err != nil {
		return server.Served{}, nil, err
	}
	tell(log, m, begin)
	served := server.FromText(m)
	served.Observer, served.About = observer, what
	if c.Events == "" {
		return served, m.Close, nil
	}
	if err := c.eventFlags.open(published, i, m, log); err != nil {
		return server.Served{}, nil, errors.Join(err, m.Close())
	}
	served.Snapshot = func(ctx context.Context) ([]byte, uint64, error) {
		return published.Publisher.Snapshot(ctx, m.Engine)
	}
	return served, func() error { return errors.Join(m.Close(), published.Close()) }, nil
}
