package main

import (
	"fmt"

	"github.com/kvasir-llm/kvasir/quant"
)

// weight is a weight type of the affine family: which layout its scales have in a panel (scaleLayout in
// ../affine.go), and up to how many rows tiles are faster than unpacking whole spans with AVX2, 4 if it takes long to
// unpack. Bits, groups, offsets and levels are those of quant.AffineOf.
type weight struct {
	typ     quant.Type
	layout  string
	fewAVX2 int
}

// weights has a row for each type. A new type of a known kind of codes needs no more than one.
var weights = []weight{
	{quant.Q4_0, "int12s", 8},
	{quant.Q4_1, "int12Mins", 8},
	{quant.Q5_0, "int12s", 4},
	{quant.Q5_1, "int12Mins", 4},
	{quant.Q8_0, "uint8s", 16},
	{quant.Q2_K, "byteMins", 4},
	{quant.Q3_K, "int8s", 4},
	{quant.Q4_K, "byteMins", 8},
	{quant.Q5_K, "byteMins", 4},
	{quant.Q6_K, "int8s", 4},
	{quant.IQ4_NL, "int12s", 8},
	{quant.IQ4_XS, "int8s", 8},
	{quant.MXFP4, "int8s", 4},
	{quant.U2_32, "zeroPoints", 16},
	{quant.U3_32, "zeroPoints", 4},
	{quant.U4_32, "zeroPoints", 16},
	{quant.U8_32, "zeroPoints", 32},
	{quant.U2_128, "zeroPoints", 8},
	{quant.U3_128, "zeroPoints", 4},
	{quant.U4_128, "zeroPoints", 8},
	{quant.U8_128, "zeroPoints", 8},
}

// codes is a kind of codes: so many bits, which are a level or number one of a table. Kernels that unpack codes without
// their scales are made for a kind; tuning is by measurement.
type codes struct {
	name   string
	bits   int
	levels *[16]uint8

	// Of tiles with AVX-512 VNNI.
	fetchRows  int  // the fewest rows for which the next section is fetched
	fetchLines int  // of 64 bytes: an eighth of a section
	manyRows   int  // the fewest rows, at least 4, for which T·S is found in a table
	keepLevels bool // the first three rows keep the levels for the others: for codes that take long to unpack
}

// kinds has a row for each kind of codes.
var kinds = []*codes{
	{name: "2", bits: 2, fetchRows: 1, fetchLines: 4, manyRows: 10},
	{name: "3", bits: 3, fetchRows: 1, fetchLines: 4, manyRows: 10, keepLevels: true},
	{name: "4", bits: 4, fetchRows: 1, fetchLines: 5, manyRows: 10},
	{name: "IQ4", bits: 4, levels: levelsOf(quant.IQ4_NL), fetchRows: 1, fetchLines: 5, manyRows: 10, keepLevels: true},
	{name: "FP4", bits: 4, levels: levelsOf(quant.MXFP4), fetchRows: 1, fetchLines: 5, manyRows: 10, keepLevels: true},
	{name: "5", bits: 5, fetchRows: 1, fetchLines: 6, manyRows: 10, keepLevels: true},
	{name: "6", bits: 6, fetchRows: 3, fetchLines: 7, manyRows: 10, keepLevels: true},
	{name: "8", bits: 8, fetchRows: 4, fetchLines: 9, manyRows: 24},
}

func levelsOf(t quant.Type) *[16]uint8 { return affine(t).Levels }

func affine(t quant.Type) quant.Affine {
	a, ok := quant.AffineOf(t)
	if !ok {
		panic(t.String() + " is no affine type")
	}
	return a
}

// kindOf returns the kind of a type's codes.
func kindOf(t quant.Type) *codes {
	a := affine(t)
	for _, c := range kinds {
		if c.bits == a.Bits && (c.levels == nil && a.Levels == nil ||
			c.levels != nil && a.Levels != nil && *c.levels == *a.Levels) {
			return c
		}
	}
	panic("no kind of codes for " + t.String())
}

// check panics where the kernels have no way to take a type.
func check(w weight) {
	a, c := affine(w.typ), kindOf(w.typ)
	refuse := func(why string) { panic(fmt.Sprintf("%v: %s", w.typ, why)) }
	zeros := w.layout == "zeroPoints"
	switch {
	case zeros != a.Zeros:
		refuse("zero points and the layout zeroPoints go together")
	case zeros:
	case (a.Group == 16) != c.halves():
		refuse("the types of a kind of codes have groups of one size: give it a kind of its own")
	case w.hasMins() && a.Offset != 0:
		refuse("either the offset or the minimum must be 0")
	case !w.hasMins() && a.Offset != c.offset():
		refuse("the types of a kind of codes have one offset: give it a kind of its own")
	case a.Offset&(a.Offset-1) != 0:
		refuse("an offset is a power of two")
	case w.wide() && a.Bits != 4 && a.Bits != 5:
		refuse("scales of 12 bits go with codes of 4 or 5 bits")
	case w.signed() != (a.Bits == 8):
		refuse("codes of 8 bits and the layout uint8s go together")
	case c.levelBits() == 6 && a.Group != 16:
		refuse("levels of 6 bits go with groups of 16")
	}
}

// types returns the types of a kind.
func (c *codes) types() (types []weight) {
	for _, w := range weights {
		if kindOf(w.typ) == c {
			types = append(types, w)
		}
	}
	return types
}

// codeBytes returns the bytes of a block of 32 inputs of 16 outputs.
func (c *codes) codeBytes() int { return 64 * c.bits }

// halves reports whether blocks have two groups of 16 values rather than one of 32.
func (c *codes) halves() bool {
	for _, w := range c.types() {
		if affine(w.typ).Group == 16 {
			return true
		}
	}
	return false
}

// offset returns what levels stand above their values, in those types that have no minimum.
func (c *codes) offset() int {
	for _, w := range c.types() {
		if offset := affine(w.typ).Offset; offset != 0 {
			return offset
		}
	}
	return 1
}
