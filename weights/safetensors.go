package weights

import (
	"encoding/binary"
	"fmt"

	"github.com/kvasir-llm/kvasir/quant"
)

// A safetensors file is a header length (8 bytes, little-endian), a JSON header of that length and the tensors' bytes.
// The header maps names to {"dtype", "shape", "data_offsets": [begin, end]} with offsets into what follows it, and
// "__metadata__" to an object of strings. The tensors must cover the rest of the file exactly.

// maxHeader bounds the JSON header, in bytes, as the format's reference implementation does.
const maxHeader = 100_000_000

// maxDims bounds the dimensions of a tensor. The format has no limit; no framework that writes it knows more.
const maxDims = 64

const metadataKey = "__metadata__"

// safetensorsTypes are the types that the format knows, under the names that quant gives them.
var safetensorsTypes = map[quant.Type]bool{
	quant.BOOL: true, quant.U8: true, quant.U16: true, quant.U32: true, quant.U64: true,
	quant.I8: true, quant.I16: true, quant.I32: true, quant.I64: true,
	quant.F16: true, quant.BF16: true, quant.F32: true, quant.F64: true, quant.C64: true,
	quant.F4: true, quant.F6_E2M3: true, quant.F6_E3M2: true, quant.F8_E8M0: true,
	quant.F8_E4M3: true, quant.F8_E4M3FNUZ: true, quant.F8_E5M2: true, quant.F8_E5M2FNUZ: true,
}

func parseSafetensors(m mapping) (part, error) {
	p := part{mapping: m, format: Safetensors, meta: map[string]any{}}
	if len(m.data) < 8 {
		return p, fmt.Errorf("%d bytes, fewer than the 8 of a safetensors header length", len(m.data))
	}
	n := binary.LittleEndian.Uint64(m.data)
	if n > maxHeader {
		return p, fmt.Errorf("a safetensors header of %d bytes, more than the %d allowed", n, maxHeader)
	}
	if n > uint64(len(m.data)-8) {
		return p, fmt.Errorf("a safetensors header of %d bytes ends at byte %d, past the file's end %d",
			n, n+8, len(m.data))
	}
	start := 8 + int(n)
	s := &jsonScanner{text: m.data[8:start], base: 8}
	if n == 0 || s.text[0] != '{' {
		return p, fmt.Errorf("the safetensors header does not begin with '{' at byte 8")
	}
	if err := p.parseHeader(s); err != nil {
		return p, fmt.Errorf("safetensors header: %w", err)
	}
	return p, checkExtents(p.infos, int64(start), int64(len(m.data)), true)
}

func (p *part) parseHeader(s *jsonScanner) error {
	if err := s.validText(); err != nil {
		return err
	}
	dataStart := s.base + len(s.text)
	seen := map[string]bool{}
	err := s.object(func(name string) error {
		if seen[name] {
			return s.errorf("%q occurs twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			return p.parseStrings(s)
		}
		if len(name) > maxName {
			return s.errorf("a tensor name of %d bytes, more than the %d allowed", len(name), maxName)
		}
		info, err := parseTensor(s, dataStart)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		info.Name, info.File = name, p.path
		p.infos = append(p.infos, info)
		return nil
	})
	if err != nil {
		return err
	}
	return s.end()
}

// parseStrings scans the __metadata__ object. Some writers put null for none.
func (p *part) parseStrings(s *jsonScanner) error {
	if s.null() {
		return nil
	}
	return s.object(func(key string) error {
		if _, dup := p.meta[key]; dup {
			return s.errorf("%s: key %q occurs twice", metadataKey, key)
		}
		v, err := s.str()
		if err != nil {
			return fmt.Errorf("%s: key %q: %w", metadataKey, key, err)
		}
		p.meta[key] = v
		p.keys = append(p.keys, key)
		return nil
	})
}

// parseTensor scans the description of one tensor. Offsets in it count from dataStart.
func parseTensor(s *jsonScanner, dataStart int) (Info, error) {
	var info Info
	var dtype string
	var offsets []int
	seen := map[string]bool{}
	err := s.object(func(field string) (err error) {
		if seen[field] {
			return s.errorf("field %q occurs twice", field)
		}
		seen[field] = true
		switch field {
		case "dtype":
			dtype, err = s.str()
		case "shape":
			info.Shape, err = s.counts()
		case "data_offsets":
			offsets, err = s.counts()
		default:
			err = s.errorf("unknown field %q", field)
		}
		return err
	})
	if err != nil {
		return info, err
	}
	for _, field := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[field] {
			return info, s.errorf("field %q is missing", field)
		}
	}
	info.Type, err = quant.Parse(dtype)
	if err != nil || !safetensorsTypes[info.Type] {
		return info, s.errorf("unknown dtype %q", dtype)
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return info, s.errorf("data_offsets %v are not a begin and an end", offsets)
	}
	size, err := byteSize(info.Type, info.Shape, false)
	if err != nil {
		return info, s.errorf("%v", err)
	}
	if size != int64(offsets[1]-offsets[0]) {
		return info, s.errorf("data_offsets %v hold %d bytes, but %v of shape %v takes %d",
			offsets, offsets[1]-offsets[0], info.Type, info.Shape, size)
	}
	if int64(offsets[1]) > 1<<62 {
		return info, s.errorf("data_offsets %v are beyond any file", offsets)
	}
	info.Offset, info.Size = int64(dataStart)+int64(offsets[0]), size
	return info, nil
}

// counts scans an array of whole numbers, at most maxDims. It is never nil.
func (s *jsonScanner) counts() ([]int, error) {
	list := []int{}
	err := s.array(func() error {
		if len(list) == maxDims {
			return s.errorf("more than %d numbers in an array", maxDims)
		}
		n, err := s.count()
		list = append(list, n)
		return err
	})
	return list, err
}
