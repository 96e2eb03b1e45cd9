package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
)

// protoField is one field of a protocol-buffer message: a varint or fixed number, or a length-delimited value.
type protoField struct {
	number int
	wire   int // 0 varint, 1 fixed 64, 2 length-delimited, 5 fixed 32
	value  uint64
	bytes  []byte
}

func (f protoField) float32() float32 { return math.Float32frombits(uint32(f.value)) }

// protoFields calls on for every field of a message, in order.
func protoFields(msg []byte, on func(protoField) error) error {
	for pos := 0; pos < len(msg); {
		tag, n := binary.Uvarint(msg[pos:])
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return fmt.Errorf("protobuf: bad tag at byte %d", pos)
		}
		f := protoField{number: int(tag >> 3), wire: int(tag & 7)}
		pos += n
		size := 0
		switch f.wire {
		case 0:
			if f.value, size = binary.Uvarint(msg[pos:]); size <= 0 {
				return fmt.Errorf("protobuf: bad varint at byte %d", pos)
			}
		case 1:
			if size = 8; len(msg)-pos >= size {
				f.value = binary.LittleEndian.Uint64(msg[pos:])
			}
		case 5:
			if size = 4; len(msg)-pos >= size {
				f.value = uint64(binary.LittleEndian.Uint32(msg[pos:]))
			}
		case 2:
			length, n := binary.Uvarint(msg[pos:])
			if n <= 0 || length > uint64(len(msg)-pos-n) {
				return fmt.Errorf("protobuf: field %d at byte %d reaches past the end at byte %d", f.number, pos, len(msg))
			}
			pos += n
			size = int(length)
			f.bytes = msg[pos : pos+size]
		default:
			return fmt.Errorf("protobuf: wire type %d at byte %d is not supported", f.wire, pos)
		}
		if size > len(msg)-pos {
			return fmt.Errorf("protobuf: field %d at byte %d reaches past the end at byte %d", f.number, pos, len(msg))
		}
		pos += size
		if err := on(f); err != nil {
			return err
		}
	}
	return nil
}
