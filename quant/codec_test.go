package quant

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"
)

// TestGolden holds the codecs against the published reference implementations: testdata/golden.py wrote the file.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Fields(line)
		typ, err := Parse(f[1])
		if err != nil {
			t.Fatal(err)
		}
		stored, err1 := hex.DecodeString(f[2])
		raw, err2 := hex.DecodeString(f[3])
		if err1 != nil || err2 != nil {
			t.Fatalf("line %d: %v, %v", i+1, err1, err2)
		}
		values := make([]float32, len(raw)/4)
		if err := Decode(values, raw, F32); err != nil {
			t.Fatal(err)
		}
		tested[f[0]+" "+f[1]] = true
		switch f[0] {
		case "decode":
			got := make([]float32, len(values))
			if err := Decode(got, stored, typ); err != nil {
				t.Fatal(err)
			}
			for j := range got {
				if math.Float32bits(got[j]) != math.Float32bits(values[j]) && (got[j] == got[j] || values[j] == values[j]) {
					t.Errorf("line %d: %v: value %d is %g, want %g", i+1, typ, j, got[j], values[j])
				}
			}
		case "encode":
			got := make([]byte, len(stored))
			if err := Encode(got, values, typ); err != nil {
				t.Fatal(err)
			}
			for j, n := 0, typ.BlockBytes(); j < len(got); j += n {
				if v := values[j/n*typ.BlockValues():][:typ.BlockValues()]; !bytes.Equal(got[j:j+n], stored[j:j+n]) {
					t.Errorf("line %d: %v of %g is %x, want %x", i+1, typ, v, got[j:j+n], stored[j:j+n])
				}
			}
		}
	}
	for typ := Type(1); typ < numTypes; typ++ {
		if codecs[typ].decode != nil && typ != F32 && !affines[typ].Zeros && !tested["decode "+typ.String()] {
			t.Errorf("decoding %v is not tested", typ)
		}
		if codecs[typ].encode != nil && affines[typ].join == nil && typ != F32 && !tested["encode "+typ.String()] {
			t.Errorf("encoding %v is not tested", typ)
		}
	}
}

// TestSixteenBits decodes every number of 16 bits and expects it back, a NaN as a quiet NaN of the same payload.
func TestSixteenBits(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		want := h
		if h&0x7fff > 0x7c00 {
			want |= 0x200
		}
		if got := F32ToF16(F16ToF32(h)); got != want {
			t.Errorf("half %#04x becomes %#04x", h, got)
		}
		want = h
		if h&0x7fff > 0x7f80 {
			want |= 0x40
		}
		if got := F32ToBF16(BF16ToF32(h)); got != want {
			t.Errorf("bfloat16 %#04x becomes %#04x", h, got)
		}
	}
}

// TestNearest checks that rounding to 16 bits picks the closer neighbour, and the even one of two equally close.
func TestNearest(t *testing.T) {
	for _, format := range []struct {
		name  string
		last  uint16 // the largest finite number
		wide  func(uint16) float32
		round func(float32) uint16
	}{{"half", 0x7bff, F16ToF32, F32ToF16}, {"bfloat16", 0x7f7f, BF16ToF32, F32ToBF16}} {
		for h := range format.last {
			a, b := float64(format.wide(h)), float64(format.wide(h+1))
			middle := float32((a + b) / 2) // exact
			for _, tc := range []struct {
				v    float32
				want uint16
			}{
				{middle, h + h&1},
				{math.Nextafter32(middle, 0), h},
				{math.Nextafter32(middle, float32(math.Inf(1))), h + 1},
			} {
				if got := format.round(tc.v); got != tc.want {
					t.Fatalf("%s: %g rounds to %#04x, want %#04x", format.name, tc.v, got, tc.want)
				}
				if got := format.round(-tc.v); got != tc.want|0x8000 {
					t.Fatalf("%s: %g rounds to %#04x, want %#04x", format.name, -tc.v, got, tc.want|0x8000)
				}
			}
		}
	}
}

func TestRefused(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	block := func(v float32) []float32 {
		values := make([]float32, 64)
		values[40] = v
		return values
	}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"no decoder", Decode(make([]float32, 256), make([]byte, 66), IQ2_XXS), "quant: decoding IQ2_XXS is not supported"},
		{"no encoder", Encode(make([]byte, 66), make([]float32, 256), IQ2_XXS), "quant: encoding IQ2_XXS is not supported"},
		{"no type", Decode(nil, nil, 0), "quant: Type(0) is not a tensor type"},
		{"broken block", Decode(make([]float32, 33), make([]byte, 34), Q8_0),
			"quant: 33 values do not fill whole Q8_0 blocks of 32"},
		{"too few bytes", Decode(make([]float32, 32), make([]byte, 33), Q8_0),
			"quant: 32 values of Q8_0 take 34 bytes, not 33"},
		{"too many bytes", Encode(make([]byte, 5), make([]float32, 1), F32), "quant: 1 values of F32 take 4 bytes, not 5"},
		{"infinity", Encode(make([]byte, 68), block(inf), Q8_0),
			"quant: encoding Q8_0: values 32 to 63: a scale of +Inf is beyond"},
		{"NaN", Encode(make([]byte, 36), block(nan), Q4_0),
			"quant: encoding Q4_0: values 32 to 63: a scale of NaN is beyond"},
		{"minus infinity", Encode(make([]byte, 48), block(-inf), Q5_1),
			"quant: encoding Q5_1: values 32 to 63: a scale of +Inf"},
		{"large minimum", Encode(make([]byte, 40), block(-70000), Q4_1),
			"quant: encoding Q4_1: values 32 to 63: a scale of -70000"},
		{"large scale", Encode(make([]byte, 44), block(2e6), Q5_0),
			"quant: encoding Q5_0: values 32 to 63: a scale of -125000"},
	} {
		if tc.err == nil || !strings.HasPrefix(tc.err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.name, tc.err, tc.want)
		}
	}
}

// FuzzRoundTrip encodes finite values and bounds how far what is decoded is from them: half a step of the block's
// scale, a full one where the largest value is stored exactly and its negative is not.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("0123456789"), float32(1), uint8(Q8_0))
	f.Add(bytes.Repeat([]byte{0, 255, 128, 7}, 8), float32(1e-3), uint8(Q4_0))
	f.Fuzz(func(t *testing.T, data []byte, scale float32, typ uint8) {
		steps := map[Type]float64{Q8_0: 127, Q4_0: 8, Q4_1: 15, Q5_0: 16, Q5_1: 31}[Type(typ)]
		if steps == 0 || !(scale > 1e-3 && scale < 500) { // a minimum fits half precision
			return
		}
		values, got, largest := make([]float32, 32), make([]float32, 32), 0.0
		for i := range min(len(values), len(data)) {
			values[i] = float32(int8(data[i])) * scale
			largest = max(largest, math.Abs(float64(values[i])))
		}
		size, err := Type(typ).RowBytes(32)
		if err != nil {
			t.Fatal(err)
		}
		stored := make([]byte, size)
		if err := Encode(stored, values, Type(typ)); err != nil {
			t.Fatal(err)
		}
		if err := Decode(got, stored, Type(typ)); err != nil {
			t.Fatal(err)
		}
		step := largest / steps
		if Type(typ) == Q4_1 || Type(typ) == Q5_1 {
			step *= 2 // from the smallest to the largest value
		}
		for i := range got {
			off := math.Abs(float64(got[i]) - float64(values[i]))
			if limit := step*1.01 + largest/1000 + 1e-6; !(off <= limit) {
				t.Errorf("%v: %g becomes %g, off by %g, more than %g", Type(typ), values[i], got[i], off, limit)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for typ := Type(1); typ < numTypes; typ++ {
		if codecs[typ].decode == nil {
			continue
		}
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]float32, 4096)
			size, _ := typ.RowBytes(len(dst))
			src := make([]byte, size)
			for i := range src {
				src[i] = byte(i)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := Decode(dst, src, typ); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestScalarsAreLittleEndian(t *testing.T) {
	for typ, want := range map[Type]string{F64: "000000000000f83f", F32: "0000c03f", F16: "003e", BF16: "c03f"} {
		got := make([]byte, typ.BlockBytes())
		if err := Encode(got, []float32{1.5}, typ); err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%v: 1.5 is %x (%v), want %s", typ, got, err, want)
		}
	}
	if got := binary.LittleEndian.Uint16([]byte{0x00, 0x3e}); F16ToF32(got) != 1.5 {
		t.Errorf("%#x is %g", got, F16ToF32(got))
	}
}
