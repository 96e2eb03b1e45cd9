package loader

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvasir-llm/kvasir/model"
	"github.com/kvasir-llm/kvasir/quant"
	"github.com/kvasir-llm/kvasir/weights"
)

// TestPackedRows compares the rows of integers that are copied as they are stored with those of codes one by one.
func TestPackedRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	const out, in = 288, 384
	tensor := func(name string, typ quant.Type, shape ...int) weights.Source {
		n := typ.BlockBytes()
		for _, s := range shape {
			n *= s
		}
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32())
			if typ == quant.BF16 && i%2 == 1 {
				data[i] = 0x3c // about 0.01
			}
		}
		return weights.Source{Name: name, Type: typ, Shape: shape, Write: weights.Bytes(data)}
	}
	for _, c := range []struct {
		kind        string
		bits, group int
	}{
		{"gptq", 4, 128}, {"gptq", 2, 32}, {"gptq", 3, 128}, {"gptq", 8, 64}, {"awq", 4, 128}, {"awq", 4, 32},
		{"compressed", 4, 128}, {"compressed", 8, 32}, {"compressed", 3, 96}, {"int8s", 8, 0},
	} {
		groups := groupsOf(in, c.group)
		var tensors []weights.Source
		read := func(r *Reader) integers { return r.gptq("m", out, in) }
		switch c.kind {
		case "gptq":
			tensors = append(tensors, tensor("m.qweight", quant.I32, in*c.bits/32, out), tensor("m.qzeros", quant.I32, groups, out*c.bits/32), tensor("m.scales", quant.BF16, groups, out))
		case "awq":
			tensors = append(tensors, tensor("m.qweight", quant.I32, in, out/8), tensor("m.qzeros", quant.I32, groups, out/8), tensor("m.scales", quant.BF16, groups, out))
			read = func(r *Reader) integers { return r.awq("m", out, in) }
		case "compressed":
			tensors = append(tensors, tensor("m.weight_packed", quant.I32, out, in*c.bits/32), tensor("m.weight_scale", quant.BF16, out, groups))
			read = func(r *Reader) integers { return r.compressed("m", out, in) }
		case "int8s":
			tensors = append(tensors, tensor("m.weight", quant.I8, out, in), tensor("m.weight_scale", quant.BF16, out, 1))
			read = func(r *Reader) integers { return r.int8s("m", out, in) }
		}
		var file bytes.Buffer
		if err := weights.WriteSafetensors(&file, tensors, nil); err != nil {
			t.Fatal(err)
		}
		ckpt, err := weights.OpenBytes("m.safetensors", file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		reader := &Reader{ckpt: ckpt, used: map[string]bool{}, quantized: model.Quantization{Schemes: []model.Scheme{{Bits: c.bits, Group: c.group, Rows: 1}}}}
		name := fmt.Sprint(c.kind, " ", c.bits, " by ", c.group)
		w := read(reader)
		if w.packed == nil {
			t.Errorf("%s has no short way", name)
		}
		short := reader.source(w)
		w.packed, w.run = nil, nil
		long := reader.source(w)
		if reader.err != nil {
			t.Fatal(name, reader.err)
		}
		size, err := short.Type.RowBytes(in)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]byte, 0, out*size)
		for n := range out {
			long.Row(all[len(all):][:size], n)
			all = all[:len(all)+size]
		}
		if (short.Run != nil) != (c.kind == "awq") {
			t.Errorf("%s: it has runs: %v", name, short.Run != nil)
		}
		for _, c := range [][2]int{{0, out}, {3, 1}, {7, 2}, {128, 128}, {129, 140}, {out - 1, 1}, {out - 9, 9}} {
			if short.Run == nil {
				break
			}
			part := short.Rows(1, out-1) // begins later
			to := make([]byte, c[1]*size)
			if short.Run(to, c[0], c[1]); !bytes.Equal(to, all[c[0]*size:][:len(to)]) {
				t.Errorf("%s: the run of %d rows from %d on differs", name, c[1], c[0])
			}
			if c[0] == 0 {
				continue
			}
			if part.Run(to, c[0]-1, c[1]); !bytes.Equal(to, all[c[0]*size:][:len(to)]) {
				t.Errorf("%s: the run of %d rows from %d on differs, one row less", name, c[1], c[0])
			}
		}
		got, want := make([]byte, size), make([]byte, size)
		for n := range out {
			n = (n*5 + 131) % out
			short.Row(got, n)
			if long.Row(want, n); !bytes.Equal(got, want) {
				t.Fatalf("%s: row %d differs", name, n)
			}
		}
	}
}
