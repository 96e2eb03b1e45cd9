package ptx

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
)

// TensorMap says where the boxes of a tensor in global memory lie, as the arguments of cuTensorMapEncodeTiled do,
// whose numbers its fields have. Dimension 0 is the innermost; Pitch is of the others. Encode makes the 128 bytes that
// a kernel gets, of a form of our own: a real driver's is not documented.
type TensorMap struct {
	Type    int // of numbers
	Dims    int
	Address uint64
	Size    [5]uint64 // numbers
	Pitch   [4]uint64 // bytes from one to the next
	Box     [5]uint32 // numbers
	Step    [5]uint32 // must be 1
	// Interleave and Fill must be 0: none, and zeros for what lies outside.
	Interleave, Swizzle, Promotion, Fill int
}

// numberBytes are the sizes of the types of numbers, as CUtensorMapDataType numbers them.
var numberBytes = [...]int{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}

// mapF32 is the type that a kernel can add to.
const mapF32 = 7

// swizzleSpan is how many bytes a row of a box has, by the kind of swizzle.
var swizzleSpan = [...]int{0, 32, 64, 128}

// check finds what the driver, or this package, does not take.
func (m *TensorMap) check() error {
	if m.Type < 0 || m.Type >= len(numberBytes) {
		return fmt.Errorf("ptx: a tensor map of numbers of kind %d", m.Type)
	}
	if m.Dims < 1 || m.Dims > 5 {
		return fmt.Errorf("ptx: a tensor map of %d dimensions, of 1 to 5", m.Dims)
	}
	if m.Address%16 != 0 {
		return fmt.Errorf("ptx: a tensor map at address %#x, no multiple of 16", m.Address)
	}
	if m.Interleave != 0 || m.Fill != 0 || m.Swizzle < 0 || m.Swizzle >= len(swizzleSpan) {
		return fmt.Errorf("ptx: a tensor map with interleave %d, fill %d and swizzle %d is not modelled", m.Interleave, m.Fill, m.Swizzle)
	}
	for i := range m.Dims {
		if m.Size[i] < 1 || m.Size[i] > 1<<32 {
			return fmt.Errorf("ptx: dimension %d of a tensor map has size %d, of 1 to 2^32", i, m.Size[i])
		}
		if m.Box[i] < 1 || m.Box[i] > 256 {
			return fmt.Errorf("ptx: dimension %d of a tensor map has boxes of %d, of 1 to 256", i, m.Box[i])
		}
		if m.Step[i] != 1 {
			return fmt.Errorf("ptx: dimension %d of a tensor map has element stride %d: only 1 is modelled", i, m.Step[i])
		}
		if i > 0 && (m.Pitch[i-1]%16 != 0 || m.Pitch[i-1] >= 1<<40) {
			return fmt.Errorf("ptx: dimension %d of a tensor map has a pitch of %d bytes, no multiple of 16 below 2^40", i, m.Pitch[i-1])
		}
	}
	row := m.rowBytes()
	if row%16 != 0 {
		return fmt.Errorf("ptx: a row of a tensor map's box has %d bytes, no multiple of 16", row)
	}
	if span := swizzleSpan[m.Swizzle]; span != 0 && row != span {
		return fmt.Errorf("ptx: a row of a tensor map's box has %d bytes; its swizzle is of %d", row, span)
	}
	return nil
}

func (m *TensorMap) rowBytes() int { return int(m.Box[0]) * numberBytes[m.Type] }

// Span is the bytes from the first number to the last one's end.
func (m *TensorMap) Span() int64 {
	n := int64(m.Size[0]) * int64(numberBytes[m.Type])
	for i := 1; i < m.Dims; i++ {
		n += int64(m.Pitch[i-1]) * int64(m.Size[i]-1)
	}
	return n
}

// boxBytes is what a whole box takes, and counts at an mbarrier.
func (m *TensorMap) boxBytes() int {
	n := m.rowBytes()
	for _, b := range m.Box[1:m.Dims] {
		n *= int(b)
	}
	return n
}

// Where the fields of an encoded map are. The last 8 bytes are a hash of those before.
const (
	mapKinds   = 4   // five bytes: type, dims, swizzle, promotion
	mapAddress = 8   // 8 bytes
	mapSize    = 16  // five times 4 bytes, less 1
	mapBox     = 36  // five bytes, less 1
	mapPitch   = 44  // four times 8 bytes
	mapHash    = 120 // 8 bytes
)

const mapMagic = 0x50414d54

// Encode checks a map and makes its 128 bytes, which kernels want at a multiple of 64.
func (m *TensorMap) Encode() (b [128]byte, err error) {
	if err := m.check(); err != nil {
		return b, err
	}
	le := binary.LittleEndian
	le.PutUint32(b[:], mapMagic)
	b[mapKinds], b[mapKinds+1], b[mapKinds+2], b[mapKinds+3] = byte(m.Type), byte(m.Dims), byte(m.Swizzle), byte(m.Promotion)
	le.PutUint64(b[mapAddress:], m.Address)
	for i := range m.Dims {
		le.PutUint32(b[mapSize+4*i:], uint32(m.Size[i]-1))
		b[mapBox+i] = byte(m.Box[i] - 1)
		if i > 0 {
			le.PutUint64(b[mapPitch+8*i-8:], m.Pitch[i-1])
		}
	}
	le.PutUint64(b[mapHash:], hashOf(b[:mapHash]))
	return b, nil
}

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// decodeTensorMap is the inverse of Encode.
func decodeTensorMap(b []byte) (m TensorMap, err error) {
	le := binary.LittleEndian
	if le.Uint32(b) != mapMagic || le.Uint64(b[mapHash:]) != hashOf(b[:mapHash]) {
		return m, fmt.Errorf("no tensor map is here, but % x and more", b[:16])
	}
	m = TensorMap{Type: int(b[mapKinds]), Dims: int(b[mapKinds+1]), Swizzle: int(b[mapKinds+2]), Promotion: int(b[mapKinds+3]), Address: le.Uint64(b[mapAddress:])}
	for i := range m.Dims {
		m.Size[i], m.Box[i], m.Step[i] = uint64(le.Uint32(b[mapSize+4*i:]))+1, uint32(b[mapBox+i])+1, 1
		if i > 0 {
			m.Pitch[i-1] = le.Uint64(b[mapPitch+8*i-8:])
		}
	}
	return m, nil
}

// swizzled is where a byte of shared memory lies that would be at an address without swizzle: units of 16 bytes change
// places within a span, by the number of the 128 bytes they are in.
func swizzled(at uint32, kind int) uint32 {
	switch kind {
	case 1:
		return at ^ at>>7&1<<4
	case 2:
		return at ^ at>>7&3<<4
	case 3:
		return at ^ at>>7&7<<4
	}
	return at
}

// rows calls f for all rows of the box that begins with some numbers: where the row's first byte lies in the box, the
// address of its first number, and which bytes of the row are inside of the tensor: none if from is to.
func (m *TensorMap) rows(first [5]int32, f func(inBox int, address uint64, from, to int) error) error {
	size, row := numberBytes[m.Type], m.rowBytes()
	from := min(max(0, -int64(first[0])), int64(m.Box[0]))
	to := max(from, min(int64(m.Box[0]), int64(m.Size[0])-int64(first[0])))
	var at [5]int
	for inBox := 0; ; inBox += row {
		address, inside := m.Address+uint64(int64(first[0])*int64(size)), true
		for i := 1; i < m.Dims; i++ {
			x := int64(first[i]) + int64(at[i])
			inside = inside && x >= 0 && x < int64(m.Size[i])
			address += uint64(x * int64(m.Pitch[i-1]))
		}
		end := from
		if inside {
			end = to
		}
		if err := f(inBox, address, int(from)*size, int(end)*size); err != nil {
			return err
		}
		i := 1
		for ; i < m.Dims; i++ {
			if at[i]++; at[i] < int(m.Box[i]) {
				break
			}
			at[i] = 0
		}
		if i >= m.Dims {
			return nil
		}
	}
}

// load copies the box that begins with some numbers to an address of shared memory. What lies outside of the tensor
// becomes zeros. Where a box begins within 16 bytes of a row, Hopper reports an illegal instruction.
func (m *TensorMap) load(shared []byte, at uint32, first [5]int32, memory reach) error {
	if err := m.fits(shared, at); err != nil {
		return err
	}
	if begin := int(first[0]) * numberBytes[m.Type]; begin%16 != 0 {
		return fmt.Errorf("a tensor map's box begins at byte %d of a row, no multiple of 16", begin)
	}
	row := make([]byte, m.rowBytes())
	return m.rows(first, func(inBox int, address uint64, from, to int) error {
		clear(row)
		if from < to {
			b := memory(address+uint64(from), to-from)
			if b == nil {
				return fmt.Errorf("a tensor map's box has %d bytes at %#x, which are not allocated", to-from, address+uint64(from))
			}
			copy(row[from:to], b)
		}
		for i := 0; i < len(row); i += 16 {
			copy(within(shared, swizzled(at+uint32(inBox+i), m.Swizzle), 16), row[i:])
		}
		return nil
	})
}

// gather copies a box from shared memory to a slice, without swizzle.
func (m *TensorMap) gather(shared []byte, at uint32) ([]byte, error) {
	if err := m.fits(shared, at); err != nil {
		return nil, err
	}
	box := make([]byte, m.boxBytes())
	for i := 0; i < len(box); i += 16 {
		copy(box[i:], within(shared, swizzled(at+uint32(i), m.Swizzle), 16))
	}
	return box, nil
}

// store copies a box to its place, or adds it to what is there. What lies outside of the tensor is left out.
func (m *TensorMap) store(box []byte, first [5]int32, memory reach, add bool) error {
	if add && m.Type != mapF32 {
		return fmt.Errorf("adding to numbers of kind %d of a tensor map is not modelled", m.Type)
	}
	return m.rows(first, func(inBox int, address uint64, from, to int) error {
		if from == to {
			return nil
		}
		b := memory(address+uint64(from), to-from)
		if b == nil {
			return fmt.Errorf("a tensor map's box has %d bytes at %#x, which are not allocated", to-from, address+uint64(from))
		}
		x := box[inBox+from : inBox+to]
		if add {
			addNumbers(b, x)
		} else {
			copy(b, x)
		}
		return nil
	})
}

// fits says whether a box lies in shared memory from an address on, which swizzle wants at a multiple of its pattern.
func (m *TensorMap) fits(shared []byte, at uint32) error {
	if align := max(128, uint32(swizzleSpan[m.Swizzle])*8); at%align != 0 {
		return fmt.Errorf("a tensor map's box at %#x of shared memory, no multiple of %d", at, align)
	}
	if n := m.boxBytes(); within(shared, at, n) == nil {
		return fmt.Errorf("a tensor map's box of %d bytes at %#x of shared memory, which ends at %#x", n, at, endOf(shared))
	}
	return nil
}

// addNumbers adds numbers of float32.
func addNumbers(to, x []byte) {
	le := binary.LittleEndian
	for i := 0; i < len(to); i += 4 {
		sum := math.Float32frombits(le.Uint32(to[i:])) + math.Float32frombits(le.Uint32(x[i:]))
		le.PutUint32(to[i:], math.Float32bits(sum))
	}
}
