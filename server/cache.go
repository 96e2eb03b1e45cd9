package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
)

// query returns the parameters of a request's address, of which only those named are allowed.
func query(r *http.Request, allowed ...string) (map[string]string, error) {
	out := map[string]string{}
	for name, values := range r.URL.Query() {
		if !slices.Contains(allowed, name) || len(values) != 1 || values[0] == "" {
			return nil, refuse(http.StatusBadRequest, name, wire.CodeUnsupported,
				"%s: want each of %v once at most", name, allowed)
		}
		out[name] = values[0]
	}
	return out, nil
}

// forgotten is the answer of /reset_prefix_cache.
type forgotten struct {
	Blocks int `json:"forgotten_blocks"`
}

// resetCache evicts the cached prefixes of a model, or of all.
func (s *Server) resetCache(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "model")
	models := s.present()
	if name := q["model"]; err == nil && name != "" {
		var m *Served
		if m, _, err = s.lookup(r.Context(), name); err == nil {
			models = []*Served{m}
		}
	}
	n := 0
	for i := range models {
		if err == nil {
			var of int
			of, err = models[i].Engine.ResetCache(r.Context())
			n += of
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.cfg.Logger.Info("reset the prefix cache", "blocks", n)
	s.write(w, http.StatusOK, forgotten{n})
}

func (s *Server) pin(w http.ResponseWriter, r *http.Request)   { s.pinned(w, r, true) }
func (s *Server) unpin(w http.ResponseWriter, r *http.Request) { s.pinned(w, r, false) }

// pinned pins or unpins a prompt.
func (s *Server) pinned(w http.ResponseWriter, r *http.Request, pin bool) {
	out, err := s.tryPin(w, r, pin)
	if errors.Is(err, engine.ErrNoCache) {
		err = refuse(http.StatusConflict, "", "no_prefix_cache", "There is no prefix cache here.")
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, out)
}

// tryPin pins or unpins a prompt. Only cached blocks can be pinned, so it first computes the prompt.
func (s *Server) tryPin(w http.ResponseWriter, r *http.Request, pin bool) (*openai.PinResponse, error) {
	req, err := read(w, r, openai.DecodePin)
	if err != nil {
		return nil, err
	}
	warn(w, req.Ignored)
	m, adapter, err := s.lookup(r.Context(), req.Model)
	if err != nil {
		return nil, err
	}
	ctx, err := s.onBehalf(r.Context(), req.Key)
	if err != nil {
		return nil, err
	}
	t, err := fromSource(&req.Source, false)
	if err != nil {
		return nil, err
	}
	t.IDs = req.Tokens
	t.Params = engine.Params{Sampling: m.Model.Info().Defaults, MaxTokens: 1, Logprobs: -1, PromptLogprobs: -1,
		Adapter: adapter, Salt: req.CacheSalt}
	p, err := m.Model.Prepare(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &openai.PinResponse{PromptTokens: p.Len()}
	if !pin {
		out.Tokens, err = m.Engine.Unpin(ctx, p.IDs, adapter, p.Request.Salt)
		return out, err
	}
	g, err := m.Model.Generate(ctx, p)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	for finish := ""; finish == ""; {
		d, err := g.Next(ctx)
		if err != nil {
			return nil, err
		}
		finish = d.Finish
	}
	out.Tokens, err = m.Engine.Pin(ctx, p.IDs, adapter, p.Request.Salt)
	return out, err
}

// onBehalf returns a context for a request of an administrator in the name of a key. The name may be left out where all
// keys share their prefixes.
func (s *Server) onBehalf(ctx context.Context, key string) (context.Context, error) {
	t := s.ring().named(key)
	switch {
	case t != nil:
		return from(ctx, t), nil
	case key != "":
		return nil, wire.Invalid("key", wire.CodeInvalidValue, "there is no API key of the name %q", key)
	case len(s.ring().tenants) > 0 && !s.cfg.SharePrefixes:
		return nil, wire.Missing("key", "the name of the API key whose requests are to find the prompt")
	}
	return ctx, nil
}

// block is an entry of /kv/blocks.
type block struct {
	Name     string  `json:"name"`
	Parent   *string `json:"parent"`
	Tokens   []int32 `json:"tokens,omitempty"`
	Blocks   int     `json:"blocks"`
	Refs     int     `json:"refs"`
	Uses     int     `json:"uses"`
	AgeMS    int64   `json:"age_ms"`
	IdleMS   int64   `json:"idle_ms"`
	Priority int     `json:"priority"`
}

// blockList is a page of /kv/blocks.
type blockList struct {
	Model       string  `json:"model"`
	BlockTokens int     `json:"block_tokens"`
	Blocks      int     `json:"blocks"`
	Used        int     `json:"used"`
	Cached      int     `json:"cached"`
	Free        int     `json:"free"`
	Pinned      int     `json:"pinned"`
	Named       int     `json:"named"`
	Data        []block `json:"data"`
	Next        *string `json:"next"`
}

// Limits of a page of /kv/blocks.
const (
	usualBlocks = 100
	mostBlocks  = 10_000
)

// inspect answers with the contents of the prefix cache, page by page, in order of names.
func (s *Server) inspect(w http.ResponseWriter, r *http.Request) {
	out, err := s.page(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, out)
}

func (s *Server) page(r *http.Request) (any, error) {
	q, err := query(r, "model", "limit", "after", "tokens")
	if err != nil {
		return nil, err
	}
	m, _, err := s.lookup(r.Context(), q["model"])
	if err != nil {
		return nil, err
	}
	bad := func(param, want string) error {
		return refuse(http.StatusBadRequest, param, wire.CodeInvalidValue, "%s is %q; want %s", param, q[param], want)
	}
	limit := usualBlocks
	if q["limit"] != "" {
		if limit, err = strconv.Atoi(q["limit"]); err != nil || limit < 1 || limit > mostBlocks {
			return nil, bad("limit", fmt.Sprint("1 to ", mostBlocks))
		}
	}
	after := strings.ToLower(q["after"])
	if _, err := hex.DecodeString(after); err != nil {
		return nil, bad("after", "a name in hexadecimal")
	}
	tokens, err := strconv.ParseBool(q["tokens"])
	if q["tokens"] != "" && err != nil {
		return nil, bad("tokens", "true or false")
	}
	all, err := m.Engine.CachedBlocks(r.Context())
	if err != nil {
		return nil, err
	}
	st := m.Engine.Report().Cache
	info := m.Model.Info()
	out := blockList{Model: info.Name, BlockTokens: info.BlockTokens, Blocks: st.Blocks, Used: st.Used, Cached: st.Cached,
		Free:   st.Free,
		Pinned: st.Pinned, Named: len(all), Data: []block{}}
	all = slices.DeleteFunc(all, func(c engine.CachedBlock) bool { return c.Name <= after })
	for _, c := range all[:min(len(all), limit)] {
		out.Data = append(out.Data, describeBlock(&c, tokens))
	}
	if len(all) > limit {
		out.Next = &out.Data[limit-1].Name
	}
	return out, nil
}

func describeBlock(c *engine.CachedBlock, tokens bool) block {
	b := block{Name: c.Name, Blocks: c.Blocks, Refs: c.Refs, Uses: c.Uses, AgeMS: c.Age.Milliseconds(),
		IdleMS:   c.Idle.Milliseconds(),
		Priority: c.Priority}
	if c.Parent != "" {
		b.Parent = &c.Parent
	}
	if tokens {
		b.Tokens = c.Tokens
	}
	return b
}

// snapshot answers with a batch of KV events that describes the prefix cache to a new subscriber.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "model")
	var m *Served
	if err == nil {
		m, _, err = s.lookup(r.Context(), q["model"])
	}
	if err == nil && m.Snapshot == nil {
		err = refuse(http.StatusNotFound, "", "no_kv_events",
			"There are no KV events here; the server would have to be started with --kv-events.")
	}
	var payload []byte
	var next uint64
	if err == nil {
		payload, next, err = m.Snapshot(r.Context())
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Kvasir-Kv-Next", strconv.FormatUint(next, 10))
	w.Header().Set("Content-Type", "application/msgpack")
	w.Header().Set("Content-Length", strconv.Itoa(len(payload)))
	w.Write(payload)
}
