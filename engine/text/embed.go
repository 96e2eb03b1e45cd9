package text

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/sampling"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// EmbedRequest asks for the vector of a text, or of tokens.
type EmbedRequest struct {
	Text       string
	IDs        []int32 // instead of Text, if not nil
	NoSpecial  bool    // the tokenizer puts nothing around Text
	Truncate   int     // only the first so many tokens count, special ones included; 0 is all, -1 as many as the model takes
	Dimensions int     // of the vector, of which the first are kept; 0 is all
	Normalise  *bool   // whether it gets length 1; nil is as the model's makers say
	Origin
}

// Origin says who asks, and of whom.
type Origin struct {
	Priority int
	Tenant   string
	Adapter  string
}

// Embed returns the vector of a text and the number of its tokens. A request that cannot be served is a *RequestError.
func (m *Model) Embed(ctx context.Context, r EmbedRequest) (vector []float32, tokens int, err error) {
	switch {
	case m.pooling != nil:
		return nil, 0, &RequestError{"model", m.pooling.Error()}
	case r.Dimensions < 0 || r.Dimensions > m.Spec.Hidden:
		return nil, 0, &RequestError{"dimensions", fmt.Sprintf("it is %d; the model's vectors have %d", r.Dimensions, m.Spec.Hidden)}
	}
	ids, err := m.embedIDs(r)
	if err != nil {
		return nil, 0, err
	}
	v, err := m.pool(ctx, engine.Request{Prompt: ids, Pool: m.Pooling}, r.Origin)
	if err != nil {
		return nil, 0, err
	}
	if r.Dimensions > 0 {
		v = v[:r.Dimensions]
	}
	if r.Normalise == nil && m.Normalise || r.Normalise != nil && *r.Normalise {
		normalise(v)
	}
	return v, len(ids), nil
}

// normalise brings a vector to length 1, unless it is 0.
func normalise(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	for i, x := range v {
		v[i] = float32(float64(x) / math.Sqrt(sum))
	}
}

// most returns up to how many tokens a prompt is cut, 0 if it is not.
func (m *Model) most(truncate int) (int, error) {
	if truncate == -1 {
		truncate = m.longestSequence() - 1
	}
	if truncate < 0 || truncate > m.Context {
		return 0, &RequestError{"truncate_prompt_tokens", fmt.Sprintf("it is %d; want 1 to %d, or -1 for as many as the model takes", truncate, m.Context)}
	}
	return truncate, nil
}

// embedIDs returns the tokens of a request.
func (m *Model) embedIDs(r EmbedRequest) ([]int32, error) {
	most, err := m.most(r.Truncate)
	if err != nil {
		return nil, err
	}
	ids := r.IDs
	if ids == nil {
		if ids = m.Tokenizer.Encode(r.Text, tokenizer.EncodeOptions{AddSpecial: !r.NoSpecial, ParseSpecial: true}); len(ids) == 0 {
			return nil, &RequestError{"input", "it is empty"}
		}
	}
	if most == 0 || len(ids) <= most {
		return ids, nil
	}
	var suffix []int32
	if r.IDs == nil && !r.NoSpecial {
		_, suffix = m.Tokenizer.Around()
	}
	if len(suffix) >= most {
		return nil, &RequestError{"truncate_prompt_tokens", fmt.Sprintf("it is %d; the model's own tokens around a text need more", most)}
	}
	return slices.Concat(ids[:most-len(suffix)], suffix), nil
}

// Score says how well a text fits a query: the class of a cross-encoder, through a sigmoid where its makers do not say
// otherwise. Models that embed have no score of their own.
func (m *Model) Score(ctx context.Context, query, document string, truncate int, o Origin) (score float32, tokens int, err error) {
	if m.Spec.Classes != 1 {
		return 0, 0, &RequestError{"model", fmt.Sprintf("%s has %d classes; scores are of one", m.Name, m.Spec.Classes)}
	}
	most, err := m.most(truncate)
	if err != nil {
		return 0, 0, err
	}
	ids, types, err := m.Tokenizer.EncodePair(query, document, most)
	if err != nil {
		return 0, 0, &RequestError{"model", err.Error()}
	}
	if m.Spec.TokenTypes < 2 {
		types = nil
	}
	v, err := m.pool(ctx, engine.Request{Prompt: ids, Types: types, Pool: engine.PoolClasses}, o)
	if err != nil {
		return 0, 0, err
	}
	if score = v[0]; m.scores == "sigmoid" {
		score = float32(1 / (1 + math.Exp(-float64(score))))
	}
	return score, len(ids), nil
}

// pool runs a pooled request to its end.
func (m *Model) pool(ctx context.Context, r engine.Request, o Origin) ([]float32, error) {
	if most := m.longestSequence() - 1; len(r.Prompt) > most {
		return nil, &RequestError{"input", fmt.Sprintf("%d tokens; the model takes at most %d (truncate_prompt_tokens cuts them)", len(r.Prompt), most)}
	}
	r.Priority, r.Tenant, r.Adapter = o.Priority, o.Tenant, o.Adapter
	stream, err := m.Engine.Submit(ctx, r)
	if bad := new(sampling.ParamError); errors.As(err, &bad) && bad.Field == "prompt" {
		return nil, &RequestError{"input", bad.Problem}
	}
	if err != nil {
		return nil, blame(err)
	}
	for {
		switch t, err := stream.Next(ctx); {
		case err == io.EOF:
			return stream.Vector(), nil
		case err != nil:
			return nil, err
		case t.Err != nil:
			return nil, t.Err
		}
	}
}
