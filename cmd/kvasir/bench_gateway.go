package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
)

type benchGatewayCmd struct {
	Engines  int           `help:"Engines that answer at once." default:"4"`
	Sizes    []size        `name:"sizes" help:"Sizes of the requests' bodies." default:"1K,16K,220K,400K" placeholder:"SIZE"`
	Clients  int           `help:"Clients that ask at once, for the most requests and chunks a second." default:"32"`
	Time     time.Duration `help:"Spent on each of the three measurements of a size." default:"3s"`
	Doors    []string      `name:"door" help:"Measure a gateway that runs by itself, by the name that it has in the table, its address and the key that it wants." placeholder:"NAME=HOST:PORT[=KEY]"`
	Engine   string        `help:"Of --door: the address of an engine behind the gateways, which answers to the same." placeholder:"HOST:PORT"`
	Model    string        `help:"Of --door: what gateways and engine call the model." default:"null"`
	Requests int           `help:"Instead, send so many requests of one size, each of another user with another prompt, and print what memory the process takes meanwhile." placeholder:"N"`
	JSON     bool          `name:"json" help:"Print a JSON object to a line."`
}

func (benchGatewayCmd) Help() string {
	return `The load, the gateway and the engines share this machine. Prefix routing, keys, limits and metrics are on.

Examples:
  kvasir bench gateway
  kvasir bench gateway --sizes 1K,220K --json
  kvasir bench gateway --requests 1000000 --sizes 1K --json
  kvasir bench gateway --engine 127.0.0.1:9001 --door mine=127.0.0.1:9000 --door other=127.0.0.1:9100`
}

func (c *benchGatewayCmd) Run(ctx context.Context) error {
	o := bench.GatewayOptions{Engines: c.Engines, Clients: c.Clients, Time: c.Time, Engine: c.Engine, Model: c.Model}
	for _, s := range c.Sizes {
		o.Sizes = append(o.Sizes, int(s))
	}
	for _, d := range c.Doors {
		part := strings.SplitN(d, "=", 3)
		if len(part) < 2 || part[0] == "" {
			return usageError{fmt.Sprintf("--door %s; want NAME=HOST:PORT or NAME=HOST:PORT=KEY", d)}
		}
		o.Doors = append(o.Doors, bench.Door{Name: part[0], Address: part[1], Key: strings.Join(part[2:], "")})
	}
	if c.Requests != 0 {
		return c.memory(ctx, o)
	}
	if !c.JSON {
		fmt.Fprintln(os.Stdout, "| gateway      |   body bytes | added p50 µs | added p99 µs | requests/s | CPU µs/request |   chunks/s |\n"+
			"|--------------|-------------:|-------------:|-------------:|-----------:|---------------:|-----------:|")
	}
	var failed error
	err := bench.Gateway(ctx, o, func(r bench.GatewayRow) {
		if c.JSON {
			failed = printJSON(r)
			return
		}
		if r.Errors != "" {
			fmt.Printf("| %-12s | %12d | %s |\n", r.Door, r.BodyBytes, r.Errors)
			return
		}
		fmt.Printf("| %-12s | %12d | %12.0f | %12.0f | %10.0f | %14.0f | %10.0f |\n", cmp.Or(r.Door, "kvasir"), r.BodyBytes, r.AddedP50, r.AddedP99, r.RequestsPerSecond, r.CPU, r.ChunksPerSecond)
	})
	if err == nil {
		err = failed
	}
	return err
}

// memory prints what memory a gateway takes over many requests.
func (c *benchGatewayCmd) memory(ctx context.Context, o bench.GatewayOptions) error {
	if !c.JSON {
		fmt.Fprintln(os.Stdout, "|   requests |  seconds | resident MiB | live heap MiB |\n|-----------:|---------:|-------------:|--------------:|")
	}
	var failed error
	err := bench.GatewayMemory(ctx, o, c.Requests, func(r bench.MemoryRow) {
		if c.JSON {
			failed = printJSON(r)
			return
		}
		const mib = 1 << 20
		fmt.Printf("| %10d | %8.0f | %12.1f | %13.1f |\n", r.Requests, r.Seconds, float64(r.Resident)/mib, float64(r.Heap)/mib)
	})
	return cmp.Or(err, failed)
}
