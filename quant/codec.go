package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A codec translates between one block and its values. Decode and Encode call it with slices of exactly one block:
// BlockBytes bytes and BlockValues values. encode is nil for types that are only read.
type codec struct {
	decode func(dst []float32, src []byte)
	encode func(dst []byte, src []float32) error
}

// codecs is indexed by Type; a type without a codec has a zero entry. Affine types have those of their parts, but for
// encoders that follow a reference quantizer.
var codecs = func() [numTypes]codec {
	c := [numTypes]codec{
		F64:  {decodeF64, encodeF64},
		F32:  {decodeF32, encodeF32},
		F16:  {decodeF16, encodeF16},
		BF16: {decodeBF16, encodeBF16},

		Q4_0: {nil, encodeQ4_0},
		Q4_1: {nil, encodeQ4_1},
		Q5_0: {nil, encodeQ5_0},
		Q5_1: {nil, encodeQ5_1},
		Q8_0: {nil, encodeQ8_0},

		F8_E4M3: {decodeF8_E4M3, encodeF8_E4M3},
		F8_E5M2: {decodeF8_E5M2, encodeF8_E5M2},
		F8_E8M0: {decodeF8_E8M0, nil},
	}
	for t := range affines {
		if a := &affines[t]; a.split != nil {
			c[t].decode = a.decode
			if c[t].encode == nil && a.join != nil {
				c[t].encode = a.encode
			}
		}
	}
	return c
}()

// Decode writes the values that src stores as type t to dst. src must hold exactly len(dst) values; the error names a
// type that has no codec. F64 rounds to the nearest float32; every other type decodes in float32 arithmetic as its
// definition says.
func Decode(dst []float32, src []byte, t Type) error {
	if err := sameSize(len(dst), len(src), t); err != nil {
		return err
	}
	c := codecs[t]
	if c.decode == nil {
		return fmt.Errorf("quant: decoding %v is not supported", t)
	}
	nv, nb := t.BlockValues(), t.BlockBytes()
	for len(dst) > 0 {
		c.decode(dst[:nv], src[:nb])
		dst, src = dst[nv:], src[nb:]
	}
	return nil
}

// Encode writes src to dst as type t. It rounds as the type's reference quantizer does; for the K and IQ types and
// MXFP4 it searches for scales with a small error. dst must have exactly the size of len(src) values. A type without an
// encoder is an error that names it. For block formats, a value that is not finite is an error, and so is a scale
// beyond the range of the block's scale, because such a block would decode to something far from its values.
func Encode(dst []byte, src []float32, t Type) error {
	if err := sameSize(len(src), len(dst), t); err != nil {
		return err
	}
	c := codecs[t]
	if c.encode == nil {
		return fmt.Errorf("quant: encoding %v is not supported", t)
	}
	nv, nb := t.BlockValues(), t.BlockBytes()
	for i := 0; i < len(src); i += nv {
		if err := c.encode(dst[:nb], src[i:i+nv]); err != nil {
			return fmt.Errorf("quant: encoding %v: values %d to %d: %w", t, i, i+nv-1, err)
		}
		dst = dst[nb:]
	}
	return nil
}

// EncodeWeighted is Encode with weights: the squared error of value i counts importance[i] times. Types without blocks
// are encoded as by Encode.
func EncodeWeighted(dst []byte, src, importance []float32, t Type) error {
	if err := sameSize(len(src), len(dst), t); err != nil {
		return err
	}
	a := &affines[min(t, numTypes-1)]
	if len(importance) != len(src) {
		return fmt.Errorf("quant: the importance of %d values for %d", len(importance), len(src))
	}
	if a.join == nil {
		return Encode(dst, src, t)
	}
	nv, nb := t.BlockValues(), t.BlockBytes()
	for i := 0; i < len(src); i += nv {
		if err := a.encodeWeighted(dst[:nb], src[i:i+nv], importance[i:i+nv]); err != nil {
			return fmt.Errorf("quant: encoding %v: values %d to %d: %w", t, i, i+nv-1, err)
		}
		dst = dst[nb:]
	}
	return nil
}

func sameSize(values, bytes int, t Type) error {
	want, err := t.RowBytes(values)
	if err != nil {
		return err
	}
	if bytes != want {
		return fmt.Errorf("quant: %d values of %v take %d bytes, not %d", values, t, want, bytes)
	}
	return nil
}

func decodeF64(dst []float32, src []byte) {
	dst[0] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src)))
}

func encodeF64(dst []byte, src []float32) error {
	binary.LittleEndian.PutUint64(dst, math.Float64bits(float64(src[0])))
	return nil
}

func decodeF32(dst []float32, src []byte) {
	dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src))
}

func encodeF32(dst []byte, src []float32) error {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(src[0]))
	return nil
}

func decodeF16(dst []float32, src []byte) { dst[0] = F16ToF32(binary.LittleEndian.Uint16(src)) }

func encodeF16(dst []byte, src []float32) error {
	binary.LittleEndian.PutUint16(dst, F32ToF16(src[0]))
	return nil
}

func decodeBF16(dst []float32, src []byte) { dst[0] = BF16ToF32(binary.LittleEndian.Uint16(src)) }

func encodeBF16(dst []byte, src []float32) error {
	binary.LittleEndian.PutUint16(dst, F32ToBF16(src[0]))
	return nil
}
