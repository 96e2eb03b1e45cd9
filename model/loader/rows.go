package loader

import (
	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// Span is a part of each head's rows of a weight: from its row [0] up to, but not including, its row [1].
type Span [2]int

// HeadRows returns some rows of a weight whose rows belong to heads heads, in equal runs: for each span, that part of
// every head.
func HeadRows(src compute.Source, heads int, spans ...Span) compute.Source {
	if src.Out == 0 {
		return src // it was not found
	}
	rows := make([]int, src.Out)
	for n := range rows {
		rows[n] = n
	}
	rows = gather(rows, 1, src.Out/heads, spans...)
	if row := src.Row; row != nil {
		src.Row, src.Run = func(dst []byte, n int) { row(dst, rows[n]) }, nil
	}
	src.Data = gather(src.Data, len(src.Data)/src.Out, src.Out/heads, spans...)
	src.Scales = gather(src.Scales, len(src.Scales)/src.Out, src.Out/heads, spans...)
	src.Out = len(rows)
	return src
}

// gather returns some rows of width elements from heads of size rows: for each span, that part of every head.
func gather[T any](v []T, width, size int, spans ...Span) []T {
	var out []T
	for _, s := range spans {
		for at := 0; at < len(v); at += size * width {
			out = append(out, v[at+s[0]*width:at+s[1]*width]...)
		}
	}
	return out
}

// transposedSource returns a weight with its inputs as outputs. One that is not plain numbers becomes F32.
func transposedSource(src compute.Source) (compute.Source, error) {
	t := weights.Tensor{Info: weights.Info{Name: src.Name, Type: src.Type, Shape: []int{src.Out, src.In}}, Data: src.Data}
	if src.Type.BlockValues() != 1 || src.Scales != nil {
		v, err := expanded(src)
		if err != nil {
			return src, err
		}
		t.Type, t.Data = quant.F32, make([]byte, 4*len(v))
		if err := quant.Encode(t.Data, v, quant.F32); err != nil {
			return src, err
		}
	}
	data, err := Transposed(t)
	return compute.Source{Name: src.Name, Type: t.Type, Out: src.In, In: src.Out, Data: data}, err
}
