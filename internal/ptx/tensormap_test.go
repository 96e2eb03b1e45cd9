package ptx

import (
	"encoding/binary"
	"math"
	"testing"
)

// flatMemory is global memory of one allocation.
func flatMemory(base uint64, b []byte) reach {
	return func(at uint64, n int) []byte {
		if at < base || at-base+uint64(n) > uint64(len(b)) {
			return nil
		}
		return b[at-base : at-base+uint64(n)]
	}
}

func rowsMap() TensorMap { // 10 rows of 96 numbers of 2 bytes, 256 bytes apart, in boxes of 64 by 8
	return TensorMap{Type: 9, Dims: 2, Address: 0x1000, Size: [5]uint64{96, 10}, Pitch: [4]uint64{256}, Box: [5]uint32{64, 8}, Step: [5]uint32{1, 1}, Swizzle: 3, Promotion: 3}
}

func TestTensorMapEncoding(t *testing.T) {
	for _, m := range []TensorMap{rowsMap(), {Type: 4, Dims: 5, Address: 1 << 47, Size: [5]uint64{1 << 32, 1, 2, 3, 4}, Pitch: [4]uint64{1<<40 - 16, 16, 32, 48},
		Box: [5]uint32{256, 1, 2, 3, 256}, Step: [5]uint32{1, 1, 1, 1, 1}}} {
		b, err := m.Encode()
		passes(t, err)
		got, err := decodeTensorMap(b[:])
		passes(t, err)
		if got != m {
			t.Errorf("%+v becomes %+v", m, got)
		}
		b[50]++
		_, err = decodeTensorMap(b[:])
		fails(t, err, "no tensor map is here")
	}
}

func TestTensorMapMistakes(t *testing.T) {
	for says, change := range map[string]func(m *TensorMap){
		"numbers of kind 13":                     func(m *TensorMap) { m.Type = 13 },
		"of 6 dimensions":                        func(m *TensorMap) { m.Dims = 6 },
		"address 0x1008":                         func(m *TensorMap) { m.Address += 8 },
		"interleave 1":                           func(m *TensorMap) { m.Interleave = 1 },
		"dimension 1 of a tensor map has size 0": func(m *TensorMap) { m.Size[1] = 0 },
		"has boxes of 257":                       func(m *TensorMap) { m.Box[1] = 257 },
		"element stride 2":                       func(m *TensorMap) { m.Step[0] = 2 },
		"pitch of 264 bytes":                     func(m *TensorMap) { m.Pitch[0] = 264 },
		"has 120 bytes, no multiple of 16":       func(m *TensorMap) { m.Box[0] = 60 },
		"has 64 bytes; its swizzle is of 128":    func(m *TensorMap) { m.Box[0] = 32 },
	} {
		m := rowsMap()
		change(&m)
		_, err := m.Encode()
		fails(t, err, says)
	}
}

func TestBoxes(t *testing.T) {
	m, global := rowsMap(), make([]byte, 256*9+192) // nothing follows the last row
	for i := 0; i < len(global); i += 2 {
		binary.LittleEndian.PutUint16(global[i:], uint16(i))
	}
	for _, place := range [][5]int32{{0, 0}, {64, 4}, {-16, -3}, {96, 0}, {0, 10}, {32, 1 << 30}} {
		shared := make([]byte, 4096)
		passes(t, m.load(shared, sharedBase+2048, place, flatMemory(0x1000, global)))
		for r := range 8 {
			for c := range 64 {
				row, col, want := int(place[1])+r, int(place[0])+c, uint16(0)
				if row >= 0 && row < 10 && col >= 0 && col < 96 {
					want = uint16(row*256 + 2*col)
				}
				unit := c/8 ^ r
				if got := binary.LittleEndian.Uint16(shared[2048+r*128+unit*16+c%8*2:]); got != want {
					t.Fatalf("box at %v: number %d of row %d is %d; want %d", place, c, r, got, want)
				}
			}
		}
		// Stored elsewhere, it gives what is inside.
		to := make([]byte, len(global))
		box, err := m.gather(shared, sharedBase+2048)
		passes(t, err)
		passes(t, m.store(box, place, flatMemory(0x1000, to), false))
		for i := 0; i < len(to); i += 2 {
			row, col, want := i/256, i%256/2, uint16(0)
			if r, c := row-int(place[1]), col-int(place[0]); r >= 0 && r < 8 && c >= 0 && c < 64 && col < 96 {
				want = uint16(i)
			}
			if got := binary.LittleEndian.Uint16(to[i:]); got != want {
				t.Fatalf("box at %v stored: byte %d is %d; want %d", place, i, got, want)
			}
		}
	}
	shared := make([]byte, 4096)
	fails(t, m.load(shared, sharedBase+128, [5]int32{}, flatMemory(0x1000, global)), "at 0x480 of shared memory, no multiple of 1024")
	fails(t, m.load(shared, sharedBase+4096, [5]int32{}, flatMemory(0x1000, global)), "which ends at 0x1400")
	fails(t, m.load(shared, sharedBase, [5]int32{4, 0}, flatMemory(0x1000, global)), "begins at byte 8 of a row, no multiple of 16")
	fails(t, m.load(shared, sharedBase, [5]int32{0, 3}, flatMemory(0x1000, global[:2304])), "128 bytes at 0x1900, which are not allocated")
}

func TestBoxesOfFiveDimensions(t *testing.T) {
	m := TensorMap{Type: 0, Dims: 5, Address: 0x1000, Size: [5]uint64{16, 3, 3, 3, 3}, Pitch: [4]uint64{16, 48, 144, 432},
		Box: [5]uint32{16, 2, 2, 2, 2}, Step: [5]uint32{1, 1, 1, 1, 1}}
	global, shared := make([]byte, 16*81), make([]byte, 512)
	for i := range global {
		global[i] = byte(1 + i/16)
	}
	passes(t, m.load(shared, sharedBase+256, [5]int32{0, 2, 1, 0, 1}, flatMemory(0x1000, global)))
	for i := range 16 {
		want := byte(0)
		if i%2 == 0 { // the box has two of dimension 1, from the last on
			want = byte(1 + 2 + 3*(1+i/2%2) + 9*(i/4%2) + 27*(1+i/8))
		}
		if got := shared[256+16*i+5]; got != want {
			t.Errorf("row %d of the box is %d; want %d", i, got, want)
		}
	}
}

func TestBoxesAdd(t *testing.T) {
	m := TensorMap{Type: 7, Dims: 1, Address: 0x1000, Size: [5]uint64{6}, Box: [5]uint32{8}, Step: [5]uint32{1}}
	global, box := make([]byte, 24), make([]byte, 32)
	for i := range 8 {
		binary.LittleEndian.PutUint32(box[4*i:], math.Float32bits(float32(i)+.5))
	}
	for range 2 {
		passes(t, m.store(box, [5]int32{1}, flatMemory(0x1000, global), true))
	}
	for i := range 6 {
		if got, want := math.Float32frombits(binary.LittleEndian.Uint32(global[4*i:])), float32(max(0, 2*i-1)); got != want {
			t.Errorf("number %d is %g; want %g", i, got, want)
		}
	}
	m.Type = 9
	fails(t, m.store(box, [5]int32{}, flatMemory(0x1000, global), true), "adding to numbers of kind 9")
}
