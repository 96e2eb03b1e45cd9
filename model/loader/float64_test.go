package loader_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/internal/golden"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// filledTiny is the tiny model with values that float32 holds, its matrices in a type. change alters the bytes of a
// tensor.
func filledTiny(t *testing.T, typ quant.Type, change func(name string, data []byte)) *weights.Checkpoint {
	t.Helper()
	empty := golden.Retyped(t, tinyGGUF(t, nil, nil, quant.F32), typ)
	var tensors []weights.Source
	for _, info := range empty.Tensors() {
		v, size := make([]float32, info.Values()), info.Type.BlockBytes()
		for i := range v {
			v[i] = float32(math.Sin(float64(31*i + len(info.Name))))
		}
		data := make([]byte, len(v)*size)
		if err := quant.Encode(data, v, info.Type); err != nil {
			t.Fatal(err)
		}
		change(info.Name, data)
		tensors = append(tensors, weights.Source{Name: info.Name, Type: info.Type, Shape: info.Shape, Write: weights.Bytes(data)})
	}
	return golden.GGUF(t, golden.Metadata(empty), tensors)
}

// TestFloat64Weights holds that weights of F64 are rounded to F32, and refused where they cannot be.
func TestFloat64Weights(t *testing.T) {
	same := func(string, []byte) {}
	ids := []int32{1, 4, 0, 2, 3}
	wide, want := filledTiny(t, quant.F64, same), filledTiny(t, quant.F32, same)
	golden.SameBits(t, "F64", golden.NewRunner(t, wide, "").Run(t, ids, 0), golden.NewRunner(t, want, "").Run(t, ids, 0))
	for v, want := range map[float64]string{1e38: "", math.Inf(1): "value 7 is +Inf", -1e39: "value 7 is -1e+39; want at most 3.4"} {
		err := load(t, filledTiny(t, quant.F64, func(name string, data []byte) {
			if name == "blk.0.ffn_up.weight" {
				binary.LittleEndian.PutUint64(data[7*8:], math.Float64bits(v))
			}
		}))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%g: error %v; want %q", v, err, want)
		}
	}
}
