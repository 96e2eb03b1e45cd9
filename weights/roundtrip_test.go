package weights

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kvasir-llm/kvasir/quant"
)

// source makes a tensor of random bytes.
func source(t testing.TB, name string, typ quant.Type, shape ...int) Source {
	t.Helper()
	size, err := byteSize(typ, shape, false)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(len(name)), uint64(size)))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return Source{Name: name, Type: typ, Shape: shape, Write: Bytes(data)}
}

func safetensorsFile(t testing.TB, meta map[string]string, tensors ...Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteSafetensors(&b, tensors, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func ggufFile(t testing.TB, meta []KV, tensors ...Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteGGUF(&b, meta, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sameTensors checks that c holds the given tensors, in any order.
func sameTensors(t *testing.T, c *Checkpoint, want []Source) {
	t.Helper()
	if got := len(c.Tensors()); got != len(want) {
		t.Errorf("%d tensors, want %d", got, len(want))
	}
	for _, s := range want {
		got, ok := c.Tensor(s.Name)
		if !ok {
			t.Errorf("tensor %q is missing", s.Name)
			continue
		}
		var data bytes.Buffer
		if err := s.Write(&data); err != nil {
			t.Fatal(err)
		}
		if got.Type != s.Type || !slices.Equal(got.Shape, s.Shape) || !bytes.Equal(got.Data, data.Bytes()) {
			t.Errorf("tensor %q: %v %v, want %v %v, or other bytes", s.Name, got.Type, got.Shape, s.Type, s.Shape)
		}
		if got.Offset%int64(min(got.Type.BlockBytes(), 8)) != 0 && c.Format() == Safetensors {
			t.Errorf("tensor %q of %v at offset %d", s.Name, s.Type, got.Offset)
		}
	}
}

func TestSafetensorsRoundTrip(t *testing.T) {
	var tensors []Source
	for typ := range safetensorsTypes {
		tensors = append(tensors, source(t, "t."+typ.String(), typ, 3, 4))
	}
	tensors = append(tensors, source(t, `odd "name" \ é <&>`, quant.U8, 7), source(t, "scalar", quant.F32),
		source(t, "empty", quant.F32, 0, 5), source(t, "deep", quant.BF16, 1, 2, 3, 1, 2, 1))
	meta := map[string]string{"format": "pt", "a": "", `"`: "line\nbreak"}
	c, err := OpenBytes("x.safetensors", safetensorsFile(t, meta, tensors...))
	if err != nil {
		t.Fatal(err)
	}
	sameTensors(t, c, tensors)
	want := map[string]any{}
	for k, v := range meta {
		want[k] = v
	}
	if d := cmp.Diff(want, c.Metadata()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{`"`, "a", "format"}, c.MetadataKeys()); d != "" {
		t.Error(d)
	}
}

// allKinds holds every type of GGUF metadata.
var allKinds = []KV{
	{"general.architecture", "test"},
	{"u8", uint8(200)}, {"i8", int8(-100)}, {"u16", uint16(60000)}, {"i16", int16(-30000)},
	{"u32", uint32(4e9)}, {"i32", int32(-2e9)}, {"u64", uint64(1 << 63)}, {"i64", int64(-1 << 63)},
	{"f32", float32(0.1)}, {"f64", 0.1}, {"yes", true}, {"no", false}, {"empty", ""},
	{"a.u8", []uint8{1, 255}}, {"a.i8", []int8{-1}}, {"a.u16", []uint16{1}}, {"a.i16", []int16{-2, 3}},
	{"a.u32", []uint32{7}}, {"a.i32", []int32{-7, 0}}, {"a.u64", []uint64{1 << 40}}, {"a.i64", []int64{-1 << 40}},
	{"a.f32", []float32{1.5, -2}}, {"a.f64", []float64{1e300}}, {"a.bool", []bool{true, false}},
	{"a.str", []string{"", "é", "token"}}, {"a.none", []string{}}, {"a.nothing", []float32{}},
	{"nested", []any{[]int32{1, 2}, []string{"x"}, []any{[]bool{true}, []any{}}}},
}

func TestGGUFRoundTrip(t *testing.T) {
	var tensors []Source
	for _, typ := range ggmlTypes {
		if typ.Valid() {
			tensors = append(tensors, source(t, "t."+typ.String(), typ, 3, 2*typ.BlockValues()))
		}
	}
	tensors = append(tensors, source(t, "scalar", quant.F32), source(t, "four", quant.F16, 2, 3, 4, 5),
		source(t, "none", quant.F32, 0, 4))
	for _, align := range []uint32{0, 8, 32, 4096} {
		meta := slices.Clone(allKinds)
		if align > 0 {
			meta = append(meta, KV{alignmentKey, align})
		} else {
			align = ggufAlignment
		}
		c, err := OpenBytes("x.gguf", ggufFile(t, meta, tensors...))
		if err != nil {
			t.Fatal(err)
		}
		sameTensors(t, c, tensors)
		keys, want := []string{}, map[string]any{}
		for _, kv := range meta {
			keys, want[kv.Key] = append(keys, kv.Key), kv.Value
		}
		if d := cmp.Diff(want, c.Metadata()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(keys, c.MetadataKeys()); d != "" {
			t.Error(d)
		}
		for i, info := range c.Tensors() {
			if info.Offset%int64(align) != 0 || info.Name != tensors[i].Name {
				t.Errorf("tensor %d is %q at offset %d, want %q aligned to %d", i, info.Name, info.Offset, tensors[i].Name, align)
			}
		}
	}
}

// TestGGUFVersion2 reads a file of version 2, which differs from version 3 in its number alone.
func TestGGUFVersion2(t *testing.T) {
	tensors := []Source{source(t, "x", quant.Q8_0, 2, 64)}
	data := ggufFile(t, allKinds, tensors...)
	data[4] = 2
	c, err := OpenBytes("x.gguf", data)
	if err != nil {
		t.Fatal(err)
	}
	sameTensors(t, c, tensors)
}

// TestOpenBytesCopiesNothing finds a tensor's view inside the bytes that were given.
func TestOpenBytesCopiesNothing(t *testing.T) {
	src := source(t, "x", quant.F32, 4)
	for _, data := range [][]byte{safetensorsFile(t, nil, src), ggufFile(t, nil, src)} {
		c, err := OpenBytes("built-in", data)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := c.Tensor("x")
		if &x.Data[0] != &data[x.Offset] || cap(x.Data) != len(x.Data) {
			t.Errorf("%s: the view is a copy, or can grow past its end", c.Format())
		}
		if c.Size() != int64(len(data)) || c.Dir() != "" || !slices.Equal(c.Files(), []string{"built-in"}) {
			t.Errorf("%s: size %d, folder %q, files %q", c.Format(), c.Size(), c.Dir(), c.Files())
		}
	}
}

func TestWritersRefuse(t *testing.T) {
	short := Source{Name: "short", Type: quant.F32, Shape: []int{2}, Write: Bytes(make([]byte, 7))}
	long := Source{Name: "long", Type: quant.F32, Shape: []int{2}, Write: Bytes(make([]byte, 9))}
	x := source(t, "x", quant.F32, 2)
	for _, tc := range []struct {
		name    string
		meta    []KV
		tensors []Source
		gguf    bool
		want    string
	}{
		{"short", nil, []Source{short}, false, `"short": 7 bytes were written of the 8 that F32 of shape [2] takes`},
		{"long", nil, []Source{long}, true, `"long": 1 bytes more than its type and shape take`},
		{"same name", nil, []Source{x, x}, true, `"x": two tensors have this name`},
		{"no name", nil, []Source{{Type: quant.F32}}, false, `tensor 0: the name "" is empty`},
		{"no type", nil, []Source{{Name: "x"}}, true, `"x": Type(0) is not a tensor type`},
		{"negative", nil, []Source{{Name: "x", Type: quant.F32, Shape: []int{-1}}}, true, "[-1] has a negative dimension"},
		{"huge", nil, []Source{{Name: "x", Type: quant.F32, Shape: []int{math.MaxInt, 2}}}, true,
			"more values than can be counted"},
		{"ggml type", nil, []Source{source(t, "x", quant.Q8_0, 32)}, false, `"x": safetensors has no type Q8_0`},
		{"other type", nil, []Source{source(t, "x", quant.F8_E4M3, 32)}, true, `"x": GGUF has no type F8_E4M3`},
		{"broken rows", nil, []Source{source(t, "x", quant.Q8_0, 2, 16)}, true, "rows of 16 values"},
		{"five dims", nil, []Source{source(t, "x", quant.F32, 1, 1, 1, 1, 1)}, true, "more than the 4 dimensions"},
		{"reserved", nil, []Source{source(t, metadataKey, quant.F32, 1)}, false, "cannot hold this name"},
		{"int", []KV{{"k", 1}}, nil, true, `"k": GGUF metadata has no type for a int`},
		{"nil", []KV{{"k", nil}}, nil, true, `"k": GGUF metadata has no type for a <nil>`},
		{"mixed", []KV{{"k", []any{1}}}, nil, true, `"k": element 0 of an array of arrays is a int`},
		{"key twice", []KV{{"k", true}, {"k", true}}, nil, true, `"k" is empty, too long, not UTF-8 or given twice`},
		{"alignment", []KV{{alignmentKey, uint32(12)}}, nil, true, "is 12, not a power of two"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var err error
			if tc.gguf {
				err = WriteGGUF(io.Discard, tc.meta, tc.tensors)
			} else {
				err = WriteSafetensors(io.Discard, tc.tensors, nil)
			}
			if err == nil || !strings.HasPrefix(err.Error(), "weights: writing ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
