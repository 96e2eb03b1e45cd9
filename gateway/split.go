package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/named"
	"github.com/kvasir-llm/kvasir/trace"
)

// transfer is how the KV blocks of a prompt come from the endpoint that computed them to the one that goes on.
type transfer int

const (
	// noTransfer is that of endpoints that do both.
	noTransfer transfer = iota
	// nixl is vLLM's, and that of others with the same words: the answer to the prefill says in kv_transfer_params
	// where the blocks are, and the request for the decode repeats it.
	nixl
	// bootstrap is SGLang's: both requests are sent at once and name the same room, where the engines meet.
	bootstrap
)

var transfers = named.List[transfer]{
	{Name: "none", Is: noTransfer}, {Name: "nixl", Is: nixl}, {Name: "sglang", Is: bootstrap},
}

// checkTransfer refuses roles that do not go together.
func (m *Model) checkTransfer(path string) error {
	how, err := transfers.Find("transfer", m.Transfer)
	if err != nil {
		return wrong(path+".transfer", "%v", err)
	}
	if m.TransferTokens < 0 {
		return wrong(path+".transfer_tokens", "%d; want at least 0", m.TransferTokens)
	}
	prefills := 0
	for i, e := range m.Endpoints {
		at := fmt.Sprintf("%s.endpoints[%d]", path, i)
		switch {
		case e.Role != "" && e.Role != "prefill" && e.Role != "decode":
			return wrong(at+".role", "%q; want prefill, decode or nothing", e.Role)
		case e.Role != "" && how == noTransfer:
			return wrong(at+".role", "it needs the model's transfer")
		case e.BootstrapPort != 0 && (how != bootstrap || e.Role != "prefill"), e.BootstrapPort < 0 || e.BootstrapPort > 65535:
			return wrong(at+".bootstrap_port", "%d; want a port, of a prefill endpoint with transfer sglang", e.BootstrapPort)
		case e.Role == "prefill":
			prefills++
		}
	}
	if how != noTransfer && (prefills == 0 || prefills == len(m.Endpoints)) {
		return wrong(path+".endpoints", "%d of %d have role prefill; want some of both kinds", prefills, len(m.Endpoints))
	}
	return nil
}

// bootstrapPort is where SGLang's prefill engines meet others if the configuration does not say.
const bootstrapPort = 8998

// split lets a prefill endpoint compute the prompt of a body, if the model has such and it is worth it, and returns the
// body for the endpoint that goes on.
func (a *attempt) split(body []byte) ([]byte, error) {
	a.g.mu.Lock()
	m := a.job.model
	how, least := m.transfer, m.TransferTokens
	c := a.g.fleet.View(&a.job.route, []int{a.placement.endpoint.id})
	uncached := a.job.route.Tokens
	if len(c) > 0 && c[0].PromptBlocks > 0 {
		uncached -= uncached * c[0].HeldBlocks / c[0].PromptBlocks
	}
	a.g.mu.Unlock()
	if how == noTransfer || a.body.transfer || !slices.Contains(rendered, a.r.URL.Path) || how == nixl && uncached < least {
		return body, nil
	}
	p := a.prefillAt()
	switch {
	case p == nil && how == nixl:
		return body, nil
	case p == nil:
		return nil, errors.New("no prefill endpoint of the model is free")
	case how == nixl:
		where, err := a.prefill(a.ctx, p, body, `,"stream":false,"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,`+
			`"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`)
		if err != nil || where == nil { // the other endpoint can compute the prompt, too
			return body, a.ctx.Err()
		}
		return with(body, `,"kv_transfer_params":`+string(where)), nil
	}
	u, err := url.Parse(p.endpoint.url)
	if err != nil {
		return nil, err
	}
	a.g.mu.Lock()
	port := cmp.Or(p.endpoint.cfg.BootstrapPort, bootstrapPort)
	a.g.mu.Unlock()
	body = with(body, fmt.Sprintf(`,"bootstrap_host":%q,"bootstrap_port":%d,"bootstrap_room":%d`, u.Hostname(), port, rand.Int64()))
	guard.Go(func() error {
		_, err := a.prefill(a.ctx, p, body, "")
		return err
	}, func(err error) {
		if err != nil {
			a.cancel(fmt.Errorf("the prefill at %s failed: %w", p.endpoint.url, err))
		}
	})
	return body, nil
}

// with returns a body with more members at its end.
func with(body []byte, more string) []byte {
	end := bytes.LastIndexByte(body, '}')
	return slices.Concat(body[:end], []byte(more), body[end:])
}

// onlyDecode are the keys that a prefill is not to have: it makes one token, at once.
var onlyDecode = []string{"stream", "stream_options", "max_tokens", "max_completion_tokens", "min_tokens"}

// oneToken returns a body without the keys of a decode, and with others.
func oneToken(body []byte, more string) ([]byte, error) {
	out := []byte{'{'}
	err := members(body, func(key string, value []byte, _ int) error {
		if slices.Contains(onlyDecode, key) {
			return nil
		}
		name, err := json.Marshal(key)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
		return err
	})
	return append(append(out, more...), '}'), err
}

// prefillAt takes a place at a prefill endpoint of the job's model; nil if there is none.
func (a *attempt) prefillAt() *placement {
	g, q := a.g, a.job.route
	q.Output = 0
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.fleet.Choose(a.job.model.policy, &q, a.job.model.prefillIDs)
	if d.Chosen < 0 {
		return nil
	}
	e := a.job.model.prefill[slices.Index(a.job.model.prefillIDs, d.Rated[d.Chosen].ID)]
	e.requests++
	if a.job.explain {
		a.placement.why += "; prefill: " + strings.Join(strings.Fields(d.String()), " ")
	}
	return &placement{endpoint: e, flight: g.fleet.Send(e.id, &q)}
}

// prefill computes a prompt, and returns where its blocks are if the endpoint says so. With more, it makes one token.
func (a *attempt) prefill(ctx context.Context, p *placement, body []byte, more string) (where []byte, err error) {
	began := time.Now()
	ctx, end := part(ctx, "prefill", trace.Client, trace.Attr{Key: "url.full", Value: p.endpoint.url + a.r.URL.Path})
	defer func() {
		end(err)
		if err == nil {
			a.g.first(p, time.Since(began).Seconds())
		} else if ctx.Err() == nil {
			a.g.failedAt(p.endpoint, &failure{err: err, broken: true})
		}
		a.g.leave(nil, p, 0, 0, 0)
	}()
	if more != "" {
		if body, err = oneToken(body, more); err != nil {
			return nil, err
		}
	}
	res, err := a.g.transport.RoundTrip(a.to(ctx, p, body))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if more == "" { // the answer comes from the other endpoint
		_, err = io.Copy(io.Discard, res.Body)
	} else {
		var said []byte
		if said, err = io.ReadAll(io.LimitReader(res.Body, mostPage)); err == nil && res.StatusCode == http.StatusOK {
			err = members(said, func(key string, value []byte, _ int) error {
				if key == "kv_transfer_params" && string(value) != "null" {
					where = value
				}
				return nil
			})
		}
	}
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return where, err
}
