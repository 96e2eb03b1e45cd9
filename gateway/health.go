package gateway

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/route"
)

// endpoint is an endpoint of the fleet. Gateway.mu guards what is below the line.
type endpoint struct {
	url  string
	key  string // that it wants, "" for none
	id   int
	stop context.CancelFunc // of its watch
	turn chan struct{}      // holds what who tells it of adapters puts in

	cfg      Endpoint
	gone     bool   // from the configuration
	down     string // why it takes no requests
	requests int    // in flight
	failed   int    // in a row
	ejected  int    // times in a row
	feed     feed
	unfollow func()        // ends its feed
	windowed []int         // groups of layers that attend to a window, as its KV events told
	loans    []*loan       // adapters that it was told to load, since it was down last
	mute     time.Duration // until when it is not asked to render prompts
	broke    bool          // it was down as connections broke, and has not answered well since
	salting  salting       // since it was down last
	kvasir   bool          // it is one, as its metrics say
	chats    bool          // it has no Messages API, but one for chats
}

// watch probes an endpoint until ctx ends: its health, and what its metrics say of its load.
func (g *Gateway) watch(ctx context.Context, e *endpoint) {
	guard.Go(func() error {
		for {
			h := g.setup.Load().cfg.Health
			g.probe(ctx, e, h)
			g.unloadIdle(ctx, e)
			pause := h.Interval
			g.mu.Lock()
			if e.down != "" {
				pause = min(pause, time.Second)
			}
			g.mu.Unlock()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
	}, func(err error) {
		if err != nil {
			g.log.Error("an endpoint is not watched any more", "endpoint", e.url, "error", err)
		}
		g.watches.Done()
	})
}

// probe asks an endpoint once.
func (g *Gateway) probe(ctx context.Context, e *endpoint, h Health) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	if h.Path != "" {
		err := g.ask(ctx, e, h.Path, nil)
		if ctx.Err() == context.Canceled {
			return
		}
		g.probed(e, err)
		if err != nil {
			return
		}
	}
	if h.Metrics != "" && !g.foreign(e) {
		g.measure(ctx, e, h.Metrics)
	}
}

// ask gets a page of an endpoint, which must come with status 200. A provider that has no such page is as good as one
// that says it is well.
func (g *Gateway) ask(ctx context.Context, e *endpoint, path string, read func(io.Reader) error) error {
	res, err := g.fetch(ctx, e, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	page := io.LimitReader(res.Body, 4<<20)
	switch {
	case read != nil && res.StatusCode == http.StatusOK:
		return read(page)
	case read != nil, res.StatusCode >= 500:
		return statusError(res.StatusCode)
	}
	_, err = io.Copy(io.Discard, page)
	return err
}

// probed notes the result of a probe. An endpoint that was ejected for what it answered stays so until its time is
// over, since its health page said nothing of it then either.
func (g *Gateway) probed(e *endpoint, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil && e.down == "":
		g.setDown(e, "unhealthy: "+err.Error())
	case err == nil && e.down != "" && e.down != ejected:
		g.setDown(e, "")
	}
}

const ejected = "ejected: it failed too often"

// setDown changes why an endpoint takes no requests. g.mu is held.
func (g *Gateway) setDown(e *endpoint, why string) {
	if e.gone { // another may have its number
		return
	}
	if (e.down == "") != (why == "") {
		g.log.Info("endpoint", "url", e.url, "up", why == "", "why", why)
	}
	if e.down = why; why != "" {
		e.loans, e.salting, e.kvasir, e.chats = nil, saltUnknown, false, false
	}
	g.fleet.SetDown(e.id, why)
	g.metrics.up.WithLabelValues(e.url).Set(one(why == ""))
	if why == "" {
		g.pumpAll()
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// served notes that an endpoint answered well.
func (g *Gateway) served(e *endpoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.failed, e.ejected, e.broke = 0, 0, false
}

// failedAt notes that an endpoint failed. One that cannot be reached, or whose connections break, is down until a probe
// finds it. One that answers badly time after time, or that breaks connections although probes find it well, is ejected
// for a while that doubles.
func (g *Gateway) failedAt(e *endpoint, f *failure) {
	g.metrics.failures.WithLabelValues(e.url, f.reason()).Inc()
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.busy() { // and well
		if !e.gone {
			g.fleet.Refused(e.id)
		}
		return
	}
	if f.blameless {
		return
	}
	h := g.setup.Load().cfg.Health
	e.failed++
	switch {
	case e.down != "":
	case f.unreachable && h.Path != "":
		g.setDown(e, "unreachable: "+f.Error())
	case e.failed < h.EjectAfter && !f.unreachable:
	case f.broken && h.Path != "" && !e.broke:
		e.failed, e.broke = 0, true
		g.setDown(e, "connections break: "+f.Error())
	default:
		e.failed = 0
		pause := h.EjectFor << min(e.ejected, 5)
		e.ejected++
		g.setDown(e, ejected)
		guard.After(pause, func() error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if e.down == ejected {
				g.setDown(e, "")
			}
			return nil
		}, func(err error) {
			if err != nil {
				g.log.Error("an endpoint stays ejected", "endpoint", e.url, "error", err)
			}
		})
	}
}

// loadNames are the metrics of engines' load: vLLM's (and kvasir's), SGLang's, llama.cpp's, TensorRT-LLM's.
var loadNames = map[string]func(l *route.Load, x float64){
	"vllm:num_requests_waiting":    func(l *route.Load, x float64) { l.Waiting += int(x) },
	"vllm:num_requests_running":    func(l *route.Load, x float64) { l.Running += int(x) },
	"vllm:kv_cache_usage_perc":     func(l *route.Load, x float64) { l.KVUse = max(l.KVUse, x) },
	"vllm:gpu_cache_usage_perc":    func(l *route.Load, x float64) { l.KVUse = max(l.KVUse, x) },
	"sglang:num_queue_reqs":        func(l *route.Load, x float64) { l.Waiting += int(x) },
	"sglang:num_running_reqs":      func(l *route.Load, x float64) { l.Running += int(x) },
	"sglang:token_usage":           func(l *route.Load, x float64) { l.KVUse = max(l.KVUse, x) },
	"llamacpp:requests_deferred":   func(l *route.Load, x float64) { l.Waiting += int(x) },
	"llamacpp:requests_processing": func(l *route.Load, x float64) { l.Running += int(x) },
	"trtllm_num_requests_waiting":  func(l *route.Load, x float64) { l.Waiting += int(x) },
	"trtllm_num_requests_running":  func(l *route.Load, x float64) { l.Running += int(x) },
	"trtllm_kv_cache_utilization":  func(l *route.Load, x float64) { l.KVUse = max(l.KVUse, x) },
	"vllm:lora_requests_info":      nil, // its labels count: see readLoad
}

// readLoad reads an engine's load from its metrics, in Prometheus' text form, whether it knows salts, and whether it is
// a kvasir.
func readLoad(r io.Reader, l *route.Load) (salts, kvasir bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		end := bytes.IndexAny(line, "{ ")
		if end < 1 || line[0] == '#' {
			continue
		}
		salts = salts || slices.ContainsFunc(saltingEngines, func(s string) bool { return bytes.HasPrefix(line, []byte(s)) })
		kvasir = kvasir || bytes.HasPrefix(line, []byte(ownMetrics))
		add, ok := loadNames[string(line[:end])]
		if !ok {
			continue
		}
		if add == nil {
			readAdapters(string(line), l)
			continue
		}
		value := line[bytes.LastIndexByte(line, ' ')+1:]
		if x, err := strconv.ParseFloat(string(value), 64); err == nil && x >= 0 && x < 1e9 {
			add(l, x)
		}
	}
	return salts, kvasir, lines.Err()
}

// readAdapters reads which adapters run, from the labels of vLLM's metric of them.
func readAdapters(line string, l *route.Load) {
	label := func(name string) string {
		_, rest, _ := strings.Cut(line, name+`="`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	for name := range strings.SplitSeq(label("running_lora_adapters"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			l.Adapters = append(l.Adapters, name)
		}
	}
	most, err := strconv.Atoi(label("max_lora"))
	l.AdapterRoom = err == nil && len(l.Adapters) < most
}
