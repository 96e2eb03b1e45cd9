// Package quant defines storage formats of numbers: the name and block layout of every tensor type in GGUF and
// safetensors files, and a reference codec between the stored bytes and float32. The codecs are readable and exact, not
// fast; kernels are tested against them. The package knows nothing of files, tensors or devices. Start with Type.
package quant

import "fmt"

// Type is the storage format of a tensor's numbers. A type stores values in blocks of BlockValues values and BlockBytes
// bytes; a plain number is a block of one. All numbers are little-endian. The zero Type is not a type.
type Type uint8

// The types of both file formats, by their usual names. The Q, IQ, TQ types, MXFP4 and NVFP4 are block formats of GGUF;
// F4, F6, F8, unsigned integers, BOOL and C64 occur in safetensors; U2_32 to U8_128 in no file (zeros.go); the others
// in both.
const (
	F64 Type = iota + 1
	F32
	F16
	BF16
	I8
	I16
	I32
	I64

	Q1_0
	Q2_0
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q8_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ1_S
	IQ1_M
	IQ2_XXS
	IQ2_XS
	IQ2_S
	IQ3_XXS
	IQ3_S
	IQ4_NL
	IQ4_XS
	TQ1_0
	TQ2_0
	MXFP4
	NVFP4

	BOOL
	U8
	U16
	U32
	U64
	F4
	F6_E2M3
	F6_E3M2
	F8_E4M3
	F8_E4M3FNUZ
	F8_E5M2
	F8_E5M2FNUZ
	F8_E8M0
	C64

	U2_32
	U3_32
	U4_32
	U8_32
	U2_128
	U3_128
	U4_128
	U8_128

	numTypes
)

// layouts holds, for every type, its name and the values and bytes of one block. The sizes of GGUF's block types
// follow the structures of ggml-common.h, those of safetensors the Dtype list of its specification.
var layouts = [numTypes]struct {
	name          string
	values, bytes int
}{
	F64:  {"F64", 1, 8},
	F32:  {"F32", 1, 4},
	F16:  {"F16", 1, 2},
	BF16: {"BF16", 1, 2},
	I8:   {"I8", 1, 1},
	I16:  {"I16", 1, 2},
	I32:  {"I32", 1, 4},
	I64:  {"I64", 1, 8},

	Q1_0:    {"Q1_0", 128, 2 + 16},
	Q2_0:    {"Q2_0", 64, 2 + 16},
	Q4_0:    {"Q4_0", 32, 2 + 16},
	Q4_1:    {"Q4_1", 32, 2 + 2 + 16},
	Q5_0:    {"Q5_0", 32, 2 + 4 + 16},
	Q5_1:    {"Q5_1", 32, 2 + 2 + 4 + 16},
	Q8_0:    {"Q8_0", 32, 2 + 32},
	Q8_1:    {"Q8_1", 32, 2 + 2 + 32},
	Q2_K:    {"Q2_K", 256, 16 + 64 + 2 + 2},
	Q3_K:    {"Q3_K", 256, 32 + 64 + 12 + 2},
	Q4_K:    {"Q4_K", 256, 2 + 2 + 12 + 128},
	Q5_K:    {"Q5_K", 256, 2 + 2 + 12 + 32 + 128},
	Q6_K:    {"Q6_K", 256, 128 + 64 + 16 + 2},
	Q8_K:    {"Q8_K", 256, 4 + 256 + 32},
	IQ1_S:   {"IQ1_S", 256, 2 + 32 + 16},
	IQ1_M:   {"IQ1_M", 256, 32 + 16 + 8},
	IQ2_XXS: {"IQ2_XXS", 256, 2 + 64},
	IQ2_XS:  {"IQ2_XS", 256, 2 + 64 + 8},
	IQ2_S:   {"IQ2_S", 256, 2 + 64 + 8 + 8},
	IQ3_XXS: {"IQ3_XXS", 256, 2 + 64 + 32},
	IQ3_S:   {"IQ3_S", 256, 2 + 64 + 8 + 32 + 4},
	IQ4_NL:  {"IQ4_NL", 32, 2 + 16},
	IQ4_XS:  {"IQ4_XS", 256, 2 + 2 + 4 + 128},
	TQ1_0:   {"TQ1_0", 256, 48 + 4 + 2},
	TQ2_0:   {"TQ2_0", 256, 64 + 2},
	MXFP4:   {"MXFP4", 32, 1 + 16},
	NVFP4:   {"NVFP4", 64, 4 + 32},

	BOOL:        {"BOOL", 1, 1},
	U8:          {"U8", 1, 1},
	U16:         {"U16", 1, 2},
	U32:         {"U32", 1, 4},
	U64:         {"U64", 1, 8},
	F4:          {"F4", 2, 1},
	F6_E2M3:     {"F6_E2M3", 4, 3},
	F6_E3M2:     {"F6_E3M2", 4, 3},
	F8_E4M3:     {"F8_E4M3", 1, 1},
	F8_E4M3FNUZ: {"F8_E4M3FNUZ", 1, 1},
	F8_E5M2:     {"F8_E5M2", 1, 1},
	F8_E5M2FNUZ: {"F8_E5M2FNUZ", 1, 1},
	F8_E8M0:     {"F8_E8M0", 1, 1},
	C64:         {"C64", 1, 8},

	U2_32:  {"U2_32", 32, zeroHeader + 8},
	U3_32:  {"U3_32", 32, zeroHeader + 12},
	U4_32:  {"U4_32", 32, zeroHeader + 16},
	U8_32:  {"U8_32", 32, zeroHeader + 32},
	U2_128: {"U2_128", 128, zeroHeader + 32},
	U3_128: {"U3_128", 128, zeroHeader + 48},
	U4_128: {"U4_128", 128, zeroHeader + 64},
	U8_128: {"U8_128", 128, zeroHeader + 128},
}

// affines has a row for each affine block format, which says how its blocks come apart. Its codec follows from that.
var affines = [numTypes]Affine{
	Q4_0:   {32, 4, 8, nil, splitQ4_0, false, 0, -1, joinQ4_0},
	Q4_1:   {32, 4, 0, nil, splitQ4_1, false, 1, 0, joinQ4_1},
	Q5_0:   {32, 5, 16, nil, splitQ5_0, false, 0, -1, joinQ5_0},
	Q5_1:   {32, 5, 0, nil, splitQ5_1, false, 1, 0, joinQ5_1},
	Q8_0:   {32, 8, 128, nil, splitQ8_0, false, 0, -1, joinQ8_0},
	Q2_K:   {16, 2, 0, nil, splitQ2_K, false, 15, 0, joinQ2_K},
	Q3_K:   {16, 3, 4, nil, splitQ3_K, false, 0, -32, joinQ3_K},
	Q4_K:   {32, 4, 0, nil, splitQ4_K, false, 63, 0, joinQ4_K},
	Q5_K:   {32, 5, 0, nil, splitQ5_K, false, 63, 0, joinQ5_K},
	Q6_K:   {16, 6, 32, nil, splitQ6_K, false, 0, -128, joinQ6_K},
	IQ4_NL: {32, 4, 128, &iq4Levels, splitIQ4_NL, false, 0, -1, joinIQ4_NL},
	IQ4_XS: {32, 4, 128, &iq4Levels, splitIQ4_XS, false, 0, -32, joinIQ4_XS},
	MXFP4:  {32, 4, 16, &fp4Levels, splitMXFP4, false, 0, exponents, joinMXFP4},

	U2_32: zeroAffine(32, 2), U3_32: zeroAffine(32, 3), U4_32: zeroAffine(32, 4), U8_32: zeroAffine(32, 8),
	U2_128: zeroAffine(128, 2), U3_128: zeroAffine(128, 3), U4_128: zeroAffine(128, 4), U8_128: zeroAffine(128, 8),
}

var byName = func() map[string]Type {
	m := make(map[string]Type, numTypes)
	for t := F64; t < numTypes; t++ {
		m[layouts[t].name] = t
	}
	return m
}()

// Parse returns the type with the given name, as String writes it.
func Parse(name string) (Type, error) {
	if t, ok := byName[name]; ok {
		return t, nil
	}
	return 0, fmt.Errorf("quant: %q is not the name of a tensor type", name)
}

// Valid reports whether t is one of the types above.
func (t Type) Valid() bool { return t > 0 && t < numTypes }

// String returns the usual name of the type, such as "Q8_0" or "F8_E4M3".
func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return layouts[t].name
}

// BlockValues is the number of values in one block: 1 for plain numbers, 32 for Q8_0, 0 for an invalid type.
func (t Type) BlockValues() int {
	if !t.Valid() {
		return 0
	}
	return layouts[t].values
}

// BlockBytes is the number of bytes of one block, 0 for an invalid type.
func (t Type) BlockBytes() int {
	if !t.Valid() {
		return 0
	}
	return layouts[t].bytes
}

// RowBytes returns the bytes of a row of the given number of values. Rows start at block boundaries, so a number of
// values that is negative or not a multiple of the block is an error, and so is a size beyond int.
func (t Type) RowBytes(values int) (int, error) {
	if !t.Valid() {
		return 0, fmt.Errorf("quant: %v is not a tensor type", t)
	}
	l := layouts[t]
	if values < 0 || values%l.values != 0 {
		return 0, fmt.Errorf("quant: %d values do not fill whole %s blocks of %d", values, l.name, l.values)
	}
	const maxInt = int(^uint(0) >> 1)
	blocks := values / l.values
	if blocks > maxInt/l.bytes {
		return 0, fmt.Errorf("quant: %d values of %s take more bytes than an int can count", values, l.name)
	}
	return blocks * l.bytes, nil
}
