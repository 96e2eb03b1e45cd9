package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"testing"
)

// ggufReader reads the metadata of a GGUF file (version 2 or 3), as the specification lays it out.
type ggufReader struct {
	data []byte
	pos  int
}

func (r *ggufReader) take(n int) []byte {
	b := r.data[r.pos : r.pos+n]
	r.pos += n
	return b
}
func (r *ggufReader) u32() uint32    { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *ggufReader) u64() uint64    { return binary.LittleEndian.Uint64(r.take(8)) }
func (r *ggufReader) string() string { return string(r.take(int(r.u64()))) }

func (r *ggufReader) value(kind uint32) any {
	switch kind {
	case 0:
		return r.take(1)[0]
	case 1:
		return int8(r.take(1)[0])
	case 4:
		return r.u32()
	case 5:
		return int32(r.u32())
	case 6:
		return math.Float32frombits(r.u32())
	case 7:
		return r.take(1)[0] != 0
	case 8:
		return r.string()
	case 9:
		elem, n := r.u32(), int(r.u64())
		switch elem {
		case 0:
			return ggufArray[byte](r, elem, n)
		case 1:
			return ggufArray[int8](r, elem, n)
		case 4:
			return ggufArray[uint32](r, elem, n)
		case 5:
			return ggufArray[int32](r, elem, n)
		case 6:
			return ggufArray[float32](r, elem, n)
		case 8:
			return ggufArray[string](r, elem, n)
		}
	case 10:
		return r.u64()
	case 11:
		return int64(r.u64())
	case 12:
		return math.Float64frombits(r.u64())
	}
	panic(fmt.Sprintf("GGUF value type %d", kind))
}

func ggufArray[T any](r *ggufReader, elem uint32, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = r.value(elem).(T)
	}
	return out
}

func readGGUF(tb testing.TB, path string) map[string]any {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	r := &ggufReader{data: data, pos: 16}
	meta := map[string]any{}
	for range r.u64() {
		key := r.string()
		meta[key] = r.value(r.u32())
	}
	return meta
}
