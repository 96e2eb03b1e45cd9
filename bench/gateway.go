package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/gateway"
	"github.com/kvasir-llm/kvasir/guard"
)

// GatewayOptions say how a gateway is measured.
type GatewayOptions struct {
	Engines int
	Sizes   []int // of bodies, bytes
	Clients int   // at once, for the most requests and chunks a second
	Time    time.Duration
	Doors   []Door // to measure instead of a gateway in this process
	Engine  string // the address of an engine behind them
	Model   string // what doors and engine call it
}

// Door is a gateway that runs by itself.
type Door struct {
	Name, Address string
	Key           string // that it wants; "" for none
}

// GatewayRow is what a gateway costs with bodies of one size.
type GatewayRow struct {
	Door              string  `json:"gateway,omitempty"`
	Errors            string  `json:"error,omitempty"` // why it was not measured
	BodyBytes         int     `json:"body_bytes"`
	AddedP50          float64 `json:"added_p50_us"` // microseconds, one request at a time
	AddedP99          float64 `json:"added_p99_us"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	ChunksPerSecond   float64 `json:"chunks_per_second"`
	CPU               float64 `json:"cpu_us_per_request"` // of the load, the gateway and the engine together, where the system tells
}

// chunksHeader asks an idle engine for a stream of so many events, each of which it sends by itself.
const chunksHeader = "X-Bench-Chunks"

const idleEvent = `data: {"id":"idle","object":"chat.completion.chunk","created":1,"model":"idle",` +
	`"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n"

const idleEnd = `data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"

// idleEngine answers at once and does not look at what it is asked, so that nearly all that a load measures is the
// gateway and the load itself.
func idleEngine(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	if r.Method != http.MethodPost {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var chunks int
	fmt.Sscan(r.Header.Get(chunksHeader), &chunks)
	control := http.NewResponseController(w)
	for range chunks {
		if io.WriteString(w, idleEvent); control.Flush() != nil {
			return
		}
	}
	io.WriteString(w, idleEvent+idleEnd)
}

// Gateway measures a gateway in this process, on idle engines in this process, with prefix routing, keys, limits and
// metrics on; or doors that there are. told gets each row.
func Gateway(ctx context.Context, o GatewayOptions, told func(GatewayRow)) error {
	if len(o.Doors) > 0 {
		return o.doors(ctx, told)
	}
	if o.Engines < 1 || o.Clients < 1 || o.Time <= 0 || len(o.Sizes) == 0 || slices.Min(o.Sizes) < 512 {
		return fmt.Errorf("bench: %d engines, %d clients, %v and bodies of %v bytes; want at least one of each, and 512 bytes", o.Engines, o.Clients, o.Time, o.Sizes)
	}
	l, done, err := o.open()
	if err != nil {
		return err
	}
	defer done()
	for _, size := range o.Sizes {
		l.size = size
		row, err := o.row(ctx, l)
		if err != nil {
			return err
		}
		told(row)
	}
	return nil
}

// open opens a gateway in this process with its idle engines. The caller must call done.
func (o GatewayOptions) open() (l gatewayLoad, done func(), err error) {
	var servers []*http.Server
	var g *gateway.Gateway
	done = func() {
		for _, s := range servers {
			s.Close()
		}
		if g != nil {
			g.Close()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	serve := func(h http.Handler) (string, error) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		s := &http.Server{Handler: h}
		servers = append(servers, s)
		guard.Go(func() error { return s.Serve(ln) }, func(error) {})
		return ln.Addr().String(), nil
	}
	var engines []string
	for range o.Engines {
		at, err := serve(http.HandlerFunc(idleEngine))
		if err != nil {
			return l, nil, err
		}
		engines = append(engines, at)
	}
	key, hash := gateway.NewKey()
	config := fmt.Sprintf("models: [{name: idle, endpoints: [http://%s]}]\nkeys: [{name: load, hash: %q, users: true, limits: [{what: requests, per: 1m, most: 2000000000}]}]",
		strings.Join(engines, ", http://"), hash)
	c, err := gateway.Parse("bench", []byte(config))
	if err != nil {
		return l, nil, err
	}
	if g, err = gateway.New(c, gateway.Options{Logger: slog.New(slog.DiscardHandler), Seed: 1}); err != nil {
		return l, nil, err
	}
	door, err := serve(g)
	return gatewayLoad{model: "idle", key: key, direct: engines[0], door: door}, done, err
}

// doors measures doors in turn. One that fails does not keep others from being measured.
func (o GatewayOptions) doors(ctx context.Context, told func(GatewayRow)) error {
	if o.Engine == "" || o.Clients < 1 || o.Time <= 0 || len(o.Sizes) == 0 || slices.Min(o.Sizes) < 512 {
		return fmt.Errorf("bench: engine %q, %d clients, %v and bodies of %v bytes; want an engine's address, one of each, and 512 bytes",
			o.Engine, o.Clients, o.Time, o.Sizes)
	}
	for _, size := range o.Sizes {
		for _, d := range o.Doors {
			row, err := o.row(ctx, gatewayLoad{size: size, model: o.Model, key: d.Key, direct: o.Engine, door: d.Address})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if row.Door = d.Name; err != nil {
				row = GatewayRow{Door: d.Name, BodyBytes: size, Errors: err.Error()}
			}
			told(row)
		}
	}
	return nil
}

// gatewayLoad is a load of bodies of one size.
type gatewayLoad struct {
	size         int
	model        string
	key          string
	direct, door string // addresses
	strangers    bool   // each request has a prompt, a user and a session of its own
}

func (o GatewayOptions) row(ctx context.Context, l gatewayLoad) (GatewayRow, error) {
	row := GatewayRow{BodyBytes: l.size}
	var err error
	if row.AddedP50, row.AddedP99, err = l.added(ctx, o.Time); err != nil {
		return row, err
	}
	begin, cpu := time.Now(), cpuTime()
	if row.RequestsPerSecond, err = l.most(ctx, o, 0); err != nil {
		return row, err
	}
	row.CPU = float64((cpuTime() - cpu).Microseconds()) / (row.RequestsPerSecond * time.Since(begin).Seconds())
	const chunks = 255
	streams, err := l.most(ctx, o, chunks)
	row.ChunksPerSecond = streams * (chunks + 1)
	return row, err
}

// added returns how much later answers come through the gateway, in microseconds, by comparing requests that go in turn
// to an engine and through the gateway.
func (l gatewayLoad) added(ctx context.Context, d time.Duration) (p50, p99 float64, err error) {
	var took [2][]float64
	var clients [2]*rawClient
	for i, at := range []string{l.direct, l.door} {
		if clients[i], err = l.dial(at, 0); err != nil {
			return 0, 0, err
		}
		defer clients[i].conn.Close()
	}
	const warm = 20 // requests until connections and caches are
	begin := time.Now()
	for n := 0; n <= warm || time.Since(begin) < d; n++ {
		for i, c := range clients {
			sent := time.Now()
			if err := errors.Join(ctx.Err(), c.ask(n)); err != nil {
				return 0, 0, err
			}
			if n >= warm {
				took[i] = append(took[i], float64(time.Since(sent).Nanoseconds())/1000)
			}
		}
		if n == warm {
			begin = time.Now()
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	at := func(share float64) float64 {
		i := int(share * float64(len(took[0])-1))
		return took[1][i] - took[0][i]
	}
	return at(0.5), at(0.99), nil
}

// most returns how many requests a second go through the gateway when many clients ask as fast as they can.
func (l gatewayLoad) most(ctx context.Context, o GatewayOptions, chunks int) (float64, error) {
	var all sync.WaitGroup
	var done atomic.Int64
	errs := make(chan error, o.Clients)
	begin := time.Now()
	for i := range o.Clients {
		c, err := l.dial(l.door, chunks)
		if err != nil {
			return 0, err
		}
		all.Add(1)
		guard.Go(func() error {
			defer c.conn.Close()
			for n := i << 32; time.Since(begin) < o.Time && ctx.Err() == nil; n++ {
				if err := c.ask(n); err != nil {
					return err
				}
				done.Add(1)
			}
			return ctx.Err()
		}, func(err error) {
			if err != nil {
				errs <- err
			}
			all.Done()
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(done.Load()) / time.Since(begin).Seconds(), nil
	}
}

// rawClient is a connection with a request that it sends again and again. It does as little as it can, since it shares
// the processor with what it measures.
type rawClient struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	numbers [][]byte // the parts of the request that are others in each
}

func (l gatewayLoad) dial(at string, chunks int) (*rawClient, error) {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return nil, err
	}
	const digits = "000000000000000000000000"
	before := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,`, l.model, chunks+1)
	after := digits + `"}]}`
	if l.strangers {
		before += `"user":"` + digits + `","prompt_cache_key":"` + digits + `",`
	}
	before += `"messages":[{"role":"user","content":"`
	if l.strangers {
		before += digits
	}
	body := before + strings.Repeat("What is in a KV block? ", l.size/20)[:l.size-len(before)-len(after)] + after
	head := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n"+
		"%s: %d\r\nContent-Length: %d\r\n\r\n", at, l.key, chunksHeader, chunks, len(body))
	c := &rawClient{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), request: []byte(head + body)}
	for at := len(head); ; at += len(digits) {
		next := bytes.Index(c.request[at:], []byte(digits))
		if next < 0 {
			return c, nil
		}
		at += next
		c.numbers = append(c.numbers, c.request[at:][:len(digits)])
	}
}

// ask sends the request under a number and reads the answer.
func (c *rawClient) ask(n int) error {
	number := fmt.Sprintf("%024d", n)
	for _, part := range c.numbers {
		copy(part, number)
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	var last bytes.Buffer
	if res.StatusCode != http.StatusOK {
		_, err = last.ReadFrom(res.Body)
		return errors.Join(err, fmt.Errorf("bench: status %d: %s", res.StatusCode, last.Bytes()))
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}
