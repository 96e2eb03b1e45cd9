package server

import (
	"context"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/kv"
	"github.com/kvasir-llm/kvasir/sampling"
)

// Model is what the server asks of a model. Its methods may be called from several goroutines.
type Model interface {
	Info() Info
	// Encode returns the tokens of a request's prompt. A request that cannot be served is a *text.RequestError.
	Encode(text.Request) ([]int32, error)
	// Generate begins an answer, which ends when ctx does. Errors are as for text.Model.Generate.
	Generate(ctx context.Context, r text.Request) (Generation, error)
	// Embed and Score are those of text.Model.
	Embed(ctx context.Context, r text.EmbedRequest) (vector []float32, tokens int, err error)
	Score(ctx context.Context, query, document string, truncate int, o text.Origin) (score float32, tokens int, err error)
	// Search returns the answers of a beam search. Errors are as for Generate.
	Search(ctx context.Context, r text.Request) ([]text.Delta, error)
	// Decode returns the text of tokens, special ones included.
	Decode(ids []int32) string
	// Token returns the spelling of a token in the vocabulary.
	Token(id int32) string
	// Special reports whether a token is left out of answers.
	Special(id int32) bool
	Stats() engine.Stats
	// Adapters returns the adapters that requests may name, which LoadAdapter and UnloadAdapter change. Their errors are those
	// of text.Model.LoadAdapter and engine.Engine.Unload.
	Adapters() []engine.AdapterStats
	LoadAdapter(name, path string, replace bool) error
	UnloadAdapter(name string) error
	// The prefix cache: as of engine.Engine.
	ResetCache(ctx context.Context) (int, error)
	Pin(ctx context.Context, prompt []int32, adapter, salt string) (int, error)
	Unpin(ctx context.Context, prompt []int32, adapter, salt string) (int, error)
	CacheContents(ctx context.Context) (contents []kv.Contents, now int64, err error)
	CacheSnapshot(ctx context.Context, told func()) ([]kv.Event, error)
	// Health returns nil if the engine steps, or has nothing to do.
	Health(within time.Duration) error
}

// Generation is an answer being made. It is used by one goroutine.
type Generation interface {
	// Next returns the next piece, and an error if there will be none; the last one has a Finish.
	Next(ctx context.Context) (text.Delta, error)
	// Prompt returns the prompt's tokens. It is complete once Next has returned.
	Prompt() []text.TokenInfo
	Close()
}

// Info describes a model. It never changes.
type Info struct {
	Name        string
	Context     int  // tokens of prompt and answer together
	Vocab       int  // tokens
	BlockTokens int  // tokens of a KV block
	MaxLoRAs    int  // adapters on the device at once
	Encoder     bool // it generates nothing
	// CrossEncoder: it scores pairs of texts, and makes no embeddings.
	CrossEncoder bool
	Opened       time.Time
	Defaults     sampling.Params
}

// FromText returns m as the server sees it.
func FromText(m *text.Model) Model { return textModel{m} }

type textModel struct{ m *text.Model }

func (t textModel) Info() Info {
	return Info{Name: t.m.Name, Context: t.m.Context, Vocab: t.m.Spec.Vocab, BlockTokens: t.m.BlockTokens, MaxLoRAs: t.m.MaxLoRAs, Opened: t.m.Opened,
		Encoder: t.m.Spec.Encoder, CrossEncoder: t.m.Spec.Classes > 0, Defaults: t.m.Defaults}
}

func (t textModel) Embed(ctx context.Context, r text.EmbedRequest) ([]float32, int, error) {
	return t.m.Embed(ctx, r)
}

func (t textModel) Score(ctx context.Context, query, document string, truncate int, o text.Origin) (float32, int, error) {
	return t.m.Score(ctx, query, document, truncate, o)
}

func (t textModel) Encode(r text.Request) ([]int32, error) { return t.m.Encode(r) }
func (t textModel) Decode(ids []int32) string              { return t.m.Tokenizer.Decode(ids, false) }
func (t textModel) Token(id int32) string                  { return t.m.Tokenizer.Token(id) }
func (t textModel) Special(id int32) bool                  { return t.m.Tokenizer.IsSpecial(id) }
func (t textModel) Stats() engine.Stats                    { return t.m.Engine.Stats() }
func (t textModel) Health(within time.Duration) error      { return t.m.Engine.Health(within) }
func (t textModel) Adapters() []engine.AdapterStats        { return t.m.Engine.Adapters() }
func (t textModel) UnloadAdapter(name string) error        { return t.m.Engine.Unload(name) }
func (t textModel) LoadAdapter(name, path string, replace bool) error {
	return t.m.LoadAdapter(name, path, replace)
}
func (t textModel) ResetCache(ctx context.Context) (int, error) { return t.m.Engine.ResetCache(ctx) }
func (t textModel) Pin(ctx context.Context, prompt []int32, adapter, salt string) (int, error) {
	return t.m.Engine.Pin(ctx, prompt, adapter, salt)
}
func (t textModel) Unpin(ctx context.Context, prompt []int32, adapter, salt string) (int, error) {
	return t.m.Engine.Unpin(ctx, prompt, adapter, salt)
}
func (t textModel) CacheContents(ctx context.Context) ([]kv.Contents, int64, error) {
	return t.m.Engine.CacheContents(ctx)
}
func (t textModel) CacheSnapshot(ctx context.Context, told func()) ([]kv.Event, error) {
	return t.m.Engine.CacheSnapshot(ctx, told)
}
func (t textModel) Search(ctx context.Context, r text.Request) ([]text.Delta, error) {
	return t.m.Search(ctx, r)
}
func (t textModel) Generate(ctx context.Context, r text.Request) (Generation, error) {
	g, err := t.m.Generate(ctx, r)
	if err != nil {
		return nil, err
	}
	return g, nil
}
