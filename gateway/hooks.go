package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/plugin"
	"github.com/kvasir-llm/kvasir/guard"
)

// Hook is a plug-in that sees requests or answers.
type Hook struct {
	File      string        `yaml:"file"`
	On        string        `yaml:"on"`     // request or response
	Models    []string      `yaml:"models"` // whose; all if there are none
	Timeout   time.Duration `yaml:"timeout"`
	Memory    int           `yaml:"memory"`     // MiB
	OnFailure string        `yaml:"on_failure"` // refuse or pass
}

// hook is a Hook that is ready. calls are those under way.
type hook struct {
	Hook
	plugin *plugin.Plugin
	calls  sync.WaitGroup
}

// Calls of plug-ins do nothing but compute, and each has memory of its own: so there are as many at once as processors.
const (
	allCalls = 1 << 40
	aCall    = allCalls>>8 + 1 // a large claim
)

// openHooks compiles the hooks of a configuration.
func openHooks(c *Config) ([]*hook, error) {
	var all []*hook
	for _, h := range c.Hooks {
		p, err := plugin.Open(h.File, plugin.Options{Timeout: h.Timeout, Memory: h.Memory, Output: c.MaxBody})
		if err != nil {
			return nil, errors.Join(err, closeHooks(all))
		}
		all = append(all, &hook{Hook: h, plugin: p})
	}
	return all, nil
}

func closeHooks(hooks []*hook) error {
	var all error
	for _, h := range hooks {
		h.calls.Wait()
		all = errors.Join(all, h.plugin.Close())
	}
	return all
}

// retire closes hooks as soon as the calls under way have ended.
func (g *Gateway) retire(hooks []*hook) {
	if len(hooks) == 0 {
		return
	}
	g.watches.Add(1)
	guard.Go(func() error { return closeHooks(hooks) }, func(err error) {
		if err != nil {
			g.log.Error("a plug-in did not close", "error", err)
		}
		g.watches.Done()
	})
}

// hooks are those of a request on one side. The caller must call done once they are not needed any more.
func (x *exchange) hooks(on string) (hooks []*hook, done func()) {
	x.g.mu.Lock() // so that no hook is retired before it is counted
	defer x.g.mu.Unlock()
	s := x.g.setup.Load()
	m := s.names[x.body.model]
	for _, h := range s.hooks {
		if h.On == on && m != nil && (len(h.Models) == 0 || slices.Contains(h.Models, m.Name)) {
			h.calls.Add(1)
			hooks = append(hooks, h)
		}
	}
	return hooks, func() {
		for _, h := range hooks {
			h.calls.Done()
		}
	}
}

// run lets hooks change a body, one after the other.
func (x *exchange) run(on string, hooks []*hook, body []byte) ([]byte, *refusal) {
	call := plugin.Call{Hook: on, Path: x.r.URL.Path, Model: x.body.model}
	if x.account != nil {
		call.Key = x.account.key.Name
	}
	for _, h := range hooks {
		call.Body = json.RawMessage(body)
		v, err := x.runOne(h, call)
		switch {
		case err != nil && h.OnFailure == "pass":
			x.g.log.Warn("a plug-in failed; the request goes on", "error", err)
		case err != nil:
			x.g.log.Error("a plug-in failed", "error", err)
			return nil, &refusal{status: http.StatusInternalServerError, kind: "server_error", code: "plugin_failed", message: "a plug-in failed"}
		case v.Refuse != "":
			return nil, &refusal{status: http.StatusForbidden, kind: "invalid_request_error", code: "refused", message: v.Refuse}
		case len(v.Body) > 0:
			body = v.Body
		}
	}
	return body, nil
}

// runOne calls a plug-in when it is the account's turn.
func (x *exchange) runOne(h *hook, call plugin.Call) (plugin.Verdict, error) {
	done, err := x.g.calls.Acquire(guard.As(x.r.Context(), x.who()), aCall)
	if err != nil {
		return plugin.Verdict{}, err
	}
	defer done()
	return h.plugin.Run(x.r.Context(), call)
}

// hookRequest lets hooks change the request.
func (x *exchange) hookRequest() *refusal {
	if hooks, done := x.hooks("response"); len(hooks) > 0 {
		done()
		if x.body.stream {
			return invalid("stream", "a plug-in sees the model's answers, which must be whole for it")
		}
		x.hooked = true
	}
	hooks, done := x.hooks("request")
	defer done()
	if len(hooks) == 0 {
		return nil
	}
	raw, refused := x.run("request", hooks, x.body.raw)
	if refused != nil {
		return refused
	}
	before := x.body
	var err error
	if x.body, err = scan(raw); err != nil {
		return invalid("", "a plug-in made a body that is not good: "+err.Error())
	}
	if x.body.model != before.model || x.body.stream != before.stream {
		return invalid("", "a plug-in changed the model or stream, which is not supported")
	}
	return nil
}

// hookAnswer lets hooks change an answer that is there as a whole.
func (x *exchange) hookAnswer(res *http.Response, answer []byte) []byte {
	hooks, done := x.hooks("response")
	defer done()
	if len(hooks) == 0 || res.StatusCode != http.StatusOK {
		return answer
	}
	changed, refused := x.run("response", hooks, answer)
	if refused == nil {
		return changed
	}
	x.problem = refused.message
	res.StatusCode = refused.status
	res.Header.Set("Content-Type", "application/json")
	return refused.json()
}

// checkHooks refuses hooks that cannot be meant, and fills in what is left out.
func (c *Config) checkHooks() error {
	for i := range c.Hooks {
		h := &c.Hooks[i]
		path := fmt.Sprintf("hooks[%d]", i)
		if h.Timeout == 0 {
			h.Timeout = time.Second
		}
		if h.Memory == 0 {
			h.Memory = 64
		}
		if h.OnFailure == "" {
			h.OnFailure = "refuse"
		}
		switch {
		case h.File == "":
			return wrong(path+".file", "it is missing")
		case h.On != "request" && h.On != "response":
			return wrong(path+".on", "%q; want request or response", h.On)
		case h.OnFailure != "refuse" && h.OnFailure != "pass":
			return wrong(path+".on_failure", "%q; want refuse or pass", h.OnFailure)
		case h.Timeout < time.Millisecond, h.Memory < 1, h.Memory > 4095:
			return wrong(path, "timeout is %v and memory %d; want at least 1ms, and 1 to 4095 MiB", h.Timeout, h.Memory)
		}
		for j, m := range h.Models {
			if !slices.ContainsFunc(c.Models, func(x Model) bool { return x.Name == m }) {
				return wrong(fmt.Sprintf("%s.models[%d]", path, j), "there is no model with the name %q", m)
			}
		}
	}
	return nil
}
