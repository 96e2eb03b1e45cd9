package cuda

import (
	"encoding/binary"
	"fmt"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// format is how a weight is stored on the device: kernels/weights.cuh says what its records hold.
type format int

const (
	formatBF16 format = iota
	formatInt4
	formatInt4Min
	formatInt4Zero
	formatInt4Zero64
	formatInt5
	formatInt5Min
	formatInt8
	formatInt8Zero
	formatInt8Zero64
	formatInt2Min16
	formatInt3x16
	formatInt6x16
	formatIQ4
	formatFP4
	formatFP8
	numFormats
)

// What a group has beside its scale.
const (
	onlyScale = iota
	withMin
	withZero
)

// formats are those of formatOf in weights.cuh.
var formats = [numFormats]struct {
	name                 string
	bits, groups, second int // of a code; of 64 inputs; what a group has
}{
	formatBF16:       {"", 16, 0, onlyScale},
	formatInt4:       {"int4", 4, 2, onlyScale},
	formatInt4Min:    {"int4_min", 4, 2, withMin},
	formatInt4Zero:   {"int4_zero", 4, 2, withZero},
	formatInt4Zero64: {"int4_zero_64", 4, 1, withZero},
	formatInt5:       {"int5", 5, 2, onlyScale},
	formatInt5Min:    {"int5_min", 5, 2, withMin},
	formatInt8:       {"int8", 8, 2, onlyScale},
	formatInt8Zero:   {"int8_zero", 8, 2, withZero},
	formatInt8Zero64: {"int8_zero_64", 8, 1, withZero},
	formatInt2Min16:  {"int2_min_16", 2, 4, withMin},
	formatInt3x16:    {"int3_16", 3, 4, onlyScale},
	formatInt6x16:    {"int6_16", 6, 4, onlyScale},
	formatIQ4:        {"iq4", 4, 2, onlyScale},
	formatFP4:        {"fp4", 4, 2, onlyScale},
	formatFP8:        {"fp8", 8, 1, onlyScale},
}

// formatOfType has the formats of types whose blocks have parts.
var formatOfType = map[quant.Type]format{
	quant.Q4_0: formatInt4, quant.Q4_1: formatInt4Min, quant.Q5_0: formatInt5, quant.Q5_1: formatInt5Min, quant.Q8_0: formatInt8,
	quant.Q2_K: formatInt2Min16, quant.Q3_K: formatInt3x16, quant.Q4_K: formatInt4Min, quant.Q5_K: formatInt5Min, quant.Q6_K: formatInt6x16,
	quant.IQ4_NL: formatIQ4, quant.IQ4_XS: formatIQ4, quant.MXFP4: formatFP4,
	quant.U4_32: formatInt4Zero, quant.U4_128: formatInt4Zero64, quant.U8_32: formatInt8Zero, quant.U8_128: formatInt8Zero64,
}

// recordOuts and recordIns are the outputs and inputs of a record.
const recordOuts, recordIns = 16, 64

// formatOf returns the format that a weight is stored in: BF16 for what has no other.
func formatOf(src *compute.Source) format {
	if src.Order != nil { // groups are not of neighbouring inputs
		return formatBF16
	}
	if src.Type == quant.F8_E4M3 && (src.Scales == nil || src.Group%recordIns == 0 || src.Group >= src.In) {
		return formatFP8
	}
	return formatOfType[src.Type]
}

// scaleBytes is what an output has in a record.
func (f format) scaleBytes() int {
	if formats[f].second == onlyScale {
		return 2 * formats[f].groups
	}
	return 4 * formats[f].groups
}

func (f format) recordBytes() int { return formats[f].bits*128 + recordOuts*f.scaleBytes() }

// recordPacker writes a weight's records, with memory of its own.
type recordPacker struct {
	f        format
	src      *compute.Source
	affine   quant.Affine
	rowBytes int
	rows     [2]packedRow // outputs g and g+8
}

// packedRow is a row, and 64 inputs of it.
type packedRow struct {
	stored          []byte // nil past the last output
	memory          []byte
	parts           quant.Parts
	codes           [recordIns]uint8
	scales, seconds [4]uint16
}

func newRecordPacker(f format, src *compute.Source) (*recordPacker, error) {
	p := &recordPacker{f: f, src: src}
	p.affine, _ = quant.AffineOf(src.Type)
	var err error
	if p.rowBytes, err = src.Type.RowBytes(src.In); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", src.Name, err)
	}
	return p, nil
}

// tile writes the records of 16 outputs to dst, which is zero: those of output first and on, as far as there are.
func (p *recordPacker) tile(dst []byte, first int) {
	record := p.f.recordBytes()
	for g := range recordOuts / 2 {
		for half := range p.rows {
			p.take(&p.rows[half], first+half*8+g)
		}
		for in := 0; in < p.src.In; in += recordIns {
			to := dst[in/recordIns*record:][:record]
			for half := range p.rows {
				r, out := &p.rows[half], first+half*8+g
				if r.stored == nil {
					continue
				}
				if p.f == formatFP8 {
					p.float8(r, out, in)
				} else {
					p.split(r, in)
				}
				p.putScales(to[formats[p.f].bits*128:], r, g*2+half)
			}
			putCodes(to, &p.rows[0].codes, &p.rows[1].codes, g, formats[p.f].bits)
		}
	}
}

// take reads a row as it is stored.
func (p *recordPacker) take(r *packedRow, n int) {
	switch {
	case n >= p.src.Out:
		r.stored, r.codes = nil, [recordIns]uint8{}
	case p.src.Row == nil:
		r.stored = p.src.Data[n*p.rowBytes:][:p.rowBytes]
	default:
		if r.memory == nil {
			r.memory = make([]byte, p.rowBytes)
		}
		r.stored = r.memory
		p.src.Row(r.stored, n)
	}
}

// float8 takes 64 inputs of row n of F8_E4M3, or as many as there are.
func (p *recordPacker) float8(r *packedRow, n, in int) {
	r.codes = [recordIns]uint8{}
	copy(r.codes[:], r.stored[in:])
	scale := float32(1)
	if s := p.src.Scales; s != nil {
		groups := (p.src.In + p.src.Group - 1) / p.src.Group
		scale = s[n*groups+in/p.src.Group]
	}
	r.scales[0] = quant.F32ToBF16(scale)
}

// split takes 64 inputs of a row of blocks, or as many as there are, apart.
func (p *recordPacker) split(r *packedRow, in int) {
	a, is := &p.affine, &formats[p.f]
	values, size := p.src.Type.BlockValues(), p.src.Type.BlockBytes()
	r.codes, r.scales, r.seconds = [recordIns]uint8{}, [4]uint16{}, [4]uint16{}
	perGroup := recordIns / is.groups
	for i := 0; i < recordIns && in+i < p.src.In; {
		at := (in + i) % values
		if at == 0 { // else the block of the 64 inputs before goes on
			a.Split(&r.parts, r.stored[(in+i)/values*size:][:size])
		}
		n := min(values-at, recordIns-i)
		copy(r.codes[i:i+n], r.parts.Codes[at:])
		for g := i / perGroup; g*perGroup < i+n; g++ {
			of := (at + g*perGroup - i) / a.Group
			scale := r.parts.Scale * float32(r.parts.Scales[of])
			if a.Levels != nil && p.f == formatFP4 {
				scale *= 2 // its levels are doubled
			}
			r.scales[g] = quant.F32ToBF16(scale)
			switch {
			case is.second == withMin:
				r.seconds[g] = quant.F32ToBF16(-(r.parts.Min * float32(r.parts.Mins[of])))
			case is.second == withZero && is.bits == 8: // codes are 128 less
				r.seconds[g] = quant.F32ToBF16(128 - float32(r.parts.Zero))
			case is.second == withZero: // and the others 128 more
				r.seconds[g] = quant.F32ToBF16(-128 - float32(r.parts.Zero))
			}
		}
		i += n
	}
	if is.bits == 8 {
		for i := range r.codes {
			r.codes[i] ^= 0x80
		}
	}
}

// putScales writes an output's scales, and what is with them, as entry n of the records' scales.
func (p *recordPacker) putScales(to []byte, r *packedRow, n int) {
	is, size := &formats[p.f], p.f.scaleBytes()
	to = to[n*size:][:size]
	for g := range is.groups {
		if is.second == onlyScale {
			binary.LittleEndian.PutUint16(to[2*g:], r.scales[g])
		} else {
			binary.LittleEndian.PutUint32(to[4*g:], uint32(r.scales[g])|uint32(r.seconds[g])<<16)
		}
	}
}

// putCodes writes the codes of outputs g and g+8 to a record, whose codes of 1 and 2 bits are zero.
func putCodes(to []byte, low, high *[recordIns]uint8, g, bits int) {
	for n := range 16 {
		k, lane := n/4, g*4+n%4
		i := k*16 + n%4*2
		pair := func(codes *[recordIns]uint8, i int) uint32 { return uint32(codes[i]) | uint32(codes[i+1])<<16 }
		pairs := [4]uint32{pair(low, i), pair(high, i), pair(low, i+8), pair(high, i+8)}
		at := 0 // of the next plane
		switch bits {
		case 8:
			binary.LittleEndian.PutUint32(to[k/2*512+lane*16+k%2*8:], pairs[0]|pairs[1]<<8)
			binary.LittleEndian.PutUint32(to[k/2*512+lane*16+k%2*8+4:], pairs[2]|pairs[3]<<8)
			continue
		case 4, 5, 6:
			word := uint32(0)
			for p, c := range pairs {
				word |= c & 0x000f000f << (4 * p)
				pairs[p] = c >> 4 & 0x000f000f
			}
			binary.LittleEndian.PutUint32(to[lane*16+k*4:], word)
			at = 512
		}
		if bits%4 >= 2 {
			word := to[at+lane*8+k/2*4:]
			both := binary.LittleEndian.Uint32(word)
			for p, c := range pairs {
				both |= c & 0x00030003 << (k%2*8 + 2*p)
				pairs[p] = c >> 2 & 0x00030003
			}
			binary.LittleEndian.PutUint32(word, both)
			at += 256
		}
		if bits%2 == 1 {
			word := to[at+lane*4:]
			all := binary.LittleEndian.Uint32(word)
			for p, c := range pairs {
				all |= c & 0x00010001 << (4*k + p)
			}
			binary.LittleEndian.PutUint32(word, all)
		}
	}
}
