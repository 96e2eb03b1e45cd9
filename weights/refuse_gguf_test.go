package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// rawGGUF builds GGUF files that the writer would refuse to write.
type rawGGUF struct{ b []byte }

func newGGUF(version uint32, tensors, pairs uint64) *rawGGUF {
	return (&rawGGUF{[]byte("GGUF")}).u32(version).u64(tensors).u64(pairs)
}

func (r *rawGGUF) u32(v uint32) *rawGGUF {
	r.b = binary.LittleEndian.AppendUint32(r.b, v)
	return r
}

func (r *rawGGUF) u64(v ...uint64) *rawGGUF {
	for _, v := range v {
		r.b = binary.LittleEndian.AppendUint64(r.b, v)
	}
	return r
}

func (r *rawGGUF) bytes(s string) *rawGGUF {
	r.b = append(r.b, s...)
	return r
}

func (r *rawGGUF) str(s string) *rawGGUF { return r.u64(uint64(len(s))).bytes(s) }

// tensor describes a tensor; dims are innermost first.
func (r *rawGGUF) tensor(name string, id uint32, offset uint64, dims ...uint64) *rawGGUF {
	return r.str(name).u32(uint32(len(dims))).u64(dims...).u32(id).u64(offset)
}

// data pads to the default alignment and adds n bytes.
func (r *rawGGUF) data(n int) *rawGGUF {
	r.b = append(r.b, make([]byte, int(padding(int64(len(r.b)), ggufAlignment))+n)...)
	return r
}

func TestGGUFRefused(t *testing.T) {
	const f32, q8 = 0, 8
	pair := func(key string) *rawGGUF { return newGGUF(3, 0, 1).str(key) }
	tensor := func() *rawGGUF { return newGGUF(3, 1, 0) }
	deep := pair("k").u32(kvArray)
	for range maxArrayDepth {
		deep.u32(kvArray).u64(1)
	}
	deep.u32(kvArray).u64(0)
	for _, tc := range []struct {
		name string
		file *rawGGUF
		want string
	}{
		{"magic", &rawGGUF{[]byte("GGML\x03\x00\x00\x00")}, `begins with "GGML", not with the magic "GGUF"`},
		{"version 1", newGGUF(1, 0, 0), "GGUF version 1 is not supported"},
		{"version 4", newGGUF(4, 0, 0), "GGUF version 4 is not supported"},
		{"big-endian", newGGUF(3<<24, 0, 0), "big-endian GGUF is not supported"},
		{"tensor count", newGGUF(3, 1000, 0).data(64),
			"the number of tensors at byte 8 is 1000, but the 80 bytes left in the file can hold 3"},
		{"negative tensor count", newGGUF(3, math.MaxUint64, 0), "the number of tensors at byte 8 is 18446744073709551615"},
		{"pair count", newGGUF(3, 0, 1<<60).data(64), "the number of metadata pairs at byte 16 is 1152921504606846976"},
		{"empty key", pair("").data(64), "a metadata key at byte 24 is empty"},
		{"key not UTF-8", pair("\xff").u32(0).bytes("x"), "a metadata key at byte 24 is not UTF-8"},
		{"long key", pair(strings.Repeat("k", maxName+1)).data(64), "a metadata key at byte 24 has 65536 bytes"},
		{"key past the end", newGGUF(3, 0, 1).u64(1 << 62).data(64),
			"a metadata key at byte 32 takes 4611686018427387904 bytes"},
		{"key twice", newGGUF(3, 0, 2).str("k").u32(0).bytes("x").str("k").u32(0).bytes("x"),
			`metadata key "k" at byte 38 occurs twice`},
		{"value type", pair("k").u32(13).u64(0), `metadata key "k": unknown metadata value type 13 before byte 37`},
		{"boolean", pair("k").u32(kvBool).bytes("\x02"), `metadata key "k": a boolean at byte 37 is 2, neither 0 nor 1`},
		{"string past the end", pair("k").u32(kvString).u64(math.MaxUint64),
			`metadata key "k": a string at byte 45 takes 18446744073709551615`},
		{"array type", pair("k").u32(kvArray).u32(99).u64(0), `metadata key "k": unknown metadata value type 99`},
		{"array length", pair("k").u32(kvArray).u32(4).u64(1 << 61),
			`metadata key "k": an array's length at byte 41 is 2305843009213693952, but the 0 bytes left`},
		{"string array length", pair("k").u32(kvArray).u32(kvString).u64(2).str("x"),
			"an array's length at byte 41 is 2, but the 9 bytes left"},
		{"string in array", pair("k").u32(kvArray).u32(kvString).u64(1).u64(2),
			`metadata key "k": element 0: a string at byte 57 takes 2 bytes`},
		{"deep arrays", deep, fmt.Sprintf("nest deeper than %d", maxArrayDepth)},
		{"alignment 0", pair(alignmentKey).u32(4).u32(0), `"general.alignment" is 0, not a power of two from 8`},
		{"alignment 24", pair(alignmentKey).u32(4).u32(24), `"general.alignment" is 24, not a power of two from 8`},
		{"alignment type", pair(alignmentKey).u32(10).u64(32), `"general.alignment" is a uint64, not a uint32`},
		{"tensor name", tensor().tensor("", f32, 0, 1).data(4), "a tensor name at byte 24 is empty"},
		{"tensor twice", newGGUF(3, 2, 0).tensor("x", f32, 0, 1).tensor("x", f32, 32, 1).data(36),
			`tensor "x" at byte 57 occurs twice`},
		{"five dimensions", tensor().tensor("x", f32, 0, 1, 1, 1, 1, 1).data(4),
			`tensor "x": 5 dimensions before byte 37, more than the 4`},
		{"negative dimension", tensor().tensor("x", f32, 0, math.MaxUint64).data(4),
			`tensor "x": dimension 0 before byte 45 is 18446744073709551615, negative`},
		{"overflow", tensor().tensor("x", f32, 0, 1<<32, 1<<32).data(4),
			`tensor "x": shape [4294967296 4294967296] has more values than can be counted`},
		{"withdrawn type", tensor().tensor("x", 31, 0, 32).data(4),
			`tensor "x": before byte 49: tensor type 31 (Q4_0_4_4) was withdrawn`},
		{"unknown type", tensor().tensor("x", 1000, 0, 32).data(4), `tensor "x": before byte 49: unknown tensor type 1000`},
		{"broken rows", tensor().tensor("x", q8, 0, 16, 2).data(34),
			`tensor "x": shape [2 16] has rows of 16 values, which do not fill whole Q8_0 blocks of 32`},
		{"unaligned", tensor().tensor("x", f32, 4, 1).data(64),
			`tensor "x" at offset 4 of the data, which is not a multiple of the alignment 32`},
		{"far offset", tensor().tensor("x", f32, 1<<63, 1).data(4),
			`tensor "x": offset 9223372036854775808 before byte 57 is beyond any file`},
		{"past the end", tensor().tensor("x", f32, 32, 2).data(39),
			`tensor "x" at byte 96 with 8 bytes ends at byte 104, past the file's end 103`},
		{"oversized", tensor().tensor("x", f32, 0, 1<<40).data(64),
			`tensor "x" at byte 64 with 4398046511104 bytes ends at byte 4398046511168, past the file's end 128`},
		{"overlap", newGGUF(3, 2, 0).tensor("x", f32, 32, 8).tensor("y", f32, 0, 9).data(64),
			`tensor "x" at bytes 128 to 160 overlaps tensor "y", which ends at byte 132`},
		{"a split alone", newGGUF(3, 0, 1).str("split.count").u32(2).bytes("\x02\x00"), "the file is one of 2 splits"},
	} {
		t.Run(tc.name, func(t *testing.T) { refused(t, "dir/x.gguf", tc.file.b, tc.want) })
	}
}

// TestGGUFAccepted holds what the format allows though few files have it.
func TestGGUFAccepted(t *testing.T) {
	for name, file := range map[string]*rawGGUF{
		"nothing":          newGGUF(3, 0, 0),
		"hole":             newGGUF(3, 2, 0).tensor("y", 0, 96, 1).tensor("x", 0, 0, 1).data(100),
		"bytes after":      newGGUF(3, 1, 0).tensor("x", 0, 0, 1).data(32),
		"empty at the end": newGGUF(3, 2, 0).tensor("x", 0, 0, 1).tensor("y", 0, 32, 0).data(32),
	} {
		c, err := OpenBytes("x.gguf", file.b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if infos := c.Tensors(); len(infos) > 0 && infos[0].Name != "x" {
			t.Errorf("%s: the first tensor is %q, want the one with the lowest offset", name, infos[0].Name)
		}
	}
}

// TestShapesAreOutermostFirst reads the same matrix from both formats.
func TestShapesAreOutermostFirst(t *testing.T) {
	src := source(t, "x", quant.F16, 5, 7)
	for _, data := range [][]byte{safetensorsFile(t, nil, src), ggufFile(t, nil, src)} {
		c, err := OpenBytes("x", data)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := c.Tensor("x")
		if got := fmt.Sprint(x.Shape, x.Values()); got != "[5 7] 35" {
			t.Errorf("%s: shape and values %s", c.Format(), got)
		}
	}
	raw := newGGUF(3, 1, 0).tensor("x", 1, 0, 7, 5).data(70)
	c, err := OpenBytes("x", raw.b)
	if err != nil {
		t.Fatal(err)
	}
	if x, _ := c.Tensor("x"); fmt.Sprint(x.Shape) != "[5 7]" {
		t.Errorf("stored dimensions 7, 5 read as %v", x.Shape)
	}
}
