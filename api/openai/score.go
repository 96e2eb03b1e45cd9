package openai

import "github.com/kvasir-llm/kvasir/api/wire"

// RerankRequest asks which documents fit a query best, as Jina's, Cohere's and vLLM's servers are asked.
type RerankRequest struct {
	Pooled
	Query           string   `json:"query"`
	Documents       []string `json:"documents"` // on the wire also as objects with a text
	TopN            *int     `json:"top_n,omitempty"`
	ReturnDocuments *bool    `json:"return_documents,omitempty"` // default true
}

// ScoreRequest asks how well texts fit each other: one text with each of many, or as many with as many, in pairs.
type ScoreRequest struct {
	Pooled
	Text1 []string `json:"text_1"` // on the wire also a string, as is Text2
	Text2 []string `json:"text_2"`
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
	r := &ScoreRequest{}
	err := wire.Decode(body, func(c *wire.Cursor, key string) (err error) {
		switch key {
		case "text_1":
			r.Text1, err = texts(c)
		case "text_2":
			r.Text2, err = texts(c)
		default:
			err = r.Pooled.field(c, key)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(r.Text1) == 0:
		return nil, wire.Missing("text_1", "a string or an array of strings")
	case len(r.Text2) == 0:
		return nil, wire.Missing("text_2", "a string or an array of strings")
	case len(r.Text1) > 1 && len(r.Text1) != len(r.Text2):
		return nil, wire.Invalid("text_2", wire.CodeInvalidValue, "%d texts for %d of text_1; want as many, or one text_1",
			len(r.Text2), len(r.Text1))
	}
	return r, nil
}

// texts reads a string or an array of strings.
func texts(c *wire.Cursor) ([]string, error) {
	if c.Peek() == '"' {
		s, err := c.Text()
		return []string{s}, err
	}
	return listed(c, "a string or an array of strings", c.Text)
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
