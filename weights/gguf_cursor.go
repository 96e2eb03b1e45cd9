package weights

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// A cursor reads the header of a GGUF file from front to back. Its errors name the byte at which something was
// expected.
type cursor struct {
	data []byte
	pos  int
}

func (c *cursor) left() uint64 { return uint64(len(c.data) - c.pos) }

// take returns the next n bytes.
func (c *cursor) take(n uint64, what string) ([]byte, error) {
	if n > c.left() {
		return nil, fmt.Errorf("%s at byte %d takes %d bytes and ends past the file's end %d", what, c.pos, n, len(c.data))
	}
	b := c.data[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b, nil
}

func (c *cursor) u32(what string) (uint32, error) {
	b, err := c.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(what string) (uint64, error) {
	b, err := c.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// count reads a number of things that take at least size bytes each, and refuses one that the file cannot hold.
func (c *cursor) count(size uint64, what string) (int, error) {
	at := c.pos
	n, err := c.u64(what)
	if err != nil {
		return 0, err
	}
	if n > c.left()/size {
		return 0, fmt.Errorf("%s at byte %d is %d, but the %d bytes left in the file can hold %d at most",
			what, at, n, c.left(), c.left()/size)
	}
	return int(n), nil
}

// str reads a string's bytes: a length of 8 bytes, then the text.
func (c *cursor) str(what string) ([]byte, error) {
	n, err := c.u64(what)
	if err != nil {
		return nil, err
	}
	return c.take(n, what)
}

// name reads a string that identifies something: a metadata key or a tensor.
func (c *cursor) name(what string) (string, error) {
	at := c.pos
	b, err := c.str(what)
	switch {
	case err != nil:
		return "", err
	case len(b) == 0:
		return "", fmt.Errorf("%s at byte %d is empty", what, at)
	case len(b) > maxName:
		return "", fmt.Errorf("%s at byte %d has %d bytes, more than the %d allowed", what, at, len(b), maxName)
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s at byte %d is not UTF-8: %q", what, at, b[:min(len(b), 64)])
	}
	return string(b), nil
}
