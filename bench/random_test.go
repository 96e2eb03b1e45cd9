package bench

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/forge"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/tokenizer"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestRandomModelsAreOfTheirShape makes a model by every recipe: rows of 256 hold every type's blocks.
func TestRandomModelsAreOfTheirShape(t *testing.T) {
	want := llama("small", 2, 256, 512, 4, 2, 48, 512)
	for _, recipe := range forge.Recipes() {
		ckpt, err := Random(want, recipe)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := family.Read(ckpt)
		if err != nil {
			t.Fatal(err)
		}
		a := spec.Attention()
		got := llama("small", len(spec.Layers), spec.Hidden, spec.Layers[0].FFN.Width, a.Heads, a.KVHeads, a.HeadDim, spec.Vocab)
		if got != want || spec.TiedHead {
			t.Errorf("%v: %+v, tied %v", recipe, got, spec.TiedHead)
		}
		if q := costOf(ckpt, spec, 0).quant; !strings.EqualFold(q, recipe) {
			t.Errorf("%v: quant is %q", recipe, q)
		}
		up, _ := ckpt.Tensor("blk.1.ffn_up.weight")
		values := make([]float32, up.Values())
		if err := quant.Decode(values, up.Data, up.Type); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, v := range values {
			sum += float64(v) * float64(v)
		}
		if std := math.Sqrt(sum / float64(len(values))); math.Abs(std-0.02) > 0.002 {
			t.Errorf("%v: standard deviation %v; want 0.02", recipe, std)
		}
	}
	if _, err := Random(want, "q9"); err == nil {
		t.Error("an unknown recipe was used")
	}
}

// TestMixesAreThoseOfQuantize holds that a random model has the types that quantising it gives.
func TestMixesAreThoseOfQuantize(t *testing.T) {
	shape := llama("small", 9, 256, 512, 8, 2, 32, 512)
	plain, err := Random(shape, "f16")
	if err != nil {
		t.Fatal(err)
	}
	for _, recipe := range []string{"q2_k", "q3_k_m", "q4_k_m", "iq4_xs", "q4_0"} {
		ckpt, err := Random(shape, recipe)
		if err != nil {
			t.Fatal(err)
		}
		out := t.TempDir() + "/out.gguf"
		made, err := forge.Quantize(t.Context(), plain, out, forge.QuantizeOptions{Recipe: recipe, Report: func(e forge.TensorError) {
			if got, ok := ckpt.Tensor(e.Name); !ok || got.Type != e.Type {
				t.Errorf("%s: %s is %v; quantised, it is %v", recipe, e.Name, got.Type, e.Type)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		size := int64(0)
		for _, info := range ckpt.Tensors() {
			size += info.Size
		}
		if size != made.Bytes {
			t.Errorf("%s: %d bytes; quantised, it has %d", recipe, size, made.Bytes)
		}
	}
}

// TestEveryFamilyRuns measures a small model of each family and each type that no recipe has.
func TestEveryFamilyRuns(t *testing.T) {
	tests, err := ParseTests("pp20x3,b2")
	if err != nil {
		t.Fatal(err)
	}
	m := Mixture{Experts: 4, Chosen: 2, Width: 64}
	latent := llama("latent", 2, 128, 256, 2, 1, 128, 300).mixed("deepseek2", Mixture{Experts: 4, Chosen: 2, Width: 64, Shared: 1, Dense: 1})
	for _, tt := range []struct {
		shape         Shape
		recipe, quant string
	}{
		{llama("mixture", 2, 128, 256, 4, 2, 32, 300).mixed("", m), "bf16", "BF16"},
		{llama("oss", 2, 128, 64, 4, 2, 32, 300).mixed("gpt-oss", m), "mxfp4", "MXFP4"},
		{latent, "bf16", "BF16"},
		{llama("packed", 2, 128, 256, 4, 2, 32, 300), "f8_e4m3", "F8_E4M3"},
		{llama("packed", 2, 128, 256, 4, 2, 32, 300), "u4", "U4_128"},
	} {
		ckpt, err := Random(tt.shape, tt.recipe)
		if err != nil {
			t.Errorf("%s %s: %v", tt.shape.Name, tt.recipe, err)
			continue
		}
		o := ModelOptions{Name: tt.shape.Name, Device: "remote:1", Chunk: 32, Repetitions: 1, BlockTokens: 16}
		rows, err := Model(t.Context(), ckpt, o, tests, nil)
		if err != nil || len(rows) != 2 || rows[0].Quant != tt.quant || rows[0].TokensPerSecond <= 0 {
			t.Errorf("%s %s: %+v, %v", tt.shape.Name, tt.recipe, rows, err)
		}
	}
	if err := WriteRandom(io.Discard, llama("packed", 1, 128, 256, 4, 2, 32, 300), "u4"); err == nil || !strings.Contains(err.Error(), "GGUF has no type U4_128") {
		t.Errorf("a file of u4: %v", err)
	}
}

func TestParseShape(t *testing.T) {
	for text, want := range map[string]Shape{
		"1.1B": llama("1.1b", 22, 2048, 5632, 32, 4, 64, 32000),
		"layers=2, width=96,ff=128,heads=6,kv=2,vocab=300":         llama("layers=2, width=96,ff=128,heads=6,kv=2,vocab=300", 2, 96, 128, 6, 2, 16, 300),
		"vocab=300,head=20,kv=3,heads=3,ff=128,width=100,layers=1": llama("vocab=300,head=20,kv=3,heads=3,ff=128,width=100,layers=1", 1, 100, 128, 3, 3, 20, 300),
	} {
		if got, err := ParseShape(text); got != want || err != nil {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
	const good = "layers=2,width=96,ff=128,heads=6,kv=2"
	for text, says := range map[string]string{
		"13b": "no shape", "": "no shape", good: "vocab is missing", good + ",vocab=0": `vocab is "0"`, good + ",vocab=2x": `vocab is "2x"`,
		good + ",vocab": `vocab is ""`, good + ",layers=3": "layers is there twice", good + ",rope=3": `"rope" is not one of`,
		good + ",vocab=300,head=3": "heads of 3", "layers=2,width=96,ff=128,heads=6,kv=4,vocab=9": "6 heads cannot share 4",
		"layers=2,width=100,ff=128,heads=6,kv=2,vocab=9": "100 is not a multiple of 6 heads",
		good + ",vocab=300,experts=8,expert=64":          "0 of 8 experts of width 64", good + ",vocab=300,chosen=2": "2 of 0 experts",
	} {
		if _, err := ParseShape(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want %q", text, err, says)
		}
	}
}

func TestRandomModelsHaveATokenForEachWord(t *testing.T) {
	shape := tiny
	shape.Vocab = 1024
	ckpt, err := Random(shape, "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := WriteRandom(&file, shape, "q8_0"); err != nil {
		t.Fatal(err)
	}
	written, err := weights.OpenBytes("x.gguf", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range ckpt.Tensors() {
		one, _ := ckpt.Tensor(info.Name)
		other, _ := written.Tensor(info.Name)
		if !bytes.Equal(one.Data, other.Data) || len(one.Data) == 0 {
			t.Errorf("%s is another one when it is written", info.Name)
		}
	}
	if ckpt.Size() < int64(file.Len())*8/10 || ckpt.Size() >= int64(file.Len()) {
		t.Errorf("its tensors have %d bytes, its file %d", ckpt.Size(), file.Len())
	}
	tok, err := tokenizer.FromGGUF(ckpt.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	p := Part{Seed: 5, Tokens: 500}
	ids := tok.Encode(string(p.appendText(nil)[1:]), tokenizer.EncodeOptions{})
	if len(ids) != p.Tokens {
		t.Errorf("%d words have %d tokens", p.Tokens, len(ids))
	}
}
