package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/kvasir-llm/kvasir/bench"
	"github.com/kvasir-llm/kvasir/guard"
)

type benchNullCmd struct {
	Port uint16        `help:"Port to listen on, on this machine only; 0 is any that is free." default:"9000"`
	TTFT time.Duration `name:"ttft" help:"Time to the first word of each answer." placeholder:"TIME"`
	TPOT time.Duration `name:"tpot" help:"Time between its words; without it all come at once." placeholder:"TIME"`
}

func (benchNullCmd) Help() string {
	return `Examples:
  kvasir bench null
  kvasir bench load --url http://127.0.0.1:9000/v1 --rate 2000 -n 20000 --input 64 --output 32
  kvasir bench null --ttft 200ms --tpot 10ms`
}

func (c *benchNullCmd) Run(ctx context.Context) error {
	if c.TTFT < 0 || c.TPOT < 0 {
		return usageError{fmt.Sprintf("--ttft %v and --tpot %v; want at least 0", c.TTFT, c.TPOT)}
	}
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(c.Port))))
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "http://%s/v1\n", ln.Addr())
	s := &http.Server{Handler: bench.Null{TTFT: c.TTFT, TPOT: c.TPOT}, ReadHeaderTimeout: time.Minute}
	defer guard.OnDone(ctx, s.Close, func(error) {})()
	if err := s.Serve(ln); ctx.Err() == nil {
		return err
	}
	return nil
}
