package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/guard"
	"github.com/kvasir-llm/kvasir/trace"
)

// pooling is a request that generates nothing. Its texts are computed together.
type pooling struct {
	served   *Served
	params   engine.Params
	truncate int
	perDoc   int          // most tokens of each document that is scored; 0 is all
	raw      bool         // scores go through nothing
	param    string       // the field that holds its texts
	texts    int          // how many that field holds
	other    string       // the field of the text after these, if there is one
	tokens   atomic.Int64 // of all its texts
	traced   atomic.Int64 // texts with a span, and those that would have one if there were fewer
}

// pool finds the model that a pooling is of. truncate is that of text.EmbedRequest; nil is all.
func (s *Server) pool(ctx context.Context, p *pooling, model string, truncate *int) (_ *pooling, err error) {
	if p.served, p.params.Adapter, err = s.lookup(ctx, model); err != nil {
		return nil, err
	}
	if truncate != nil && *truncate == 0 {
		return nil, fault.New(text.FieldTruncate, "it is 0; want at least 1, or -1 for as many as the model takes")
	}
	p.truncate = value(truncate, 0)
	trace.From(ctx).Set(trace.Attr{Key: "gen_ai.request.model", Value: p.name()})
	return p, nil
}

// field names the request's i-th text.
func (p *pooling) field(i int) string {
	if i >= p.texts {
		return p.other
	}
	return fmt.Sprintf("%s[%d]", p.param, i)
}

// name returns what answers call the model.
func (p *pooling) name() string { return cmp.Or(p.params.Adapter, p.served.Model.Info().Name) }

// atOnce is how many texts of one request the engine is given at once.
const atOnce = 64

// each runs f for 0 to n-1, some at once, and returns the first error, upon which the others are told to end.
func (p *pooling) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, atOnce) {
		wg.Add(1)
		guard.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				err := f(ctx, i)
				if bad := new(fault.Error); errors.As(err, &bad) && bad.Field == text.FieldText {
					err = refuse(http.StatusBadRequest, p.field(i), wire.CodeInvalidValue, "%s: %s", p.field(i), bad.Problem)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}, func(err error) {
			if err != nil {
				cancel(err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	trace.From(ctx).Set(trace.Attr{Key: "gen_ai.usage.input_tokens", Value: p.tokens.Load()})
	return context.Cause(ctx)
}

// embed returns a text's vector and counts its tokens.
func (p *pooling) embed(ctx context.Context, r text.EmbedRequest) (v []float32, err error) {
	r.Params = p.params
	return v, p.one(ctx, &r.Times, func() (n int, err error) {
		v, n, err = p.served.Model.Embed(ctx, r)
		return n, err
	})
}

// scores returns how well each pair fits: by a cross-encoder, or as the cosine of their embeddings. A single first text
// is paired with every second one.
func (p *pooling) scores(ctx context.Context, first, second []string) ([]float32, error) {
	out := make([]float32, len(second))
	if p.served.Model.Info().CrossEncoder {
		return out, p.each(ctx, len(second), func(ctx context.Context, i int) error {
			r := text.ScoreRequest{Query: first[i%len(first)], Document: second[i],
				Truncate: p.truncate, DocumentTokens: p.perDoc, Raw: p.raw, Params: p.params}
			return p.one(ctx, &r.Times, func() (n int, err error) {
				out[i], n, err = p.served.Model.Score(ctx, r)
				return n, err
			})
		})
	}
	if p.raw {
		return nil, wire.Invalid("use_activation", wire.CodeInvalidValue, "%s scores by its embeddings, which have no logits", p.name())
	}
	texts, length := slices.Concat(second, first), true
	vectors := make([][]float32, len(texts))
	err := p.each(ctx, len(texts), func(ctx context.Context, i int) (err error) {
		r := text.EmbedRequest{Text: texts[i], Normalise: &length, Truncate: p.truncate}
		if p.perDoc > 0 && i < len(second) && (r.Truncate <= 0 || p.perDoc < r.Truncate) {
			r.Truncate = p.perDoc
		}
		vectors[i], err = p.embed(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range second {
		cosine := 0.0
		for k, x := range vectors[i] {
			cosine += float64(x) * float64(vectors[len(second)+i%len(first)][k])
		}
		out[i] = float32(cosine)
	}
	return out, nil
}

// pooled answers with what f makes of a request.
func pooled[Request, Response any](s *Server, decode func([]byte) (*Request, error), f func(context.Context,
	*Request) (Response, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := read(w, r, decode)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		out, err := f(r.Context(), req)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.write(w, http.StatusOK, out)
	}
}
