package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// pooling is a request that generates nothing, on its way: its texts are computed together.
type pooling struct {
	served   *Served
	origin   text.Origin
	truncate int
	param    string // where its texts stand in the request, of which there are so many
	texts    int
	other    string       // where one stands that comes after these
	tokens   atomic.Int64 // of all its texts
}

func (s *Server) newPooling(p *openai.Pooled, param string, texts int, other string) (*pooling, error) {
	m, adapter, err := s.lookup(p.Model)
	if err != nil {
		return nil, err
	}
	truncate := value(p.TruncatePromptTokens, 0)
	if truncate == 0 && p.TruncatePromptTokens != nil {
		return nil, &text.RequestError{Field: "truncate_prompt_tokens", Problem: "it is 0; want at least 1, or -1 for as many as the model takes"}
	}
	return &pooling{served: m, truncate: truncate, param: param, texts: texts, other: other,
		origin: text.Origin{Priority: value(p.Priority, 0), Tenant: p.User, Adapter: adapter}}, nil
}

// field names the request's i-th text.
func (p *pooling) field(i int) string {
	if i >= p.texts {
		return p.other
	}
	return fmt.Sprintf("%s[%d]", p.param, i)
}

// name returns the name that answers tell.
func (p *pooling) name() string { return cmp.Or(p.origin.Adapter, p.served.Model.Info().Name) }

func (p *pooling) usage() openai.PooledUsage {
	n := int(p.tokens.Load())
	return openai.PooledUsage{PromptTokens: n, TotalTokens: n}
}

// atOnce is how many texts of one request the engine is given at once.
const atOnce = 64

// each runs f for 0 to n-1, some at once, and returns the first error, upon which the others are told to end.
func (p *pooling) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				err := f(ctx, i)
				if bad := new(text.RequestError); errors.As(err, &bad) && bad.Field == "input" {
					err = &text.RequestError{Field: p.field(i), Problem: bad.Problem}
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// embed returns a text's vector and counts its tokens.
func (p *pooling) embed(ctx context.Context, r text.EmbedRequest) ([]float32, error) {
	r.Truncate, r.Origin = p.truncate, p.origin
	v, n, err := p.served.Model.Embed(ctx, r)
	p.tokens.Add(int64(n))
	return v, err
}

// scores returns how well each pair fits: by a cross-encoder, or as the cosine of their embeddings. One first text goes with
// all the second.
func (p *pooling) scores(ctx context.Context, first, second []string) ([]float32, error) {
	out := make([]float32, len(second))
	if p.served.Model.Info().CrossEncoder {
		return out, p.each(ctx, len(second), func(ctx context.Context, i int) error {
			score, n, err := p.served.Model.Score(ctx, first[i%len(first)], second[i], p.truncate, p.origin)
			out[i] = score
			p.tokens.Add(int64(n))
			return err
		})
	}
	texts, length := slices.Concat(second, first), true
	vectors := make([][]float32, len(texts))
	err := p.each(ctx, len(texts), func(ctx context.Context, i int) (err error) {
		vectors[i], err = p.embed(ctx, text.EmbedRequest{Text: texts[i], Normalise: &length})
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
func pooled[Request, Response any](s *Server, decode func([]byte) (*Request, error), f func(context.Context, *Request) (Response, error)) http.HandlerFunc {
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

func (s *Server) embeddings(ctx context.Context, req *openai.EmbeddingRequest) (out openai.EmbeddingResponse, err error) {
	p, err := s.newPooling(&req.Pooled, "input", len(req.Input), "")
	if err != nil {
		return out, err
	}
	out.Object, out.Model, out.Data = openai.ObjectList, p.name(), make([]openai.Embedding, len(req.Input))
	err = p.each(ctx, len(req.Input), func(ctx context.Context, i int) error {
		in := req.Input[i]
		v, err := p.embed(ctx, text.EmbedRequest{Text: in.Text, IDs: in.IDs, NoSpecial: !value(req.AddSpecialTokens, true),
			Dimensions: value(req.Dimensions, 0), Normalise: req.Normalize})
		vector := openai.Vector{Values: v, Base64: req.EncodingFormat == "base64"}
		out.Data[i] = openai.Embedding{Object: openai.ObjectEmbedding, Index: i, Embedding: vector}
		return err
	})
	out.Usage = p.usage()
	return out, err
}

func (s *Server) rerank(ctx context.Context, req *openai.RerankRequest) (out openai.RerankResponse, err error) {
	p, err := s.newPooling(&req.Pooled, "documents", len(req.Documents), "query")
	if err != nil {
		return out, err
	}
	scores, err := p.scores(ctx, []string{req.Query}, req.Documents)
	if err != nil {
		return out, err
	}
	out.ID, out.Model, out.Usage = "rerank-"+rand.Text(), p.name(), p.usage()
	for i, score := range scores {
		result := openai.RerankResult{Index: i, Score: score}
		if value(req.ReturnDocuments, true) {
			result.Document = &openai.Document{Text: req.Documents[i]}
		}
		out.Results = append(out.Results, result)
	}
	slices.SortStableFunc(out.Results, func(a, b openai.RerankResult) int { return cmp.Compare(b.Score, a.Score) })
	if n := value(req.TopN, 0); n > 0 { // 0 is all, as with vLLM
		out.Results = out.Results[:min(n, len(out.Results))]
	}
	return out, nil
}

func (s *Server) score(ctx context.Context, req *openai.ScoreRequest) (out openai.ScoreResponse, err error) {
	p, err := s.newPooling(&req.Pooled, "text_2", len(req.Text2), "text_1")
	if err != nil {
		return out, err
	}
	scores, err := p.scores(ctx, req.Text1, req.Text2)
	if err != nil {
		return out, err
	}
	out.ID, out.Object, out.Created, out.Model, out.Usage = "score-"+rand.Text(), openai.ObjectList, time.Now().Unix(), p.name(), p.usage()
	for i, score := range scores {
		out.Data = append(out.Data, openai.Score{Index: i, Object: openai.ObjectScore, Score: score})
	}
	return out, nil
}
