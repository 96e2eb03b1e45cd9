package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// openaiPooling begins a request that generates nothing. Its texts are in param, except for one that is in other.
func (s *Server) openaiPooling(ctx context.Context, p *openai.Pooled, param string, texts int, other string) (*pooling, error) {
	params := engine.Params{Priority: value(p.Priority, 0), Tenant: p.User}
	of := &pooling{params: params, param: param, texts: texts, other: other}
	return s.pool(ctx, of, p.Model, p.TruncatePromptTokens)
}

func pooledUsage(p *pooling) openai.PooledUsage {
	n := int(p.tokens.Load())
	return openai.PooledUsage{PromptTokens: n, TotalTokens: n}
}

func (s *Server) embeddings(ctx context.Context, req *openai.EmbeddingRequest) (out openai.EmbeddingResponse,
	err error) {
	p, err := s.openaiPooling(ctx, &req.Pooled, "input", len(req.Input), "")
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
	out.Usage = pooledUsage(p)
	return out, err
}

func (s *Server) rerank(ctx context.Context, req *openai.RerankRequest) (out openai.RerankResponse, err error) {
	p, err := s.openaiPooling(ctx, &req.Pooled, "documents", len(req.Documents), "query")
	if err != nil {
		return out, err
	}
	scores, err := p.scores(ctx, []string{req.Query}, req.Documents)
	if err != nil {
		return out, err
	}
	out.ID, out.Model, out.Usage = "rerank-"+rand.Text(), p.name(), pooledUsage(p)
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
	p, err := s.openaiPooling(ctx, &req.Pooled, "text_2", len(req.Text2), "text_1")
	if err != nil {
		return out, err
	}
	scores, err := p.scores(ctx, req.Text1, req.Text2)
	if err != nil {
		return out, err
	}
	out.ID, out.Object, out.Created, out.Model, out.Usage = "score-"+rand.Text(), openai.ObjectList, time.Now().Unix(),
		p.name(), pooledUsage(p)
	for i, score := range scores {
		out.Data = append(out.Data, openai.Score{Index: i, Object: openai.ObjectScore, Score: score})
	}
	return out, nil
}
