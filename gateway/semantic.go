package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kvasir-llm/kvasir/gateway/cache"
	"github.com/kvasir-llm/kvasir/gateway/meter"
	"github.com/kvasir-llm/kvasir/trace"
)

// Semantic says when a kept answer is good for a question in other words.
type Semantic struct {
	Model     string        `yaml:"model"`     // that embeds questions
	Threshold float64       `yaml:"threshold"` // the least cosine of two questions that mean the same
	Timeout   time.Duration `yaml:"timeout"`   // of embedding
}

// cacheKey stands for a key in what was used for the cache.
const cacheKey = "(cache)"

// exactHeader, with the value exact, says that an answer to another question will not do.
const exactHeader = "X-Kvasir-Cache"

// checkSemantic refuses a semantic cache that cannot be meant.
func (m *Model) checkSemantic(path string, names map[string]int) error {
	s := &m.Semantic
	if *s == (Semantic{}) {
		return nil
	}
	if s.Threshold == 0 {
		s.Threshold = 0.95
	}
	if s.Timeout == 0 {
		s.Timeout = 500 * time.Millisecond
	}
	_, ok := names[s.Model]
	switch {
	case m.Cache <= 0:
		return wrong(path, "the model keeps no answers; set cache")
	case !ok || s.Model == m.Name:
		return wrong(path+".model", "%q is no other model's name", s.Model)
	case !(s.Threshold > 0 && s.Threshold <= 1), s.Timeout < time.Millisecond:
		return wrong(path, "the threshold is %v and the timeout %v; want more than 0 up to 1, and at least 1ms", s.Threshold, s.Timeout)
	}
	return nil
}

// longestQuestion is the most bytes of a question that is compared with others.
const longestQuestion = 8 << 10

// numbers are what embeddings tell apart badly. Questions that mean the same have the same ones.
var numbers = regexp.MustCompile(`[0-9]+`)

// question takes the text out of the last message of a chat, or the prompt of a completion, and names the rest. Nothing
// but that text may differ between questions that have the same answer.
func (x *exchange) question(who []string) (text, group string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(x.body.raw))
	d.UseNumber()
	var all map[string]any
	if d.Decode(&all) != nil {
		return "", "", false
	}
	switch x.r.URL.Path {
	case "/v1/completions":
		text, ok = all["prompt"].(string)
		delete(all, "prompt")
	case "/v1/chat/completions":
		messages, _ := all["messages"].([]any)
		if len(messages) == 0 {
			return "", "", false
		}
		last, _ := messages[len(messages)-1].(map[string]any)
		if text, ok = plainText(last["content"]); last["role"] != "user" {
			return "", "", false
		}
		delete(last, "content")
	}
	if text = strings.TrimSpace(text); !ok || text == "" || len(text) > longestQuestion {
		return "", "", false
	}
	rest, err := json.Marshal(all)
	if err != nil {
		return "", "", false
	}
	group, err = cache.Name(rest, append(who[:len(who):len(who)], numbers.FindAllString(text, -1)...)...)
	return text, group, err == nil
}

// plainText returns the text of a message's content that is nothing else.
func plainText(content any) (text string, ok bool) {
	parts, isList := content.([]any)
	if !isList {
		text, ok = content.(string)
		return text, ok
	}
	var all strings.Builder
	for _, p := range parts {
		m, _ := p.(map[string]any)
		s, ok := m["text"].(string)
		if !ok || m["type"] != "text" || len(m) != 2 {
			return "", false
		}
		all.WriteString(s + "\n")
	}
	return all.String(), true
}

// recallSimilar answers a request with what is kept for a question that means the same. If anything fails, the request
// goes to an endpoint.
func (x *exchange) recallSimilar(m *model, s Semantic, who []string) bool {
	if !x.body.light(mostTaken) {
		return false
	}
	done, err := x.work(x.r.Context(), costPerByte)
	if err != nil {
		return false
	}
	text, group, ok := x.question(who)
	done()
	if !ok || x.r.Header.Get(exactHeader) == "exact" {
		return false
	}
	x.g.mu.Lock()
	embedder := x.g.setup.Load().models[s.Model]
	x.g.mu.Unlock()
	if embedder == nil {
		return false
	}
	vector, err := x.embed(embedder, text, s.Timeout)
	if err != nil {
		x.g.log.Info("a question was not embedded", "model", m.name, "error", err)
		return false
	}
	x.kept.group, x.kept.vector = group, vector
	name, cosine := x.g.vectors.Find(group, vector, s.Threshold)
	if name == "" {
		return false
	}
	a, ok := x.g.answers.Get(x.r.Context(), name)
	if !ok {
		x.g.vectors.Drop(group, name)
		return false
	}
	x.w.Header().Set("X-Kvasir-Similarity", strconv.FormatFloat(cosine, 'f', 3, 64))
	x.replay(m, a, "similar")
	return true
}

// embed asks a model for a text's vector.
func (x *exchange) embed(m *model, text string, timeout time.Duration) (vector []float32, err error) {
	ctx, cancel := context.WithTimeoutCause(x.r.Context(), timeout, errSlow)
	defer cancel()
	ctx, end := part(trace.With(ctx, x.span), "embed", trace.Internal)
	defer func() { end(err) }()
	raw, err := json.Marshal(map[string]string{"model": m.name, "input": text, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	b, err := scan(raw)
	if err != nil {
		return nil, err
	}
	y := x.aside(ctx, "/v1/embeddings", b)
	y.demotion = nil
	joined, refused := y.join(ctx, m)
	if !joined {
		refused = y.try(ctx, m)
	}
	hold, err := x.g.meter.Reserve(ctx, unique(), m.name, nil, meter.Use{})
	if err != nil {
		return nil, err
	}
	used := y.spent()
	y.cost = used.Cost()
	hold.Settle(cacheKey, "", m.name, used)
	if refused != nil {
		y.problem, y.status = refused.message, refused.status
	}
	y.report()
	if refused != nil {
		return nil, refused
	}
	var said struct {
		Data []struct{ Embedding []float32 }
	}
	n := y.w.(*note)
	if y.status != http.StatusOK || json.Unmarshal(n.body, &said) != nil || len(said.Data) != 1 || len(said.Data[0].Embedding) == 0 {
		return nil, errors.New("the answer has no vector")
	}
	return said.Data[0].Embedding, nil
}
