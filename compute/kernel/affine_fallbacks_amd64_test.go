//go:build amd64 && !noasm

package kernel

import (
	"maps"
	"slices"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// zeroTypes are the types with zero points.
func zeroTypes() (types []quant.Type) {
	for _, t := range AffineTypes() {
		if affinePanels[t].layout == zeroPoints {
			types = append(types, t)
		}
	}
	return types
}

// fallBacks are the quantised types for which an implementation has no kernels of its own, by intention, and the
// implementation whose kernels multiply them instead. Those of avx512bf16 are avx512vnni's, as a whole.
var fallBacks = map[string]struct {
	to    string
	types []quant.Type
}{
	"amx":      {"avx512vnni", zeroTypes()}, // a tile takes 64 inputs of a span of 256; these have spans of 32 or 128
	"avx512":   {"avx2", AffineTypes()},     // it is what lacks VNNI
	"few rows": {"avx512vnni", zeroTypes()}, // panelsVNNI take sections with one super-block scale
}

// TestFallBacks requires that every implementation has kernels of its own for every quantised type, but for the
// fall-backs.
func TestFallBacks(t *testing.T) {
	for name, own := range map[string]func(t quant.Type) bool{
		"amx":        func(t quant.Type) bool { return int(t) < len(unpackTypes) && unpackTypes[t] != 0 },
		"avx512vnni": func(t quant.Type) bool { return int(t) < len(tilesVNNI) && tilesVNNI[t] != nil },
		"few rows":   func(t quant.Type) bool { return int(t) < len(panelsVNNI) && panelsVNNI[t] != nil },
		"avx512":     func(quant.Type) bool { return false },
		"avxvnni": func(t quant.Type) bool {
			return int(t) < len(affinesAVX2) && (affinesAVX2[t].sums > 0 || affinesAVX2[t].bytes != nil)
		},
		"avx2": func(t quant.Type) bool {
			return int(t) < len(affinesAVX2) && affinesAVX2[t].tile != nil && affinesAVX2[t].unpack != nil
		},
	} {
		var lacking []quant.Type
		for _, typ := range AffineTypes() {
			if !own(typ) {
				lacking = append(lacking, typ)
			}
		}
		if want := fallBacks[name].types; !slices.Equal(lacking, want) {
			t.Errorf("%s has no kernels of its own for %v; fallBacks says %v", name, lacking, want)
		}
	}
	known := slices.Concat(slices.Collect(maps.Keys(fallBacks)),
		[]string{"avx512vnni", "avx512bf16", "avxvnni", "avx2"})
	for _, name := range wantKernels() {
		if !slices.Contains(known, name) {
			t.Errorf("TestFallBacks does not know the kernels of %s", name)
		}
	}
}
