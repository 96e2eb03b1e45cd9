package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
)

type benchGatewayCmd struct {
	Engines int           `help:"Engines that answer at once." default:"4"`
	Sizes   []size        `name:"sizes" help:"Sizes of the requests' bodies." default:"1K,16K,220K,400K" placeholder:"SIZE"`
	Clients int           `help:"Clients that ask at once, for the most requests and chunks a second." default:"32"`
	Time    time.Duration `help:"Spent on each of the three measurements of a size." default:"3s"`
	JSON    bool          `name:"json" help:"Print a JSON object to a line."`
}

func (benchGatewayCmd) Help() string {
	return `The load, the gateway and the engines share this machine. Prefix routing, keys, limits and metrics are on.

Examples:
  kvasir bench gateway
  kvasir bench gateway --sizes 1K,220K --json`
}

func (c *benchGatewayCmd) Run(ctx context.Context) error {
	o := bench.GatewayOptions{Engines: c.Engines, Clients: c.Clients, Time: c.Time}
	for _, s := range c.Sizes {
		o.Sizes = append(o.Sizes, int(s))
	}
	if !c.JSON {
		fmt.Fprintln(os.Stdout, "|   body bytes | added p50 µs | added p99 µs | requests/s | CPU µs/request |   chunks/s |\n"+
			"|-------------:|-------------:|-------------:|-----------:|---------------:|-----------:|")
	}
	var failed error
	err := bench.Gateway(ctx, o, func(r bench.GatewayRow) {
		if c.JSON {
			failed = printJSON(r)
			return
		}
		fmt.Printf("| %12d | %12.0f | %12.0f | %10.0f | %14.0f | %10.0f |\n", r.BodyBytes, r.AddedP50, r.AddedP99, r.RequestsPerSecond, r.CPU, r.ChunksPerSecond)
	})
	if err == nil {
		err = failed
	}
	return err
}
