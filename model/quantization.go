package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kvasir-llm/kvasir/weights"
)

// Quantization is how a checkpoint's linear weights are stored, as the quantization_config of its config.json says. Which of
// them are, the tensors say.
type Quantization struct {
	Method  string // "" is none
	Format  string // of a method that has several
	Schemes []Scheme
}

// Scheme is how one kind of weights is stored.
type Scheme struct {
	Bits  int
	Float bool
	Group int // inputs that share a scale; 0 is all
	Rows  int // outputs that share it, 0 is all; 1 unless Float
}

// String says it in a line.
func (q Quantization) String() string {
	if q.Method == "" {
		return "none"
	}
	out := []string{q.Method}
	if q.Format != "" {
		out = append(out, q.Format)
	}
	for _, s := range q.Schemes {
		out = append(out, s.String())
	}
	return strings.Join(out, ", ")
}

// Parameters returns how many of the model's parameters a tensor holds: none if it says how others are stored.
func (q Quantization) Parameters(t weights.Info) int {
	if q.Method == "" {
		return t.Values()
	}
	for _, suffix := range []string{".qzeros", ".scales", ".g_idx", "_g_idx", "_scale", "_scale_inv", "_zero_point", "_shape"} {
		if strings.HasSuffix(t.Name, suffix) {
			return 0
		}
	}
	packed := strings.HasSuffix(t.Name, ".qweight") || strings.HasSuffix(t.Name, ".weight_packed")
	if packed && len(q.Schemes) > 0 {
		return t.Values() * 32 / q.Schemes[0].Bits
	}
	return t.Values()
}

func (s Scheme) String() string {
	kind := fmt.Sprintf("int%d", s.Bits)
	if s.Float {
		kind = fmt.Sprintf("float%d", s.Bits)
	}
	switch {
	case s.Group == 0 && s.Rows == 0:
		return kind + " with a scale for each tensor"
	case s.Group == 0:
		return kind + " with a scale for each output"
	case s.Rows == 1:
		return fmt.Sprintf("%s in groups of %d", kind, s.Group)
	}
	return fmt.Sprintf("%s in blocks of %d×%d", kind, s.Rows, s.Group)
}

// methods read the quantization_config of each quant_method.
var methods = map[string]func(c *Config, q *Quantization){
	"gptq": readGPTQ, "awq": readAWQ, "compressed-tensors": readCompressed, "fp8": readFP8,
	"mxfp4": func(*Config, *Quantization) {}, // experts of gpt-oss, which its family reads
}

// quantization reads quantization_config, if there is one.
func (c *Config) quantization() Quantization {
	var q Quantization
	if !c.Has("quantization_config") {
		return q
	}
	sub, _ := c.sub("quantization_config")
	q.Method = sub.Text("quant_method")
	read := methods[q.Method]
	if read == nil {
		c.fail("%q is %q, which is not supported; known are %s", sub.key("quant_method"), q.Method, strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		return q
	}
	read(sub, &q)
	return q
}

// oneOf returns a text, lowered, that must be one of those given, of which the first is what is meant if it is absent.
func (c *Config) oneOf(key string, known ...string) string {
	v := strings.ToLower(c.TextOr(key, known[0]))
	if !slices.Contains(known, v) {
		c.fail("%q is %q, which is not supported; known are %s", c.key(key), v, strings.Join(known, ", "))
	}
	return v
}

// refuseFilled refuses an object that has anything in it.
func (c *Config) refuseFilled(key string) {
	if sub, ok := c.sub(key); ok && len(sub.values) > 0 {
		c.fail("%q is %s, which is not supported", c.key(key), show(sub.values))
	}
}

// groupSize reads how many inputs share a scale; -1 is all. It returns 0 for all.
func (c *Config) groupSize(or int) int {
	n := c.IntOr("group_size", or)
	if n < 1 && n != -1 {
		c.fail("%q is %d; want 1 or more, or -1 for all inputs", c.key("group_size"), n)
	}
	return max(n, 0)
}

// readGPTQ reads what AutoGPTQ and GPTQModel write.
func readGPTQ(c *Config, q *Quantization) {
	s := Scheme{Bits: c.Int("bits"), Group: c.groupSize(128), Rows: 1}
	if !slices.Contains([]int{2, 3, 4, 8}, s.Bits) {
		c.fail("%q is %d, which is not supported; known are 2, 3, 4, 8", c.key("bits"), s.Bits)
	}
	q.Format = c.oneOf("checkpoint_format", "gptq", "gptq_v2")
	c.oneOf("pack_dtype", "int32")
	c.Refuse("is_marlin_format", false)
	c.refuseFilled("dynamic")
	q.Schemes = []Scheme{s}
}

// readAWQ reads what AutoAWQ writes.
func readAWQ(c *Config, q *Quantization) {
	c.rename(map[string]string{"w_bit": "bits", "q_group_size": "group_size"})
	s := Scheme{Bits: c.Int("bits"), Group: c.groupSize(128), Rows: 1}
	if s.Bits != 4 {
		c.fail("%q is %d, which is not supported; known is 4", c.key("bits"), s.Bits)
	}
	q.Format = c.oneOf("version", "gemm")
	c.oneOf("backend", "autoawq")
	c.Refuse("zero_point", true)
	q.Schemes = []Scheme{s}
}

// readFP8 reads fine-grained FP8: a scale for each block of weight_block_size, [outputs, inputs].
func readFP8(c *Config, q *Quantization) {
	c.oneOf("fmt", "e4m3")
	c.oneOf("activation_scheme", "dynamic", "static")
	c.oneOf("scale_fmt", "float", "ue8m0")
	s := Scheme{Bits: 8, Float: true}
	if c.Has("weight_block_size") {
		s.Rows, s.Group = c.blockSize("weight_block_size")
	}
	q.Schemes = []Scheme{s}
}

func (c *Config) blockSize(key string) (rows, group int) {
	size := c.Ints(key)
	if len(size) != 2 || size[0] < 1 || size[1] < 1 {
		c.fail("%q is %v; want two numbers above 0", c.key(key), size)
		return 1, 1
	}
	return size[0], size[1]
}

// readCompressed reads what the library compressed-tensors writes. How activations would be quantised is no matter here.
func readCompressed(c *Config, q *Quantization) {
	known := []string{"pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision", "dense"}
	q.Format = c.oneOf("format", known...)
	c.refuseFilled("transform_config")
	if sparse, ok := c.sub("sparsity_config"); ok && len(sparse.values) > 0 {
		sparse.oneOf("format", "dense")
	}
	groups, _ := c.sub("config_groups")
	for _, name := range slices.Sorted(maps.Keys(groups.values)) {
		group, _ := groups.sub(name)
		group.oneOf("format", known...)
		w, ok := group.sub("weights")
		if !ok {
			continue // activations only
		}
		s := Scheme{Bits: w.Int("num_bits"), Float: w.oneOf("type", "int", "float") == "float", Rows: 1}
		if s.Float && s.Bits != 8 || s.Bits < 2 || s.Bits > 8 {
			c.fail("%q is %d for weights of type %s; known are 2 to 8 for int, 8 for float", w.key("num_bits"), s.Bits, w.TextOr("type", "int"))
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
