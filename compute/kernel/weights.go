package kernel

import "github.com/kvasir-llm/kvasir/quant"

// PanelBytes returns the bytes of one panel of a weight with the given input width.
func PanelBytes(t quant.Type, in int) int {
	n := 0
	switch t {
	case quant.F32:
		n = in * Lanes * 4
	case quant.F16, quant.BF16:
		n = (in + 31) / 32 * 32 * Lanes * 2
	default:
		if IsAffine(t) {
			n = affinePanels[t].bytes(in / 32)
		}
	}
	return (n + 63) &^ 63
}
