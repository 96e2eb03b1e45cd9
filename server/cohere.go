package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/api/openai"
	"github.com/kvasir-llm/kvasir/api/wire"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/fault"
)

// cohereAPI is what Cohere's API has for embeddings and scores, version 2.
func cohereAPI() *dialect {
	return &dialect{
		names: map[fault.Field]string{text.FieldText: "texts", text.FieldDimensions: "output_dimension",
			text.FieldTruncate: "max_tokens", engine.FieldAdapter: "model"},
		fail:  func(f *failure) any { return cohereError{f.id, f.message} },
		title: "Cohere", replies: map[string]reply{"/v2/rerank": {whole: cohereRanked{}}, "/v2/embed": {whole: cohereEmbedded{}}},
		routes: func(s *Server) map[string]route {
			return map[string]route{
				"/v2/rerank": {"POST", pooled(s, decodeCohereRerank, s.cohereRerank), clients, "Cohere: documents, by how well they fit a query"},
				"/v2/embed":  {"POST", pooled(s, decodeCohereEmbed, s.cohereEmbed), clients, "Cohere: the vectors of texts"},
			}
		},
	}
}

type cohereError struct {
	ID      string `json:"id"`
	Message string `json:"message"`
}

// cohereMeta says what a request took.
type cohereMeta struct {
	API struct {
		Version string `json:"version"`
	} `json:"api_version"`
	Billed struct {
		Tokens int `json:"input_tokens"`
	} `json:"billed_units"`
}

func newCohereMeta(p *pooling) (m cohereMeta) {
	m.API.Version, m.Billed.Tokens = "2", int(p.tokens.Load())
	return m
}

// cohereRanked is the answer of /v2/rerank, the best document first.
type cohereRanked struct {
	ID      string         `json:"id"`
	Results []cohereResult `json:"results"`
	Meta    cohereMeta     `json:"meta"`
}

type cohereResult struct {
	Index int     `json:"index"`
	Score float32 `json:"relevance_score"`
}

// decodeCohereRerank reads a request to rerank, which has other usual values and no document in its answer.
func decodeCohereRerank(body []byte) (*openai.RerankRequest, error) { return openai.DecodeRerank(body) }

func (s *Server) cohereRerank(ctx context.Context, req *openai.RerankRequest) (out cohereRanked, err error) {
	p, ranked, err := s.ranked(ctx, req)
	if err != nil {
		return out, err
	}
	out.ID, out.Meta = rand.Text(), newCohereMeta(p)
	for _, r := range ranked {
		out.Results = append(out.Results, cohereResult{r.Index, r.Score})
	}
	return out, nil
}

// cohereEmbedding asks for vectors in some types.
type cohereEmbedding struct {
	model      string
	texts      []string
	kinds      []string // "float", "base64", "binary" or "ubinary"
	dimensions int      // 0 is all
	truncate   string   // "NONE" or "END"
	most       int      // tokens; 0 is what the model takes
}

func decodeCohereEmbed(body []byte) (*cohereEmbedding, error) {
	e, purpose := &cohereEmbedding{truncate: "END"}, ""
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "model":
			e.model, err = c.Label(openai.MaxLabel)
		case "texts":
			err = c.Array("an array of strings", func(i int) error {
				if i == openai.MaxInputs {
					return c.Wrong("at most %d texts are allowed", openai.MaxInputs)
				}
				s, err := c.Text()
				e.texts = append(e.texts, s)
				return err
			})
		case "input_type": // what hosted models are told beside a text
			purpose, err = word(c, "search_document", "search_query", "classification", "clustering")
		case "embedding_types":
			err = c.Array("an array of types", func(int) error {
				kind, err := word(c, "float", "base64", "binary", "ubinary")
				e.kinds = append(e.kinds, kind)
				return err
			})
		case "output_dimension":
			e.dimensions, err = c.IntIn(1, math.MaxInt32)
		case "truncate":
			e.truncate, err = word(c, "NONE", "END")
		case "max_tokens":
			e.most, err = c.IntIn(1, math.MaxInt32)
		default:
			err = c.Unsupported()
		}
		return err
	})
	if e.kinds == nil {
		e.kinds = []string{"float"}
	}
	switch {
	case err != nil:
		return nil, err
	case purpose == "":
		return nil, wire.Missing("input_type", "search_document, search_query, classification or clustering")
	case len(e.texts) == 0:
		return nil, wire.Missing("texts", "an array of strings")
	}
	return e, nil
}

// word reads one of some words.
func word(c *wire.Cursor, allowed ...string) (string, error) {
	s, err := c.Text()
	if err == nil && !slices.Contains(allowed, s) {
		err = c.Wrong("expected one of %v, found %q", allowed, wire.Clip([]byte(s)))
	}
	return s, err
}

// cohereEmbedded is the answer of /v2/embed.
type cohereEmbedded struct {
	ID         string        `json:"id"`
	Type       string        `json:"response_type"`
	Embeddings cohereVectors `json:"embeddings"`
	Texts      []string      `json:"texts"`
	Meta       cohereMeta    `json:"meta"`
}

// cohereVectors are the vectors in the types that were asked for. Those of one bit have that of the first number as the
// highest bit of the first byte.
type cohereVectors struct {
	Float   [][]float32 `json:"float,omitempty"`
	Base64  []string    `json:"base64,omitempty"` // of float32 in little-endian order
	Binary  [][]int     `json:"binary,omitempty"` // signed bytes
	UBinary [][]int     `json:"ubinary,omitempty"`
}

func (s *Server) cohereEmbed(ctx context.Context, e *cohereEmbedding) (out cohereEmbedded, err error) {
	cut := cmp.Or(e.most, -1)
	truncate := &cut
	if e.truncate == "NONE" && e.most == 0 {
		truncate = nil
	}
	p, err := s.pool(ctx, &pooling{param: "texts", texts: len(e.texts)}, e.model, truncate)
	if err != nil {
		return out, err
	}
	all := make([][]float32, len(e.texts))
	err = p.each(ctx, len(all), func(ctx context.Context, i int) (err error) {
		all[i], err = p.embed(ctx, text.EmbedRequest{Text: e.texts[i], Truncate: p.truncate, Dimensions: e.dimensions})
		return err
	})
	if err != nil {
		return out, err
	}
	out = cohereEmbedded{ID: rand.Text(), Type: "embeddings_by_type", Texts: e.texts, Meta: newCohereMeta(p)}
	for _, v := range all {
		out.Embeddings.add(v, e.kinds)
	}
	return out, nil
}

// add adds a vector in each type.
func (c *cohereVectors) add(v []float32, kinds []string) {
	for i, kind := range kinds {
		switch {
		case slices.Contains(kinds[:i], kind): // given twice
		case kind == "float":
			c.Float = append(c.Float, v)
		case kind == "base64":
			c.Base64 = append(c.Base64, base64.StdEncoding.EncodeToString(openai.Vector{Values: v}.Append(nil)))
		case kind == "binary":
			c.Binary = append(c.Binary, bitsOf(v, 128))
		case kind == "ubinary":
			c.UBinary = append(c.UBinary, bitsOf(v, 0))
		}
	}
}

// bitsOf packs which numbers are above 0, eight to a byte, less an offset.
func bitsOf(v []float32, offset int) []int {
	out := make([]int, (len(v)+7)/8)
	for i, x := range v {
		if x > 0 {
			out[i/8] |= 0x80 >> (i % 8)
		}
	}
	for i := range out {
		out[i] -= offset
	}
	return out
}
