package server

import (
	"context"
	"io"
	"time"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// Model answers requests: a *text.Model. Its methods may be called from several goroutines.
type Model interface {
	Info() text.Info
	Encode(context.Context, text.Request) ([]int32, error)
	Prepare(context.Context, text.Request) (*text.Prompt, error)
	Generate(context.Context, *text.Prompt) (Generation, error)
	Search(context.Context, *text.Prompt) ([]text.Delta, error)
	Embed(context.Context, text.EmbedRequest) (vector []float32, tokens int, err error)
	Classify(ctx context.Context, r text.EmbedRequest) (classes []float32, tokens int, err error)
	Score(context.Context, text.ScoreRequest) (score float32, tokens int, err error)
	LoadAdapter(name, path string, replace bool) error
}

// Generation is an answer being made: a *text.Generation.
type Generation interface {
	Next(context.Context) (text.Delta, error)
	Prompt() []text.TokenInfo
	Times() engine.Times
	Close()
}

// Engine is what a model runs on: an *engine.Engine.
type Engine interface {
	Report() engine.Report
	Health(within time.Duration) error
	Adapters() []engine.AdapterStats
	Unload(adapter string) error
	Sleep(context.Context, engine.SleepLevel, engine.SleepMode) error
	Wake(ctx context.Context, weights, cache bool) error
	Asleep() bool
	ResetCache(context.Context) (int, error)
	Pin(ctx context.Context, prompt []int32, adapter, salt string) (int, error)
	Unpin(ctx context.Context, prompt []int32, adapter, salt string) (int, error)
	CachedBlocks(context.Context) ([]engine.CachedBlock, error)
}

// Vocabulary spells tokens: a *tokenizer.Tokenizer.
type Vocabulary interface {
	Decode(ids []int32, skipSpecial bool) string
	Token(id int32) string
	IsSpecial(id int32) bool
}

// Blocks are the KV blocks that a prompt fills: an *engine.Blocks.
type Blocks interface {
	Full() int
	Send(ctx context.Context, to io.Writer, without int) (sent int, err error)
	Receive(ctx context.Context, open func(without int) (io.ReadCloser, error)) (received int, release func(), err error)
}

// FromText returns what New takes of a model.
func FromText(m *text.Model) Served {
	return Served{Model: textModel{m}, Engine: m.Engine, Vocabulary: m.Tokenizer, Size: m.Size(), Device: m.Device,
		Blocks: func(p *text.Prompt) Blocks { return p.Blocks() }}
}

// textModel is a text.Model whose generations are Generations.
type textModel struct{ *text.Model }

func (m textModel) Generate(ctx context.Context, p *text.Prompt) (Generation, error) {
	g, err := m.Model.Generate(ctx, p)
	if err != nil {
		return nil, err // not g, which would be a Generation that is not nil
	}
	return g, nil
}
