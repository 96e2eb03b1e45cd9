package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/gateway/prompt"
	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/kv"
)

func builtinPrompts(name string) (*prompt.Model, error) {
	if name != "mini" {
		return nil, fmt.Errorf("no model %q", name)
	}
	ckpt, err := builtin.Open()
	if err != nil {
		return nil, err
	}
	m := &prompt.Model{}
	if m.Tokenizer, err = text.OpenTokenizer(ckpt); err == nil {
		m.Template, err = text.OpenTemplate(ckpt)
	}
	return m, err
}

// ownTokens is a gateway of a configuration, whose models' tokenizers it can open.
func ownTokens(t *testing.T, config string) (g *Gateway, ask func(path, body string) (why string)) {
	t.Helper()
	c, err := Parse("fleet.yaml", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if g, err = New(c, Options{Logger: slog.New(slog.DiscardHandler), Seed: 1, Prompts: builtinPrompts}); err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(g)
	t.Cleanup(func() { door.Close(); g.Close() })
	return g, func(path, body string) string {
		t.Helper()
		r, _ := http.NewRequest(http.MethodPost, door.URL+path, strings.NewReader(body))
		r.Header.Set("X-Kvasir-Explain", "1")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		said, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s %v", res.StatusCode, said, err)
		}
		return res.Header.Get("X-Kvasir-Explain")
	}
}

// TestOwnTokenizer guesses by blocks of tokens: the same conversation is found in another spelling, also as a text and
// as tokens. What cannot be rendered goes by its bytes.
func TestOwnTokenizer(t *testing.T) {
	engine := func() *httptest.Server {
		e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/render") {
				t.Error("an endpoint was asked to render")
			}
			if r.Method == http.MethodPost {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, `{"choices":[{"text":"x"}]}`)
			}
		}))
		t.Cleanup(e.Close)
		return e
	}
	a, b := engine(), engine()
	_, ask := ownTokens(t, fmt.Sprintf("prefix: {block_bytes: 64}\nmodels:\n- {name: m, tokenizer: mini, policy: {prefix: 1}, endpoints: [%q, %q]}\n", a.URL, b.URL))
	said := strings.Repeat("salt and ships. ", 40)
	chat := func(format string) string { return fmt.Sprintf(format, said) }
	ask("/v1/chat/completions", chat(`{"model":"m","messages":[{"role":"user","content":%q}]}`))
	p, err := builtinPrompts("mini")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := p.Tokens(t.Context(), "/v1/chat/completions", []byte(chat(`{"messages":[{"role":"user","content":%q}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	whole := fmt.Sprintf("%d of %d blocks", len(ids)/16, len(ids)/16)
	for name, c := range map[string]struct{ path, body, want string }{
		"the same, spelled otherwise": {"/v1/chat/completions", chat(`{ "temperature": 0, "messages": [ {"content": [ {"type":"text","text":%q} ], "role": "user" } ], "model": "m" }`), whole},
		"a text":                      {"/v1/completions", fmt.Sprintf(`{"model":"m","add_special_tokens":false,"prompt":%q}`, p.Tokenizer.Decode(ids, false)), whole},
		"tokens":                      {"/v1/completions", fmt.Sprintf(`{"model":"m","prompt":%s}`, list), whole},
		"an image":                    {"/v1/chat/completions", chat(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":%q},{"type":"image_url","image_url":{"url":"x"}}]}]}`), "0 of"},
	} {
		if why := ask(c.path, c.body); !strings.Contains(why, c.want) {
			t.Errorf("%s: %s; want %s", name, why, c.want)
		}
	}
}

// TestOwnTokenizerNeedsNoRendering asks a gateway of engines that tell what they hold. The gateway names the blocks of
// the prompt by itself.
func TestOwnTokenizerNeedsNoRendering(t *testing.T) {
	a, b := newTeller(t), newTeller(t)
	config := "models:\n- name: m\n  tokenizer: mini\n  policy: {prefix: 1}\n  endpoints:\n"
	for _, e := range []*teller{a, b} {
		config += fmt.Sprintf("  - {url: %q, events: %q}\n", e.URL, e.events)
	}
	g, ask := ownTokens(t, config)
	p, err := builtinPrompts("mini")
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","prompt":"salt and ships and sails and winds and waves"}`
	ids, err := p.Tokens(t.Context(), "/v1/completions", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%d of %d blocks", len(ids)/2, len(ids)/2)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(ask("/v1/completions", body), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s; want %s; the endpoints hold %d and %d", ask("/v1/completions", body), want, g.fleetHeld(0), g.fleetHeld(1))
		}
		b.ids(ids)
	}
	if a.rendered+b.rendered > 0 {
		t.Error("an endpoint was asked to render")
	}
}

// ids publishes the blocks of tokens, two tokens each.
func (e *teller) ids(ids []int32) {
	var before kv.Hash
	for i := 0; i+2 <= len(ids); i += 2 {
		var name kv.Hash
		name[31], name[30] = byte(i+1), 0x7f
		e.pub.Publish([]kv.Event{{Name: name, Parent: before, Tokens: ids[i : i+2]}})
		before = name
	}
}

// TestNoSuchTokenizer names the place in the configuration.
func TestNoSuchTokenizer(t *testing.T) {
	c, err := Parse("fleet.yaml", []byte("models:\n- {name: m, tokenizer: nowhere, endpoints: [http://a]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, Options{Logger: slog.New(slog.DiscardHandler), Prompts: builtinPrompts}); err == nil || !strings.Contains(err.Error(), `models[0].tokenizer: no model "nowhere"`) {
		t.Errorf("%v", err)
	}
}

// BenchmarkOwnTokenizer measures what it takes to turn a chat into tokens.
func BenchmarkOwnTokenizer(b *testing.B) {
	p, err := builtinPrompts("mini")
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1 << 10, 220 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			var said strings.Builder
			for i := 0; said.Len() < size; i++ {
				fmt.Fprintf(&said, "The ship number %d sails with salt and honey. ", i)
			}
			body := []byte(fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, said.String()))
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := p.Tokens(b.Context(), "/v1/chat/completions", body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
