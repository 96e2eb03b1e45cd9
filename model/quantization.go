package model

import (
	"fmt"
	"strings"

	"github.com/kvasir-llm/kvasir/weights"
)

// Quantization is how a checkpoint stores quantised linear weights, from the quantization_config of its config.json.
// Which weights are quantised follows from the tensors.
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

// String describes it in one line.
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

// Parameters returns how many of the model's parameters a tensor holds: 0 for scales, zero points and the like.
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
