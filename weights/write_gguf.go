package weights

import (
	"encoding/binary"
	"fmt"
	"io"
	"unicode/utf8"
)

// KV is a pair of GGUF metadata. Value has one of the types that Checkpoint.Metadata returns.
type KV struct {
	Key   string
	Value any
}

// WriteGGUF writes a GGUF file of version 3 with the pairs and the tensors in the given order. Tensors are aligned to
// the value of "general.alignment" among meta, a uint32, or else to 32 bytes. A type that GGUF does not have, more
// than four dimensions or rows that are not whole blocks are an error.
func WriteGGUF(w io.Writer, meta []KV, tensors []Source) error {
	sizes, err := checkSources(tensors, true)
	if err != nil {
		return err
	}
	header := append([]byte(ggufMagic), 3, 0, 0, 0)
	header = binary.LittleEndian.AppendUint64(header, uint64(len(tensors)))
	header = binary.LittleEndian.AppendUint64(header, uint64(len(meta)))
	p := part{meta: map[string]any{}}
	for _, kv := range meta {
		if _, dup := p.meta[kv.Key]; dup || kv.Key == "" || len(kv.Key) > maxName || !utf8.ValidString(kv.Key) {
			return fmt.Errorf("weights: writing GGUF: the metadata key %.64q is empty, too long, not UTF-8 or given twice",
				kv.Key)
		}
		p.meta[kv.Key] = kv.Value
		if header, err = appendPair(header, kv.Key, kv.Value); err != nil {
			return fmt.Errorf("weights: writing GGUF: metadata key %q: %w", kv.Key, err)
		}
	}
	align, err := p.alignment()
	if err != nil {
		return fmt.Errorf("weights: writing GGUF: %w", err)
	}
	var offset int64
	for i, t := range tensors {
		if header, err = appendTensorInfo(header, t, offset); err != nil {
			return fmt.Errorf("weights: writing tensor %q: %w", t.Name, err)
		}
		offset += sizes[i] + padding(sizes[i], align)
	}
	header = append(header, make([]byte, padding(int64(len(header)), align))...)
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("weights: writing GGUF: %w", err)
	}
	for i, t := range tensors {
		if err := t.writeTo(w, sizes[i]); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, padding(sizes[i], align))); err != nil {
			return fmt.Errorf("weights: writing GGUF: %w", err)
		}
	}
	return nil
}

func appendTensorInfo(b []byte, t Source, offset int64) ([]byte, error) {
	id, ok := ggmlID(t.Type)
	if !ok {
		return nil, fmt.Errorf("GGUF has no type %v", t.Type)
	}
	if len(t.Shape) > ggufMaxDims {
		return nil, fmt.Errorf("shape %v has more than the %d dimensions allowed", t.Shape, ggufMaxDims)
	}
	b = appendGGUFString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
	for i := len(t.Shape) - 1; i >= 0; i-- {
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Shape[i]))
	}
	b = binary.LittleEndian.AppendUint32(b, id)
	return binary.LittleEndian.AppendUint64(b, uint64(offset)), nil
}
