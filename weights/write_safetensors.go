package weights

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// WriteSafetensors writes a safetensors file. Tensors with wider values come first, and otherwise keep their order, so
// that every tensor is aligned to its values; metadata, which may be nil, is written in the order of its keys. The
// block types of GGUF are an error.
func WriteSafetensors(w io.Writer, tensors []Source, metadata map[string]string) error {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b Source) int { return cmp.Compare(b.Type.BlockBytes(), a.Type.BlockBytes()) })
	sizes, err := checkSources(tensors, false)
	if err != nil {
		return err
	}
	header := []byte{'{'}
	if len(metadata) > 0 {
		header = append(appendString(header, metadataKey), ":{"...)
		for i, k := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				header = append(header, ',')
			}
			header = append(appendString(header, k), ':')
			header = appendString(header, metadata[k])
		}
		header = append(header, '}')
	}
	var offset int64
	for i, t := range tensors {
		if !safetensorsTypes[t.Type] {
			return fmt.Errorf("weights: writing tensor %q: safetensors has no type %v", t.Name, t.Type)
		}
		if t.Name == metadataKey || len(t.Shape) > maxDims {
			return fmt.Errorf("weights: writing tensor %q: safetensors cannot hold this name or shape %v", t.Name, t.Shape)
		}
		if len(header) > 1 {
			header = append(header, ',')
		}
		header = append(appendString(header, t.Name), `:{"dtype":"`+t.Type.String()+`","shape":[`...)
		for j, d := range t.Shape {
			if j > 0 {
				header = append(header, ',')
			}
			header = strconv.AppendInt(header, int64(d), 10)
		}
		header = fmt.Appendf(header, `],"data_offsets":[%d,%d]}`, offset, offset+sizes[i])
		offset += sizes[i]
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if len(header) > maxHeader {
		return fmt.Errorf("weights: writing safetensors: a header of %d bytes, more than the %d allowed",
			len(header), maxHeader)
	}
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)); err != nil {
		return fmt.Errorf("weights: writing safetensors: %w", err)
	}
	for i, t := range tensors {
		if err := t.writeTo(w, sizes[i]); err != nil {
			return err
		}
	}
	return nil
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // Marshal has no error for a string
	}
	return append(b, text...)
}
