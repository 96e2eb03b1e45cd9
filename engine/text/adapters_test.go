package text

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// adapterGolden is what the model with an adapter merged into its weights answers greedily in float32, in PyTorch.
type adapterGolden struct {
	PromptIDs []int32 `json:"prompt_ids"`
	OutputIDs []int32 `json:"output_ids"`
	Text      string  `json:"output_text"`
	Margin    float64 `json:"min_margin"` // between the two best logits, over all steps
}

var adapterFiles = []AdapterFile{{Name: "pirate", Path: "testdata/lora-pirate.gguf"}, {Name: "json", Path: "testdata/lora-json.gguf"}}

// TestAdaptersAnswerAsTrained asks two adapters of the built-in model, at once and with only one place on the device
// for both, and compares their answers with the golden ones.
func TestAdaptersAnswerAsTrained(t *testing.T) {
	for _, places := range []int{1, 2} {
		m := openMini(t, Options{Adapters: adapterFiles, MaxLoRAs: places, Context: 512})
		done := make(chan func(), 20)
		asked := 0
		for _, f := range adapterFiles {
			data, err := os.ReadFile(strings.TrimSuffix(f.Path, "gguf") + "json")
			if err != nil {
				t.Fatal(err)
			}
			var goldens []adapterGolden
			if err := json.Unmarshal(data, &goldens); err != nil {
				t.Fatal(err)
			}
			for _, g := range goldens {
				r := request()
				r.IDs, r.Adapter, r.MaxTokens = g.PromptIDs, f.Name, len(g.OutputIDs)
				r.Sampling = m.Defaults
				r.Sampling.Temperature = 0
				asked++
				go func() {
					_, ids, _ := answer(t, m, r)
					done <- func() {
						if !slices.Equal(ids, g.OutputIDs) {
							t.Errorf("%s answers %q; want %q (margin %g)", f.Name, m.Tokenizer.Decode(ids, false), g.Text, g.Margin)
						}
					}
				}()
			}
		}
		for range asked {
			(<-done)()
		}
	}
}

func TestAdaptersRefused(t *testing.T) {
	m := openMini(t, Options{Adapters: adapterFiles[:1], MaxRank: 8, Context: 64})
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	if err := os.WriteFile(broken, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, path, want string }{
		{"pirate", adapterFiles[0].Path, "already"},
		{m.Name, adapterFiles[0].Path, "that of the model"},
		{"", adapterFiles[0].Path, "empty"},
		{"b", broken, "broken.gguf"},
		{"b", "testdata/nothing", "no such file"},
	} {
		if err := m.LoadAdapter(test.name, test.path, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q from %s: error %v; want %q", test.name, test.path, err, test.want)
		}
	}
	if err := m.LoadAdapter("b", "testdata/nothing", false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing adapter: %v", err)
	}
	m.maxRank = 7
	if err := m.LoadAdapter("b", adapterFiles[0].Path, false); err == nil || !strings.Contains(err.Error(), "rank 8; at most 7") {
		t.Errorf("too large a rank: %v", err)
	}
	r := request()
	r.IDs, r.Adapter, r.Sampling = []int32{5}, "nobody", m.Defaults
	if _, err := generate(t.Context(), m, r); err == nil || !strings.Contains(err.Error(), `"nobody" is not loaded`) {
		t.Errorf("an unknown adapter: %v", err)
	}
}
