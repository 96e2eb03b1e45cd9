package forge

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// TestStack joins experts whose values are stored, or written row by row, and refuses those that no tensor of a GGUF
// can hold.
func TestStack(t *testing.T) {
	stored := func(typ quant.Type, first byte) compute.Source {
		data := make([]byte, 2*2*typ.BlockBytes())
		for i := range data {
			data[i] = first + byte(i)
		}
		return compute.Source{Name: "stored", Type: typ, Out: 2, In: 2, Data: data}
	}
	a, b := stored(quant.F16, 0), stored(quant.F16, 100)
	rows := b
	rows.Name, rows.Data, rows.Row = "rows", nil, func(dst []byte, n int) { copy(dst, b.Data[4*n:][:4]) }
	all, err := stack("blk.0.ffn_up_exps", "experts.up", 0, &experts{w: []compute.Source{a, rows}})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := all[0].Read(); err != nil || !bytes.Equal(data, slices.Concat(a.Data, b.Data)) {
		t.Errorf("the experts %v and %v are stored as %v, %v", a.Data, b.Data, data, err)
	}
	scaled := stored(quant.F8_E4M3, 0)
	scaled.Scales, scaled.Group = []float32{1, 2}, 2
	for want, w := range map[string][]compute.Source{
		`"stored", of 2 inputs in F32, cannot be stacked with "stored", of 2 in F16`: {a, stored(quant.F32, 0)},
		"a GGUF has no scales apart from values of F8_E4M3":                          {scaled, scaled},
	} {
		if _, err := stack("blk.0.ffn_up_exps", "experts.up", 0, &experts{w: w}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}
