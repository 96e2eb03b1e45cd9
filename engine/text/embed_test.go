package text

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/engine"
	"github.com/kvasir-llm/kvasir/fault"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/weights"
)

// example is one of the texts, or pairs of texts, of an encoder in the model package's testdata.
type example struct {
	Text, Pair string
	IDs        []int32
	Types      []int32
	Vector     []float32
	Score      float32
}

// openEncoder opens an encoder with its examples.
func openEncoder(t *testing.T, name string, o Options) (*Model, []example) {
	t.Helper()
	dir := filepath.Join("..", "..", "model", "testdata", "encoders", name)
	data, err := os.ReadFile(filepath.Join(dir, "texts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 4 {
		t.Fatalf("%d examples, %v", len(all), err)
	}
	ckpt, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	o.Name, o.Compute.Threads, o.KVBytes = name, 1, 16<<20
	m, err := Open(ckpt, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, all
}

// near fails if two vectors differ by more than rounding.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values; want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if !(math.Abs(float64(got[i]-w)) < 1e-5) {
			t.Fatalf("%s: value %d is %g; want %g", what, i, got[i], w)
		}
	}
}

func TestEmbed(t *testing.T) {
	m, all := openEncoder(t, "bert", Options{})
	if m.Pooling != engine.PoolMean || !m.Normalise {
		t.Errorf("pooling %q, normalise %v; modules.json asks for the mean, normalised", m.Pooling, m.Normalise)
	}
	raw := false
	for _, e := range all {
		v, n, err := m.Embed(t.Context(), EmbedRequest{Text: e.Text, Normalise: &raw})
		if err != nil || n != len(e.IDs) {
			t.Fatalf("%q: %d tokens (%v); want %d", e.Text, n, err, len(e.IDs))
		}
		near(t, e.Text, v, e.Vector)
		unit := slices.Clone(e.Vector)
		normalise(unit)
		v, _, err = m.Embed(t.Context(), EmbedRequest{IDs: e.IDs})
		if err != nil {
			t.Fatal(err)
		}
		near(t, e.Text+", normalised", v, unit)
		short := slices.Clone(e.Vector[:5])
		normalise(short)
		v, _, err = m.Embed(t.Context(), EmbedRequest{Text: e.Text, Dimensions: 5})
		if err != nil {
			t.Fatal(err)
		}
		near(t, e.Text+", 5 dimensions", v, short)
	}
}

// TestDimensionsOfADecoder holds that a vector is cut only if the model was made for embeddings.
func TestDimensionsOfADecoder(t *testing.T) {
	m := openMini(t, Options{})
	var bad *fault.Error
	if _, _, err := m.Embed(t.Context(), EmbedRequest{Text: "a", Dimensions: 5}); !errors.As(err, &bad) || bad.Field != FieldDimensions {
		t.Errorf("5 dimensions: %v", err)
	}
	if v, _, err := m.Embed(t.Context(), EmbedRequest{Text: "a", Dimensions: m.Spec.Hidden}); err != nil || len(v) != m.Spec.Hidden {
		t.Errorf("all dimensions: %d, %v", len(v), err)
	}
}

func TestEmbedTruncates(t *testing.T) {
	m, all := openEncoder(t, "bert", Options{})
	ids := all[2].IDs
	cut := slices.Concat(ids[:6], ids[len(ids)-1:]) // [SEP] stays
	want, _, err := m.Embed(t.Context(), EmbedRequest{IDs: cut})
	if err != nil {
		t.Fatal(err)
	}
	got, n, err := m.Embed(t.Context(), EmbedRequest{Text: all[2].Text, Truncate: 7})
	if err != nil || n != 7 {
		t.Fatalf("%d tokens, %v; want 7", n, err)
	}
	near(t, "truncated", got, want)
	if _, n, err := m.Embed(t.Context(), EmbedRequest{Text: strings.Repeat("a ", 400), Truncate: -1}); err != nil || n != 330 {
		t.Errorf("truncated to %d tokens (%v); want the model's 330", n, err)
	}
}

func TestScore(t *testing.T) {
	m, all := openEncoder(t, "bert_classes", Options{})
	for _, e := range all {
		ids, types, err := m.Tokenizer.EncodePair(t.Context(), e.Text, e.Pair, 0)
		if err != nil || !slices.Equal(ids, e.IDs) || !slices.Equal(types, e.Types) {
			t.Errorf("%q, %q: tokens %v of types %v (%v); want %v of %v", e.Text, e.Pair, ids, types, err, e.IDs, e.Types)
		}
		score, n, err := m.Score(t.Context(), ScoreRequest{Query: e.Text, Document: e.Pair})
		if err != nil || n != len(e.IDs) {
			t.Fatalf("%d tokens, %v", n, err)
		}
		// The checkpoint is in BF16, and so are its activations here, with an error of 2⁻⁹ each.
		if !(math.Abs(float64(score-e.Score)) < 0x1p-9) {
			t.Errorf("%q, %q: %g; want %g", e.Text, e.Pair, score, e.Score)
		}
	}
	if _, n, err := m.Score(t.Context(), ScoreRequest{Query: "a", Document: strings.Repeat("b ", 400), Truncate: 50}); err != nil || n != 50 {
		t.Errorf("a long document was cut to %d tokens (%v); want 50", n, err)
	}
	_, alone, err := m.Score(t.Context(), ScoreRequest{Query: "a", Document: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if _, n, err := m.Score(t.Context(), ScoreRequest{Query: "a", Document: strings.Repeat("b ", 400), DocumentTokens: 20}); err != nil || n != alone+19 {
		t.Errorf("a document was cut to %d tokens of both (%v); want %d", n, err, alone+19)
	}
	e := all[0]
	score, _, err := m.Score(t.Context(), ScoreRequest{Query: e.Text, Document: e.Pair})
	raw, _, rawErr := m.Score(t.Context(), ScoreRequest{Query: e.Text, Document: e.Pair, Raw: true})
	if err != nil || rawErr != nil || sigmoid(raw) != score {
		t.Errorf("the logit %g (%v) is not that of %g (%v)", raw, rawErr, score, err)
	}
}

// TestClassify holds that a text has the classes of the pair without a second one.
func TestClassify(t *testing.T) {
	m, _ := openEncoder(t, "bert_classes", Options{})
	got, n, err := m.Classify(t.Context(), EmbedRequest{Text: "hello there"})
	if err != nil || len(got) != m.Spec.Classes || n < 4 {
		t.Fatalf("%v of %d tokens, %v", got, n, err)
	}
	raw, _, err := m.Classify(t.Context(), EmbedRequest{Text: "hello there", Raw: true})
	if err != nil || sigmoid(raw[0]) != got[0] {
		t.Errorf("the logit %v is not that of %v (%v)", raw, got, err)
	}
	v := []float32{0, float32(math.Log(3)), 0}
	if softmax(v); math.Abs(float64(v[1])-0.6) > 1e-6 || math.Abs(float64(v[0])-0.2) > 1e-6 {
		t.Errorf("softmax: %v; want 0.2, 0.6, 0.2", v)
	}
}

func TestEncoderRefuses(t *testing.T) {
	embeds, _ := openEncoder(t, "bert", Options{TokenBudget: 40})
	scores, _ := openEncoder(t, "bert_classes", Options{})
	ctx := t.Context()
	for i, c := range []struct {
		call  func() error
		field fault.Field
		want  string
	}{
		{func() error { _, err := embeds.Prepare(ctx, Request{Prompt: "a"}); return err }, FieldModel, "bert is an encoder"},
		{func() error { _, _, err := scores.Embed(ctx, EmbedRequest{Text: "a"}); return err }, FieldModel, "scores pairs of texts"},
		{func() error { _, _, err := embeds.Classify(ctx, EmbedRequest{Text: "a"}); return err }, FieldModel, "has no classes"},
		{func() error { _, _, err := embeds.Score(ctx, ScoreRequest{Query: "a", Document: "b"}); return err }, FieldModel, "has 0 classes"},
		{func() error { _, _, err := embeds.Embed(ctx, EmbedRequest{Text: "a", Dimensions: 49}); return err }, FieldDimensions, "have 48"},
		{func() error { _, _, err := embeds.Embed(ctx, EmbedRequest{Text: "a", Truncate: 41}); return err }, FieldTruncate, "1 to 40"},
		{func() error { _, _, err := embeds.Embed(ctx, EmbedRequest{Text: "a", Truncate: 1}); return err }, FieldTruncate, "need more"},
		{func() error { _, _, err := embeds.Embed(ctx, EmbedRequest{IDs: make([]int32, 41)}); return err }, FieldText, "at most 40"},
		{func() error { _, _, err := embeds.Embed(ctx, EmbedRequest{IDs: []int32{97}}); return err }, FieldText, "vocabulary has 97"},
		{func() error {
			_, _, err := scores.Score(ctx, ScoreRequest{Query: strings.Repeat("a ", 400), Document: "b"})
			return err
		}, FieldText, "at most 330"},
	} {
		bad := new(fault.Error)
		if err := c.call(); !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(bad.Problem, c.want) {
			t.Errorf("case %d: error %v; want %s: %q", i, err, c.field, c.want)
		}
	}
}

// TestPoolingFiles holds what the files beside a checkpoint, and the flag, make of embeddings.
func TestPoolingFiles(t *testing.T) {
	for _, c := range []struct {
		modules, pooling string
		asked, want      engine.Pooling
		normalise        bool
		refused          string
	}{
		{"", "", "", engine.PoolCLS, true, ""},
		{"", "", engine.PoolMean, engine.PoolMean, true, ""},
		{`[{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"}]`, `{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}`, "", engine.PoolCLS, false, ""},
		{`[{"type":"a.Pooling","path":"1_Pooling"},{"type":"a.Normalize"}]`, `{"pooling_mode":"lasttoken"}`, "", engine.PoolLast, true, ""},
		{`[{"type":"a.Pooling","path":"1_Pooling"}]`, `{"pooling_mode_max_tokens":true}`, "", "", false, "pooling_mode_max_tokens"},
		{`[{"type":"a.Dense"}]`, "", "", "", false, `type "a.Dense" is not supported`},
		{`[{"type":"a.Pooling","path":"2_Pooling"}]`, "{}", "", "", false, "2_Pooling/config.json, which is missing"},
	} {
		dir := t.TempDir()
		from := filepath.Join("..", "..", "model", "testdata", "encoders", "bert")
		files := map[string]string{"modules.json": c.modules, "1_Pooling/config.json": c.pooling}
		for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
			data, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(data)
		}
		os.Mkdir(filepath.Join(dir, "1_Pooling"), 0o700)
		for name, data := range files {
			if data == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ckpt, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(ckpt, Options{Name: "bert", Compute: compute.Options{Threads: 1}, KVBytes: 16 << 20, Pooling: c.asked})
		ckpt.Close()
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s %s: error %v; want %q", c.modules, c.pooling, err, c.refused)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = m.Embed(t.Context(), EmbedRequest{Text: "a"})
		if err != nil || m.Pooling != c.want || m.Normalise != c.normalise {
			t.Errorf("%s %s: pooling %q, normalise %v, %v; want %q, %v", c.modules, c.pooling, m.Pooling, m.Normalise, err, c.want, c.normalise)
		}
		m.Close()
	}
}

// TestDecoderWithUnsupportedPooling holds that a decoder whose embeddings cannot be made is served, and says so at the
// start.
func TestDecoderWithUnsupportedPooling(t *testing.T) {
	m := openMini(t, Options{})
	m.pooling = errors.New("modules.json: a module of type \"a.Dense\" is not supported")
	var log strings.Builder
	if err := m.checkPooling(slog.New(slog.NewTextHandler(&log, nil))); err != nil || !strings.Contains(log.String(), "a.Dense") {
		t.Errorf("error %v, log %q", err, log.String())
	}
	if _, _, err := m.Embed(t.Context(), EmbedRequest{Text: "a"}); err == nil || !strings.Contains(err.Error(), "a.Dense") {
		t.Errorf("an embedding: error %v", err)
	}
	encoder := &Model{Name: "bert", Spec: &model.Spec{Encoder: true}, pooling: m.pooling}
	if err := encoder.checkPooling(nil); err == nil || !strings.Contains(err.Error(), "is for embeddings") {
		t.Errorf("an encoder: error %v", err)
	}
}
