package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/chat"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/sampling"
)

// fakeModel answers everything with the same pieces. Its tokens are bytes: token 65 is "A", and 0 is special. A piece
// that begins with "think:", "call:" or "args:" is a thought, a call, whose id is the tool's name in capitals, or a
// piece of its arguments.
type fakeModel struct {
	info   text.Info
	pieces []string
	finish string
	stop   string // the stop string that ends the answer
	refuse error  // what Generate returns
	fail   error  // what Next returns after all pieces but the last
	sick   error
	hold   chan struct{} // if not nil, each piece waits for a value from it
	live   atomic.Int64  // generations not yet closed
	asleep atomic.Bool

	mu       sync.Mutex
	asked    []*text.Prompt
	adapters []engine.AdapterStats
}

func newFake(name string, pieces ...string) *fakeModel {
	return &fakeModel{pieces: pieces, finish: "stop", info: text.Info{Name: name, Context: 64, Vocab: 256, BlockTokens: 16,
		Opened: time.Unix(1700000000, 0), Defaults: sampling.Params{Temperature: 0.5, TopP: 0.9, TopK: 40, RepetitionPenalty: 1}}}
}

func (m *fakeModel) Info() text.Info { return m.info }

// served puts a fake in every place of a Served.
func served(m *fakeModel) Served { return Served{Model: m, Engine: m, Vocabulary: m} }

func (m *fakeModel) Adapters() []engine.AdapterStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.adapters)
}

// LoadAdapter takes any file.
func (m *fakeModel) LoadAdapter(name, path string, replace bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := os.Stat(path); err != nil {
		return &text.AdapterError{Path: path, Err: err}
	}
	if filepath.Base(path) == "bad" {
		return &text.AdapterError{Path: path, Err: errors.New("\"r\" is 0")}
	}
	i := slices.IndexFunc(m.adapters, func(a engine.AdapterStats) bool { return a.Name == name })
	if i >= 0 && m.adapters[i].Pinned {
		return engine.ErrAdapterPinned
	}
	if i >= 0 && !replace {
		return engine.ErrAdapterExists
	}
	if i >= 0 {
		m.adapters = slices.Delete(m.adapters, i, i+1)
	}
	m.adapters = append(m.adapters, engine.AdapterStats{Adapter: engine.Adapter{Name: name, Source: path}, Loaded: m.info.Opened})
	return nil
}

func (m *fakeModel) Unload(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.adapters, func(a engine.AdapterStats) bool { return a.Name == name })
	switch {
	case i < 0:
		return engine.ErrNoAdapter
	case m.adapters[i].Pinned:
		return engine.ErrAdapterPinned
	}
	m.adapters = slices.Delete(m.adapters, i, i+1)
	return nil
}

// Sleep and Wake answer with refuse; Asleep tells what was asked last.
func (m *fakeModel) Sleep(context.Context, engine.SleepLevel, engine.SleepMode) error {
	m.asleep.Store(m.refuse == nil)
	return m.refuse
}

func (m *fakeModel) Wake(_ context.Context, _, cache bool) error {
	m.asleep.Store(m.asleep.Load() && !cache)
	return m.refuse
}

func (m *fakeModel) Asleep() bool { return m.asleep.Load() }

// ResetCache, Pin and Unpin answer with what they were asked: lengths.
func (m *fakeModel) ResetCache(context.Context) (int, error) { return 3, m.refuse }

func (m *fakeModel) Pin(_ context.Context, prompt []int32, adapter, salt string) (int, error) {
	return len(prompt) + 1000*len(adapter) + 100*len(salt), m.refuse
}

func (m *fakeModel) Unpin(ctx context.Context, prompt []int32, adapter, salt string) (int, error) {
	return m.Pin(ctx, prompt, adapter, salt)
}

// CachedBlocks makes up a chain of five blocks, named 1, 2, …, of which 5 is the first.
func (m *fakeModel) CachedBlocks(context.Context) ([]engine.CachedBlock, error) {
	var all []engine.CachedBlock
	for i := 4; i >= 0; i-- {
		c := engine.CachedBlock{Name: fmt.Sprintf("%02x%062x", 5-i, 0), Tokens: []int32{int32(i)}, Blocks: 1, Refs: i % 2, Uses: i,
			Age: time.Duration(1000-100*i) * time.Millisecond, Idle: 100 * time.Millisecond}
		if i > 0 {
			c.Parent = fmt.Sprintf("%02x%062x", 6-i, 0)
		}
		all = append(all, c)
	}
	return all, m.refuse
}

func (m *fakeModel) Encode(_ context.Context, r text.Request) ([]int32, error) {
	switch {
	case r.IDs != nil:
		return r.IDs, nil
	case r.Chat != nil:
		for _, one := range r.Chat.Messages {
			r.Prompt += one.Role[:1] + ":" + one.Content
			for _, p := range one.Parts {
				r.Prompt += p.Text
			}
		}
	case r.Prompt == "":
		return nil, nil
	case !r.NoSpecial:
		r.Prompt = "\x00" + r.Prompt
	}
	ids := make([]int32, len(r.Prompt))
	for i := range ids {
		ids[i] = int32(r.Prompt[i])
	}
	return ids, nil
}

func (m *fakeModel) Prepare(ctx context.Context, r text.Request) (*text.Prompt, error) {
	if m.info.Encoder {
		return nil, fault.New(text.FieldModel, "%s is an encoder, which generates nothing", m.info.Name)
	}
	field := engine.FieldPrompt
	if r.Chat != nil {
		field = text.FieldMessages
	}
	ids, err := m.Encode(ctx, r)
	if room := m.info.Context - len(ids); r.Fit && r.MaxTokens > room {
		r.MaxTokens = max(room, 1)
	}
	switch answer := max(r.MaxTokens, 1); {
	case err != nil:
		return nil, err
	case len(ids) == 0:
		return nil, fault.New(field, "it is empty")
	case len(ids)+answer > m.info.Context:
		return nil, &text.LengthError{Field: field, Context: m.info.Context, Prompt: len(ids), Answer: answer}
	}
	return &text.Prompt{Request: r, IDs: ids}, nil
}

// Embed counts the bytes of a text.
func (m *fakeModel) Embed(_ context.Context, r text.EmbedRequest) ([]float32, int, error) {
	if r.Times != nil {
		*r.Times = fakeTimes
	}
	if r.Truncate == 0 && len(r.Text) > m.info.Context {
		return nil, 0, fault.New(text.FieldText, "it is too long")
	}
	if r.Truncate > 0 {
		r.Text = r.Text[:min(len(r.Text), r.Truncate)]
	}
	v := make([]float32, 4)
	for i := range len(r.Text) {
		v[r.Text[i]%4]++
	}
	return v, len(r.Text) + len(r.IDs), nil
}

// Classify finds two classes: the logits are 1 and the length.
func (m *fakeModel) Classify(_ context.Context, r text.EmbedRequest) ([]float32, int, error) {
	if !m.info.CrossEncoder {
		return nil, 0, fault.New(text.FieldModel, "%s has no classes", m.info.Name)
	}
	v := []float32{1, float32(len(r.Text) + len(r.IDs))}
	if !r.Raw {
		v[0], v[1] = v[0]/(v[0]+v[1]), v[1]/(v[0]+v[1])
	}
	return v, len(r.Text) + len(r.IDs), nil
}

// Score is the share of the query's length.
func (m *fakeModel) Score(_ context.Context, r text.ScoreRequest) (float32, int, error) {
	if r.DocumentTokens > 0 {
		r.Document = r.Document[:min(len(r.Document), r.DocumentTokens)]
	}
	score := float32(len(r.Document)) / float32(len(r.Query))
	if r.Raw {
		score = -score
	}
	return score, len(r.Query) + len(r.Document), nil
}

func (m *fakeModel) Decode(ids []int32, _ bool) string {
	out := make([]byte, len(ids))
	for i, id := range ids {
		out[i] = byte(id)
	}
	return string(out)
}

func (m *fakeModel) Token(id int32) string      { return fmt.Sprintf("<%c>", rune(id)) }
func (m *fakeModel) IsSpecial(id int32) bool    { return id == 0 }
func (m *fakeModel) Health(time.Duration) error { return m.sick }

func (m *fakeModel) Report() engine.Report {
	life := engine.Spans{Count: 3, Sum: 5 * time.Second, Below: make([]uint64, 31)}
	for i := range life.Below {
		life.Below[i] = 1
		if i >= 12 {
			life.Below[i] = 3
		}
	}
	none := engine.Spans{Below: make([]uint64, 31)}
	return engine.Report{PromptTokens: 7, GeneratedTokens: 9, Running: int(m.live.Load()), Tiers: []engine.TierReport{{Name: "host"}, {Name: "disk"}},
		Cache: engine.CacheReport{Blocks: 4, Used: 1, Evictions: 3, Lifetime: life, Idle: none, Reuse: none}}
}

func (m *fakeModel) Generate(ctx context.Context, p *text.Prompt) (Generation, error) {
	if m.refuse != nil {
		return nil, m.refuse
	}
	m.mu.Lock()
	m.asked = append(m.asked, p)
	m.mu.Unlock()
	m.live.Add(1)
	return &fakeGeneration{m: m, r: &p.Request, ids: p.IDs}, nil
}

type fakeGeneration struct {
	m      *fakeModel
	r      *text.Request
	ids    []int32
	next   int
	closed bool
}

func (g *fakeGeneration) Next(ctx context.Context) (d text.Delta, err error) {
	if g.m.hold != nil {
		select {
		case <-g.m.hold:
		case <-ctx.Done():
			return d, ctx.Err()
		}
	}
	if g.next == len(g.m.pieces) {
		return d, io.EOF
	}
	piece := g.m.pieces[g.next]
	if g.next++; g.next == len(g.m.pieces) {
		if g.m.fail != nil {
			return d, g.m.fail
		}
		d.Finish, d.Stop = g.m.finish, g.m.stop
	}
	switch kind, rest, _ := strings.Cut(piece, ":"); kind {
	case "think":
		d.Reasoning = rest
	case "call":
		d.Calls = []chat.Event{{Kind: chat.Called, ID: strings.ToUpper(rest), Text: rest}}
	case "args":
		d.Calls = []chat.Event{{Kind: chat.Arguments, Text: rest}}
	default:
		d.Text = piece
	}
	d.IDs = []int32{int32(piece[0])}
	if g.r.Logprobs >= 0 {
		d.Tokens = []text.TokenInfo{g.info(piece, g.r.Logprobs)}
	}
	d.Usage = text.Usage{Prompt: len(g.ids), Cached: 1, Generated: g.next}
	return d, nil
}

// info makes up log probabilities: -0.5 for the token, and alternatives that are one less likely each.
func (g *fakeGeneration) info(token string, top int) text.TokenInfo {
	t := text.TokenInfo{ID: int32(token[0]), Bytes: []byte(token), Logprob: -0.5}
	for i := range top {
		other := string(rune('a' + i))
		if i == 0 {
			other = token
		}
		t.Top = append(t.Top, text.TokenInfo{ID: int32(other[0]), Bytes: []byte(other), Logprob: -0.5 - float32(i)})
	}
	return t
}

func (g *fakeGeneration) Prompt() []text.TokenInfo {
	var out []text.TokenInfo
	for i, id := range g.ids {
		out = append(out, text.TokenInfo{ID: id, Bytes: []byte{byte(id)}})
		if i > 0 && g.r.PromptLogprobs >= 0 {
			out[i] = g.info(string(rune(id)), g.r.PromptLogprobs)
			out[i].Rank = 1 + i
		}
	}
	return out
}

// Times makes the request come at second 1, wait for one, and have a token after two more.
func (g *fakeGeneration) Times() engine.Times { return fakeTimes }

var fakeTimes = engine.Times{Arrived: time.Unix(1, 0), Scheduled: time.Unix(2, 0), First: time.Unix(4, 0)}

func (g *fakeGeneration) Close() {
	if !g.closed {
		g.m.live.Add(-1)
	}
	g.closed = true
}

// Search finds an answer for each beam: the pieces, and a letter.
func (m *fakeModel) Search(_ context.Context, p *text.Prompt) ([]text.Delta, error) {
	m.mu.Lock()
	m.asked = append(m.asked, p)
	m.mu.Unlock()
	var out []text.Delta
	for i := range p.Request.Search.Width {
		d := text.Delta{Finish: "stop", Usage: text.Usage{Prompt: len(p.IDs), Generated: len(m.pieces) + 1}}
		for _, piece := range append(slices.Clone(m.pieces), string(rune('a'+i))) {
			d.Text += piece
			d.IDs = append(d.IDs, int32(piece[0]))
		}
		out = append(out, d)
	}
	return out, nil
}
