package forge

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute/cpu"
	"github.com/kvasir-llm/kvasir/internal/reference"
	"github.com/kvasir-llm/kvasir/model/loader"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// calibrated returns the moments of the inputs of a golden's weights on its own tokens.
func calibrated(t *testing.T, ckpt *weights.Checkpoint, name string) map[string]*Moments {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 2, Wide: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	o, err := Observe(dev, ckpt, true)
	if err != nil {
		t.Fatal(err)
	}
	m, err := loader.Model(ckpt, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids, _ := expected(t, name, 1)
	if _, err := Calibrate(context.Background(), m, o, ids, len(ids), nil); err != nil {
		t.Fatal(err)
	}
	return o.Moments
}

// logitError returns the relative error of a checkpoint's logits against a golden's.
func logitError(t *testing.T, ckpt *weights.Checkpoint, name string) float64 {
	t.Helper()
	ids, want := expected(t, name, 1)
	s, err := newSequence(loaded(t, ckpt), len(ids), len(ids))
	if err != nil {
		t.Fatal(err)
	}
	lost, all := 0.0, 0.0
	err = s.run(context.Background(), ids, len(ids)-len(want), func(_ int, logits [][]float32) {
		for i := range logits {
			for j, v := range logits[i] {
				d, w := float64(v-want[i][j]), float64(want[i][j])
				lost, all = lost+d*d, all+w*w
			}
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return math.Sqrt(lost / all)
}

// TestFactor holds that U inverts the damped Gram matrix.
func TestFactor(t *testing.T) {
	const n = 70
	gram := make([]float32, n*n)
	for r := range 2 * n {
		for i := range n {
			for j := range n {
				gram[i*n+j] += float32(math.Sin(float64(r*(i+1))) * math.Sin(float64(r*(j+1))))
			}
		}
	}
	u, err := factor(gram, n)
	if err != nil {
		t.Fatal(err)
	}
	mean := float32(0)
	for i := range n {
		mean += gram[i*n+i] / n
	}
	for i := range n {
		for j := range n {
			sum := 0.0
			for k := range n { // row i of UᵀU, times column j
				h := gram[k*n+j]
				if k == j {
					h += damping * mean
				}
				inverse := 0.0
				for m := range min(i, k) + 1 {
					inverse += float64(u[m*n+i]) * float64(u[m*n+k])
				}
				sum += inverse * float64(h)
			}
			if want := map[bool]float64{true: 1}[i == j]; math.Abs(sum-want) > 1e-3 {
				t.Fatalf("the inverse times the matrix has %g at %d, %d", sum, i, j)
			}
		}
	}
}

// TestFoldsCancel scales the weights of models of several structures and stores them as they are: the model stays the
// same, but for what rounding to float32 does.
func TestFoldsCancel(t *testing.T) {
	for name, skips := range map[string]string{
		"llama": "", "qwen2": "", "gemma2": "", "starcoder2": "inputs of the down projection are not scaled: they come from an activation",
		"cohere": "", "phi3": "values are not scaled: they are one tensor with queries", "olmo2": "inputs are not scaled: no norm stands before them",
		"gpt2": "values are not scaled", "mixtral": "inputs of experts are not scaled: their router reads them too",
		"deepseek_v2": "inputs of attention are not scaled: its kind",
	} {
		t.Run(name, func(t *testing.T) {
			path := golden(t, name)
			ckpt := opened(t, path)
			moments := calibrated(t, ckpt, path)
			for _, to := range []string{"q.gguf", "folder"} {
				w, err := newWriter(ckpt, filepath.Join(t.TempDir(), to), ConvertOptions{})
				if err != nil {
					t.Fatal(err)
				}
				q := &quantiser{QuantizeOptions: &QuantizeOptions{Recipe: "f32", MethodOptions: MethodOptions{Method: AWQ, Moments: moments}}, w: w}
				if _, err := q.chooseTypes(); err != nil {
					t.Fatal(err)
				}
				skipped, folds := "", 0
				for i := range w.spec.Layers {
					all, why := q.folds(i)
					skipped, folds = skipped+strings.Join(why, "\n"), folds+len(all)
					for _, f := range all {
						scales := make([]float32, q.moments(f.to[0]).In())
						for k := range scales {
							scales[k] = float32(1+k%7) / 3
						}
						if err := q.apply(f, f.alike(scales)); err != nil {
							t.Fatal(err)
						}
					}
				}
				for i := range w.tensors {
					if t := &w.tensors[i]; len(t.Shape) > 1 && (t.cols != nil || t.rows != nil) {
						t.to, t.values = quant.F32, t.scaled
					}
				}
				if to == "q.gguf" && ((skips == "") != (skipped == "") || !strings.Contains(skipped, skips) || folds == 0) {
					t.Errorf("%d folds; skipped: %q; want %q", folds, skipped, skips)
				}
				if err := w.write(context.Background()); err != nil {
					t.Fatal(err)
				}
				if e := logitError(t, opened(t, w.out), path); !(e < 2e-3) { // biases stay in BF16
					t.Errorf("%s: logits have an error of %g", to, e)
				}
			}
		})
	}
}

// golden returns the path of a golden.
func golden(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(goldens, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		path = reference.Path(t, "goldens", name)
	}
	return path
}

// TestGPTQ holds that errors which others make up for do less harm, in block types and in every form of its
// checkpoints, and that the model reads back what was made of it.
func TestGPTQ(t *testing.T) {
	ckpt := opened(t, goldens, "llama")
	moments := calibrated(t, ckpt, "llama")
	for _, test := range []struct {
		to, recipe string
		o          MethodOptions
		most       float64
	}{
		{"q.gguf", "q4_0", MethodOptions{}, 0.5}, {"q.gguf", "q8_0", MethodOptions{}, 0.06}, {"q.gguf", "iq4_nl", MethodOptions{}, 0.5}, {"q.gguf", "q5_1", MethodOptions{}, 0.3},
		{"folder", "", MethodOptions{Bits: 4, Group: 32}, 0.5}, {"folder", "", MethodOptions{Bits: 4, Group: 32, ZeroPoints: true, ActOrder: true}, 0.5},
		{"folder", "", MethodOptions{Bits: 8, Group: 64, ActOrder: true}, 0.06}, {"folder", "", MethodOptions{Bits: 4, Group: 32, Method: AWQ}, 0.5},
		{"folder", "", MethodOptions{Method: SmoothQuant, Alpha: 0.5}, 0.06},
	} {
		o := QuantizeOptions{Recipe: test.recipe, Pure: true, MethodOptions: test.o}
		o.Moments = moments
		if o.Method == "" {
			o.Method = GPTQ
		}
		var lost, rounded float64
		o.Report = func(e TensorError) { lost, rounded = lost+e.Output, rounded+e.Rounded }
		out := filepath.Join(t.TempDir(), test.to)
		if _, err := Quantize(context.Background(), ckpt, out, o); err != nil {
			t.Fatalf("%s %+v: %v", test.recipe, test.o, err)
		}
		if !(lost > 0 && lost < rounded) && o.Method != SmoothQuant || o.Method == GPTQ && !(lost < 0.9*rounded) {
			t.Errorf("%s %+v: errors of outputs are %g, and %g by rounding", test.recipe, test.o, lost, rounded)
		}
		if e := logitError(t, opened(t, out), "llama"); !(e < test.most) {
			t.Errorf("%s %+v: logits have an error of %g", test.recipe, test.o, e)
		}
	}
}

// TestGPTQFormat holds checkpoints with zero points to the format that GPTQModel asks for: in "gptq", whose zero points
// are stored less 1, it takes only its own.
func TestGPTQFormat(t *testing.T) {
	ckpt := opened(t, goldens, "llama")
	moments := calibrated(t, ckpt, "llama")
	for _, test := range []struct {
		zeros bool
		want  string
	}{{false, "gptq"}, {true, "gptq_v2"}} {
		out := filepath.Join(t.TempDir(), "folder")
		o := QuantizeOptions{MethodOptions: MethodOptions{Method: GPTQ, Moments: moments, Bits: 8, Group: 32, ZeroPoints: test.zeros}}
		if _, err := Quantize(context.Background(), ckpt, out, o); err != nil {
			t.Fatal(err)
		}
		var config struct {
			Quantization struct {
				Format string `json:"checkpoint_format"`
				Sym    bool   `json:"sym"`
			} `json:"quantization_config"`
		}
		data, err := os.ReadFile(filepath.Join(out, "config.json"))
		if err == nil {
			err = json.Unmarshal(data, &config)
		}
		if got := config.Quantization; err != nil || got.Format != test.want || got.Sym == test.zeros {
			t.Errorf("zero points %v: checkpoint_format %q, sym %v, %v; want %q, %v", test.zeros, got.Format, got.Sym, err, test.want, !test.zeros)
		}
		zeros, ok := opened(t, out).Tensor("model.layers.0.mlp.down_proj.qzeros")
		if !ok || !test.zeros && slices.ContainsFunc(zeros.Data, func(z byte) bool { return z != 127 }) {
			t.Errorf("zero points %v: qzeros are %v", test.zeros, zeros.Data)
		}
	}
}

func TestMethodRefused(t *testing.T) {
	m := map[string]*Moments{"x": {}}
	for _, test := range []struct {
		golden, to string
		o          MethodOptions
		want       string
	}{
		{"llama", "q.gguf", MethodOptions{Method: "hqq", Moments: m}, `method "hqq" is not known`},
		{"llama", "q.gguf", MethodOptions{Method: GPTQ}, "needs a calibration text"},
		{"llama", "folder", MethodOptions{Method: AWQ, Moments: m, Bits: 8, Group: 32}, "8 bits; awq has 4"},
		{"llama", "folder", MethodOptions{Method: GPTQ, Moments: m, Bits: 4, Group: 48}, "groups of 48 inputs; want a multiple of 32"},
		{"llama", "folder", MethodOptions{Method: SmoothQuant, Moments: m, Alpha: 2}, "an alpha of 2; want 0 to 1"},
		{"gpt2", "folder", MethodOptions{Method: GPTQ, Moments: m, Bits: 4, Group: 32}, "has no place in a gptq checkpoint"},
		{"mixtral", "folder", MethodOptions{Method: GPTQ, Moments: m, Bits: 4, Group: 32}, "mixtures and recurrent layers are not written"},
	} {
		_, err := Quantize(context.Background(), opened(t, golden(t, test.golden)), filepath.Join(t.TempDir(), test.to), QuantizeOptions{Recipe: "q4_0", MethodOptions: test.o})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error %v; want %s", test.o, err, test.want)
		}
	}
}
