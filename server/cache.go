package server

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/kv"
)

// query returns the parameters of a request's address, of which only those named are allowed.
func query(r *http.Request, allowed ...string) (map[string]string, error) {
	out := map[string]string{}
	for name, values := range r.URL.Query() {
		if !slices.Contains(allowed, name) || len(values) != 1 || values[0] == "" {
			return nil, fail(http.StatusBadRequest, openai.TypeInvalidRequest, name, openai.CodeUnsupported,
				"%s: want each of %v once at most", name, allowed)
		}
		out[name] = values[0]
	}
	return out, nil
}

// resetCache forgets the cached prefixes of a model, or of all.
func (s *Server) resetCache(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "model")
	models := s.models
	if name := q["model"]; err == nil && name != "" {
		var m *Served
		if m, _, err = s.lookup(name); err == nil {
			models = []Served{*m}
		}
	}
	forgotten := 0
	for i := range models {
		if err == nil {
			var n int
			n, err = models[i].Model.ResetCache(r.Context())
			forgotten += n
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.cfg.Logger.Info("reset the prefix cache", "blocks", forgotten)
	s.write(w, http.StatusOK, map[string]int{"forgotten_blocks": forgotten})
}

func (s *Server) pin(w http.ResponseWriter, r *http.Request)   { s.pinned(w, r, true) }
func (s *Server) unpin(w http.ResponseWriter, r *http.Request) { s.pinned(w, r, false) }

// pinned pins or unpins a prompt.
func (s *Server) pinned(w http.ResponseWriter, r *http.Request, pin bool) {
	out, err := s.tryPin(w, r, pin)
	if errors.Is(err, engine.ErrNoCache) {
		err = fail(http.StatusConflict, openai.TypeInvalidRequest, "", "no_prefix_cache", "There is no prefix cache here.")
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, http.StatusOK, out)
}

// tryPin computes what is not in the cache of a prompt that is to be pinned, since only what is there can be.
func (s *Server) tryPin(w http.ResponseWriter, r *http.Request, pin bool) (*openai.PinResponse, error) {
	req, err := read(w, r, openai.DecodePin)
	if err != nil {
		return nil, err
	}
	m, adapter, err := s.lookup(req.Model)
	if err != nil {
		return nil, err
	}
	t := text.Request{NoSpecial: !value(req.AddSpecialTokens, true), IDs: req.Tokens}
	if req.Messages != nil {
		generate := value(req.AddGenerationPrompt, false)
		if t.Chat, err = conversation(req.Messages, &generate, req.ChatTemplateKwargs); err != nil {
			return nil, err
		}
	} else if req.Prompt != nil {
		t.Prompt = *req.Prompt
	}
	ids, err := m.Model.Encode(t)
	if err != nil {
		return nil, err
	}
	out := &openai.PinResponse{PromptTokens: len(ids)}
	if !pin {
		out.Tokens, err = m.Model.Unpin(r.Context(), ids, adapter, req.CacheSalt)
		return out, err
	}
	g, err := m.Model.Generate(r.Context(), text.Request{IDs: ids, Params: m.Model.Info().Defaults, MaxTokens: 1, Logprobs: -1,
		PromptLogprobs: -1, Adapter: adapter, Salt: req.CacheSalt})
	if err != nil {
		return nil, err
	}
	defer g.Close()
	for finish := ""; finish == ""; {
		d, err := g.Next(r.Context())
		if err != nil {
			return nil, err
		}
		finish = d.Finish
	}
	out.Tokens, err = m.Model.Pin(r.Context(), ids, adapter, req.CacheSalt)
	return out, err
}

// block is what /kv/blocks tells of contents of the cache.
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

// Limits of a page of /kv/blocks.
const (
	usualBlocks = 100
	mostBlocks  = 10_000
)

// inspect tells what the prefix cache holds, page by page, in order of names.
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
	m, _, err := s.lookup(q["model"])
	if err != nil {
		return nil, err
	}
	bad := func(param, want string) error {
		return fail(http.StatusBadRequest, openai.TypeInvalidRequest, param, openai.CodeInvalidValue, "%s is %q; want %s", param, q[param], want)
	}
	limit := usualBlocks
	if q["limit"] != "" {
		if limit, err = strconv.Atoi(q["limit"]); err != nil || limit < 1 || limit > mostBlocks {
			return nil, bad("limit", fmt.Sprint("1 to ", mostBlocks))
		}
	}
	after, err := hex.DecodeString(q["after"])
	if err != nil {
		return nil, bad("after", "a name in hexadecimal")
	}
	tokens, err := strconv.ParseBool(q["tokens"])
	if q["tokens"] != "" && err != nil {
		return nil, bad("tokens", "true or false")
	}
	all, now, err := m.Model.CacheContents(r.Context())
	if err != nil {
		return nil, err
	}
	st := m.Model.Stats().Sched.KV
	type page struct {
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
	info := m.Model.Info()
	out := page{Model: info.Name, BlockTokens: info.BlockTokens, Blocks: st.Blocks, Used: st.Used, Cached: st.Cached, Free: st.Free,
		Pinned: st.Pinned, Named: len(all), Data: []block{}}
	byName := func(a, b kv.Contents) int { return bytes.Compare(a.Name[:], b.Name[:]) }
	slices.SortFunc(all, byName)
	all = slices.DeleteFunc(all, func(c kv.Contents) bool { return bytes.Compare(c.Name[:], after) <= 0 })
	for _, c := range all[:min(len(all), limit)] {
		out.Data = append(out.Data, describeBlock(&c, now, tokens))
	}
	if len(all) > limit {
		out.Next = &out.Data[limit-1].Name
	}
	return out, nil
}

func describeBlock(c *kv.Contents, now int64, tokens bool) block {
	b := block{Name: hex.EncodeToString(c.Name[:]), Blocks: c.Blocks, Refs: c.Refs, Uses: c.Uses, AgeMS: max(0, now-c.Named),
		IdleMS: max(0, now-c.Used), Priority: c.Priority}
	if c.Parent != (kv.Hash{}) {
		parent := hex.EncodeToString(c.Parent[:])
		b.Parent = &parent
	}
	if tokens {
		b.Tokens = c.Tokens
	}
	return b
}

// snapshot answers with a batch of KV events that tells a newcomer what the prefix cache holds.
func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "model")
	var m *Served
	if err == nil {
		m, _, err = s.lookup(q["model"])
	}
	if err == nil && m.Events == nil {
		err = fail(http.StatusNotFound, openai.TypeInvalidRequest, "", "no_kv_events", "There are no KV events here; the server would have to be started with --kv-events.")
	}
	var payload []byte
	var next uint64
	if err == nil {
		payload, next, err = m.Events.Snapshot(r.Context(), m.Model)
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
