package openai

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
	err := decode(body, func(c *cursor, key string) (err error) {
		switch key {
		case "query":
			r.Query, err = c.text()
			asked = true
		case "documents":
			r.Documents, err = c.documents()
		case "top_n":
			err = c.intIn(&r.TopN, 0, maxInt32)
		case "return_documents":
			err = c.optionalBool(&r.ReturnDocuments)
		default:
			err = r.Pooled.field(c, key)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !asked:
		return nil, missing("query", "a string")
	case len(r.Documents) == 0:
		return nil, missing("documents", "an array of strings, or of objects with a text")
	}
	return r, nil
}

// DecodeScore reads the body of a request for scores.
func DecodeScore(body []byte) (*ScoreRequest, error) {
	r := &ScoreRequest{}
	err := decode(body, func(c *cursor, key string) (err error) {
		switch key {
		case "text_1":
			r.Text1, err = c.texts()
		case "text_2":
			r.Text2, err = c.texts()
		default:
			err = r.Pooled.field(c, key)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(r.Text1) == 0:
		return nil, missing("text_1", "a string or an array of strings")
	case len(r.Text2) == 0:
		return nil, missing("text_2", "a string or an array of strings")
	case len(r.Text1) > 1 && len(r.Text1) != len(r.Text2):
		return nil, invalid("text_2", CodeInvalidValue, "%d texts for %d of text_1; want as many, or one text_1", len(r.Text2), len(r.Text1))
	}
	return r, nil
}

// texts reads a string or an array of strings.
func (c *cursor) texts() ([]string, error) {
	if c.peek() == '"' {
		s, err := c.text()
		return []string{s}, err
	}
	return c.listed("a string or an array of strings", c.text)
}

// documents reads an array of strings or of objects with a text and nothing else.
func (c *cursor) documents() ([]string, error) {
	return c.listed("an array of strings, or of objects with a text", func() (s string, err error) {
		if c.peek() != '{' {
			return c.text()
		}
		given := false
		err = c.object(func(key string) error {
			if key != "text" {
				return c.unsupported()
			}
			given = true
			s, err = c.text()
			return err
		})
		if err == nil && !given {
			err = c.wrong("expected a text")
		}
		return s, err
	})
}

// listed reads an array of at most MaxInputs texts.
func (c *cursor) listed(expected string, one func() (string, error)) ([]string, error) {
	var list []string
	err := c.array(expected, func(i int) error {
		if i == MaxInputs {
			return c.wrong("at most %d texts are allowed", MaxInputs)
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
