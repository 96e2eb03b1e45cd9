package family

import (
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/model"
)

// methods read the quantization_config of each quant_method.
var methods = map[string]func(c *Config, q *model.Quantization){
	"gptq": readGPTQ, "awq": readAWQ, "compressed-tensors": readCompressed, "fp8": readFP8,
	"mxfp4": func(*Config, *model.Quantization) {}, // experts of gpt-oss, which its family reads
}

// quantization reads quantization_config, if there is one.
func (c *Config) quantization() model.Quantization {
	var q model.Quantization
	if !c.Has("quantization_config") {
		return q
	}
	sub, _ := c.Sub("quantization_config")
	q.Method = sub.Text("quant_method")
	read := methods[q.Method]
	if read == nil {
		c.Fail("%q is %q, which is not supported; known are %s", sub.key("quant_method"), q.Method, strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		return q
	}
	read(sub, &q)
	return q
}

// oneOf returns a string in lower case that must be one of those given; the first is the default.
func (c *Config) oneOf(key string, known ...string) string {
	v := strings.ToLower(c.textOr(key, known[0]))
	if !slices.Contains(known, v) {
		c.Fail("%q is %q, which is not supported; known are %s", c.key(key), v, strings.Join(known, ", "))
	}
	return v
}

// refuseFilled refuses an object that has anything in it.
func (c *Config) refuseFilled(key string) {
	if sub, ok := c.Sub(key); ok && len(sub.keys()) > 0 {
		c.Fail("%q is %s, which is not supported", c.key(key), show(sub.values))
	}
}

// groupSize reads how many inputs share a scale; -1 is all. It returns 0 for all.
func (c *Config) groupSize(or int) int {
	n := c.IntOr("group_size", or)
	if n < 1 && n != -1 {
		c.Fail("%q is %d; want 1 or more, or -1 for all inputs", c.key("group_size"), n)
	}
	return max(n, 0)
}

// readGPTQ reads what AutoGPTQ and GPTQModel write.
func readGPTQ(c *Config, q *model.Quantization) {
	s := model.Scheme{Bits: c.Int("bits"), Group: c.groupSize(128), Rows: 1}
	if !slices.Contains([]int{2, 3, 4, 8}, s.Bits) {
		c.Fail("%q is %d, which is not supported; known are 2, 3, 4, 8", c.key("bits"), s.Bits)
	}
	q.Format = c.oneOf("checkpoint_format", "gptq", "gptq_v2")
	c.oneOf("pack_dtype", "int32")
	c.Refuse("is_marlin_format", false)
	c.refuseFilled("dynamic")
	q.Schemes = []model.Scheme{s}
}

// readAWQ reads what AutoAWQ writes.
func readAWQ(c *Config, q *model.Quantization) {
	c.rename(map[string]string{"w_bit": "bits", "q_group_size": "group_size"})
	s := model.Scheme{Bits: c.Int("bits"), Group: c.groupSize(128), Rows: 1}
	if s.Bits != 4 {
		c.Fail("%q is %d, which is not supported; known is 4", c.key("bits"), s.Bits)
	}
	q.Format = c.oneOf("version", "gemm")
	c.oneOf("backend", "autoawq")
	c.Refuse("zero_point", true)
	q.Schemes = []model.Scheme{s}
}

// readFP8 reads fine-grained FP8: a scale for each block of weight_block_size, [outputs, inputs].
func readFP8(c *Config, q *model.Quantization) {
	c.oneOf("fmt", "e4m3")
	c.oneOf("activation_scheme", "dynamic", "static")
	c.oneOf("scale_fmt", "float", "ue8m0")
	s := model.Scheme{Bits: 8, Float: true}
	if c.Has("weight_block_size") {
		s.Rows, s.Group = c.blockSize("weight_block_size")
	}
	q.Schemes = []model.Scheme{s}
}

func (c *Config) blockSize(key string) (rows, group int) {
	size := c.Ints(key)
	if len(size) != 2 || size[0] < 1 || size[1] < 1 {
		c.Fail("%q is %v; want two numbers above 0", c.key(key), size)
		return 1, 1
	}
	return size[0], size[1]
}

// readCompressed reads what the library compressed-tensors writes. It ignores how activations would be quantised.
func readCompressed(c *Config, q *model.Quantization) {
	known := []string{"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision", "dense"}
	q.Format = c.oneOf("format", known...)
	c.refuseFilled("transform_config")
	if sparse, ok := c.Sub("sparsity_config"); ok && len(sparse.keys()) > 0 {
		sparse.oneOf("format", "dense")
	}
	groups, _ := c.Sub("config_groups")
	for _, name := range groups.keys() {
		group, _ := groups.Sub(name)
		group.oneOf("format", known...)
		w, ok := group.Sub("weights")
		if !ok {
			continue // activations only
		}
		s := model.Scheme{Bits: w.Int("num_bits"), Float: w.oneOf("type", "int", "float") == "float", Rows: 1}
		if s.Float && s.Bits != 8 || s.Bits < 2 || s.Bits > 8 {
			c.Fail("%q is %d for weights of type %s; known are 2 to 8 for int, 8 for float", w.key("num_bits"), s.Bits, w.textOr("type", "int"))
		}
		switch w.oneOf("strategy", "tensor", "channel", "group", "block") {
		case "tensor":
			s.Rows = 0
		case "group":
			s.Group = w.groupSize(0)
		case "block":
			s.Rows, s.Group = w.blockSize("block_structure")
		}
		if !slices.Contains(q.Schemes, s) {
			q.Schemes = append(q.Schemes, s)
		}
	}
}
