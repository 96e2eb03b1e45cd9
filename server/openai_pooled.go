package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
)

// openaiPooling begins a request that generates nothing. Its texts are in param, except for one that is in other.
func (s *Server) openaiPooling(ctx context.Context, p *openai.Pooled, param string, texts int, other string) (*pooling, error) {
	params := engine.Params{Priority: value(p.Priority, 0), Tenant: p.User, Salt: p.CacheSalt}
	of := &pooling{params: params, param: param, texts: texts, other: other}
	return s.pool(ctx, of, p.Model, p.TruncatePromptTokens)
}

func pooledUsage(p *pooling) openai.PooledUsage {
	n := int(p.tokens.Load())
	return openai.PooledUsage{PromptTokens: n, TotalTokens: n}
}

// inputs begins a request for what is made of texts, and returns a request for each of these.
func (s *Server) inputs(ctx context.Context, req *openai.Inputs) (*pooling, []text.EmbedRequest, error) {
	p, err := s.openaiPooling(ctx, &req.Pooled, "input", len(req.Input), "messages")
	if err != nil {
		return nil, nil, err
	}
	if len(req.Messages) > 0 {
		ids, err := p.conversation(ctx, req)
		return p, []text.EmbedRequest{{IDs: ids, Truncate: p.truncate}}, err
	}
	var all []text.EmbedRequest
	for _, in := range req.Input {
		all = append(all, text.EmbedRequest{Text: in.Text, IDs: in.IDs, NoSpecial: !value(req.AddSpecialTokens, true),
			Truncate: p.truncate})
	}
	return p, all, nil
}

// conversation returns the tokens of messages, as the chat template writes them.
func (p *pooling) conversation(ctx context.Context, req *openai.Inputs) (ids []int32, err error) {
	r := text.Request{Special: value(req.AddSpecialTokens, false)}
	if r.Chat, err = openai.Conversation(req.Messages, req.AddGenerationPrompt, req.ChatTemplateKwargs); err != nil {
		return nil, err
	}
	if r.Template, err = ownTemplate(req.ChatTemplate); err != nil {
		return nil, err
	}
	return p.served.Model.Encode(ctx, r)
}

// vectors makes the vectors of a request.
func (s *Server) vectors(ctx context.Context, req *openai.EmbeddingRequest) (p *pooling, out []openai.Vector, err error) {
	p, texts, err := s.inputs(ctx, &req.Inputs)
	if err != nil {
		return nil, nil, err
	}
	classes := req.Task == "classify" || req.Task == "" && p.served.Model.Info().CrossEncoder
	out = make([]openai.Vector, len(texts))
	return p, out, p.each(ctx, len(texts), func(ctx context.Context, i int) (err error) {
		out[i].Encoding = req.Encoding
		one := texts[i]
		if one.Dimensions, one.Normalise = value(req.Dimensions, 0), req.Normalize; classes {
			one.Raw = !value(req.UseActivation, true)
			out[i].Values, err = p.classify(ctx, one)
		} else {
			out[i].Values, err = p.embed(ctx, one)
		}
		return err
	})
}

// pooledVectors answers with vectors, as JSON that whole makes of them, or as bytes.
func (s *Server) pooledVectors(decode func([]byte) (*openai.EmbeddingRequest, error), whole func(*pooling, []openai.Vector) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var p *pooling
		var out []openai.Vector
		req, err := read(w, r, decode)
		if err == nil {
			warn(w, req.Ignored)
			p, out, err = s.vectors(r.Context(), req)
		}
		switch {
		case err != nil:
			s.fail(w, r, err)
		case req.Format == "bytes":
			writeVectors(w, p, out)
		default:
			s.write(w, http.StatusOK, whole(p, out))
		}
	}
}

// writeVectors answers with the bytes of vectors. The header Metadata says where each one is, as with vLLM.
func writeVectors(w http.ResponseWriter, p *pooling, vectors []openai.Vector) {
	about := openai.VectorBytes{ID: "embd-" + rand.Text(), Created: time.Now().Unix(), Model: p.name(), Usage: pooledUsage(p)}
	var body []byte
	for i, v := range vectors {
		start := len(body)
		body = v.Append(body)
		order := v.Endianness
		if order != "big" {
			order = "little"
		}
		about.Data = append(about.Data, openai.VectorPlace{Index: i, EmbedDtype: cmp.Or(v.EmbedDtype, "float32"), Endianness: order,
			Start: start, End: len(body), Shape: []int{len(v.Values)}})
	}
	head, err := wire.Encode(about)
	if err != nil { // all members are of the kinds that encoding/json takes
		panic(err)
	}
	w.Header().Set("Metadata", strings.TrimSpace(string(head)))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

func embeddingsOf(p *pooling, vectors []openai.Vector) any {
	out := openai.EmbeddingResponse{Object: openai.ObjectList, Model: p.name(), Usage: pooledUsage(p)}
	for i, v := range vectors {
		out.Data = append(out.Data, openai.Embedding{Object: openai.ObjectEmbedding, Index: i, Embedding: v})
	}
	return out
}

func pooledOf(p *pooling, vectors []openai.Vector) any {
	out := openai.PoolingResponse{ID: "pool-" + rand.Text(), Object: openai.ObjectList, Created: time.Now().Unix(), Model: p.name(),
		Usage: pooledUsage(p)}
	for i, v := range vectors {
		out.Data = append(out.Data, openai.PooledOne{Index: i, Object: "pooling", Data: v})
	}
	return out
}

func (s *Server) classify(ctx context.Context, req *openai.Inputs) (out openai.ClassifyResponse, err error) {
	p, texts, err := s.inputs(ctx, req)
	if err != nil {
		return out, err
	}
	labels := p.served.Model.Info().Labels
	out = openai.ClassifyResponse{ID: "classify-" + rand.Text(), Object: openai.ObjectList, Created: time.Now().Unix(),
		Model: p.name(), Data: make([]openai.Classes, len(texts))}
	err = p.each(ctx, len(texts), func(ctx context.Context, i int) (err error) {
		one := texts[i]
		one.Raw = !value(req.UseActivation, true)
		probs, err := p.classify(ctx, one)
		if err != nil {
			return err
		}
		c := openai.Classes{Index: i, Probs: probs, Number: len(probs)}
		if best := slices.Index(probs, slices.Max(probs)); best < len(labels) && labels[best] != "" {
			c.Label = &labels[best]
		}
		out.Data[i] = c
		return nil
	})
	out.Usage = pooledUsage(p)
	return out, err
}

// classify returns a text's classes and counts its tokens.
func (p *pooling) classify(ctx context.Context, r text.EmbedRequest) (v []float32, err error) {
	r.Params = p.params
	return v, p.one(ctx, &r.Times, func() (n int, err error) {
		v, n, err = p.served.Model.Classify(ctx, r)
		return n, err
	})
}

func (s *Server) rerank(ctx context.Context, req *openai.RerankRequest) (out openai.RerankResponse, err error) {
	p, results, err := s.ranked(ctx, req)
	if err == nil {
		out = openai.RerankResponse{ID: "rerank-" + rand.Text(), Model: p.name(), Usage: pooledUsage(p), Results: results}
	}
	return out, err
}

// ranked scores documents, and returns the best ones in order.
func (s *Server) ranked(ctx context.Context, req *openai.RerankRequest) (*pooling, []openai.RerankResult, error) {
	p, err := s.openaiPooling(ctx, &req.Pooled, "documents", len(req.Documents), "query")
	if err != nil {
		return nil, nil, err
	}
	p.perDoc, p.raw = req.MaxTokensPerDoc, !value(req.UseActivation, true)
	scores, err := p.scores(ctx, []string{req.Query}, req.Documents)
	if err != nil {
		return nil, nil, err
	}
	var all []openai.RerankResult
	for i, score := range scores {
		result := openai.RerankResult{Index: i, Score: score}
		if value(req.ReturnDocuments, true) {
			result.Document = &openai.Document{Text: req.Documents[i]}
		}
		all = append(all, result)
	}
	slices.SortStableFunc(all, func(a, b openai.RerankResult) int { return cmp.Compare(b.Score, a.Score) })
	if n := value(req.TopN, 0); n > 0 { // 0 is all, as with vLLM
		all = all[:min(n, len(all))]
	}
	return p, all, nil
}

func (s *Server) score(ctx context.Context, req *openai.ScoreRequest) (out openai.ScoreResponse, err error) {
	p, err := s.openaiPooling(ctx, &req.Pooled, req.Second, len(req.Text2), req.First)
	if err != nil {
		return out, err
	}
	p.raw = !value(req.UseActivation, true)
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
