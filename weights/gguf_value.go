package weights

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// The types of GGUF metadata values, by the numbers that files use for them.
const (
	kvBool   = 7
	kvString = 8
	kvArray  = 9
)

// numberTypes are the Go types of metadata values of a fixed size.
var numberTypes = map[uint32]reflect.Type{
	0: reflect.TypeFor[uint8](), 1: reflect.TypeFor[int8](),
	2: reflect.TypeFor[uint16](), 3: reflect.TypeFor[int16](),
	4: reflect.TypeFor[uint32](), 5: reflect.TypeFor[int32](),
	6: reflect.TypeFor[float32](), kvBool: reflect.TypeFor[bool](),
	10: reflect.TypeFor[uint64](), 11: reflect.TypeFor[int64](), 12: reflect.TypeFor[float64](),
}

// maxArrayDepth bounds how deep arrays of arrays nest.
const maxArrayDepth = 8

// value reads a metadata value of the given type. An array becomes a slice of the elements' type, an array of arrays
// []any. Nothing in the result refers to the file.
func (c *cursor) value(kind uint32, depth int) (any, error) {
	switch kind {
	case kvString:
		b, err := c.str("a string")
		return string(b), err
	case kvArray:
		if depth == maxArrayDepth {
			return nil, fmt.Errorf("arrays at byte %d nest deeper than %d", c.pos, maxArrayDepth)
		}
		return c.array(depth)
	}
	list, err := c.numbers(kind, 1)
	if err != nil {
		return nil, err
	}
	return reflect.ValueOf(list).Index(0).Interface(), nil
}

// array reads the type, the count and the elements of an array.
func (c *cursor) array(depth int) (any, error) {
	elem, err := c.u32("an array's element type")
	if err != nil {
		return nil, err
	}
	size := uint64(8) // a string's length
	if t, ok := numberTypes[elem]; ok {
		size = uint64(t.Size())
	} else if elem == kvArray {
		size = 12 // an array's type and length
	}
	n, err := c.count(size, "an array's length")
	if err != nil {
		return nil, err
	}
	switch elem {
	case kvString:
		return c.strings(n)
	case kvArray:
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.value(kvArray, depth+1); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return list, nil
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

// numbers reads n numbers or booleans of the given type as a slice.
func (c *cursor) numbers(kind uint32, n int) (any, error) {
	t, ok := numberTypes[kind]
	if !ok {
		return nil, fmt.Errorf("unknown metadata value type %d before byte %d", kind, c.pos)
	}
	at := c.pos
	b, err := c.take(uint64(n)*uint64(t.Size()), "a value")
	if err != nil {
		return nil, err
	}
	if kind == kvBool {
		for i, v := range b {
			if v > 1 {
				return nil, fmt.Errorf("a boolean at byte %d is %d, neither 0 nor 1", at+i, v)
			}
		}
	}
	list := reflect.MakeSlice(reflect.SliceOf(t), n, n).Interface()
	if _, err := binary.Decode(b, binary.LittleEndian, list); err != nil {
		return nil, fmt.Errorf("a value at byte %d: %w", at, err)
	}
	return list, nil
}

// appendPair appends a key, its value's type and the value.
func appendPair(b []byte, key string, v any) ([]byte, error) {
	b = appendGGUFString(b, key)
	kind, ok := numberKind(reflect.TypeOf(v))
	if _, isString := v.(string); isString {
		kind = kvString
	} else if !ok {
		kind = kvArray // or nothing that GGUF has, which appendValue refuses
	}
	return appendValue(binary.LittleEndian.AppendUint32(b, kind), v, 0)
}

// numberKind returns the number that stands for a type of a fixed size.
func numberKind(t reflect.Type) (uint32, bool) {
	for kind, u := range numberTypes {
		if t == u {
			return kind, true
		}
	}
	return 0, false
}

// appendValue appends a value of any type that Checkpoint.Metadata returns.
func appendValue(b []byte, v any, depth int) ([]byte, error) {
	le := binary.LittleEndian
	t := reflect.TypeOf(v)
	if _, ok := numberKind(t); ok {
		return binary.Append(b, le, v)
	}
	if s, ok := v.(string); ok {
		return appendGGUFString(b, s), nil
	}
	if t == nil || t.Kind() != reflect.Slice {
		return nil, fmt.Errorf("GGUF metadata has no type for a %T", v)
	}
	if depth == maxArrayDepth {
		return nil, fmt.Errorf("arrays nest deeper than %d", maxArrayDepth)
	}
	n := uint64(reflect.ValueOf(v).Len())
	if kind, ok := numberKind(t.Elem()); ok {
		return binary.Append(le.AppendUint64(le.AppendUint32(b, kind), n), le, v)
	}
	switch v := v.(type) {
	case []string:
		b = le.AppendUint64(le.AppendUint32(b, kvString), n)
		for _, s := range v {
			b = appendGGUFString(b, s)
		}
		return b, nil
	case []any:
		b = le.AppendUint64(le.AppendUint32(b, kvArray), n)
		for i, elem := range v {
			if et := reflect.TypeOf(elem); et == nil || et.Kind() != reflect.Slice {
				return nil, fmt.Errorf("element %d of an array of arrays is a %T", i, elem)
			}
			var err error
			if b, err = appendValue(b, elem, depth+1); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return b, nil
	}
	return nil, fmt.Errorf("GGUF metadata has no type for a %T", v)
}

func appendGGUFString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
