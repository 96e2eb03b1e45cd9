package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-llm/kvasir/quant"
)

// A GGUF file is the magic "GGUF", a version, the numbers of tensors and of metadata pairs, the pairs, the tensors'
// descriptions, padding up to the alignment, and the tensors' bytes, each at a multiple of the alignment. Holes
// between tensors are padding. The format is specified in the ggml project's docs/gguf.md.

const (
	ggufMagic        = "GGUF"
	ggufAlignment    = 32 // bytes, unless the metadata says otherwise
	alignmentKey     = "general.alignment"
	ggufMaxDims      = 4
	minPairSize      = 8 + 1 + 4 + 1     // bytes of a key of one letter, a type and a value
	minTensorSize    = 8 + 1 + 4 + 4 + 8 // bytes of a name of one letter, no dimensions, a type and an offset
	maxGGUFAlignment = 1 << 21           // a huge page
)

func parseGGUF(m mapping) (part, error) {
	p := part{mapping: m, format: GGUF, meta: map[string]any{}}
	c := &cursor{data: m.data}
	if err := checkVersion(c); err != nil {
		return p, err
	}
	tensors, err := c.count(minTensorSize, "the number of tensors")
	if err != nil {
		return p, err
	}
	pairs, err := c.count(minPairSize, "the number of metadata pairs")
	if err != nil {
		return p, err
	}
	for range pairs {
		if err := p.parsePair(c); err != nil {
			return p, err
		}
	}
	align, err := p.alignment()
	if err != nil {
		return p, err
	}
	if err := p.parseTensors(c, tensors); err != nil {
		return p, err
	}
	start := int64(c.pos) + padding(int64(c.pos), align)
	for i := range p.infos {
		t := &p.infos[i]
		if t.Offset%align != 0 {
			return p, fmt.Errorf("tensor %q at offset %d of the data, which is not a multiple of the alignment %d",
				t.Name, t.Offset, align)
		}
		t.Offset += start
	}
	return p, checkExtents(p.infos, start, int64(len(m.data)), false)
}

// checkVersion reads the magic and the version and refuses what is not GGUF version 2 or 3.
func checkVersion(c *cursor) error {
	magic, err := c.take(4, "the magic")
	if err != nil {
		return err
	}
	if string(magic) != ggufMagic {
		return fmt.Errorf("begins with %q, not with the magic %q", magic, ggufMagic)
	}
	v, err := c.u32("the version")
	if err != nil {
		return err
	}
	switch {
	case v == 2 || v == 3:
		return nil
	case v == 1:
		return fmt.Errorf("GGUF version 1 is not supported, only versions 2 and 3; convert the file anew")
	case v != 0 && v&0xffff == 0:
		return fmt.Errorf("big-endian GGUF is not supported, only little-endian")
	}
	return fmt.Errorf("GGUF version %d is not supported, only versions 2 and 3", v)
}

// parsePair reads one key with its value.
func (p *part) parsePair(c *cursor) error {
	at := c.pos
	key, err := c.name("a metadata key")
	if err != nil {
		return err
	}
	if _, dup := p.meta[key]; dup {
		return fmt.Errorf("metadata key %q at byte %d occurs twice", key, at)
	}
	kind, err := c.u32("a value's type")
	if err == nil {
		p.meta[key], err = c.value(kind, 0)
	}
	if err != nil {
		return fmt.Errorf("metadata key %q: %w", key, err)
	}
	p.keys = append(p.keys, key)
	return nil
}

// alignment returns the number of bytes that tensors are aligned to.
func (p *part) alignment() (int64, error) {
	v, ok := p.meta[alignmentKey]
	if !ok {
		return ggufAlignment, nil
	}
	a, ok := v.(uint32)
	if !ok {
		return 0, fmt.Errorf("metadata key %q is a %T, not a uint32", alignmentKey, v)
	}
	if a < 8 || a&(a-1) != 0 || a > maxGGUFAlignment {
		return 0, fmt.Errorf("metadata key %q is %d, not a power of two from 8 to %d", alignmentKey, a, maxGGUFAlignment)
	}
	return int64(a), nil
}

// parseTensors reads the descriptions of n tensors. Their offsets count from the data section.
func (p *part) parseTensors(c *cursor, n int) error {
	p.infos = make([]Info, 0, n)
	seen := make(map[string]bool, n)
	for range n {
		at := c.pos
		name, err := c.name("a tensor name")
		if err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("tensor %q at byte %d occurs twice", name, at)
		}
		seen[name] = true
		info, err := parseTensorInfo(c)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		info.Name, info.File = name, p.path
		p.infos = append(p.infos, info)
	}
	return nil
}

// parseTensorInfo reads what follows a tensor's name: dimensions (innermost first), type, offset.
func parseTensorInfo(c *cursor) (Info, error) {
	var info Info
	dims, err := c.u32("the number of dimensions")
	if err != nil {
		return info, err
	}
	if dims > ggufMaxDims {
		return info, fmt.Errorf("%d dimensions before byte %d, more than the %d allowed", dims, c.pos, ggufMaxDims)
	}
	b, err := c.take(8*uint64(dims), "the dimensions")
	if err != nil {
		return info, err
	}
	info.Shape = make([]int, dims)
	for i := range info.Shape {
		d := binary.LittleEndian.Uint64(b[8*i:])
		if d > math.MaxInt {
			return info, fmt.Errorf("dimension %d before byte %d is %d, negative or more than can be counted", i, c.pos, d)
		}
		info.Shape[i] = int(d)
	}
	slices.Reverse(info.Shape)
	id, err := c.u32("the type")
	if err != nil {
		return info, err
	}
	if info.Type, err = ggmlType(id); err != nil {
		return info, fmt.Errorf("before byte %d: %w", c.pos, err)
	}
	if info.Size, err = byteSize(info.Type, info.Shape, true); err != nil {
		return info, err
	}
	offset, err := c.u64("the offset")
	if err != nil {
		return info, err
	}
	if offset > math.MaxInt64/2 {
		return info, fmt.Errorf("offset %d before byte %d is beyond any file", offset, c.pos)
	}
	info.Offset = int64(offset)
	return info, nil
}

// padding returns the bytes from n to the next multiple of align.
func padding(n, align int64) int64 { return (align - n%align) % align }

// ggmlTypes are GGUF's tensor types by the numbers that files use for them.
var ggmlTypes = [...]quant.Type{
	0: quant.F32, 1: quant.F16, 2: quant.Q4_0, 3: quant.Q4_1, 6: quant.Q5_0, 7: quant.Q5_1, 8: quant.Q8_0,
	9: quant.Q8_1, 10: quant.Q2_K, 11: quant.Q3_K, 12: quant.Q4_K, 13: quant.Q5_K, 14: quant.Q6_K, 15: quant.Q8_K,
	16: quant.IQ2_XXS, 17: quant.IQ2_XS, 18: quant.IQ3_XXS, 19: quant.IQ1_S, 20: quant.IQ4_NL, 21: quant.IQ3_S,
	22: quant.IQ2_S, 23: quant.IQ4_XS, 24: quant.I8, 25: quant.I16, 26: quant.I32, 27: quant.I64, 28: quant.F64,
	29: quant.IQ1_M, 30: quant.BF16, 34: quant.TQ1_0, 35: quant.TQ2_0, 39: quant.MXFP4, 40: quant.NVFP4,
	41: quant.Q1_0, 42: quant.Q2_0,
}

// retiredTypes are numbers of types that the format has withdrawn.
var retiredTypes = map[uint32]string{
	4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
	36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}

// ggmlType returns the tensor type with the given number.
func ggmlType(id uint32) (quant.Type, error) {
	if name, ok := retiredTypes[id]; ok {
		return 0, fmt.Errorf("tensor type %d (%s) was withdrawn from GGUF", id, name)
	}
	if id >= uint32(len(ggmlTypes)) {
		return 0, fmt.Errorf("unknown tensor type %d", id)
	}
	return ggmlTypes[id], nil
}

// ggmlID returns the number of a tensor type and whether GGUF has it.
func ggmlID(t quant.Type) (uint32, bool) {
	id := slices.Index(ggmlTypes[:], t)
	return uint32(id), t.Valid() && id >= 0
}
