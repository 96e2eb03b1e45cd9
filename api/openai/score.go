package openai

import "github.com/kvasir-llm/kvasir/api/wire"

// RerankRequest asks which documents fit a query best, as Jina's, Cohere's and vLLM's servers are asked.
type RerankRequest struct {
	Pooled
	Query           string   `json:"query"`
	Documents       []string `json:"documents"` // on the wire also as objects with a text
	TopN            *int     `json:"top_n,omitempty"`
	ReturnDocuments *bool    `json:"return_documents,omitempty"` // default true
	MaxTokensPerDoc int      `json:"max_tokens_per_doc,omitempty"`
	UseActivation   *bool    `json:"use_activation,omitempty"` // default true; false is the logits of a cross-encoder
}

// ScoreRequest asks how well texts fit each other: one text with each of many, or as many with as many, in pairs.
type ScoreRequest struct {
	Pooled
	Text1         []string `json:"text_1"` // on the wire also a string, as is Text2, and called queries
	Text2         []string `json:"text_2"` // or documents
	UseActivation *bool    `json:"use_activation,omitempty"`

	First, Second string `json:"-"` // what the request calls the texts
}

// DecodeRerank reads the body of a request to rerank.
func DecodeRerank(body []byte) (*RerankRequest, error) {
	r, asked := &RerankRequest{}, false
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "query":
			r.Query, err = c.Text()
			asked = true
		case "documents":
			r.Documents, err = documents(c)
		case "top_n":
			r.TopN, err = wire.Optional(c.IntIn(0, maxInt32))
		case "return_documents":
			r.ReturnDocuments, err = wire.Optional(c.Bool())
		case "max_tokens_per_doc":
			r.MaxTokensPerDoc, err = c.IntIn(1, maxInt32)
		case "use_activation":
			r.UseActivation, err = wire.Optional(c.Bool())
		default:
			err = r.Pooled.field(c, key)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !asked:
		return nil, wire.Missing("query", "a string")
	case len(r.Documents) == 0:
		return nil, wire.Missing("documents", "an array of strings, or of objects with a text")
	}
	return r, nil
}

// DecodeScore reads the body of a request for scores.
func DecodeScore(body []byte) (*ScoreRequest, error) {
	r := &ScoreRequest{First: "text_1", Second: "text_2"}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "text_1", "queries":
			err = r.texts(c, key, &r.First, &r.Text1)
		case "text_2", "documents":
			err = r.texts(c, key, &r.Second, &r.Text2)
		case "use_activation":
			r.UseActivation, err = wire.Optional(c.Bool())
		default:
			err = r.Pooled.field(c, key)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(r.Text1) == 0:
		return nil, wire.Missing(r.First, "a string or an array of strings")
	case len(r.Text2) == 0:
		return nil, wire.Missing(r.Second, "a string or an array of strings")
	case len(r.Text1) > 1 && len(r.Text1) != len(r.Text2):
		return nil, wire.Invalid(r.Second, wire.CodeInvalidValue, "%d texts for %d of %s; want as many, or one of %s",
			len(r.Text2), len(r.Text1), r.First, r.First)
	}
	return r, nil
}

// texts reads the texts of one side, which may be given under one of its names.
func (r *ScoreRequest) texts(c *wire.Cursor, key string, name *string, into *[]string) (err error) {
	if *into != nil {
		return c.Wrong("given as %s, too", *name)
	}
	*name = key
	if c.Peek() == '"' {
		s, err := c.Text()
		*into = []string{s}
		return err
	}
	*into, err = documents(c)
	return err
}

// documents reads an array of strings or of objects with a text and nothing else.
func documents(c *wire.Cursor) ([]string, error) {
	return listed(c, "an array of strings, or of objects with a text", func() (s string, err error) {
		if c.Peek() != '{' {
			return c.Text()
		}
		given := false
		err = c.Object(func(key string) error {
			if key != "text" {
				return c.Unsupported()
			}
			given = true
			s, err = c.Text()
			return err
		})
		if err == nil && !given {
			err = c.Wrong("expected a text")
		}
		return s, err
	})
}

// listed reads an array of at most MaxInputs texts.
func listed(c *wire.Cursor, expected string, one func() (string, error)) ([]string, error) {
	var list []string
	err := c.Array(expected, func(i int) error {
		if i == MaxInputs {
			return c.Wrong("at most %d texts are allowed", MaxInputs)
		}
		s, err := one()
		list = append(list, s)
		return err
	})
	return list, err
}

// RerankResponse is the answer to a request to rerank, the best document first.
type RerankResponse struct {
	ID      string         `json:"id"`
	Model   string         `json:"model"`
	Usage   PooledUsage    `json:"usage"`
	Results []RerankResult `json:"results"`
}

// RerankResult is what a document got.
type RerankResult struct {
	Index    int       `json:"index"` // of the request's documents
	Document *Document `json:"document,omitempty"`
	Score    float32   `json:"relevance_score"`
}

// Document is a text that was ranked.
type Document struct {
	Text string `json:"text"`
}

// ScoreResponse is the answer to a request for scores, in the order of the pairs.
type ScoreResponse struct {
	ID      string      `json:"id"`
	Object  string      `json:"object"` // ObjectList
	Created int64       `json:"created"`
	Model   string      `json:"model"`
	Data    []Score     `json:"data"`
	Usage   PooledUsage `json:"usage"`
}

// Score is that of one pair.
type Score struct {
	Index  int     `json:"index"`
	Object string  `json:"object"` // ObjectScore
	Score  float32 `json:"score"`
}
