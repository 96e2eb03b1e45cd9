package text

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/tokenizer"
)

// EmbedRequest asks for the vector of a text, or of tokens.
type EmbedRequest struct {
	Text          string
	IDs           []int32       // instead of Text, if not nil
	NoSpecial     bool          // the tokenizer puts nothing around Text
	Truncate      int           // most tokens, special ones included; 0 is all, -1 what the model takes
	Dimensions    int           // of the vector, of which the first are kept; 0 is all
	Normalise     *bool         // whether it gets length 1; nil is as the model's makers say
	Raw           bool          // of Classify: the logits of the classes, through nothing
	Times         *engine.Times // is set to when it came to the engine and began, if not nil
	engine.Params               // only those count that say when the request is served, and by which adapter
}

// ScoreRequest asks how well a document fits a query.
type ScoreRequest struct {
	Query, Document string
	Truncate        int           // as in EmbedRequest, of both together: the document loses its end
	DocumentTokens  int           // most tokens of the document; 0 is all
	Raw             bool          // the logit of the class, through nothing
	Times           *engine.Times // as in EmbedRequest
	engine.Params                 // as in EmbedRequest
}

// Embed returns the vector of a text and the number of its tokens. A request that cannot be served is a *fault.Error.
func (m *Model) Embed(ctx context.Context, r EmbedRequest) (vector []float32, tokens int, err error) {
	switch {
	case m.pooling != nil:
		return nil, 0, &fault.Error{Field: FieldModel, Problem: m.pooling.Error()}
	case r.Dimensions < 0 || r.Dimensions > m.Spec.Hidden:
		return nil, 0, fault.New(FieldDimensions, "is %d; the model's vectors have %d", r.Dimensions, m.Spec.Hidden)
	case r.Dimensions > 0 && r.Dimensions < m.Spec.Hidden && !m.embedder:
		return nil, 0, fault.New(FieldDimensions, "is %d; %s was not made for embeddings, and the first values of its vectors "+
			"mean nothing", r.Dimensions, m.Name)
	}
	ids, err := m.embedIDs(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	v, err := m.pool(ctx, engine.Request{Prompt: ids, Pool: m.Pooling, Params: r.Params}, r.Times)
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
		return 0, fault.New(FieldTruncate, "is %d; want 1 to %d, or -1 for as many as the model takes", truncate, m.Context)
	}
	return truncate, nil
}

// fit returns what of a text can matter where it is cut to most tokens: 4 times the bytes that these can have, since
// normalizers may take some away. Without a limit, a text that is longer than the context can hold is refused.
func (m *Model) fit(text string, most int) (string, error) {
	switch limit := 4 * most * m.longest; {
	case most == 0 && len(text) > m.mostBytes():
		return "", m.tooLong(FieldText, len(text))
	case most > 0 && len(text) > limit:
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text = text[:limit]
	}
	return text, nil
}

// embedIDs returns the tokens of a request.
func (m *Model) embedIDs(ctx context.Context, r EmbedRequest) ([]int32, error) {
	most, err := m.most(r.Truncate)
	if err != nil {
		return nil, err
	}
	ids := r.IDs
	if ids == nil {
		text, err := m.fit(r.Text, most)
		if err != nil {
			return nil, err
		}
		release, err := m.work.Acquire(ctx, costPerByte*int64(len(text)))
		if err != nil {
			return nil, err
		}
		defer release()
		ids, err = m.encode(ctx, FieldText, text, tokenizer.EncodeOptions{AddSpecial: !r.NoSpecial, ParseSpecial: true})
		if err != nil {
			return nil, err
		}
		if len(ids) == 0 {
			return nil, fault.New(FieldText, "is empty")
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
		return nil, fault.New(FieldTruncate, "is %d; the model's own tokens around a text need more", most)
	}
	return slices.Concat(ids[:most-len(suffix)], suffix), nil
}

// Score says how well a text fits a query: the class of a cross-encoder, through a sigmoid where its makers do not say
// otherwise. Models that embed have no score of their own.
func (m *Model) Score(ctx context.Context, r ScoreRequest) (score float32, tokens int, err error) {
	if m.Spec.Classes != 1 {
		return 0, 0, fault.New(FieldModel, "%s has %d classes; scores are of one", m.Name, m.Spec.Classes)
	}
	most, err := m.most(r.Truncate)
	if err != nil {
		return 0, 0, err
	}
	ids, types, err := m.pairIDs(ctx, r, most)
	if err != nil {
		return 0, 0, err
	}
	if m.Spec.TokenTypes < 2 {
		types = nil
	}
	v, err := m.pool(ctx, engine.Request{Prompt: ids, Types: types, Pool: engine.PoolClasses, Params: r.Params}, r.Times)
	if err != nil {
		return 0, 0, err
	}
	if score = v[0]; m.scores == "sigmoid" && !r.Raw {
		score = sigmoid(score)
	}
	return score, len(ids), nil
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

// Classify returns the probabilities of a text's classes, and the number of its tokens. That of a single class goes
// through what Score's goes through.
func (m *Model) Classify(ctx context.Context, r EmbedRequest) (classes []float32, tokens int, err error) {
	if m.Spec.Classes == 0 {
		return nil, 0, fault.New(FieldModel, "%s has no classes", m.Name)
	}
	ids, err := m.embedIDs(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	v, err := m.pool(ctx, engine.Request{Prompt: ids, Pool: engine.PoolClasses, Params: r.Params}, r.Times)
	switch {
	case err != nil:
		return nil, 0, err
	case r.Raw:
	case len(v) > 1:
		softmax(v)
	case m.scores == "sigmoid":
		v[0] = sigmoid(v[0])
	}
	return v, len(ids), nil
}

func softmax(v []float32) {
	most, sum := slices.Max(v), 0.0
	for _, x := range v {
		sum += math.Exp(float64(x - most))
	}
	for i, x := range v {
		v[i] = float32(math.Exp(float64(x-most)) / sum)
	}
}

// pairIDs returns the tokens of a pair of texts and their types. Only the document is ever cut.
func (m *Model) pairIDs(ctx context.Context, r ScoreRequest, most int) (ids, types []int32, err error) {
	query, err := m.fit(r.Query, 0)
	if err != nil {
		return nil, nil, err
	}
	if r.DocumentTokens > 0 && r.DocumentTokens <= m.Context {
		alone, _, err := m.pairIDs(ctx, ScoreRequest{Query: query}, 0)
		if err != nil {
			return nil, nil, err
		}
		if most == 0 || len(alone)+r.DocumentTokens < most {
			most = len(alone) + r.DocumentTokens
		}
	}
	document, err := m.fit(r.Document, most)
	if err != nil {
		return nil, nil, err
	}
	release, err := m.work.Acquire(ctx, costPerByte*int64(len(query)+len(document)))
	if err != nil {
		return nil, nil, err
	}
	defer release()
	ids, types, err = m.Tokenizer.EncodePair(ctx, query, document, most)
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case errors.Is(err, tokenizer.ErrNoPairs):
		return nil, nil, &fault.Error{Field: FieldModel, Problem: err.Error()}
	case err != nil:
		return nil, nil, &fault.Error{Field: FieldText, Problem: err.Error()}
	}
	return ids, types, nil
}

// pool runs a pooled request to its end, and sets times unless that is nil.
func (m *Model) pool(ctx context.Context, r engine.Request, times *engine.Times) ([]float32, error) {
	r.Adapter = cmp.Or(r.Adapter, m.ownAdapter)
	if most := m.longestSequence() - 1; len(r.Prompt) > most {
		return nil, fault.New(FieldText, "has %d tokens; the model takes at most %d, and a longer text has to be truncated",
			len(r.Prompt), most)
	}
	stream, err := m.Engine.Submit(ctx, r)
	if bad := new(fault.Error); errors.As(err, &bad) && bad.Field == engine.FieldPrompt {
		return nil, &fault.Error{Field: FieldText, Problem: bad.Problem}
	}
	if err != nil {
		return nil, err
	}
	if times != nil {
		defer func() { *times = stream.Times() }()
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
