package server

import (
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/kvasir-llm/kvasir/engine/text"
	"github.com/kvasir-llm/kvasir/hub/builtin"
)

// mini opens the built-in model, once for all tests; its engine runs until they end.
var mini = sync.OnceValues(func() (*Served, error) {
	ckpt, err := builtin.Open()
	if err != nil {
		return nil, err
	}
	defer ckpt.Close()
	observer := &Observer{}
	m, err := text.Open(ckpt, text.Options{Name: "kvasir-mini", Context: 512, KVBytes: 64 << 20, MaxSeqs: 16, Observer: observer})
	if err != nil {
		return nil, err
	}
	served := FromText(m)
	served.Observer = observer
	return &served, nil
})

// serveMini serves the built-in model to whoever brings the key "key".
func serveMini(t *testing.T) (*Served, *httptest.Server) {
	t.Helper()
	m, err := mini()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(build(t, Config{Version: "test", Models: []Served{*m}, Keys: []Key{{Secret: "key"}}}))
	t.Cleanup(web.Close)
	return m, web
}

// sdk is OpenAI's own client.
func sdk(web *httptest.Server, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(web.URL+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0),
		option.WithHTTPClient(web.Client()))
}

func TestBlockTokens(t *testing.T) {
	m, err := mini()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Model.Info().BlockTokens; got != 16 {
		t.Errorf("a block is said to have %d tokens, not 16", got)
	}
}
