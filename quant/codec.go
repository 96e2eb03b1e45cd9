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

// codecs is indexed by Type; a type without a codec has a zero entry.
var codecs = [numTypes]codec{
	F64:  {decodeF64, encodeF64},
	F32:  {decodeF32, encodeF32},
	F16:  {decodeF16, encodeF16},
	BF16: {decodeBF16, encodeBF16},

	Q4_0: {affines[Q4_0].decode, encodeQ4_0},
	Q4_1: {affines[Q4_1].decode, encodeQ4_1},
	Q5_0: {affines[Q5_0].decode, encodeQ5_0},
	Q5_1: {affines[Q5_1].decode, encodeQ5_1},
	Q8_0: {affines[Q8_0].decode, encodeQ8_0},

	Q2_K:   {affines[Q2_K].decode, affines[Q2_K].encode},
	Q3_K:   {affines[Q3_K].decode, affines[Q3_K].encode},
	Q4_K:   {affines[Q4_K].decode, affines[Q4_K].encode},
	Q5_K:   {affines[Q5_K].decode, affines[Q5_K].encode},
	Q6_K:   {affines[Q6_K].decode, affines[Q6_K].encode},
	IQ4_NL: {affines[IQ4_NL].decode, affines[IQ4_NL].encode},
	IQ4_XS: {affines[IQ4_XS].decode, affines[IQ4_XS].encode},
	MXFP4:  {affines[MXFP4].decode, affines[MXFP4].encode},

	U2_32:  {affines[U2_32].decode, nil},
	U3_32:  {affines[U3_32].decode, nil},
	U4_32:  {affines[U4_32].decode, nil},
	U8_32:  {affines[U8_32].decode, nil},
	U2_128: {affines[U2_128].decode, nil},
	U3_128: {affines[U3_128].decode, nil},
	U4_128: {affines[U4_128].decode, nil},
	U8_128: {affines[U8_128].decode, nil},

	F8_E4M3: {decodeF8_E4M3, encodeF8_E4M3},
	F8_E5M2: {decodeF8_E5M2, encodeF8_E5M2},
	F8_E8M0: {decodeF8_E8M0, nil},
}

// Decode writes the values that src stores as type t to dst. src must hold exactly len(dst) values; a type that has
// no codec is an error that names it. F64 rounds to the nearest float32, every other type decodes as its definition
// says, in float32 arithmetic.
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

// Encode writes src to dst as type t, rounding as the type's reference quantizer does, or, for the K and IQ types and
// MXFP4, with scales of a search for a small error. dst must have exactly the size
// of len(src) values. A type without an encoder is an error that names it; so is, for block formats, a value that is
// not finite or a scale beyond the range of the block's scale, as such a block would not decode to anything near it.
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

// EncodeWeighted is Encode for values of unlike importance: the squared error of value i counts importance[i] times. Types
// without blocks are encoded as Encode does.
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
