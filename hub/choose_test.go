package hub

import (
	"slices"
	"testing"
)

// TestChooseFormat picks PyTorch's files where there are no safetensors, and only those that hold weights.
func TestChooseFormat(t *testing.T) {
	const torch1, torch2, index = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"
	for _, tc := range []struct {
		names         []string
		format        string
		meta, weights []string
	}{
		{[]string{"config.json", "model.safetensors", "pytorch_model.bin", index}, "safetensors", []string{"config.json"}, []string{"model.safetensors"}},
		{[]string{"config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors", "onnx/config.json"}, "safetensors",
			[]string{"config.json", "modules.json", "1_Pooling/config.json"}, []string{"model.safetensors"}},
		{[]string{"config.json", "pytorch_model.bin", "training_args.bin", "x.gguf"}, "pytorch", []string{"config.json"}, []string{"pytorch_model.bin"}},
		{[]string{"config.json", torch1, torch2, index, "tokenizer.json"}, "pytorch", []string{"config.json", index, "tokenizer.json"}, nil},
		{[]string{"config.json", torch1, torch2, "sub/pytorch_model.bin"}, "pytorch", []string{"config.json"}, []string{torch1, torch2}},
		{[]string{"config.json", "optimizer.bin", "x.gguf"}, "gguf", nil, []string{"x.gguf"}},
		{[]string{"README.md", "adapter_config.json", "adapter_model.safetensors", "tokenizer.json"}, "adapter", []string{"adapter_config.json"}, []string{"adapter_model.safetensors"}},
		{[]string{"config.json", "model.safetensors", "adapter_config.json", "adapter_model.safetensors"}, "safetensors", []string{"config.json"}, []string{"model.safetensors"}},
		{[]string{"pytorch_model.bin", "x.gguf"}, "gguf", nil, []string{"x.gguf"}},
	} {
		c, err := choose(tc.names, "")
		if err != nil || c.format != tc.format || !slices.Equal(c.meta, tc.meta) || !slices.Equal(c.weights, tc.weights) {
			t.Errorf("%v: %+v, %v; want %s of %v and %v", tc.names, c, err, tc.format, tc.meta, tc.weights)
		}
	}
}
