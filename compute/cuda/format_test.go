package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// packedTypes are the types that the device multiplies as they are.
var packedTypes = []quant.Type{
	quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0, quant.Q2_K, quant.Q3_K, quant.Q4_K, quant.Q5_K, quant.Q6_K,
	quant.IQ4_NL, quant.IQ4_XS, quant.MXFP4, quant.U4_32, quant.U4_128, quant.U8_32, quant.U8_128, quant.F8_E4M3,
}

// packedSource makes a weight of a type from random numbers.
func packedSource(t testing.TB, r *rand.Rand, typ quant.Type, out, in int) compute.Source {
	t.Helper()
	size, err := typ.RowBytes(in)
	if err != nil {
		t.Fatal(err)
	}
	src := compute.Source{Name: typ.String(), Type: typ, Out: out, In: in, Data: make([]byte, out*size)}
	values := bell(r, out*in, 1/math.Sqrt(float64(in)))
	a, _ := quant.AffineOf(typ)
	switch {
	case typ == quant.F8_E4M3:
		src.Group = 128
		for i := range out * ((in + 127) / 128) {
			src.Scales = append(src.Scales, float32(i%7+1)/300)
		}
		for i, v := range values {
			if err := quant.Encode(src.Data[i:i+1], []float32{v * 100}, typ); err != nil {
				t.Fatal(err)
			}
		}
	case a.Zeros:
		for at := 0; at < len(src.Data); at += typ.BlockBytes() {
			codes := make([]uint8, typ.BlockValues())
			for i := range codes {
				codes[i] = uint8(r.IntN(1 << a.Bits))
			}
			quant.PutZeroBlock(src.Data[at:], float32(r.Float64())/50, uint8(r.IntN(1<<a.Bits)), codes, a.Bits)
		}
	default:
		for i := range out {
			if err := quant.Encode(src.Data[i*size:][:size], values[i*in:][:in], typ); err != nil {
				t.Fatal(err)
			}
		}
	}
	return src
}

// decoded returns a weight's numbers, row after row.
func decoded(t testing.TB, src *compute.Source) []float32 {
	t.Helper()
	v := make([]float32, src.Out*src.In)
	if err := quant.Decode(v, src.Data, src.Type); err != nil {
		t.Fatal(err)
	}
	for i := range v {
		if src.Scales != nil {
			v[i] *= src.Scales[i/src.In*((src.In+src.Group-1)/src.Group)+i%src.In/src.Group]
		}
	}
	return v
}

// numberOf reads a number of a record as weights.cuh says.
func numberOf(f format, record []byte, out, in int) float32 {
	is := formats[f]
	k, p, lane := in/16, out/8+in%16/8*2, out%8*4+in%8/2
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(record[at:]) >> (in % 2 * 16) }
	entry := (out%8*2+out/8)*is.groups + k*is.groups/4
	at, size := is.bits*128, 2
	if is.second != onlyScale {
		size = 4
	}
	code := 0
	if f == formatFP8 { // two halves
		record = record[out/8*halfRecord:]
		code = int(record[k*128+lane*4+in%16/8+in%2*2])
		at, entry = halfScales, out%8
	}
	switch is.bits {
	case 8:
		if f != formatFP8 {
			code = int(word(k/2*512+lane*16+(k%2*2+p/2)*4) >> (p % 2 * 8) & 255)
		}
	case 4, 5, 6:
		code = int(word(lane*16+k*4) >> (4 * p) & 15)
	case 2, 3:
		code = int(word(lane*8+k/2*4) >> (k%2*8 + 2*p) & 3)
	}
	switch is.bits {
	case 3:
		code |= int(word(256+lane*4)>>(4*k+p)&1) << 2
	case 5:
		code |= int(word(512+lane*4)>>(4*k+p)&1) << 4
	case 6:
		code |= int(word(512+lane*8+k/2*4)>>(k%2*8+2*p)&3) << 4
	}
	ofScale, ofSecond := f.stored(out / 8)
	half := func(n int) float64 {
		stored := float64(quant.BF16ToF32(binary.LittleEndian.Uint16(record[at+entry*size+n:])))
		if n == 0 {
			return stored / float64(ofScale)
		}
		return stored / float64(ofSecond)
	}
	level, least := float64(code), 0.0
	switch f {
	case formatInt4:
		level -= 8
	case formatInt5:
		level -= 16
	case formatInt8:
		level -= 128
	case formatInt3x16:
		level -= 4
	case formatInt6x16:
		level -= 32
	case formatIQ4:
		a, _ := quant.AffineOf(quant.IQ4_NL)
		level = float64(a.Levels[code]) - 128
	case formatFP4:
		a, _ := quant.AffineOf(quant.MXFP4)
		level = (float64(a.Levels[code]) - 16) / 2
	case formatFP8:
		var v [1]float32
		_ = quant.Decode(v[:], []byte{byte(code)}, quant.F8_E4M3)
		level = float64(v[0])
	case formatInt4Zero, formatInt4Zero64, formatInt8Zero, formatInt8Zero64:
		level += half(2)
	case formatInt4Min, formatInt5Min, formatInt2Min16:
		least = half(2)
	}
	return roundBF16(float32(level*half(0) + least))
}

// TestFormats compares the formats with those of the kernels.
func TestFormats(t *testing.T) {
	source, err := os.ReadFile("kernels/weights.cuh")
	if err != nil {
		t.Skip("the sources are not beside this test")
	}
	list := regexp.MustCompile(`(?s)enum \{(\s+BF16,.*?)FORMATS`).FindSubmatch(source)
	if list == nil {
		t.Fatal("weights.cuh does not list the formats")
	}
	names := strings.FieldsFunc(string(list[1]), func(r rune) bool { return r == ',' || r <= ' ' })
	if len(names) != int(numFormats) {
		t.Fatalf("the kernels have %d formats: %v; Go has %d", len(names), names, numFormats)
	}
	seconds := []string{"SCALE", "SCALE_MIN", "SCALE_ZERO"}
	for f := formatBF16 + 1; f < numFormats; f++ {
		is := formats[f]
		if want := fmt.Sprintf("case %s: return {%d, %d, %s, ", names[f], is.bits, is.groups, seconds[is.second]); !strings.Contains(string(source), want) {
			t.Errorf("format %d is %+v here; weights.cuh lacks %q", f, is, want)
		}
		if !strings.EqualFold(names[f], is.name) {
			t.Errorf("format %d is %s in the kernels and %s here", f, names[f], is.name)
		}
	}
}

// TestRecords checks that packed weights hold what was packed: outputs and inputs at their places, rounded to bfloat16
// once, by scales that are rounded, too.
func TestRecords(t *testing.T) {
	for _, typ := range packedTypes {
		r := rand.New(rand.NewPCG(1, uint64(typ)))
		in := max(typ.BlockValues(), 32) * 3
		src := packedSource(t, r, typ, 37, in)
		want := decoded(t, &src)
		m := &matrix{out: src.Out, in: src.In, kind: typ, format: formatOf(&src)}
		if m.format == formatBF16 {
			t.Errorf("%v is stored as bfloat16", typ)
			continue
		}
		packed := make([]byte, m.Bytes())
		for i := range packed {
			packed[i] = 0xaa
		}
		if err := packTiles(packed, m, &src); err != nil {
			t.Fatal(err)
		}
		record := m.format.recordBytes()
		for out := range src.Out {
			most := 0.0 // of its group of 16 inputs or more, and of what is taken from it
			for i := range in {
				if i%16 == 0 {
					most = 0
					for _, v := range want[out*in+i&^31:][:min(32, in-i&^31)] {
						most = max(most, math.Abs(float64(v)))
					}
				}
				got := numberOf(m.format, packed[(out/16*m.tilesIn()/4+i/64)*record:], out%16, i%64)
				if w := want[out*in+i]; math.Abs(float64(got-w)) > math.Abs(float64(w))/128+most/128 {
					t.Fatalf("%v: output %d, input %d is %v; want %v", typ, out, i, got, w)
				}
			}
		}
	}
}
