package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/bench/fleet"
	"github.com/kvasir-llm/kvasir/events"
	"github.com/kvasir-llm/kvasir/guard"
)

type benchNullCmd struct {
	Port    uint16 `help:"Port to listen on, on this machine only; of several engines each has the next one. 0 is any that is free." default:"9000"`
	Engines int    `help:"How many engines there are." default:"1"`

	TTFT        time.Duration `name:"ttft" help:"Time to the first word of each answer, once its prompt is computed." placeholder:"TIME"`
	TPOT        time.Duration `name:"tpot" help:"Time between its words; without it all come at once." placeholder:"TIME"`
	Prefill     float64       `help:"Prompt tokens (of four bytes) that an engine computes in a second, of one prompt after another; any number if left out." placeholder:"N"`
	Slots       int           `help:"Requests that an engine runs at once, while others wait; any number if left out." placeholder:"N"`
	KVBlocks    int           `name:"kv-blocks" help:"Blocks of an engine's prefix cache; none if left out." placeholder:"N"`
	BlockTokens int           `name:"block-tokens" help:"Tokens of a block." default:"16"`
	EventsPort  uint16        `name:"events-port" help:"Tell of the caches over ZeroMQ as vLLM does, on this port of 127.0.0.1, with replays on the next one, and so on for each engine." placeholder:"PORT"`

	Prefillers int           `help:"How many engines, the first ones, only compute prompts, as with vLLM's NIXL connector." placeholder:"N"`
	Fault      string        `help:"What goes wrong: ${faults}." placeholder:"FAULT"`
	Faulty     int           `help:"With how many engines, the last ones." default:"1"`
	FaultShare float64       `name:"fault-share" help:"With what share of their requests." default:"1"`
	Down       time.Duration `help:"How long an engine is down that died." default:"5s"`
}

func (benchNullCmd) Help() string {
	return `Examples:
  kvasir bench null
  kvasir bench load --url http://127.0.0.1:9000/v1 --rate 2000 -n 20000 --input 64 --output 32
  kvasir bench null --engines 8 --ttft 20ms --tpot 10ms --prefill 5000 --slots 64 --kv-blocks 20000 --events-port 5600
  kvasir bench null --engines 3 --tpot 10ms --fault dies --fault-share 0.01`
}

// model returns the i-th engine's.
func (c *benchNullCmd) model(i int) (fleet.Model, error) {
	m := fleet.Model{TTFT: c.TTFT, TPOT: c.TPOT, Prefill: c.Prefill, Slots: c.Slots, Blocks: c.KVBlocks, BlockTokens: c.BlockTokens}
	if c.Prefillers > 0 {
		m.Role = "decode"
	}
	if i < c.Prefillers {
		m.Role = "prefill"
	}
	var err error
	if i >= c.Engines-c.Faulty {
		m.Share, m.Down = c.FaultShare, c.Down
		m.Fault, err = fleet.Faults.Find("fault", c.Fault)
	}
	return m, errors.Join(err, m.Check())
}

func (c *benchNullCmd) Run(ctx context.Context) error {
	if c.Engines < 1 || c.Prefillers < 0 || c.Prefillers > c.Engines || c.Faulty < 0 {
		return usageError{fmt.Sprintf("--engines %d, --prefillers %d and --faulty %d; want at least 1, 0 and 0", c.Engines, c.Prefillers, c.Faulty)}
	}
	if c.EventsPort > 0 && c.KVBlocks == 0 {
		return usageError{"--events-port needs --kv-blocks"}
	}
	ended := make(chan error, c.Engines)
	var servers []*http.Server
	defer func() {
		for _, s := range servers {
			s.Close()
		}
	}()
	for i := range c.Engines {
		m, err := c.model(i)
		if err != nil {
			return usageError{err.Error()}
		}
		ln, h, done, err := c.open(i, m)
		if err != nil {
			return err
		}
		defer done()
		s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		servers = append(servers, s)
		guard.Go(func() error { return s.Serve(ln) }, func(err error) { ended <- err })
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// open opens the ports of the i-th engine.
func (c *benchNullCmd) open(i int, m fleet.Model) (ln net.Listener, e *fleet.Engine, done func(), err error) {
	port := 0
	if c.Port > 0 {
		port = int(c.Port) + i
	}
	if ln, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		return nil, nil, nil, err
	}
	fmt.Fprintf(os.Stderr, "http://%s/v1", ln.Addr())
	defer fmt.Fprintln(os.Stderr)
	if c.EventsPort == 0 {
		return ln, fleet.New(m, nil, uint64(i)), func() {}, nil
	}
	at := func(n int) string { return fmt.Sprintf("tcp://127.0.0.1:%d", int(c.EventsPort)+2*i+n) }
	p, err := events.Open(events.Config{Endpoint: "@" + at(0), Replay: "@" + at(1), Encoding: events.Encoding{BlockTokens: c.BlockTokens}})
	if err != nil {
		ln.Close()
		return nil, nil, nil, err
	}
	fmt.Fprintf(os.Stderr, "  events: %s, events_replay: %s", at(0), at(1))
	return ln, fleet.New(m, p.Publish, uint64(i)), func() { p.Close() }, nil
}
