package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/route"
)

// maker says which engine an endpoint runs, as far as the endpoint tells.
type maker int

const (
	unmet       maker = iota
	another           // it does not say
	kvasir            // its metrics are kvasir:…
	vllm              // vllm:…, or SGLang's, sglang:…
	tgi               // tgi_…
	tensorRT          // trtllm_…
	llamaServer       // llamacpp:…, or its answers' header Server
	ollama            // its page /
)

// makers are the engines by what the names of their metrics begin with. kvasir has vLLM's names beside its own.
var makers = []struct {
	prefix string
	maker
}{{"kvasir:", kvasir}, {"vllm:", vllm}, {"sglang:", vllm}, {"tgi_", tgi}, {"trtllm_", tensorRT}, {"llamacpp:", llamaServer}}

// salts reports whether the engine knows cache_salt.
func (m maker) salts() bool { return m == kvasir || m == vllm }

// goesOn reports whether the engine goes on with a text that the request at a path ends with. Of chats only engines
// that know continue_final_message do, of completions all but Ollama, which puts the prompt into the model's template.
func (m maker) goesOn(path string) bool {
	if path == "/v1/chat/completions" {
		return m.salts() || m == llamaServer
	}
	return m != ollama
}

// counts reports whether the engine tells the usage of a stream in its last event, when asked.
func (m maker) counts() bool { return m > another }

// tensorRTMetrics is where trtllm-serve has metrics for Prometheus; at /metrics it has others, in JSON.
const tensorRTMetrics = "/prometheus/metrics"

// meet asks an endpoint what engine it is.
func (g *Gateway) meet(ctx context.Context, e *endpoint) {
	h := g.setup.Load().cfg.Health
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	g.measure(ctx, e, cmp.Or(h.Metrics, defaults().Health.Metrics))
}

// measure reads an endpoint's metrics: its load, and what engine it is. An engine without metrics may say that
// otherwise.
func (g *Gateway) measure(ctx context.Context, e *endpoint, path string) {
	res, err := g.fetch(ctx, e, http.MethodGet, path, nil)
	if err != nil {
		return
	}
	defer res.Body.Close()
	if path != tensorRTMetrics && res.StatusCode == http.StatusOK && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		g.measure(ctx, e, tensorRTMetrics)
		return
	}
	var l route.Load
	is, told := another, res.StatusCode == http.StatusOK
	switch s := res.StatusCode; {
	case told:
		if is, err = readLoad(io.LimitReader(res.Body, mostPage), &l); err != nil {
			return
		}
	case s >= http.StatusInternalServerError && s != http.StatusNotImplemented, s == http.StatusTooManyRequests:
		return // it says nothing now
	case res.Header.Get("Server") == "llama.cpp":
		is = llamaServer
	case s == http.StatusNotFound:
		if is, err = g.isOllama(ctx, e); err != nil {
			return
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.maker = is; told && !e.gone {
		e.hold(&l)
		g.fleet.SetLoad(e.id, l)
	}
}

// isOllama tells Ollama from others that have no metrics, by its first page.
func (g *Gateway) isOllama(ctx context.Context, e *endpoint) (maker, error) {
	g.mu.Lock()
	known := e.maker
	g.mu.Unlock()
	if known != unmet {
		return known, nil
	}
	res, err := g.fetch(ctx, e, http.MethodGet, "/", nil)
	if err != nil {
		return unmet, err
	}
	defer res.Body.Close()
	const says = "Ollama is running"
	page, err := io.ReadAll(io.LimitReader(res.Body, int64(len(says))))
	if string(page) == says {
		return ollama, err
	}
	return another, err
}

// loadNames are the metrics of engines' load: vLLM's (and kvasir's), SGLang's, llama.cpp's, TGI's, TensorRT-LLM's.
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
	"tgi_queue_size":               func(l *route.Load, x float64) { l.Waiting += int(x) },
	"tgi_batch_current_size":       func(l *route.Load, x float64) { l.Running += int(x) },
	"trtllm_num_requests_waiting":  func(l *route.Load, x float64) { l.Waiting += int(x) },
	"trtllm_num_requests_running":  func(l *route.Load, x float64) { l.Running += int(x) },
	"trtllm_kv_cache_utilization":  func(l *route.Load, x float64) { l.KVUse = max(l.KVUse, x) },
	"vllm:lora_requests_info":      nil, // its labels count: see readLoad
}

// readLoad reads an engine's load from its metrics, in Prometheus' text form, and what engine it is.
func readLoad(r io.Reader, l *route.Load) (is maker, err error) {
	is = another
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		end := bytes.IndexAny(line, "{ ")
		if end < 1 || line[0] == '#' {
			continue
		}
		for _, m := range makers {
			if is != kvasir && bytes.HasPrefix(line, []byte(m.prefix)) {
				is = m.maker
			}
		}
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
	return is, lines.Err()
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
