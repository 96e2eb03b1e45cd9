package model_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/kvasir-llm/kvasir/hub/builtin"
	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/model/family"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestFloat64 holds the logits of the built-in model to those that float64 makes of the same file. With weights of
// F32 they differ by roundings alone, so that the float path stands for float64 wherever a quantised model is
// compared with it; with smaller types by what their products do to the inputs, see cpu's Order.
func TestFloat64(t *testing.T) {
	ckpt, err := builtin.Open()
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{11, 4097, 250, 3, 8000, 777, 42, 5120}
	for _, test := range []struct {
		name        string
		ckpt        *weights.Checkpoint
		least, most float64
	}{
		{"Q8_0", ckpt, 1e-3, 0.06},
		{"Q8_0 as F32", golden.Retyped(t, ckpt, quant.F32), 1e-8, 5e-6},
		{"BF16", golden.Retyped(t, ckpt, quant.BF16), 1e-8, 0.02},
		{"Q4_1", golden.Retyped(t, ckpt, quant.Q4_1), 1e-3, 0.06},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := logits64(t, test.ckpt, ids)
			var off, norm float64
			for p, row := range golden.NewRunner(t, test.ckpt, "").Run(t, ids, 0) {
				for i, v := range row {
					off += (float64(v) - want[p][i]) * (float64(v) - want[p][i])
					norm += want[p][i] * want[p][i]
				}
			}
			e := math.Sqrt(off / norm)
			t.Logf("relative error %.3g", e)
			if !(e > test.least && e < test.most) {
				t.Errorf("logits are off by %g of those in float64; want %g to %g", e, test.least, test.most)
			}
		})
	}
}

// logits64 computes a Llama in float64 from the tensors of its GGUF, in which ropes turn neighbours.
func logits64(t *testing.T, ckpt *weights.Checkpoint, ids []int32) [][]float64 {
	spec, err := family.Read(ckpt)
	if err != nil {
		t.Fatal(err)
	}
	tensor := func(name string, layer ...any) []float32 { return golden.Values(t, ckpt, fmt.Sprintf(name, layer...)) }
	embed, h, eps := tensor("token_embd.weight"), spec.Hidden, float64(spec.Norm.Eps)
	x := make([][]float64, len(ids))
	for p, id := range ids {
		x[p] = product64(embed[int(id)*h:][:h], []float64{1})
	}
	for i, layer := range spec.Layers {
		in := norms64(x, tensor("blk.%d.attn_norm.weight", i), eps)
		q, k, v := products64(tensor("blk.%d.attn_q.weight", i), in), products64(tensor("blk.%d.attn_k.weight", i), in), products64(tensor("blk.%d.attn_v.weight", i), in)
		a := layer.Mixer.(model.GQA)
		for p := range ids {
			turn64(q[p], p, a.HeadDim, spec.Ropes[a.Rope].Freqs)
			turn64(k[p], p, a.HeadDim, spec.Ropes[a.Rope].Freqs)
		}
		add64(x, products64(tensor("blk.%d.attn_output.weight", i), attend64(q, k, v, a.Heads, a.KVHeads, a.HeadDim)))
		in = norms64(x, tensor("blk.%d.ffn_norm.weight", i), eps)
		gate, up := products64(tensor("blk.%d.ffn_gate.weight", i), in), products64(tensor("blk.%d.ffn_up.weight", i), in)
		for p := range gate {
			for j, g := range gate[p] {
				up[p][j] *= g / (1 + math.Exp(-g))
			}
		}
		add64(x, products64(tensor("blk.%d.ffn_down.weight", i), up))
	}
	return products64(embed, norms64(x, tensor("output_norm.weight"), eps))
}

// product64 multiplies a matrix with a vector.
func product64(w []float32, x []float64) []float64 {
	out := make([]float64, len(w)/len(x))
	for o := range out {
		for i, v := range w[o*len(x):][:len(x)] {
			out[o] += float64(v) * x[i]
		}
	}
	return out
}

func products64(w []float32, x [][]float64) (out [][]float64) {
	for _, row := range x {
		out = append(out, product64(w, row))
	}
	return out
}

func add64(x, y [][]float64) {
	for p := range x {
		for i, v := range y[p] {
			x[p][i] += v
		}
	}
}

func norms64(x [][]float64, gain []float32, eps float64) (out [][]float64) {
	for _, row := range x {
		sum := 0.0
		for _, v := range row {
			sum += v * v
		}
		scaled := make([]float64, len(row))
		for i, v := range row {
			scaled[i] = v / math.Sqrt(sum/float64(len(row))+eps) * float64(gain[i])
		}
		out = append(out, scaled)
	}
	return out
}

// turn64 turns the pairs of neighbours of each head.
func turn64(x []float64, position, dims int, freqs []float32) {
	for at := 0; at < len(x); at += dims {
		for i, f := range freqs {
			sin, cos := math.Sincos(float64(position) * float64(f))
			a, b := x[at+2*i], x[at+2*i+1]
			x[at+2*i], x[at+2*i+1] = a*cos-b*sin, b*cos+a*sin
		}
	}
}

// attend64 is causal attention with a softmax.
func attend64(q, k, v [][]float64, heads, kvHeads, dims int) [][]float64 {
	out := make([][]float64, len(q))
	for p := range q {
		out[p] = make([]float64, heads*dims)
		for h := range heads {
			kv, sum, o := h/(heads/kvHeads)*dims, 0.0, out[p][h*dims:][:dims]
			for s := range p + 1 {
				score := 0.0
				for i, f := range q[p][h*dims:][:dims] {
					score += f * k[s][kv+i]
				}
				e := math.Exp(score / math.Sqrt(float64(dims)))
				sum += e
				for i := range o {
					o[i] += e * v[s][kv+i]
				}
			}
			for i := range o {
				o[i] /= sum
			}
		}
	}
	return out
}
