package weights

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The value types of GGUF metadata, by the numbers that files use for them.
const (
	kvUint8 uint32 = iota
	kvInt8
	kvUint16
	kvInt16
	kvUint32
	kvInt32
	kvFloat32
	kvBool
	kvString
	kvArray
	kvUint64
	kvInt64
	kvFloat64
)

// maxArrayDepth bounds how deep arrays of arrays nest.
const maxArrayDepth = 8

// value reads a metadata value of the given type as the Go type of the same name. An array becomes a slice of the
// elements' type, an array of arrays []any. Nothing in the result refers to the file.
func (c *cursor) value(kind uint32, depth int) (any, error) {
	switch kind {
	case kvString:
		b, err := c.str("a string")
		return string(b), err
	case kvArray:
		if depth == maxArrayDepth {
			return nil, fmt.Errorf("arrays at byte %d nest deeper than %d", c.pos, maxArrayDepth)
		}
		elem, err := c.u32("an array's element type")
		if err != nil {
			return nil, err
		}
		return c.array(elem, depth)
	}
	v, err := c.numbers(kind, 1)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []uint8:
		return v[0], nil
	case []int8:
		return v[0], nil
	case []uint16:
		return v[0], nil
	case []int16:
		return v[0], nil
	case []uint32:
		return v[0], nil
	case []int32:
		return v[0], nil
	case []float32:
		return v[0], nil
	case []bool:
		return v[0], nil
	case []uint64:
		return v[0], nil
	case []int64:
		return v[0], nil
	default:
		return v.([]float64)[0], nil
	}
}

// array reads the count and the elements of an array.
func (c *cursor) array(elem uint32, depth int) (any, error) {
	switch elem {
	case kvString:
		n, err := c.count(8, "an array's length")
		if err != nil {
			return nil, err
		}
		return c.strings(n)
	case kvArray:
		n, err := c.count(12, "an array's length")
		if err != nil {
			return nil, err
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.value(kvArray, depth+1); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return list, nil
	}
	size, err := c.numberSize(elem)
	if err != nil {
		return nil, err
	}
	n, err := c.count(size, "an array's length")
	if err != nil {
		return nil, err
	}
	return c.numbers(elem, n)
}

// strings reads n strings. Vocabularies have a hundred thousand of them, so all share one copy of the file's bytes.
func (c *cursor) strings(n int) ([]string, error) {
	start := c.pos
	for i := range n {
		if _, err := c.str("a string"); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	text := string(c.data[start:c.pos])
	list, at := make([]string, n), 0
	for i := range list {
		size := int(binary.LittleEndian.Uint64(c.data[start+at:]))
		list[i] = text[at+8 : at+8+size]
		at += 8 + size
	}
	return list, nil
}

// numberSize returns the bytes of a number or boolean of the given type.
func (c *cursor) numberSize(kind uint32) (uint64, error) {
	switch kind {
	case kvUint8, kvInt8, kvBool:
		return 1, nil
	case kvUint16, kvInt16:
		return 2, nil
	case kvUint32, kvInt32, kvFloat32:
		return 4, nil
	case kvUint64, kvInt64, kvFloat64:
		return 8, nil
	}
	return 0, fmt.Errorf("unknown metadata value type %d before byte %d", kind, c.pos)
}

// numbers reads n numbers or booleans of the given type.
func (c *cursor) numbers(kind uint32, n int) (any, error) {
	size, err := c.numberSize(kind)
	if err != nil {
		return nil, err
	}
	at := c.pos
	b, err := c.take(size*uint64(n), "a value")
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	switch kind {
	case kvUint8:
		return decodeAll(b, n, func(b []byte) uint8 { return b[0] }), nil
	case kvInt8:
		return decodeAll(b, n, func(b []byte) int8 { return int8(b[0]) }), nil
	case kvUint16:
		return decodeAll(b, n, le.Uint16), nil
	case kvInt16:
		return decodeAll(b, n, func(b []byte) int16 { return int16(le.Uint16(b)) }), nil
	case kvUint32:
		return decodeAll(b, n, le.Uint32), nil
	case kvInt32:
		return decodeAll(b, n, func(b []byte) int32 { return int32(le.Uint32(b)) }), nil
	case kvFloat32:
		return decodeAll(b, n, func(b []byte) float32 { return math.Float32frombits(le.Uint32(b)) }), nil
	case kvUint64:
		return decodeAll(b, n, le.Uint64), nil
	case kvInt64:
		return decodeAll(b, n, func(b []byte) int64 { return int64(le.Uint64(b)) }), nil
	case kvFloat64:
		return decodeAll(b, n, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }), nil
	}
	for i, v := range b {
		if v > 1 {
			return nil, fmt.Errorf("a boolean at byte %d is %d, neither 0 nor 1", at+i, v)
		}
	}
	return decodeAll(b, n, func(b []byte) bool { return b[0] == 1 }), nil
}

// decodeAll splits b into n pieces of equal size and decodes each.
func decodeAll[T any](b []byte, n int, decode func([]byte) T) []T {
	list := make([]T, n)
	for i := range list {
		size := len(b) / (n - i)
		list[i] = decode(b[:size])
		b = b[size:]
	}
	return list
}
