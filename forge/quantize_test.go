package forge

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestQuantize writes a small model in every recipe and reads it back: the types are those of the recipe, and the error
// of each weight is what so many bits allow.
func TestQuantize(t *testing.T) {
	ckpt := opened(t, goldens, "llama")
	most := map[quant.Type]float64{quant.F32: 0, quant.F16: 1e-3, quant.BF16: 4e-3, quant.Q8_0: 0.009, quant.Q6_K: 0.02, quant.Q5_K: 0.04, quant.Q5_1: 0.05,
		quant.Q5_0: 0.05, quant.Q4_K: 0.08, quant.Q4_1: 0.1, quant.Q4_0: 0.1, quant.IQ4_NL: 0.09, quant.IQ4_XS: 0.09, quant.MXFP4: 0.14, quant.Q3_K: 0.16, quant.Q2_K: 0.28}
	for _, name := range Recipes() {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "mini.gguf")
			types := map[string]quant.Type{}
			result, err := Quantize(context.Background(), ckpt, out, QuantizeOptions{Recipe: name, Report: func(e TensorError) {
				typ := e.Type.(quant.Type)
				types[e.Name] = typ
				if !(e.Error <= most[typ]) {
					t.Errorf("%s: %v has an error of %g; want at most %g", e.Name, typ, e.Error, most[typ])
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			back := opened(t, out)
			for _, info := range back.Tensors() {
				if want, ok := types[info.Name]; ok && info.Type != want || !ok && info.Type != quant.F32 {
					t.Errorf("%s is %v", info.Name, info.Type)
				}
			}
			if result.Bytes > back.Size() || result.BitsPerWeight < 4 || result.BitsPerWeight > 32.1 {
				t.Errorf("%+v of a file of %d bytes", result, back.Size())
			}
			if _, err := family.Read(back); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRecipes holds some mixes to those of the field: in layer 0 of 8, whose key heads serve four queries each.
func TestRecipes(t *testing.T) {
	for recipe, want := range map[string]string{
		"q4_k_m": "v Q6_K, down Q6_K, o Q4_K, q Q4_K, qkv Q5_K, head Q6_K, embed Q4_K",
		"Q4_K":   "v Q6_K, down Q6_K, o Q4_K, q Q4_K, qkv Q5_K, head Q6_K, embed Q4_K",
		"q3_k_m": "v Q5_K, down Q4_K, o Q4_K, q Q3_K, qkv Q4_K, head Q6_K, embed Q3_K",
		"q2_k":   "v Q4_K, down Q3_K, o Q3_K, q Q2_K, qkv Q2_K, head Q6_K, embed Q2_K",
		"q8_0":   "v Q8_0, down Q8_0, o Q8_0, q Q8_0, qkv Q8_0, head Q8_0, embed Q8_0",
		"iq4_xs": "v Q5_K, down Q5_K, o IQ4_XS, q IQ4_XS, qkv IQ4_XS, head Q6_K, embed IQ4_XS",
	} {
		r, err := recipeNamed(recipe)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, slot := range []string{"v", "down", "o", "q", "qkv", "head", "embed"} {
			got = append(got, slot+" "+r.typeOf(Translated{Slot: slot, Shape: []int{256, 256}}, shape{sharing: 4}, false, 8).String())
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: %s; want %s", recipe, got, want)
		}
	}
	for values, want := range map[int]quant.Type{256: quant.Q4_K, 96: quant.Q5_0, 40: quant.F16} {
		if got := fitting(quant.Q4_K, values); got != want {
			t.Errorf("rows of %d values: %v; want %v", values, got, want)
		}
	}
}

func TestQuantizeRefused(t *testing.T) {
	ckpt := opened(t, goldens, "llama")
	if _, err := Quantize(context.Background(), ckpt, "x.gguf", QuantizeOptions{Recipe: "q9"}); err == nil || !strings.Contains(err.Error(), `type "q9" is not known; known are f32`) {
		t.Errorf("an unknown type: error %v", err)
	}
	if _, err := Quantize(context.Background(), ckpt, filepath.Join(t.TempDir(), "x"), QuantizeOptions{Recipe: "q8_0"}); err == nil || !strings.Contains(err.Error(), "the name must end with .gguf") {
		t.Errorf("a folder: error %v", err)
	}
	for s, want := range map[string]string{"ffn": "is not PATTERN=TYPE", "(=q8_0": "missing closing", "x=q9": "not the name of a tensor type", "x=i8": "no type to quantise to"} {
		if _, err := ParseOverride(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %s", s, err, want)
		}
	}
}

// TestCalibrate holds the importance of the first layer's queries to what the model's embeddings and norm make it,
// writes it and reads it back, and sees that it brings down the weighted error.
func TestCalibrate(t *testing.T) {
	ckpt := opened(t, goldens, "llama")
	dev, err := cpu.New(cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	o, err := Observe(dev, ckpt, false)
	if err != nil {
		t.Fatal(err)
	}
	m, err := loader.Model(ckpt, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids, _ := expected(t, "llama", 1)
	matrix, err := Calibrate(context.Background(), m, o, ids, len(ids), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"blk.0.attn_q.weight", "blk.0.ffn_down.weight", "output.weight"} {
		if in := matrix.Tensors[name]; in == nil || in.Counts[0] == 0 {
			t.Errorf("nothing is known of %s", name)
		}
	}
	q := matrix.Tensors["blk.0.attn_q.weight"]
	mean := 0.0
	for _, v := range q.Squares {
		mean += float64(v/q.Counts[0]) / float64(len(q.Squares))
	}
	if !(mean > 0.1 && mean < 10) || int(q.Counts[0]) != len(ids) { // normalised rows, by gains about 1
		t.Errorf("normalised inputs have a mean square of %g over %g rows; want about 1 over %d", mean, q.Counts[0], len(ids))
	}
	var file bytes.Buffer
	if err := WriteImportance(&file, matrix, "text"); err != nil {
		t.Fatal(err)
	}
	stored, err := weights.OpenBytes("imatrix.gguf", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadImportance(stored)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Tensors) != len(matrix.Tensors) || back.Tensors["blk.0.attn_q.weight"].Squares[3] != q.Squares[3] {
		t.Errorf("%d tensors came back of %d", len(back.Tensors), len(matrix.Tensors))
	}
	out := filepath.Join(t.TempDir(), "q.gguf")
	if _, err := Quantize(context.Background(), ckpt, out, QuantizeOptions{Recipe: "q4_0", Importance: back}); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadImportance(opened(t, out)); err == nil || !strings.Contains(err.Error(), "want imatrix") {
		t.Errorf("a model is no importance: error %v", err)
	}
}

// TestImportanceCounts holds that columns which count more come out nearer, with every type that has an encoder for it.
func TestImportanceCounts(t *testing.T) {
	v := make([]float32, 256)
	columns := make([]float32, 256)
	for i := range v {
		v[i] = float32(math.Sin(float64(i*i))) + 0.3
		if columns[i] = 1; i%8 == 0 {
			columns[i] = 100
		}
	}
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q2_K, quant.Q3_K, quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.IQ4_NL, quant.IQ4_XS} {
		sum := func(columns []float32) float64 {
			n, err := typ.RowBytes(len(v))
			if err != nil {
				t.Fatal(err)
			}
			data, back := make([]byte, n), make([]float32, len(v))
			if columns == nil {
				err = quant.Encode(data, v, typ)
			} else {
				err = quant.EncodeWeighted(data, v, columns, typ)
			}
			if err == nil {
				err = quant.Decode(back, data, typ)
			}
			if err != nil {
				t.Fatal(err)
			}
			e := 0.0
			for i := 0; i < len(v); i += 8 {
				e += float64(back[i]-v[i]) * float64(back[i]-v[i])
			}
			return e
		}
		if with, without := sum(columns), sum(nil); !(with < without) {
			t.Errorf("%v: the error of important columns is %g with their importance and %g without", typ, with, without)
		}
	}
}
