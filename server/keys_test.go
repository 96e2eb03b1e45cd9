package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/engine/text"
)

// post sends a request with a key and returns the status and the body.
func post(s *Server, key, path, body string) (int, string) {
	r, w := httptest.NewRequest("POST", path, strings.NewReader(body)), httptest.NewRecorder()
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// cachedTokens asks the built-in model and returns how much of the prompt the answer says was cached.
func cachedTokens(t *testing.T, s *Server, key, prompt, salt string) int {
	t.Helper()
	code, body := post(s, key, "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":1,"cache_salt":%q}`, prompt, salt))
	var out struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil || code != 200 {
		t.Fatalf("%d %s, %v", code, body, err)
	}
	return out.Usage.Details.Cached
}

// TestPrefixesApart holds that a key finds what was asked with it, or in its group, and with the same salt; and that
// answers say no more than whole blocks of it.
func TestPrefixesApart(t *testing.T) {
	m, err := mini()
	if err != nil {
		t.Fatal(err)
	}
	keys := []Key{{Secret: "a"}, {Secret: "b"}, {Secret: "c", Group: "g"}, {Secret: "d", Group: "g"}, {Secret: "e", Group: "key a"}}
	for _, shared := range []bool{false, true} {
		s := build(t, Config{Models: []Served{*m}, Keys: keys, SharePrefixes: shared})
		prompt := fmt.Sprintf("Sharing is %v. My account number is 4471 9920 and my PIN is 8316, which I tell nobody else.", shared)
		for _, c := range []struct {
			key, salt     string
			apart, common bool
		}{
			{"a", "", false, false}, {"a", "", true, true}, {"b", "", false, true}, {"c", "", false, true}, {"d", "", true, true},
			{"e", "", false, true}, {"a", "salt", false, false}, {"a", "salt", true, true}, {"b", "salt", false, true},
		} {
			got := cachedTokens(t, s, c.key, prompt, c.salt)
			if want := c.apart && !shared || c.common && shared; got > 0 != want || got%16 != 0 {
				t.Errorf("key %s, salt %q, shared %v: %d tokens cached; want some %v, whole blocks", c.key, c.salt, shared, got, want)
			}
		}
		if got := cachedTokens(t, s, "a", prompt[:20], ""); got != 0 {
			t.Errorf("a prompt that shares less than a block is told of %d tokens", got)
		}
	}
}

// TestEveryRequestHasATenant holds that all requests for a model carry what separates their keys, whatever the
// endpoint, and that one secret gives the same separation again.
func TestEveryRequestHasATenant(t *testing.T) {
	salts := func(key, secret string) (out []string) {
		fake := &salted{fakeModel: newFake("fake", "a")}
		s := build(t, Config{Models: []Served{{Model: fake, Engine: fake, Vocabulary: fake}}, Secret: []byte(secret),
			Keys: []Key{{Secret: "a"}, {Secret: "b"}}, AdminKeys: []string{"root"}})
		for path, r := range s.routes {
			if r.method != "POST" || r.access != clients || strings.Contains(path, "tokenize") || strings.Contains(path, "{id}") ||
				strings.Contains(path, "count_tokens") || path == "/api/show" ||
				path == filesPath || path == "/v1/batches" { // whose requests TestSDKBatch looks at
				continue
			}
			body := `{"prompt":"x"}`
			switch {
			case strings.HasSuffix(path, "/batch"):
				body = `{"messages":[[{"role":"user","content":"x"}]]}`
			case strings.HasPrefix(path, "/inference"):
				body = `{"token_ids":[1]}`
			case path == "/v2/embed":
				body = `{"texts":["x"],"input_type":"search_query"}`
			case path == "/pooling", path == "/classify":
				body = `{"input":"x"}`
			case strings.Contains(path, "chat"):
				body = `{"messages":[{"role":"user","content":"x"}]}`
			case strings.Contains(path, "messages"):
				body = `{"max_tokens":5,"messages":[{"role":"user","content":"x"}]}`
			case path == "/v1/embeddings", path == "/api/embed", strings.Contains(path, "responses"):
				body = `{"input":"x"}`
			case strings.Contains(path, "rerank"):
				body = `{"query":"x","documents":["y"]}`
			case strings.Contains(path, "score"):
				body = `{"text_1":"x","text_2":"y"}`
			}
			before := len(fake.salts)
			if code, answer := post(s, key, path, body); code != 200 || len(fake.salts) == before {
				t.Fatalf("%s: %d %s, %d requests", path, code, answer, len(fake.salts)-before)
			}
		}
		s.Close()
		return fake.salts
	}
	a, b, again, other := salts("a", "s"), salts("b", "s"), salts("a", "s"), salts("a", "t")
	for _, salt := range a {
		if len(salt) != 64 || salt != again[0] || salt == b[0] || salt == other[0] {
			t.Errorf("salts of key a %q, key b %q, again %q, with another secret %q", salt, b[0], again[0], other[0])
		}
	}
}

// TestPinsInTheNameOfAKey holds that a pin is put where the requests of the named key look.
func TestPinsInTheNameOfAKey(t *testing.T) {
	m, err := mini()
	if err != nil {
		t.Fatal(err)
	}
	s := build(t, Config{Models: []Served{*m}, Keys: []Key{{Name: "shop", Secret: "a"}, {Secret: "b"}}, AdminKeys: []string{"root"}})
	const prompt = "A system prompt of a shop that pays for it, long enough to fill some blocks of the cache with."
	for _, c := range []struct {
		key, member string
		status      int
		says        string
	}{
		{"a", ``, 401, "admin key"}, {"root", ``, 400, `"param":"key"`}, {"root", `,"key":"nobody"`, 400, "no API key"},
		{"root", `,"key":"shop"`, 200, `"tokens"`},
	} {
		if code, body := post(s, c.key, "/kv/pin", fmt.Sprintf(`{"prompt":%q%s}`, prompt, c.member)); code != c.status || !strings.Contains(body, c.says) {
			t.Errorf("with %s: %d %s", c.key, code, body)
		}
	}
	if cachedTokens(t, s, "a", prompt, "") == 0 || cachedTokens(t, s, "b", prompt, "") != 0 {
		t.Error("the pinned prompt is not there for its key, or is for another")
	}
	if code, body := post(s, "root", "/kv/unpin", fmt.Sprintf(`{"prompt":%q,"key":"shop"}`, prompt)); code != 200 || strings.Contains(body, `"tokens":0`) {
		t.Errorf("unpin: %d %s", code, body)
	}
}

// salted is a fake that keeps the salts of its requests.
type salted struct {
	*fakeModel
	salts []string
}

func (m *salted) Prepare(ctx context.Context, r text.Request) (*text.Prompt, error) {
	m.keep(r.Salt)
	return m.fakeModel.Prepare(ctx, r)
}

func (m *salted) Embed(ctx context.Context, r text.EmbedRequest) ([]float32, int, error) {
	m.keep(r.Salt)
	return m.fakeModel.Embed(ctx, r)
}

func (m *salted) Score(ctx context.Context, r text.ScoreRequest) (float32, int, error) {
	m.keep(r.Salt)
	return m.fakeModel.Score(ctx, r)
}

func (m *salted) Classify(_ context.Context, r text.EmbedRequest) ([]float32, int, error) {
	m.keep(r.Salt)
	return []float32{1}, 1, nil
}

func (m *salted) keep(salt string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.salts = append(m.salts, salt)
}
