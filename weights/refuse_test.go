package weights

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/quant"
)

// refused checks that data is refused with an error that names the file and contains each of want.
func refused(t *testing.T, name string, data []byte, want ...string) {
	t.Helper()
	c, err := OpenBytes(name, data)
	if err == nil {
		c.Close()
		t.Fatalf("opened, want an error with %q", want)
	}
	for _, w := range append(want, "weights: "+name+": ") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestTruncatedAnywhere(t *testing.T) {
	tensors := []Source{source(t, "a", quant.F32, 2, 3), source(t, "b", quant.F16, 5)}
	st := safetensorsFile(t, map[string]string{"format": "pt"}, tensors...)
	gguf := ggufFile(t, allKinds, tensors...)
	c, err := OpenBytes("x.gguf", gguf)
	if err != nil {
		t.Fatal(err)
	}
	last := c.Tensors()[1]
	for name, data := range map[string][]byte{"x.safetensors": st, "x.gguf": gguf[:last.Offset+last.Size]} {
		if _, err := OpenBytes(name, data); err != nil {
			t.Fatal(err)
		}
		for n := range data {
			refused(t, name, data[:n:n])
		}
	}
	end := len(st) - 1
	refused(t, "x.safetensors", st[:end], fmt.Sprintf(`tensor "b" at byte %d with 10 bytes ends at byte %d, past the file's end %d`,
		len(st)-10, len(st), end))
	refused(t, "x.gguf", gguf[:last.Offset+9], fmt.Sprintf(`tensor "b" at byte %d with 10 bytes ends at byte %d, past the file's end %d`,
		last.Offset, last.Offset+10, last.Offset+9))
}

// withHeader builds a safetensors file from its header and the number of bytes that follow.
func withHeader(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func TestSafetensorsRefused(t *testing.T) {
	one := func(fields string) string { return `{"x":{` + fields + `}}` }
	for _, tc := range []struct {
		name   string
		header string
		data   int
		want   string
	}{
		{"no brace", ` {}`, 0, "does not begin with '{' at byte 8"},
		{"empty header", ``, 8, "does not begin with '{' at byte 8"},
		{"not UTF-8", "{\"\xff\":1}", 0, "at byte 10: text that is not UTF-8"},
		{"not JSON", `{"x"}`, 0, "at byte 12: expected ':', found \"}\""},
		{"more after it", `{} {}`, 0, "at byte 11: expected the end, found \"{\""},
		{"unfinished", `{"x":{`, 0, `tensor "x": at byte 14: expected '"', found the end`},
		{"unfinished string", `{"x`, 0, "at byte 11: a string without its end"},
		{"escaped end", `{"x\`, 0, "a string without its end"},
		{"bad escape", `{"\x":1}`, 0, "invalid character"},
		{"control character", "{\"a\nb\":1}", 0, "at byte 11: a control character in a string"},
		{"tensor is no object", `{"x":[]}`, 0, `tensor "x": at byte 13: expected '{', found "["`},
		{"same name", `{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{}}`, 0, `"x" occurs twice`},
		{"same name, escaped", `{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0078":{}}`, 0, `"x" occurs twice`},
		{"metadata twice", `{"__metadata__":{},"__metadata__":{}}`, 0, `"__metadata__" occurs twice`},
		{"metadata key twice", `{"__metadata__":{"a":"","a":""}}`, 0, `__metadata__: key "a" occurs twice`},
		{"metadata is a number", `{"__metadata__":{"a":1}}`, 0,
			`__metadata__: key "a": at byte 29: expected '"', found "1"`},
		{"dtype missing", one(`"shape":[1],"data_offsets":[0,4]`), 4, `tensor "x": at byte 47: field "dtype" is missing`},
		{"shape missing", one(`"dtype":"F32","data_offsets":[0,4]`), 4, `field "shape" is missing`},
		{"offsets missing", one(`"dtype":"F32","shape":[1]`), 4, `field "data_offsets" is missing`},
		{"dtype twice", one(`"dtype":"F32","dtype":"F32"`), 4, `field "dtype" occurs twice`},
		{"unknown field", one(`"strides":[1]`), 4, `unknown field "strides"`},
		{"unknown dtype", one(`"dtype":"F33","shape":[1],"data_offsets":[0,4]`), 4, `unknown dtype "F33"`},
		{"GGUF's dtype", one(`"dtype":"Q8_0","shape":[32],"data_offsets":[0,34]`), 34, `unknown dtype "Q8_0"`},
		{"negative dimension", one(`"dtype":"F32","shape":[-1],"data_offsets":[0,4]`), 4, `not negative, found "-"`},
		{"fraction", one(`"dtype":"F32","shape":[1.0],"data_offsets":[0,4]`), 4, `expected a whole number, found "."`},
		{"leading zero", one(`"dtype":"F32","shape":[01],"data_offsets":[0,4]`), 4, `leading zero`},
		{"too large", one(`"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]`), 4, `too large`},
		{"overflow", one(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]`), 4,
			"more values than can be counted"},
		{"byte overflow", one(`"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]`), 0,
			"more bytes than an int"},
		{"half a block", one(`"dtype":"F4","shape":[3],"data_offsets":[0,2]`), 2, "do not fill whole F4 blocks of 2"},
		{"backwards", one(`"dtype":"F32","shape":[1],"data_offsets":[4,0]`), 4, "[4 0] are not a begin and an end"},
		{"three offsets", one(`"dtype":"F32","shape":[1],"data_offsets":[0,4,8]`), 4, "[0 4 8] are not a begin and an end"},
		{"too many dimensions", one(`"shape":[` + strings.Repeat("1,", maxDims) + `1]`), 4, "more than 64 numbers"},
		{"lying size", one(`"dtype":"F32","shape":[2],"data_offsets":[0,4]`), 4,
			"[0 4] hold 4 bytes, but F32 of shape [2] takes 8"},
		{"beyond the file", one(`"dtype":"F32","shape":[2],"data_offsets":[0,8]`), 4,
			`tensor "x" at byte 62 with 8 bytes ends at byte 70, past the file's end 66`},
		{"far beyond", one(`"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]`), 4,
			"beyond any file"},
		{"bytes after", one(`"dtype":"F32","shape":[1],"data_offsets":[0,4]`), 6,
			"the last tensor ends at byte 66, but the file at byte 68"},
		{"bytes and no tensor", `{}`, 2, "the last tensor ends at byte 10, but the file at byte 12"},
		{"hole", one(`"dtype":"U8","shape":[1],"data_offsets":[2,3]`), 3,
			`bytes 61 to 63, before tensor "x", belong to no tensor`},
		{"overlap", `{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"y":{"dtype":"U8","shape":[3],"data_offsets":[2,5]}}`, 5,
			`tensor "y" at bytes 115 to 118 overlaps tensor "x", which ends at byte 116`},
		{"long name", `{"` + strings.Repeat("n", maxName+1) + `":{}}`, 0, "a tensor name of 65536 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			refused(t, "dir/x.safetensors", withHeader(tc.header, tc.data), tc.want)
		})
	}
	t.Run("header length", func(t *testing.T) {
		refused(t, "x.safetensors", []byte("\x10\x00\x00\x00\x00\x00\x00\x00{}"),
			"a safetensors header of 16 bytes ends at byte 24, past the file's end 10")
		refused(t, "x.safetensors", []byte("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "more than the 100000000 allowed")
		refused(t, "x.safetensors", []byte("\x02\x00\x00"), "3 bytes, fewer than the 8")
	})
	t.Run("unknown format", func(t *testing.T) {
		refused(t, "x.bin", []byte("PK\x03\x05 and so on"), "neither GGUF", "nor safetensors", "nor PyTorch", `"PK\x03\x05 and "`)
		refused(t, "x.bin", []byte("PK\x03\x04 and so on"), "not a valid zip file")
	})
}

// TestSafetensorsAccepted holds what the format allows though few files have it.
func TestSafetensorsAccepted(t *testing.T) {
	for name, header := range map[string]string{
		"no tensors":      `{}`,
		"null metadata":   `{"__metadata__":null,"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`,
		"white space":     "{ \"x\" :\t{\"shape\": [ 1 , 1 ],\r\n\"data_offsets\":[0, 1 ],\"dtype\":\"U8\" } }   ",
		"in other order":  `{"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`,
		"empty in middle": `{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"e":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}`,
	} {
		size := map[string]int{"no tensors": 0, "in other order": 3}
		n, ok := size[name]
		if !ok {
			n = 1
		}
		c, err := OpenBytes("x.safetensors", withHeader(header, n))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if infos := c.Tensors(); len(infos) > 0 && infos[0].Name != "x" {
			t.Errorf("%s: the first tensor is %q, want the one with the lowest offset", name, infos[0].Name)
		}
	}
}
