package cpu

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/kvasir-llm/kvasir/compute"
	"github.com/kvasir-llm/kvasir/quant"
)

// matrix is a weight repacked into panels of 16 outputs, each in the order in which the kernels read it. Missing outputs
// of the last panel are zero.
type matrix struct {
	typ     quant.Type
	out, in int
	panels  int
	stride  int // bytes of a panel, a multiple of 64
	data    []byte
}

func (m *matrix) Dims() (out, in int) { return m.out, m.in }
func (m *matrix) Type() quant.Type    { return m.typ }
func (m *matrix) Bytes() int64        { return int64(len(m.data)) }

func (m *matrix) f32() []float32 { return view[float32](m.data) }
func (m *matrix) u16() []uint16  { return view[uint16](m.data) }

// view reads bytes as numbers of T. The bytes are aligned to 64.
func view[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// aligned returns n zero bytes that begin at a multiple of 64.
func aligned(n int) []byte {
	b := make([]byte, n+63)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return b[skip:][:n:n]
}

// panelBytes returns the bytes of one panel of a weight with the given input width.
func panelBytes(t quant.Type, in int) int {
	n := 0
	switch t {
	case quant.F32:
		n = in * lanes * 4
	case quant.F16, quant.BF16:
		n = in * lanes * 2
	case quant.Q8_0:
		n = in / 32 * (blockQ8 + lanes*2)
	case quant.Q4_0:
		n = in / 32 * (blockQ4 + lanes*2)
	default:
		if a := &affinePanels[t]; a.layout != noScales {
			n = a.bytes(in / 32)
		}
	}
	return (n + 63) &^ 63
}

// Matrix implements compute.Device. It repacks the weight on all threads.
func (d *Device) Matrix(src compute.Source) (compute.Matrix, error) {
	rowBytes, err := src.Type.RowBytes(src.In)
	if err != nil {
		return nil, fmt.Errorf("cpu: weight %q: %w", src.Name, err)
	}
	if src.Out < 1 || src.In < 1 || len(src.Data) != rowBytes*src.Out {
		return nil, fmt.Errorf("cpu: weight %q: [%d, %d] of %v needs %d bytes, got %d", src.Name, src.Out, src.In, src.Type, rowBytes*src.Out, len(src.Data))
	}
	m := &matrix{typ: src.Type, out: src.Out, in: src.In, panels: (src.Out + lanes - 1) / lanes, stride: panelBytes(src.Type, src.In)}
	if m.stride == 0 {
		return nil, fmt.Errorf("cpu: weight %q: type %v has no kernels; known are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, "+
			"Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4", src.Name, src.Type)
	}
	m.data = aligned(m.panels * m.stride)
	err = d.pool.run(m.panels, func(_, p int) {
		panel := m.data[p*m.stride:][:m.stride]
		for j := range min(lanes, m.out-p*lanes) {
			row := src.Data[(p*lanes+j)*rowBytes:][:rowBytes]
			switch m.typ {
			case quant.F32:
				for k := range m.in {
					copy(panel[(k*lanes+j)*4:][:4], row[k*4:])
				}
			case quant.F16, quant.BF16:
				for k := range m.in {
					copy(panel[(k*lanes+j)*2:][:2], row[k*2:])
				}
			case quant.Q8_0:
				packQ8(panel, row, j)
			case quant.Q4_0:
				packQ4(panel, row, j)
			default:
				affinePanels[m.typ].pack(panel, row, m.typ, j)
			}
		}
	})
	return m, err
}

// packQ8 puts one output of Q8_0 (blocks of a float16 scale and 32 int8) in lane j of its panel.
func packQ8(panel, row []byte, j int) {
	blocks := len(row) / 34
	for b := range blocks {
		block := row[b*34:][:34]
		copy(panel[blocks*blockQ8+(b*lanes+j)*2:][:2], block)
		for g := range groupsQ8 {
			v := binary.LittleEndian.Uint32(block[2+g*4:])
			binary.LittleEndian.PutUint32(panel[b*blockQ8+g*64+j*4:], v^0x80808080) // int8 to value + 128
		}
	}
}

// packQ4 puts one output of Q4_0 (blocks of a float16 scale and 16 bytes: the low halves are values 0 to 15, the high
// halves 16 to 31, each + 8) in lane j of its panel.
func packQ4(panel, row []byte, j int) {
	blocks := len(row) / 18
	for b := range blocks {
		block := row[b*18:][:18]
		copy(panel[blocks*blockQ4+(b*lanes+j)*2:][:2], block)
		for g := range groupsQ4 {
			copy(panel[b*blockQ4+g*64+j*4:][:4], block[2+g*4:])
		}
	}
}

// row decodes one output of the matrix into dst.
func (m *matrix) row(dst []float32, n int) {
	panel, j := m.data[n/lanes*m.stride:][:m.stride], n%lanes
	switch m.typ {
	case quant.F32:
		for k := range dst {
			dst[k] = view[float32](panel)[k*lanes+j]
		}
	case quant.F16:
		for k := range dst {
			dst[k] = quant.F16ToF32(view[uint16](panel)[k*lanes+j])
		}
	case quant.BF16:
		for k := range dst {
			dst[k] = quant.BF16ToF32(view[uint16](panel)[k*lanes+j])
		}
	case quant.Q8_0:
		scales := panel[m.in/32*blockQ8:]
		for k := range dst {
			v := panel[k/32*blockQ8+k%32/4*64+j*4+k%4]
			dst[k] = float32(int32(v)-128) * scaleAt(scales, k/32, j)
		}
	case quant.Q4_0:
		scales := panel[m.in/32*blockQ4:]
		for k := range dst {
			v := panel[k/32*blockQ4+k%16/4*64+j*4+k%4]
			if k%32 >= 16 {
				v >>= 4
			}
			dst[k] = float32(int32(v&15)-8) * scaleAt(scales, k/32, j)
		}
	default:
		affinePanels[m.typ].row(dst, panel, j)
	}
}
