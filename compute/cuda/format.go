package cuda

import (
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

// formatOfType has the formats of types that are stored as codes.
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

// scaleBytes is the bytes of an output's scales in a record.
func (f format) scaleBytes() int {
	if formats[f].second == onlyScale {
		return 2 * formats[f].groups
	}
	return 4 * formats[f].groups
}

func (f format) recordBytes() int { return formats[f].bits*128 + recordOuts*f.scaleBytes() }
